"""The metrics of Spark queries, and of Streams applications by Kafka Streams' names where it has them."""

from __future__ import annotations

from typing import Final

from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "Queries and Streams"

_QUERY: Final = ("query",)
_PARTITION: Final = ("query", "topic", "partition")
_TASK: Final = ("client_id", "task_id")
_AS_TASK: Final = "a query stands in the place of a task, the application in that of a client"


def _panel(row: str, title: str, by: tuple[str, ...] = (), query: str = "") -> Panel:
    return Panel(Dashboard.STREAMS, row, title, by, query)


RUNNING: Final = Metric(
    "ottla_query_running",
    Kind.GAUGE,
    "1 while the query runs; the series of a query that has ended stay.",
    _QUERY,
    Unit.FLAG,
    _panel("Queries", "Queries that run"),
)
FAILURES: Final = Metric(
    "ottla_query_failures_total",
    Kind.COUNTER,
    "Times that the query has failed.",
    _QUERY,
    panel=_panel("Queries", "Failures"),
)
RESTARTS: Final = Metric(
    "ottla_query_restarts_total",
    Kind.COUNTER,
    "Times that the query was started again by itself, after a process of Python's had not started or died.",
    _QUERY,
    panel=_panel("Queries", "Restarts"),
)
INPUT_ROWS: Final = Metric(
    "ottla_query_input_rows_total",
    Kind.COUNTER,
    "Records read.",
    _QUERY,
    panel=_panel("Records", "Records read a second"),
)
INPUT_RATE: Final = Metric(
    "ottla_query_input_rows_per_second",
    Kind.GAUGE,
    "Records that arrived a second, before the last batch.",
    _QUERY,
)
PROCESSED_RATE: Final = Metric(
    "ottla_query_processed_rows_per_second",
    Kind.GAUGE,
    "Records a second of processing, of the last batch.",
    _QUERY,
)
BATCHES: Final = Metric(
    "ottla_query_batches_total",
    Kind.COUNTER,
    "Batches that are done.",
    _QUERY,
    panel=_panel("Batches", "Batches a second"),
)
LAST_BATCH: Final = Metric("ottla_query_last_batch_id", Kind.GAUGE, "The number of the last batch.", _QUERY)
LAST_PROGRESS: Final = Metric(
    "ottla_query_last_progress_timestamp_seconds",
    Kind.GAUGE,
    "When the last batch, or the last look at the sources that found nothing, began; since 1970.",
    _QUERY,
    Unit.SECONDS,
    _panel(
        "Batches", "Seconds since the last look", (), "time() - ottla_query_last_progress_timestamp_seconds"
    ),
)
BATCH_SECONDS: Final = Metric(
    "ottla_query_batch_duration_seconds",
    Kind.GAUGE,
    "The time of the last batch.",
    _QUERY,
    Unit.SECONDS,
    _panel("Batches", "Time of the last batch"),
)
BATCH_TIMES: Final = Metric(
    "ottla_query_batch_seconds",
    Kind.HISTOGRAM,
    "The times of all batches.",
    _QUERY,
    Unit.SECONDS,
)
PHASE_SECONDS: Final = Metric(
    "ottla_query_phase_duration_seconds",
    Kind.GAUGE,
    "The time of the last batch by Spark's phases: latestOffset, queryPlanning, addBatch and so on.",
    ("query", "phase"),
    Unit.SECONDS,
    _panel("Batches", "Time of the last batch by part"),
)
PHASE_TOTAL: Final = Metric(
    "ottla_query_phase_seconds_total",
    Kind.COUNTER,
    "The time of all batches by Spark's phases.",
    ("query", "phase"),
    Unit.SECONDS,
)
STATE_ROWS: Final = Metric(
    "ottla_query_state_rows",
    Kind.GAUGE,
    "Rows in the state stores, where Spark counts them.",
    _QUERY,
    panel=_panel("State", "Rows of state"),
)
STATE_DISK_BYTES: Final = Metric(
    "ottla_query_state_disk_bytes",
    Kind.GAUGE,
    "Bytes of the files of the state stores.",
    _QUERY,
    Unit.BYTES,
    _panel("State", "State on disk"),
)
STATE_BYTES: Final = Metric(
    "ottla_query_state_memory_bytes",
    Kind.GAUGE,
    "Memory of the state stores.",
    _QUERY,
    Unit.BYTES,
    _panel("State", "State in memory"),
)
LATE_ROWS: Final = Metric(
    "ottla_query_late_rows_total",
    Kind.COUNTER,
    "Rows that came too late for their window and were dropped.",
    _QUERY,
    panel=_panel("Records", "Late records a second"),
)
DROPPED_ROWS: Final = Metric(
    "ottla_query_dropped_rows_total",
    Kind.COUNTER,
    "Records that an operator could not use, such as ones without a key.",
    _QUERY,
    panel=_panel("Records", "Dropped records a second"),
)
DEAD_LETTERS: Final = Metric(
    "ottla_query_dead_letters_total",
    Kind.COUNTER,
    "Records that were sent to dead letters.",
    _QUERY,
    panel=_panel("Records", "Dead letters a second"),
)
WATERMARK: Final = Metric(
    "ottla_query_watermark_timestamp_seconds",
    Kind.GAUGE,
    "The watermark in event time, since 1970.",
    _QUERY,
    Unit.SECONDS,
    _panel("Latency", "Watermark behind the clock", (), "time() - ottla_query_watermark_timestamp_seconds"),
)
OFFSET: Final = Metric("ottla_query_offset", Kind.GAUGE, "The next offset to read.", _PARTITION)
BEHIND: Final = Metric(
    "ottla_query_offsets_behind_latest",
    Kind.GAUGE,
    "Offsets that were there when the last batch was planned, and that it did not read.",
    _PARTITION,
    panel=_panel("Records", "Offsets behind", ("query", "topic")),
)
OFFSETS_READ: Final = Metric(
    "ottla_query_offsets_read_total",
    Kind.COUNTER,
    "Offsets read; without the first batch of a new query, of which Spark does not tell where it began.",
    _PARTITION,
)
RECORDS_WRITTEN: Final = Metric(
    "ottla_query_records_written_total",
    Kind.COUNTER,
    "Records that the query has written; counted, like latencies, while metrics are served.",
    _QUERY,
    panel=_panel("Records", "Records written a second"),
)
E2E_LATENCY_SUM: Final = Metric(
    "ottla_query_record_e2e_latency_seconds_total",
    Kind.COUNTER,
    "The sum of the end-to-end latencies of all records written: from a record's timestamp to the end of the "
    "batch that committed it. Divided by the records written it is their average.",
    _QUERY,
    Unit.SECONDS,
    _panel(
        "Latency",
        "Average latency from a record's timestamp to its commit",
        (),
        "rate(ottla_query_record_e2e_latency_seconds_total[$__rate_interval]) / "
        "rate(ottla_query_records_written_total[$__rate_interval])",
    ),
)
E2E_LATENCY: Final = Metric(
    "ottla_query_record_e2e_latency_seconds",
    Kind.GAUGE,
    "End-to-end latency of the records of the last minute, else of the last batch: min, avg, max.",
    ("query", "stat"),
    Unit.SECONDS,
    _panel("Latency", "Latency from a record's timestamp to its commit"),
)

_STREAMS: Final = "kafka.streams:type="
PROCESS_TOTAL: Final = Metric(
    "kafka_streams_stream_task_metrics_process_total",
    Kind.COUNTER,
    "Records that were processed.",
    _TASK,
    origin=f"{_STREAMS}stream-task-metrics,client-id=*,task-id=*",
    differs=_AS_TASK,
)
PROCESS_RATE: Final = Metric(
    "kafka_streams_stream_task_metrics_process_rate",
    Kind.GAUGE,
    "Records a second of processing, of the last batch.",
    _TASK,
    origin=f"{_STREAMS}stream-task-metrics,client-id=*,task-id=*",
    differs=_AS_TASK,
)
COMMIT_TOTAL: Final = Metric(
    "kafka_streams_stream_task_metrics_commit_total",
    Kind.COUNTER,
    "Commits: one for each batch.",
    _TASK,
    origin=f"{_STREAMS}stream-task-metrics,client-id=*,task-id=*",
    differs=_AS_TASK,
)
DROPPED_TOTAL: Final = Metric(
    "kafka_streams_stream_task_metrics_dropped_records_total",
    Kind.COUNTER,
    "Records that were dropped: late ones and those that an operator could not use.",
    _TASK,
    origin=f"{_STREAMS}stream-task-metrics,client-id=*,task-id=*",
    differs=_AS_TASK,
)
COMMIT_LATENCY_AVERAGE: Final = Metric(
    "kafka_streams_stream_thread_metrics_commit_latency_avg",
    Kind.GAUGE,
    "The average time of a batch in the last minute.",
    _TASK,
    Unit.MILLISECONDS,
    origin=f"{_STREAMS}stream-thread-metrics,thread-id=*",
    differs=_AS_TASK,
)
COMMIT_LATENCY_MAXIMUM: Final = Metric(
    "kafka_streams_stream_thread_metrics_commit_latency_max",
    Kind.GAUGE,
    "The longest batch of the last minute.",
    _TASK,
    Unit.MILLISECONDS,
    origin=f"{_STREAMS}stream-thread-metrics,thread-id=*",
    differs=_AS_TASK,
)
E2E_AVERAGE: Final = Metric(
    "kafka_streams_stream_processor_node_metrics_record_e2e_latency_avg",
    Kind.GAUGE,
    "The average end-to-end latency of the records of the last minute (KIP-613).",
    _TASK,
    Unit.MILLISECONDS,
    origin=f"{_STREAMS}stream-processor-node-metrics,thread-id=*,task-id=*,processor-node-id=*",
    differs="of the records that a query writes, up to their commit",
)
E2E_MINIMUM: Final = Metric(
    "kafka_streams_stream_processor_node_metrics_record_e2e_latency_min",
    Kind.GAUGE,
    "The shortest end-to-end latency of the last minute.",
    _TASK,
    Unit.MILLISECONDS,
    origin=f"{_STREAMS}stream-processor-node-metrics,thread-id=*,task-id=*,processor-node-id=*",
    differs="of the records that a query writes, up to their commit",
)
E2E_MAXIMUM: Final = Metric(
    "kafka_streams_stream_processor_node_metrics_record_e2e_latency_max",
    Kind.GAUGE,
    "The longest end-to-end latency of the last minute.",
    _TASK,
    Unit.MILLISECONDS,
    origin=f"{_STREAMS}stream-processor-node-metrics,thread-id=*,task-id=*,processor-node-id=*",
    differs="of the records that a query writes, up to their commit",
)
ALIVE_THREADS: Final = Metric(
    "kafka_streams_stream_metrics_alive_stream_threads",
    Kind.GAUGE,
    "Queries that run.",
    ("client_id",),
    origin=f"{_STREAMS}stream-metrics,client-id=*",
    differs="queries in the place of threads",
)
FAILED_THREADS: Final = Metric(
    "kafka_streams_stream_metrics_failed_stream_threads",
    Kind.COUNTER,
    "Queries that have failed.",
    ("client_id",),
    origin=f"{_STREAMS}stream-metrics,client-id=*",
    differs="queries in the place of threads",
)

METRICS: Final = metrics_in(globals())
