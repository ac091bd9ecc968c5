"""A producer and its broker on a machine that has other work to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench import clients
from bench.clients import Production
from bench.errors import BenchError
from bench.figures import Measure
from bench.scenarios.scenario import (
    AT_LEAST_A_FIFTH_FASTER,
    BATCHED,
    BYTES_PER_GIGABYTE,
    RECORD_BYTES,
    UNBATCHED,
    Scenario,
    Turn,
)
from bench.servers import Server

OTHER_PROGRAMS = 4
NICENESS = 10
BUSY = f"import os\nos.nice({NICENESS})\nwhile True:\n    pass\n"

BATCHED_RECORDS, BATCHED_WARMUP_RECORDS = 3_000_000, 2_000_000
SINGLE_RECORDS, SINGLE_WARMUP_RECORDS = 150_000, 150_000
IN_FLIGHT = 5


@contextmanager
def other_programs(count: int = OTHER_PROGRAMS) -> Iterator[None]:
    """So many busy programs for the length of the block. Raises BenchError when one ended by itself."""
    programs = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
        if any(each.poll() is not None for each in programs):
            raise BenchError("one of the busy programs has ended")
    finally:
        for each in programs:
            each.kill()
            each.wait()


def _beside_other_work(turn: Turn) -> dict[str, float]:
    batched = Production(
        BATCHED_WARMUP_RECORDS + turn.size(BATCHED_RECORDS), BATCHED_WARMUP_RECORDS, RECORD_BYTES, "batched"
    )
    single = Production(
        SINGLE_WARMUP_RECORDS + turn.size(SINGLE_RECORDS), SINGLE_WARMUP_RECORDS, RECORD_BYTES, "single"
    )
    with turn.server() as server:
        for production in (batched, single):
            clients.create_topic(server, topic=production.topic)
        with other_programs():
            figures = _produce(turn, server, {**BATCHED, "acks": "1"}, batched)
            unbatched = {**UNBATCHED, "max.in.flight.requests.per.connection": str(IN_FLIGHT)}
            return figures | _produce(turn, server, unbatched, single)


def _produce(
    turn: Turn, server: Server, properties: Mapping[str, str], production: Production
) -> dict[str, float]:
    waited = server.waiting_seconds()
    run = clients.produce(server, properties, production)
    waited = server.waiting_seconds() - waited
    turn.note(run.client)
    name, cpu = production.topic, run.client.server_cpu_seconds
    return {
        f"records_per_second_{name}": run.summary.records_per_second,
        f"cpu_seconds_per_gigabyte_{name}": cpu / (production.records * RECORD_BYTES / BYTES_PER_GIGABYTE),
        f"waited_percent_{name}": 100 * waited / (waited + cpu),
    }


def _measures(name: str, title: str) -> tuple[Measure, ...]:
    return (
        Measure(f"records_per_second_{name}", title, "records/s", AT_LEAST_A_FIFTH_FASTER),
        Measure(f"cpu_seconds_per_gigabyte_{name}", f"broker's CPU time, {title}", "s/GB"),
        Measure(f"waited_percent_{name}", f"broker waited for a processor, {title}", "% of its work's time"),
    )


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "beside-other-work",
        f"{OTHER_PROGRAMS} programs that do nothing but count, each at nice {NICENESS}, beside the broker "
        "and its client, neither niced. Java's ProducerPerformance, 100-byte records, 1 partition, "
        f"acks=1: batched (batch.size=16384 and linger.ms=5), {BATCHED_RECORDS:,} records after "
        f"{BATCHED_WARMUP_RECORDS:,} of warm-up; then one record a request (batch.size=0, linger.ms=0, "
        f"buffer.memory=262144, {IN_FLIGHT} in flight), {SINGLE_RECORDS:,} after {SINGLE_WARMUP_RECORDS:,}. "
        "CPU time is of both parts of a run. Waited: the time that the broker's threads were ready to run "
        "and had no processor (Linux's schedstat), of that and their CPU time together.",
        (*_measures("batched", "batched"), *_measures("single", "one record a request")),
        _beside_other_work,
        shows_client_limit=True,
    ),
)
