"""A broker for a test, as a fixture starts and stops it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench import processes
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import BYTES_PER_MEBIBYTE, Scenario, Turn
from bench.servers import System, compile_ottla, prepare, run
from ottla.testing import Kafka, running_broker

SETTLE_SECONDS = 2.0
RECORDS = 100


class Started(NamedTuple):
    """A broker that takes requests: its helpers, its process, and how it is stopped."""

    kafka: Kafka
    pid: int
    stop: Callable[[], None]


@contextmanager
def _started(turn: Turn) -> Iterator[Started]:
    """The fixture's broker, or Apache Kafka's: formatted, as its image does at each start, and started."""
    if turn.system is System.OTTLA:
        with running_broker() as broker:
            yield Started(broker, broker.pid, broker.stop)
        return
    running = run(prepare(turn.system, turn.workspace))
    server = running.__enter__()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        running.__exit__(None, None, None)

    try:
        yield Started(Kafka(server.bootstrap), server.process.pid, stop)
    finally:
        if not stopped:
            stop()


def _fixture(turn: Turn) -> dict[str, float]:
    compile_ottla()
    begun = time.perf_counter()
    with _started(turn) as started:
        ready = time.perf_counter()
        topic = started.kafka.topic()
        started.kafka.produce(topic, *map(str, range(RECORDS)))
        started.kafka.consume(topic, RECORDS)
        consumed = time.perf_counter()
        time.sleep(SETTLE_SECONDS)
        resident_bytes = processes.resident_bytes(started.pid)
        before = time.perf_counter()
        started.stop()
        stopped = time.perf_counter()
    return {
        "ready_seconds": ready - begun,
        "first_records_seconds": consumed - begun,
        "stop_seconds": stopped - before,
        "resident_mebibytes": resident_bytes / BYTES_PER_MEBIBYTE,
    }


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "test-fixture",
        "A broker for a test, started and stopped by Python: ottla's by ottla.testing.running_broker; in "
        "place of the container that testcontainers starts, Apache Kafka's own broker without a container (a "
        "JVM of -Xmx1g, its directory formatted first, as its image does at each start): a container's "
        "figures at best. From the call to a broker that answers, and to "
        f"{RECORDS} records written to a new topic and read back; VmRSS {SETTLE_SECONDS:g} s later; from the "
        "call to a clean end.",
        (
            Measure("ready_seconds", "ready", "s", Target(Bound.VALUE_AT_MOST, 0.3)),
            Measure("first_records_seconds", "first records read", "s"),
            Measure("stop_seconds", "stop", "s"),
            Measure("resident_mebibytes", "RSS", "MiB"),
        ),
        _fixture,
    ),
)
