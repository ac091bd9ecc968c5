"""Watches a pipeline's program from outside: its progress and its cost, in the same way for every peer.

The progress: the offsets that the program's consumer group has committed, read every POLL_SECONDS. With
exactly-once they are committed in one transaction with the output (ottla: right after it), so "committed up
to here" means "the output can be read up to here", and no client has to read the output.

The rate is measured from a quarter of the input to the end: starts, joins of groups and the compilers'
warming up come before that, and are reported separately as the seconds from the process's start.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench import processes
from bench.errors import BenchError

POLL_SECONDS = 0.02
MEMORY_SECONDS = 0.25
WARM_SHARE = 0.25
# Fewer steps than this between the quarter and the end would make the rate that of two or three batches.
LEAST_STEPS = 4


@dataclass(frozen=True, slots=True)
class Step:
    """At `at` (perf_counter) `records` of the input were through, for `cpu_seconds` of the program's."""

    at: float
    records: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Course:
    """How a program went through its input. started_at: of its first process (perf_counter).

    other_cpu_share: the processors' time, as a share of one, that went neither to the program nor the broker
    nor this process.
    """

    started_at: float
    steps: tuple[Step, ...]
    peak_resident_bytes: int
    other_cpu_share: float = 0.0

    @property
    def records(self) -> int:
        return self.steps[-1].records

    @property
    def start_seconds(self) -> float:
        """From the process's start to the first output that is visible."""
        return self.steps[0].at - self.started_at

    @property
    def whole_seconds(self) -> float:
        """From the process's start to the last output's being visible."""
        return self.steps[-1].at - self.started_at

    @property
    def steady_records_per_second(self) -> float:
        warm, end = self._steady()
        return (end.records - warm.records) / (end.at - warm.at)

    @property
    def cpu_seconds_per_million(self) -> float:
        """Processor time of the program (not the broker's) for a million records, in the steady part."""
        warm, end = self._steady()
        return (end.cpu_seconds - warm.cpu_seconds) / (end.records - warm.records) * 1e6

    def _steady(self) -> tuple[Step, Step]:
        steps = [step for step in self.steps if step.records >= WARM_SHARE * self.records]
        if len(steps) <= LEAST_STEPS:
            raise BenchError(f"{len(steps) - 1} commits after the first quarter are too few to tell a rate")
        return steps[0], steps[-1]


class CommittedOffsets:
    """The sum of the offsets that a consumer group has committed for one topic; 0 without a commit.

    Read by a consumer that never joins, so an offset of an open transaction is not included.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._partitions = [TopicPartition(topic, partition) for partition in range(partitions)]

    def total(self) -> int:
        try:
            found = self._consumer.committed(self._partitions, timeout=30)
        except KafkaException:  # its coordinator is not there yet
            return 0
        return sum(max(0, partition.offset) for partition in found)

    def close(self) -> None:
        self._consumer.close()


@dataclass(slots=True)
class MemoryWatch:
    """The largest resident memory that some processes and their descendants had together."""

    pids: Callable[[], list[int]]
    peak_bytes: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> MemoryWatch:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        assert self._thread is not None
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(MEMORY_SECONDS):
            # A worker that ends between its being listed and being asked is no failure.
            with contextlib.suppress(BenchError, OSError, IndexError):
                self.peak_bytes = max(
                    self.peak_bytes, sum(processes.resident_bytes(pid) for pid in self.pids())
                )


def watch(
    offsets: CommittedOffsets,
    records: int,
    *,
    started_at: float,
    pids: Callable[[], list[int]],
    check_running: Callable[[], None],
    server_cpu_seconds: Callable[[], float],
    timeout_seconds: float,
    begin_records: int = 0,
) -> Course:
    """Follow a program until its group has committed `records`. Raises BenchError when that takes too long.

    `check_running` raises when a process has died. `begin_records` were through before it started.
    """
    steps: list[Step] = []

    def known_cpu_seconds() -> float:
        return cpu_seconds(pids()) + server_cpu_seconds() + time.process_time()

    began, machine, known = time.perf_counter(), processes.machine_cpu_times(), known_cpu_seconds()
    deadline = time.perf_counter() + timeout_seconds
    with MemoryWatch(pids) as memory:
        while not steps or steps[-1].records < records:
            check_running()
            found, now = offsets.total(), time.perf_counter()
            if found > (steps[-1].records if steps else begin_records):
                steps.append(Step(now, found, cpu_seconds(pids())))
            elif now > deadline:
                reached = steps[-1].records if steps else begin_records
                raise BenchError(f"only {reached:,} of {records:,} records after {timeout_seconds:.0f} s")
            time.sleep(POLL_SECONDS)
    others = processes.machine_cpu_times().busy - machine.busy - (known_cpu_seconds() - known)
    share = max(0.0, others) / (time.perf_counter() - began)
    return Course(started_at, tuple(steps), memory.peak_bytes, share)


def cpu_seconds(pids: list[int]) -> float:
    """Processor time of processes and their living descendants, which may come and go meanwhile."""
    for _ in range(3):
        with contextlib.suppress(OSError, IndexError):
            return sum(processes.cpu_seconds(pid) for pid in pids)
    raise BenchError(f"the processor time of {pids} cannot be read")


def figures(course: Course) -> Mapping[str, float]:
    """A course as the scenarios' figures."""
    return {
        "records_per_second": course.steady_records_per_second,
        "start_seconds": course.start_seconds,
        "whole_records_per_second": course.records / course.whole_seconds,
        "cpu_seconds_per_million": course.cpu_seconds_per_million,
        "peak_mebibytes": course.peak_resident_bytes / (1 << 20),
    }
