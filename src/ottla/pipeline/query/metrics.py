"""Queries as metrics: the figures of each, from the progress that Spark reports, and their HTTP endpoint.

    metrics = QueryMetrics()
    runner = QueryRunner(spark, metrics=metrics)
    with metrics.serve(9400):        # http://127.0.0.1:9400/metrics

Gauges show the last batch of each query. Counters count from the start of this process. The metrics of a
stopped query stay, with `ottla_query_running` at 0, so that an alert can tell a query that was stopped from
one that never ran.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.metrics.endpoint import MetricsEndpoint, endpoint_tls
from ottla.metrics.exposition import Exposition, Family, Sample
from ottla.metrics.health import Health
from ottla.metrics.histogram import Histogram
from ottla.metrics.process import process_source
from ottla.metrics.settings import Address, EndpointOptions
from ottla.metrics.tables import queries as table
from ottla.metrics.thread import EndpointThread
from ottla.security.server_tls import ClientAuthentication, ServerTls

if TYPE_CHECKING:
    from ottla.pipeline.query.query_progress import QueryProgress

RECENT_SECONDS: Final = 60.0
"""The window of latencies and of the times of commits; Kafka's is two windows of 30 s."""
MOST_RECENT: Final = 1_000
"""Batches that the window holds; more of them shorten it."""
SECONDS_A_MILLISECOND: Final = 1e-3


class _Batch(NamedTuple):
    """One batch. at: of a monotonic clock. The latencies, in ms, are of its records if it wrote any."""

    at: float
    duration_ms: int
    records: int
    min_ms: float
    sum_ms: float
    max_ms: float


@dataclass(slots=True)
class _Figures:
    """The figures of one query."""

    running: bool = True
    failures: int = 0
    restarts: int = 0
    input_rows: int = 0
    batches: int = 0
    late_rows: int = 0
    dropped_rows: int = 0
    dead_letters: int = 0
    records_written: int = 0
    latency_sum_ms: float = 0.0
    input_rate: float = 0.0
    processed_rate: float = 0.0
    batch_times: Histogram = field(default_factory=lambda: Histogram(SECONDS_A_MILLISECOND))
    phases_ms: dict[str, int] = field(default_factory=dict)
    """Of all batches."""
    offsets_read: dict[tuple[str, int], int] = field(default_factory=dict)
    recent: deque[_Batch] = field(default_factory=lambda: deque(maxlen=MOST_RECENT))
    last: QueryProgress | None = None
    """The last batch, or look at the sources."""
    last_batch: QueryProgress | None = None
    state_rows: int | None = None
    watermark_ms: int | None = None

    def within(self, now: float) -> list[_Batch]:
        """The batches of the last minute, else the last one."""
        recent = list(self.recent)
        return [each for each in recent if each.at > now - RECENT_SECONDS] or recent[-1:]

    def latencies(self, now: float) -> tuple[float, float, float] | None:
        """Minimum, average and maximum in ms; None where no record was written."""
        wrote = [each for each in self.recent if each.records]
        found = [each for each in wrote if each.at > now - RECENT_SECONDS] or wrote[-1:]
        if not found:
            return None
        average = sum(each.sum_ms for each in found) / sum(each.records for each in found)
        return min(each.min_ms for each in found), average, max(each.max_ms for each in found)


class QueryMetrics:
    """The metrics of a process's queries. Its methods may be called from any thread."""

    def __init__(
        self, application: str = "", program: str = "ottla", clock: Callable[[], float] = time.monotonic
    ) -> None:
        """application: the Streams application whose queries they are; empty for none."""
        self.exposition = Exposition([process_source(program), self._families])
        self.health = Health()
        self._program = program
        self._application = application
        self._clock = clock
        self._queries: dict[str, _Figures] = {}

    def started(self, query: str) -> None:
        """Note that a query has started; its counters exist from now on."""
        self._of(query).running = True

    def restarted(self, query: str) -> None:
        """Note that a query is started again by itself, in a while."""
        self._of(query).restarts += 1

    def ended(self, query: str, *, failed: bool) -> None:
        """Note that a query has ended."""
        figures = self._of(query)
        figures.running = False
        figures.input_rate = figures.processed_rate = 0.0
        figures.failures += failed

    def observe(self, progress: QueryProgress) -> None:
        """Note a batch of a query, or that Spark found nothing to read for one."""
        figures = self._of(progress.name)
        figures.last = progress
        figures.input_rate = progress.input_rows_per_second
        figures.processed_rate = progress.processed_rows_per_second
        if progress.state_rows is not None:
            figures.state_rows = progress.state_rows
        if progress.watermark_ms is not None:
            figures.watermark_ms = progress.watermark_ms
        if not progress.is_batch:
            return
        figures.last_batch = progress
        figures.batches += 1
        figures.input_rows += progress.input_rows
        figures.dead_letters += progress.dead_letters
        figures.late_rows += progress.late_rows
        figures.dropped_rows += progress.dropped_rows
        figures.batch_times.observe(progress.batch_ms)
        for phase, duration_ms in progress.durations_ms.items():
            figures.phases_ms[phase] = figures.phases_ms.get(phase, 0) + duration_ms
        for source in progress.sources:
            for topic, partitions in source.read.items():
                for partition, offsets in partitions.items():
                    key = (topic, partition)
                    figures.offsets_read[key] = figures.offsets_read.get(key, 0) + offsets
        self._note_written(figures, progress)

    def _note_written(self, figures: _Figures, progress: QueryProgress) -> None:
        written = progress.written
        if written is None:
            batch = _Batch(self._clock(), progress.batch_ms, 0, 0.0, 0.0, 0.0)
        else:
            # A producer's clock may be ahead of Spark's: no record was written before it was made.
            shortest = max(0.0, progress.committed_ms - written.latest_ms)
            longest = max(0.0, progress.committed_ms - written.earliest_ms)
            sum_ms = max(0.0, progress.committed_ms - written.average_ms) * written.records
            figures.records_written += written.records
            figures.latency_sum_ms += sum_ms
            batch = _Batch(self._clock(), progress.batch_ms, written.records, shortest, sum_ms, longest)
        figures.recent.append(batch)

    def _of(self, query: str) -> _Figures:
        return self._queries.setdefault(query, _Figures(running=False))

    # -- exposing ---------------------------------------------------------------------------------------

    @contextmanager
    def serve(
        self,
        port: int = 0,
        host: str = "127.0.0.1",
        options: EndpointOptions | None = None,
        tls: ServerTls | None = None,
    ) -> Iterator[Address]:
        """Serve metrics and health over HTTP while the block runs; port 0 takes a free one.

        options: in place of host and port, with those who may read. tls: where the address has https://.
        Raises EndpointError, ConfigError.
        """
        given = EndpointOptions(Address(host, port)) if options is None else options
        endpoint = MetricsEndpoint(
            self._program,
            given,
            self.exposition,
            self.health,
            None if tls is None else endpoint_tls(tls),
            asks_for_certificates=tls is not None
            and tls.client_authentication is ClientAuthentication.REQUIRED,
        )
        thread = EndpointThread(endpoint)
        address = thread.start()
        try:
            yield address
        finally:
            thread.stop()

    def _families(self) -> Iterator[Family]:
        queries = list(self._queries.items())
        yield from _counters(queries)
        yield from _last_batches(queries)
        yield from _partitions(queries)
        yield from self._latencies(queries)
        if self._application:
            yield from self._as_streams(queries)

    def _latencies(self, queries: list[tuple[str, _Figures]]) -> Iterator[Family]:
        now = self._clock()
        found = [
            (name, latencies) for name, each in queries if (latencies := each.latencies(now)) is not None
        ]
        yield Family(
            table.E2E_LATENCY,
            [
                ((name, stat), value * SECONDS_A_MILLISECOND)
                for name, latencies in found
                for stat, value in zip(("min", "avg", "max"), latencies, strict=True)
            ],
        )
        if self._application:
            app = self._application
            yield Family(table.E2E_MINIMUM, [((app, name), each[0]) for name, each in found])
            yield Family(table.E2E_AVERAGE, [((app, name), each[1]) for name, each in found])
            yield Family(table.E2E_MAXIMUM, [((app, name), each[2]) for name, each in found])

    def _as_streams(self, queries: list[tuple[str, _Figures]]) -> Iterator[Family]:
        """The metrics that Kafka Streams has of its tasks."""
        app, now = self._application, self._clock()
        yield Family(table.PROCESS_TOTAL, [((app, name), each.input_rows) for name, each in queries])
        yield Family(table.PROCESS_RATE, [((app, name), each.processed_rate) for name, each in queries])
        yield Family(table.COMMIT_TOTAL, [((app, name), each.batches) for name, each in queries])
        dropped: list[Sample] = [((app, name), each.late_rows + each.dropped_rows) for name, each in queries]
        yield Family(table.DROPPED_TOTAL, dropped)
        times = [
            (name, [batch.duration_ms for batch in each.within(now)]) for name, each in queries if each.recent
        ]
        yield Family(
            table.COMMIT_LATENCY_AVERAGE, [((app, name), sum(each) / len(each)) for name, each in times]
        )
        yield Family(table.COMMIT_LATENCY_MAXIMUM, [((app, name), max(each)) for name, each in times])
        yield Family(table.ALIVE_THREADS, [((app,), sum(each.running for _, each in queries))])
        yield Family(table.FAILED_THREADS, [((app,), sum(each.failures for _, each in queries))])


def _counters(queries: list[tuple[str, _Figures]]) -> Iterator[Family]:
    yield Family(table.RUNNING, [((name,), int(each.running)) for name, each in queries])
    yield Family(table.FAILURES, [((name,), each.failures) for name, each in queries])
    yield Family(table.RESTARTS, [((name,), each.restarts) for name, each in queries])
    yield Family(table.INPUT_ROWS, [((name,), each.input_rows) for name, each in queries])
    yield Family(table.INPUT_RATE, [((name,), each.input_rate) for name, each in queries])
    yield Family(table.PROCESSED_RATE, [((name,), each.processed_rate) for name, each in queries])
    yield Family(table.BATCHES, [((name,), each.batches) for name, each in queries])
    yield Family(table.BATCH_TIMES, [((name,), each.batch_times) for name, each in queries])
    yield Family(
        table.PHASE_TOTAL,
        [
            ((name, phase), duration_ms * SECONDS_A_MILLISECOND)
            for name, each in queries
            for phase, duration_ms in list(each.phases_ms.items())
        ],
    )
    yield Family(table.LATE_ROWS, [((name,), each.late_rows) for name, each in queries])
    yield Family(table.DROPPED_ROWS, [((name,), each.dropped_rows) for name, each in queries])
    yield Family(table.DEAD_LETTERS, [((name,), each.dead_letters) for name, each in queries])
    yield Family(table.RECORDS_WRITTEN, [((name,), each.records_written) for name, each in queries])
    yield Family(
        table.E2E_LATENCY_SUM,
        [((name,), each.latency_sum_ms * SECONDS_A_MILLISECOND) for name, each in queries],
    )


def _last_batches(queries: list[tuple[str, _Figures]]) -> Iterator[Family]:
    last = [(name, each.last) for name, each in queries if each.last is not None]
    yield Family(table.LAST_BATCH, [((name,), each.batch_id) for name, each in last])
    yield Family(
        table.LAST_PROGRESS, [((name,), each.timestamp_ms * SECONDS_A_MILLISECOND) for name, each in last]
    )
    yield Family(table.STATE_DISK_BYTES, [((name,), each.state_disk_bytes) for name, each in last])
    yield Family(table.STATE_BYTES, [((name,), each.state_memory_bytes) for name, each in last])
    batches = [(name, each.last_batch) for name, each in queries if each.last_batch is not None]
    yield Family(
        table.BATCH_SECONDS, [((name,), each.batch_ms * SECONDS_A_MILLISECOND) for name, each in batches]
    )
    yield Family(
        table.PHASE_SECONDS,
        [
            ((name, phase), duration_ms * SECONDS_A_MILLISECOND)
            for name, each in batches
            for phase, duration_ms in each.durations_ms.items()
        ],
    )
    rows: list[Sample] = [((name,), each.state_rows) for name, each in queries if each.state_rows is not None]
    yield Family(table.STATE_ROWS, rows)
    watermarks: list[Sample] = [
        ((name,), each.watermark_ms * SECONDS_A_MILLISECOND)
        for name, each in queries
        if each.watermark_ms is not None
    ]
    yield Family(table.WATERMARK, watermarks)


def _partitions(queries: list[tuple[str, _Figures]]) -> Iterator[Family]:
    offsets: list[Sample] = []
    behind: list[Sample] = []
    for name, each in queries:
        if each.last is None:
            continue
        for source in each.last.sources:
            found = source.behind_latest
            for topic, partitions in source.end.items():
                for partition, offset in partitions.items():
                    offsets.append(((name, topic, partition), offset))
                    behind.append(((name, topic, partition), found[topic][partition]))
    yield Family(table.OFFSET, offsets)
    yield Family(table.BEHIND, behind)
    read: list[Sample] = [
        ((name, *place), count) for name, each in queries for place, count in list(each.offsets_read.items())
    ]
    yield Family(table.OFFSETS_READ, read)
