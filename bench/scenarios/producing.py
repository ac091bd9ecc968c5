"""One producer on one broker: batched, transactional, one record a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from bench import clients
from bench.errors import BenchError
from bench.figures import Measure
from bench.scenarios.scenario import (
    BATCHED,
    BYTES_PER_GIGABYTE,
    CPU,
    NO_LESS,
    RATE,
    RECORD_BYTES,
    UNBATCHED,
    Scenario,
    Turn,
)

BATCHED_RECORDS = 5_000_000
BATCHED_WARMUP_RECORDS = 3_000_000
TRANSACTION_MS = 100


def _produce_batched(acks: str) -> Callable[[Turn], dict[str, float]]:
    def run(turn: Turn) -> dict[str, float]:
        records = BATCHED_WARMUP_RECORDS + turn.size(BATCHED_RECORDS)
        with turn.server() as server:
            clients.create_topic(server)
            run = clients.producer_performance(
                server,
                {**BATCHED, "acks": acks},
                records=records,
                warmup_records=BATCHED_WARMUP_RECORDS,
                record_bytes=RECORD_BYTES,
            )
            turn.note(run.client)
        return _figures(run, records)

    return run


def _produce_transactional(turn: Turn) -> dict[str, float]:
    records = BATCHED_WARMUP_RECORDS + turn.size(BATCHED_RECORDS)
    with turn.server() as server:
        clients.create_topic(server)
        run = clients.producer_performance(
            server,
            {**BATCHED, "acks": "all"},
            records=records,
            warmup_records=BATCHED_WARMUP_RECORDS,
            record_bytes=RECORD_BYTES,
            transaction_ms=TRANSACTION_MS,
        )
        turn.note(run.client)
    return _figures(run, records)


def _produce_one_record(
    in_flight: int, *, records: int, warmup_records: int
) -> Callable[[Turn], dict[str, float]]:
    def run(turn: Turn) -> dict[str, float]:
        all_records = warmup_records + turn.size(records)
        properties: Mapping[str, str] = {**UNBATCHED, "max.in.flight.requests.per.connection": str(in_flight)}
        with turn.server() as server:
            clients.create_topic(server)
            run = clients.producer_performance(
                server,
                properties,
                records=all_records,
                warmup_records=warmup_records,
                record_bytes=RECORD_BYTES,
            )
            turn.note(run.client)
        if run.summary.records_per_request != 1.0:
            raise BenchError(f"{run.summary.records_per_request} records a request where one was meant")
        return _figures(run, all_records)

    return run


def _figures(run: clients.ProducerRun, records: int) -> dict[str, float]:
    """The steady state's rate, and the CPU time of all `records`, warm-up too."""
    gigabytes = records * RECORD_BYTES / BYTES_PER_GIGABYTE
    return {
        "records_per_second": run.summary.records_per_second,
        "cpu_seconds_per_gigabyte": run.client.server_cpu_seconds / gigabytes,
    }


_BATCHED_METHOD = (
    "Java's ProducerPerformance, 100-byte records, 1 partition, acks={acks}, batch.size=16384 and "
    "linger.ms=5 (the defaults), as fast as it goes: 5 million records after 3 million of warm-up. CPU time "
    "is of both."
)
_UNBATCHED_METHOD = (
    "Java's ProducerPerformance, 100-byte records, 1 partition, acks=1, batch.size=0, linger.ms=0, "
    "buffer.memory=262144 (a short queue: with the default one the client is busy collecting its garbage), "
    "max.in.flight.requests.per.connection={in_flight}: every request carries one record (the client's own "
    "records-per-request-avg must be 1). {records:,} records after {warmup_records:,} of warm-up."
)


def _one_record_scenario(name: str, in_flight: int, records: int, warmup_records: int) -> Scenario:
    method = _UNBATCHED_METHOD.format(in_flight=in_flight, records=records, warmup_records=warmup_records)
    run = _produce_one_record(in_flight, records=records, warmup_records=warmup_records)
    return Scenario(name, method, (RATE, CPU), run)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "produce-100b-acks1",
        _BATCHED_METHOD.format(acks="1"),
        (replace(RATE, history="single producer thread, no replication: 821,557"), CPU),
        _produce_batched("1"),
        shows_client_limit=True,
    ),
    Scenario(
        "produce-100b-acksall",
        _BATCHED_METHOD.format(acks="all") + " Idempotent, as the client does by default with acks=all.",
        (RATE, CPU),
        _produce_batched("all"),
    ),
    Scenario(
        "produce-transactional",
        _BATCHED_METHOD.format(acks="all")
        + " One transactional producer that commits every 100 ms (transactions of version 2).",
        (Measure("records_per_second", "records", "records/s", NO_LESS), CPU),
        _produce_transactional,
    ),
    _one_record_scenario("produce-one-record-a-request", 5, 200_000, 400_000),
    _one_record_scenario("produce-one-record-a-request-1-in-flight", 1, 100_000, 150_000),
)
