"""A consumer that reads old records while a producer writes new ones."""

from __future__ import annotations

from bench import clients, connection_clients
from bench.errors import BenchError
from bench.figures import Measure
from bench.scenarios.scenario import (
    AT_LEAST_A_FIFTH_FASTER,
    AT_MOST_FOUR_FIFTHS,
    BATCHED,
    BYTES_PER_GIGABYTE,
    CPU,
    Scenario,
    Turn,
)

RECORD_BYTES = 1_000
OLD_RECORDS = 1_100_000
PRODUCED_PER_SECOND = 2_000
PRODUCER_WARMUP_SECONDS = 10
ALONE_SECONDS = 5
WARMUP_SECONDS = 4
COUNTED_SECONDS = 10


def _catch_up(turn: Turn) -> dict[str, float]:
    seconds = turn.size(COUNTED_SECONDS)
    with turn.server() as server:
        clients.create_topic(server)
        clients.producer_performance(
            server,
            {**BATCHED, "acks": "1"},
            records=OLD_RECORDS,
            warmup_records=0,
            record_bytes=RECORD_BYTES,
        )
        with (
            connection_clients.producers(
                server,
                {"linger.ms": "0", "acks": "1"},
                count=1,
                partitions=1,
                record_bytes=RECORD_BYTES,
                rate=PRODUCED_PER_SECOND,
            ) as producer,
            connection_clients.rereader(server, records=OLD_RECORDS) as consumer,
        ):
            producer.ask("load 1 1")
            producer.ask(f"run {PRODUCER_WARMUP_SECONDS}", seconds=PRODUCER_WARMUP_SECONDS)
            alone = connection_clients.counted(
                producer.ask(f"measure {ALONE_SECONDS}", seconds=ALONE_SECONDS)
            )
            consumer.ask(f"run {WARMUP_SECONDS}", seconds=WARMUP_SECONDS)

            def both() -> tuple[connection_clients.Counted, connection_clients.Reread]:
                consumer.begin(f"run {seconds}")
                produced = producer.ask(f"measure {seconds}", seconds=seconds)
                read = consumer.end(seconds=seconds)
                return connection_clients.counted(produced), connection_clients.reread(read)

            (produced, read), window = connection_clients.watch(server, both)
            turn.other_cpu_shares.append(window.other_cpu_share)
            acknowledged = connection_clients.stopped(producer.ask("stop")).acknowledged
        for pace in (alone, produced):
            if abs(pace.per_second / PRODUCED_PER_SECOND - 1) > 0.05:
                raise BenchError(f"{pace.per_second:.0f} records/s, not {PRODUCED_PER_SECOND}")
        end = clients.end_offsets(server, 1)
        if end != OLD_RECORDS + acknowledged:
            raise BenchError(f"{server.system.title} ends at {end}, acknowledged {acknowledged} of new ones")
    return {
        "megabytes_per_second": read.bytes / read.seconds / 1e6,
        "p50_ms": produced.p50_ms,
        "p99_ms": produced.p99_ms,
        "alone_p99_ms": alone.p99_ms,
        "cpu_seconds_per_gigabyte": window.server_cpu_seconds / (read.bytes / BYTES_PER_GIGABYTE),
    }


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "catch-up",
        "1.1 million 1,000-byte records in 1 partition, in the page cache; then one of Java's KafkaProducers "
        f"(bench/java) writes {PRODUCED_PER_SECOND:,} such records a second (acks=1, linger.ms=0), and, in a "
        "process of its own, a KafkaConsumer with the library's defaults reads the old ones from the "
        f"beginning, again and again: {COUNTED_SECONDS} seconds after {WARMUP_SECONDS} of warm-up. The "
        "consumer's rate (of the records' values), and the producer's time from send() to the callback "
        f"meanwhile; alone is the producer's before, over {ALONE_SECONDS} seconds after "
        f"{PRODUCER_WARMUP_SECONDS} of warm-up. CPU time is of both, a "
        "gigabyte read.",
        (
            Measure("megabytes_per_second", "read", "MB/s", AT_LEAST_A_FIFTH_FASTER),
            Measure("p50_ms", "produce p50", "ms", AT_MOST_FOUR_FIFTHS),
            Measure("p99_ms", "produce p99", "ms", AT_MOST_FOUR_FIFTHS),
            Measure("alone_p99_ms", "produce p99 alone", "ms"),
            CPU,
        ),
        _catch_up,
    ),
)
