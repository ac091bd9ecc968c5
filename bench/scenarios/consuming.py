"""Consumers of one broker, from the page cache."""

from __future__ import annotations

from bench import clients
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


def _consume(turn: Turn) -> dict[str, float]:
    records = turn.size(5_000_000)
    with turn.server() as server:
        clients.create_topic(server)
        clients.producer_performance(
            server, {**BATCHED, "acks": "1"}, records=records, warmup_records=0, record_bytes=RECORD_BYTES
        )
        clients.consumer_performance(server, records=records)
        summary, client = clients.consumer_performance(server, records=records)
        turn.note(client)
    gigabytes = records * RECORD_BYTES / BYTES_PER_GIGABYTE
    return {
        "records_per_second": summary.fetch_records_per_second,
        "cpu_seconds_per_gigabyte": client.server_cpu_seconds / gigabytes,
    }


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "consume-100b",
        "Java's ConsumerPerformance on 5 million 100-byte records in 1 partition, in the page cache, "
        "after one such run as warm-up; the rate of fetching, without the time of joining the group.",
        (
            Measure(
                "records_per_second",
                "records",
                "records/s",
                AT_LEAST_A_FIFTH_FASTER,
                history="single consumer: 940,521",
            ),
            CPU,
        ),
        _consume,
        shows_client_limit=True,
    ),
)
