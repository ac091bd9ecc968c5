"""One producer on one broker: small and large records, few and many partitions, every codec."""

from __future__ import annotations

from collections.abc import Mapping

from bench import clients, payloads
from bench.clients import Production
from bench.figures import Measure
from bench.scenarios.scenario import (
    AT_LEAST_A_FIFTH_FASTER,
    BATCHED,
    BYTES_PER_GIGABYTE,
    RECORD_BYTES,
    Scenario,
    Turn,
)
from bench.servers import Server

ACKS1 = {**BATCHED, "acks": "1"}
BYTES_PER_MEGABYTE = 1e6
BROKER_WARMUP_RECORDS = 1_000_000

# Record size to the records counted, each after half as many of warm-up: a few seconds each.
RECORDS_BY_SIZE = {10: 2_000_000, 100: 2_000_000, 1_000: 450_000, 10_000: 40_000, 100_000: 5_000}
LINES_OF_LETTERS = 100

PARTITION_COUNTS = (1, 10, 100, 1_000, 2_000)
PARTITION_RECORDS, PARTITION_WARMUP_RECORDS = 1_000_000, 500_000

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_RECORDS = {"none": 1_200_000, "gzip": 400_000, "snappy": 1_200_000, "lz4": 1_200_000, "zstd": 1_200_000}
EVENT_LINES = 10_000


def _record_sizes(turn: Turn) -> dict[str, float]:
    figures = {}
    with turn.server() as server:
        _warm_up(server)
        for record_bytes, records in RECORDS_BY_SIZE.items():
            lines = turn.workspace / f"{record_bytes}.txt"
            payloads.write_letters(lines, record_bytes, LINES_OF_LETTERS)
            topic = f"{record_bytes}-bytes"
            clients.create_topic(server, topic=topic)
            production = Production(
                records // 2 + turn.size(records), records // 2, record_bytes, topic, payload_file=lines
            )
            rate, cpu = _produce(turn, server, ACKS1, production, record_bytes)
            figures[f"megabytes_per_second_{record_bytes}"] = rate * record_bytes / BYTES_PER_MEGABYTE
            figures[f"cpu_seconds_per_gigabyte_{record_bytes}"] = cpu
    return figures


def _partitions(turn: Turn) -> dict[str, float]:
    figures = {}
    with turn.server() as server:
        _warm_up(server)
        for count in PARTITION_COUNTS:
            topic = f"{count}-partitions"
            clients.create_topic(server, topic=topic, partitions=count)
            production = Production(
                PARTITION_WARMUP_RECORDS + turn.size(PARTITION_RECORDS),
                PARTITION_WARMUP_RECORDS,
                RECORD_BYTES,
                topic,
                count,
            )
            rate, cpu = _produce(turn, server, ACKS1, production, RECORD_BYTES)
            figures[f"records_per_second_{count}"] = rate
            figures[f"cpu_seconds_per_gigabyte_{count}"] = cpu
    return figures


def _codecs(turn: Turn) -> dict[str, float]:
    figures = {}
    lines = turn.workspace / "events.txt"
    mean_bytes = payloads.write_events(lines, EVENT_LINES)
    with turn.server() as server:
        _warm_up(server)
        for codec in CODECS:
            clients.create_topic(server, topic=codec)
            records = CODEC_RECORDS[codec]
            production = Production(
                records // 2 + turn.size(records), records // 2, round(mean_bytes), codec, payload_file=lines
            )
            properties = {**ACKS1, "compression.type": codec}
            rate, cpu = _produce(turn, server, properties, production, mean_bytes)
            figures[f"records_per_second_{codec}"] = rate
            figures[f"cpu_seconds_per_gigabyte_{codec}"] = cpu
    return figures


def _warm_up(server: Server) -> None:
    """The first of several runs must not be the one that finds the broker cold."""
    clients.create_topic(server, topic="warm-up")
    clients.produce(server, ACKS1, Production(BROKER_WARMUP_RECORDS, 0, RECORD_BYTES, "warm-up"))


def _produce(
    turn: Turn, server: Server, properties: Mapping[str, str], production: Production, mean_bytes: float
) -> tuple[float, float]:
    """Records a second, and the broker's CPU seconds a gigabyte of what the client was given to send."""
    run = clients.produce(server, properties, production)
    turn.note(run.client)
    gigabytes = production.records * mean_bytes / BYTES_PER_GIGABYTE
    return run.summary.records_per_second, run.client.server_cpu_seconds / gigabytes


def _cpu(key: object, title: str) -> Measure:
    return Measure(f"cpu_seconds_per_gigabyte_{key}", f"broker's CPU time, {title}", "s/GB")


def _rates(keys_to_titles: Mapping[object, str]) -> tuple[Measure, ...]:
    rates = (
        Measure(f"records_per_second_{key}", title, "records/s", AT_LEAST_A_FIFTH_FASTER)
        for key, title in keys_to_titles.items()
    )
    return (*rates, *(_cpu(key, title) for key, title in keys_to_titles.items()))


_CLIENT = (
    "Java's ProducerPerformance, acks=1, batch.size=16384 and linger.ms=5 (the defaults), as fast as it goes"
)
_WARM = "after 1 million 100-byte records to another topic have warmed the broker up"

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "produce-record-sizes",
        f"{_CLIENT}, one size after the other on one broker, each to 1 partition of a topic of its own, "
        f"{_WARM}: "
        + ", ".join(f"{records:,} of {size:,} bytes" for size, records in RECORDS_BY_SIZE.items())
        + ", each after half as many of warm-up. A record is one of 100 lines of random letters in a file "
        "(--payload-file), since making up each byte anew would be most of the client's work.",
        (
            *(
                Measure(
                    f"megabytes_per_second_{size}", f"records of {size:,} B", "MB/s", AT_LEAST_A_FIFTH_FASTER
                )
                for size in RECORDS_BY_SIZE
            ),
            *(_cpu(size, f"records of {size:,} B") for size in RECORDS_BY_SIZE),
        ),
        _record_sizes,
    ),
    Scenario(
        "produce-partitions",
        f"{_CLIENT}, 100-byte records without keys (the client fills one partition's batch after the "
        f"other's), one topic after the other on one broker, {_WARM}: 1 million records after 500,000 "
        "of warm-up to each topic, which is made just before and stays.",
        _rates({count: f"{count:,} partition{'s' * (count > 1)}" for count in PARTITION_COUNTS}),
        _partitions,
    ),
    Scenario(
        "produce-codecs",
        f"{_CLIENT}, one compression.type after the other on one broker, each to 1 partition of a topic of "
        f"its own, {_WARM}: records are lines of JSON of some 230 bytes, drawn from 10,000 different ones of "
        "a web shop's log (--payload-file). 1.2 million after 600,000 of warm-up, with gzip 400,000 after "
        "200,000. The client compresses, neither broker does: with gzip, and nearly so with zstd, the figure "
        "is the client's own limit. A gigabyte is one before compression.",
        _rates({codec: codec for codec in CODECS}),
        _codecs,
        shows_client_limit=True,
    ),
)
