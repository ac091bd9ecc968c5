"""Several clients at once: the rest of the benchmark of 2014, three producers, three consumers, one of each.

Clients at once are started together and counted together: all their records over the time from the first
that began to count to the last that ended. What one does alone before or after the others makes that figure
smaller, never larger.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench import clients, clusters, java_output
from bench.clients import Production, Transcript
from bench.figures import Measure
from bench.scenarios.scenario import (
    AT_LEAST_A_FIFTH_FASTER,
    BATCHED,
    BYTES_PER_GIGABYTE,
    CPU,
    RECORD_BYTES,
    Scenario,
    Turn,
)

# The scenarios in the order of the seed's table; other modules have those of one client.
SEED_TABLE = (
    "produce-100b-acks1",
    "cluster-produce-acks1",
    "cluster-produce-acksall",
    "cluster-produce-three-producers",
    "produce-and-consume",
    "consume-100b",
    "consume-three-consumers",
    "end-to-end-latency",
)
ACKS1 = {**BATCHED, "acks": "1"}
CLIENTS = 3
PARTITIONS = 6
PRODUCED_RECORDS, PRODUCED_WARMUP_RECORDS = 1_000_000, 500_000
CONSUMED_RECORDS = 5_000_000
TOGETHER_RECORDS, TOGETHER_WARMUP_RECORDS = 4_000_000, 2_000_000


def _three_producers(turn: Turn) -> dict[str, float]:
    counted = turn.size(PRODUCED_RECORDS)
    each = Production(
        PRODUCED_WARMUP_RECORDS + counted, PRODUCED_WARMUP_RECORDS, RECORD_BYTES, partitions=PARTITIONS
    )
    with clusters.serve_cluster(turn.system, turn.workspace) as server:
        clients.create_topic(server, partitions=PARTITIONS, replication_factor=clusters.BROKERS)
        command = clients.producer_command(server, ACKS1, each)
        transcripts, client = clients.run_together(server, [command] * CLIENTS, name="ProducerPerformance")
        turn.note(client)
        seconds = seconds_of_producers(transcripts, each)
        clients.check_written(server, each, CLIENTS * each.records)
    gigabytes = CLIENTS * each.records * RECORD_BYTES / BYTES_PER_GIGABYTE
    return {
        "records_per_second": CLIENTS * counted / seconds,
        "cpu_seconds_per_gigabyte": client.server_cpu_seconds / gigabytes,
    }


def seconds_of_producers(transcripts: Sequence[Transcript], each: Production) -> float:
    """From the first that began to count to the last that had all acknowledged."""
    began, ended = zip(*(counted_between(transcript, each) for transcript in transcripts), strict=True)
    return max(ended) - min(began)


def counted_between(transcript: Transcript, production: Production) -> tuple[float, float]:
    """When (Unix time, seconds) a producer began to count, and when all that it counted was acknowledged.

    The end is when it said so. "In steady state" comes only with the next report, up to 5 s late, so the
    beginning is taken from its own rate, which is of just this time.
    """
    summary = java_output.parse_producer_performance(
        transcript.text, records=production.records, warmup_records=production.warmup_records
    )
    ended = transcript.came_at(java_output.PRODUCER_COUNTED)
    return ended - summary.records / summary.records_per_second, ended


def _three_consumers(turn: Turn) -> dict[str, float]:
    records = turn.size(CONSUMED_RECORDS)
    with turn.server() as server:
        clients.create_topic(server, partitions=PARTITIONS)
        clients.produce(server, ACKS1, Production(records, 0, RECORD_BYTES, partitions=PARTITIONS))
        clients.consumer_performance(server, records=records)
        command = clients.consumer_command(server, records)
        transcripts, client = clients.run_together(server, [command] * CLIENTS, name="ConsumerPerformance")
        turn.note(client)
    read, seconds = read_by_consumers(transcripts, records)
    return {
        "records_per_second": read / seconds,
        "cpu_seconds_per_gigabyte": client.server_cpu_seconds / (read * RECORD_BYTES / BYTES_PER_GIGABYTE),
    }


def read_by_consumers(transcripts: Sequence[Transcript], records: int) -> tuple[int, float]:
    """The records that all have read, and the seconds from the first that had joined its group to the last
    that had read its `records`.
    """
    summaries = [
        java_output.parse_consumer_performance(transcript.text, records=records) for transcript in transcripts
    ]
    began = min(summary.fetching_since for summary in summaries)
    seconds = max(summary.ended_at for summary in summaries) - began
    return sum(summary.records for summary in summaries), seconds


def _producer_and_consumer(turn: Turn) -> dict[str, float]:
    counted = turn.size(TOGETHER_RECORDS)
    production = Production(TOGETHER_WARMUP_RECORDS + counted, TOGETHER_WARMUP_RECORDS, RECORD_BYTES)
    with turn.server() as server:
        clients.create_topic(server)
        commands = [
            clients.consumer_command(server, production.records),
            clients.producer_command(server, ACKS1, production),
        ]
        (consumer, producer), client = clients.run_together(
            server, commands, name="ConsumerPerformance or ProducerPerformance"
        )
        turn.note(client)
        clients.check_written(server, production, production.records)
    produced = java_output.parse_producer_performance(
        producer.text, records=production.records, warmup_records=production.warmup_records
    )
    consumed = java_output.parse_consumer_performance(consumer.text, records=production.records)
    counting_since, _ = counted_between(producer, production)
    gigabytes = production.records * RECORD_BYTES / BYTES_PER_GIGABYTE
    return {
        "records_per_second": produced.records_per_second,
        "consumed_records_per_second": counted / (consumed.ended_at - counting_since),
        "cpu_seconds_per_gigabyte": client.server_cpu_seconds / gigabytes,
    }


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "cluster-produce-three-producers",
        "Three combined nodes (broker and controller) on this node, replication factor 3; Kafka's have a "
        "heap of 1g each. Three of Java's ProducerPerformance at once, 100-byte records, 6 partitions, "
        "acks=1, batch.size=16384 and linger.ms=5 (the defaults), as fast as they go, each 1 million records "
        "after 500,000 of warm-up: the sum of their counted records over the time from the first that began "
        "to count to the last whose records were all acknowledged. CPU time is of all three brokers.",
        (
            Measure(
                "records_per_second",
                "records of all",
                "records/s",
                AT_LEAST_A_FIFTH_FASTER,
                history="three producers, 3x asynchronous replication: 2,024,032",
            ),
            CPU,
        ),
        _three_producers,
    ),
    Scenario(
        "produce-and-consume",
        "One broker, 1 partition, started at once: Java's ProducerPerformance (100-byte records, acks=1, "
        "batch.size=16384 and linger.ms=5, as fast as it goes, 4 million records after 2 million of warm-up) "
        "and ConsumerPerformance, which reads the same partition from its beginning. Produced is the "
        "producer's own figure. Consumed: the 4 million counted records over the time from when the producer "
        "began to count until the consumer had read the last one, so a consumer that lags is slower.",
        (
            Measure(
                "records_per_second",
                "produced",
                "records/s",
                AT_LEAST_A_FIFTH_FASTER,
                history="producer and consumer, 3x asynchronous replication: 795,064 (in the same benchmark, "
                "not in the seed's table)",
            ),
            Measure("consumed_records_per_second", "consumed", "records/s", AT_LEAST_A_FIFTH_FASTER),
            CPU,
        ),
        _producer_and_consumer,
    ),
    Scenario(
        "consume-three-consumers",
        "One broker, 5 million 100-byte records in 6 partitions, in the page cache. Three of Java's "
        "ConsumerPerformance at once after a run of one as warm-up, each in a group of its own and so each "
        "reading all records, as in 2014: all records read, over the time from the first that had joined its "
        "group to the last that had read all.",
        (
            Measure(
                "records_per_second",
                "records of all",
                "records/s",
                AT_LEAST_A_FIFTH_FASTER,
                history="three consumers: 2,615,968",
            ),
            CPU,
        ),
        _three_consumers,
    ),
)
