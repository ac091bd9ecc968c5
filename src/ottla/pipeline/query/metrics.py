"""Queries as Prometheus metrics, in a registry of their own; `serve` offers them over HTTP.

    metrics = QueryMetrics()
    runner = QueryRunner(spark, metrics=metrics)
    with metrics.serve(9400):        # http://127.0.0.1:9400/metrics

Gauges show the last batch of each query. Counters count from the start of this process. The metrics of a
stopped query stay, with `ottla_query_running` at 0, so that an alert can tell a query that was stopped from
one that never ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from ottla.config.errors import UserError

if TYPE_CHECKING:
    from ottla.pipeline.query.query_progress import QueryProgress

_QUERY = ("query",)
_PARTITION = ("query", "topic", "partition")


class MetricsError(UserError):
    """The metrics can't be served; the message says why."""


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """The address at which the metrics are served."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/metrics"


class QueryMetrics:
    """The metrics of a process's queries. Its methods may be called from any thread."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        gauge, counter = self._gauge, self._counter
        self._running = gauge("ottla_query_running", "1 while the query runs", _QUERY)
        self._input_rows = counter("ottla_query_input_rows", "Records read", _QUERY)
        self._input_rate = gauge("ottla_query_input_rows_per_second", "Records that arrive a second", _QUERY)
        self._processed_rate = gauge(
            "ottla_query_processed_rows_per_second", "Records a second of processing, last batch", _QUERY
        )
        self._batches = counter("ottla_query_batches", "Batches that are done", _QUERY)
        self._last_batch = gauge("ottla_query_last_batch_id", "Number of the last batch", _QUERY)
        self._batch_seconds = gauge("ottla_query_batch_duration_seconds", "Time of the last batch", _QUERY)
        self._phase_seconds = gauge(
            "ottla_query_phase_duration_seconds",
            "Time of the last batch by Spark's phases",
            ("query", "phase"),
        )
        self._state_rows = gauge("ottla_query_state_rows", "Rows in the state stores", _QUERY)
        self._state_disk_bytes = gauge("ottla_query_state_disk_bytes", "Files of the state stores", _QUERY)
        self._state_bytes = gauge("ottla_query_state_memory_bytes", "Memory of the state stores", _QUERY)
        self._late_rows = counter(
            "ottla_query_late_rows", "Rows that came too late for their window and were dropped", _QUERY
        )
        self._dropped_rows = counter(
            "ottla_query_dropped_rows",
            "Records that an operator could not use, like ones without a key",
            _QUERY,
        )
        self._watermark = gauge(
            "ottla_query_watermark_timestamp_seconds", "Event-time watermark, since 1970", _QUERY
        )
        self._failures = counter("ottla_query_failures", "Times that the query has failed", _QUERY)
        self._dead_letters = counter("ottla_query_dead_letters", "Records sent to dead letters", _QUERY)
        self._position = gauge("ottla_query_offset", "Next offset to read", _PARTITION)
        self._behind = gauge(
            "ottla_query_offsets_behind_latest", "Offsets that were there and not read", _PARTITION
        )
        self._partition_offsets = counter("ottla_query_offsets_read", "Offsets read", _PARTITION)

    def _gauge(self, name: str, help_text: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(name, help_text, labels, registry=self.registry)

    def _counter(self, name: str, help_text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, help_text, labels, registry=self.registry)

    def started(self, query: str) -> None:
        """Note that a query has started; its counters exist from now on."""
        self._running.labels(query).set(1)
        for counter in (
            self._input_rows,
            self._batches,
            self._failures,
            self._dead_letters,
            self._late_rows,
            self._dropped_rows,
        ):
            counter.labels(query)

    def ended(self, query: str, *, failed: bool) -> None:
        """Note that a query has ended."""
        self._running.labels(query).set(0)
        for rate in (self._input_rate, self._processed_rate):
            rate.labels(query).set(0)
        if failed:
            self._failures.labels(query).inc()

    def observe(self, progress: QueryProgress) -> None:
        """Note a batch of a query, or that Spark found nothing to read for one."""
        query = progress.name
        self._input_rate.labels(query).set(progress.input_rows_per_second)
        self._processed_rate.labels(query).set(progress.processed_rows_per_second)
        self._last_batch.labels(query).set(progress.batch_id)
        if progress.is_batch:
            self._batches.labels(query).inc()
            self._input_rows.labels(query).inc(progress.input_rows)
            self._dead_letters.labels(query).inc(progress.dead_letters)
            self._late_rows.labels(query).inc(progress.late_rows)
            self._dropped_rows.labels(query).inc(progress.dropped_rows)
            self._batch_seconds.labels(query).set(progress.batch_ms / 1000)
            for phase, duration_ms in progress.durations_ms.items():
                self._phase_seconds.labels(query, phase).set(duration_ms / 1000)
        if progress.state_rows is not None:
            self._state_rows.labels(query).set(progress.state_rows)
        self._state_disk_bytes.labels(query).set(progress.state_disk_bytes)
        self._state_bytes.labels(query).set(progress.state_memory_bytes)
        if progress.watermark_ms is not None:
            self._watermark.labels(query).set(progress.watermark_ms / 1000)
        for source in progress.sources:
            for topic, partitions in source.end.items():
                for partition, offset in partitions.items():
                    labels = (query, topic, str(partition))
                    self._position.labels(*labels).set(offset)
                    self._behind.labels(*labels).set(source.behind_latest[topic][partition])
                    if progress.is_batch:
                        self._partition_offsets.labels(*labels).inc(source.read[topic][partition])

    @contextmanager
    def serve(self, port: int, host: str = "127.0.0.1") -> Iterator[MetricsServer]:
        """Serve the metrics over HTTP while the block runs; port 0 takes a free one. Raises MetricsError."""
        try:
            server, thread = start_http_server(port, addr=host, registry=self.registry)
        except OSError as error:
            raise MetricsError(f"cannot serve metrics on {host}:{port}: {error.strerror or error}") from error
        try:
            yield MetricsServer(host, int(server.server_port))
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
