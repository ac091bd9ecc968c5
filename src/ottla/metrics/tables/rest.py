"""The metrics of REST Proxy: Confluent's by the names of the JMX exporter's rules, then ottla's own."""

from __future__ import annotations

from typing import Final

from ottla.metrics.confluent_http import http_metrics
from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "REST Proxy"


def _panel(title: str) -> Panel:
    return Panel(Dashboard.SERVICES, "REST Proxy", title)


HTTP: Final = http_metrics("kafka_rest", "kafka.rest")

RECORDS_PRODUCED: Final = Metric(
    "ottla_rest_records_produced_total",
    Kind.COUNTER,
    "Records that the cluster has acknowledged, by API version.",
    ("api",),
    panel=_panel("Records produced a second"),
)
RECORDS_FAILED: Final = Metric(
    "ottla_rest_records_failed_total",
    Kind.COUNTER,
    "Records that were read from a request and that the cluster or the client refused, by API version.",
    ("api",),
    panel=_panel("Records refused a second"),
)
RECORDS_WAITING: Final = Metric(
    "ottla_rest_records_waiting",
    Kind.GAUGE,
    "Records that producers have and that are not acknowledged yet.",
    panel=_panel("Records that wait for the cluster"),
)
RECORDS_WAITING_LIMIT: Final = Metric(
    "ottla_rest_records_waiting_limit", Kind.GAUGE, "The most records that may wait; beyond, requests wait."
)
PRODUCERS: Final = Metric(
    "ottla_rest_producers", Kind.GAUGE, "Producers: one, or one for each caller that acts as itself."
)
PRODUCER_RESTARTS: Final = Metric(
    "ottla_rest_producer_restarts_total", Kind.COUNTER, "Producers that were replaced after a fatal error."
)
STREAMS_OPEN: Final = Metric(
    "ottla_rest_streams_open", Kind.GAUGE, "Streams of records (API v3) that clients keep open."
)
WORK_BYTES: Final = Metric(
    "ottla_rest_work_bytes",
    Kind.GAUGE,
    "Bytes of the bodies of requests that are in work.",
    unit=Unit.BYTES,
    panel=_panel("Bytes in work"),
)
WORK_LIMIT_BYTES: Final = Metric(
    "ottla_rest_work_limit_bytes", Kind.GAUGE, "The most bytes that may be in work.", unit=Unit.BYTES
)
CONSUMER_INSTANCES: Final = Metric(
    "ottla_rest_consumer_instances",
    Kind.GAUGE,
    "Consumer instances: live, leaving (their groups).",
    ("state",),
    panel=_panel("Consumer instances"),
)
CONSUMER_INSTANCES_LIMIT: Final = Metric(
    "ottla_rest_consumer_instances_limit", Kind.GAUGE, "The most consumer instances, by the settings."
)
CONSUMER_INSTANCES_MADE: Final = Metric(
    "ottla_rest_consumer_instances_made_total", Kind.COUNTER, "Consumer instances that were made."
)
CONSUMER_INSTANCES_EXPIRED: Final = Metric(
    "ottla_rest_consumer_instances_expired_total",
    Kind.COUNTER,
    "Consumer instances that were ended because they had no request for too long.",
)
CONSUMER_READS: Final = Metric(
    "ottla_rest_consumer_reads_total",
    Kind.COUNTER,
    "Reads of consumer instances.",
    panel=_panel("Reads a second"),
)
CONSUMER_READS_ACTIVE: Final = Metric(
    "ottla_rest_consumer_reads_active", Kind.GAUGE, "Reads of consumer instances that are under way."
)
RECORDS_CONSUMED: Final = Metric(
    "ottla_rest_records_consumed_total",
    Kind.COUNTER,
    "Records that were answered to consumer instances.",
    panel=_panel("Records consumed a second"),
)
CONSUMER_COMMITS: Final = Metric(
    "ottla_rest_consumer_commits_total", Kind.COUNTER, "Requests of consumer instances to commit offsets."
)
READ_BYTES: Final = Metric(
    "ottla_rest_consumer_read_bytes", Kind.GAUGE, "Bytes of records that reads hold.", unit=Unit.BYTES
)
READ_LIMIT_BYTES: Final = Metric(
    "ottla_rest_consumer_read_limit_bytes", Kind.GAUGE, "The most bytes that reads may hold.", unit=Unit.BYTES
)
CALLERS: Final = Metric(
    "ottla_rest_callers", Kind.GAUGE, "Callers that act as themselves and have clients of their own."
)
CALLERS_LIMIT: Final = Metric(
    "ottla_rest_callers_limit", Kind.GAUGE, "The most such callers, by the settings."
)

METRICS: Final = metrics_in(globals())
