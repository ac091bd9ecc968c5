"""The metrics of client telemetry (KIP-714): the clients that push, the way of their metrics to a collector.

The series of clients themselves are not here: each has the name that its client gives it, with `_` for every
dot (`org_apache_kafka_producer_record_send_total`). ottla.telemetry.client.series.max asks for them.
"""

from __future__ import annotations

from typing import Final

from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "Client telemetry"
_ROW: Final = "Client telemetry"
_ORIGIN: Final = "kafka.server:type=client-metrics,name="

INSTANCES: Final = Metric(
    "kafka_server_client_metrics_instance_count",
    Kind.GAUGE,
    "Client instances that push their metrics to this broker, or may.",
    panel=Panel(Dashboard.CLUSTER, _ROW, "Clients that push metrics"),
    origin=f"{_ORIGIN}instance-count",
)
UNKNOWN_SUBSCRIPTIONS: Final = Metric(
    "kafka_server_client_metrics_unknown_subscription_request_count_total",
    Kind.COUNTER,
    "Pushes for a subscription that has changed meanwhile; the client asks for it again.",
    origin=f"{_ORIGIN}unknown-subscription-request-count",
)
THROTTLED: Final = Metric(
    "kafka_server_client_metrics_throttle_count_total",
    Kind.COUNTER,
    "Requests that came before the push interval was over.",
    origin=f"{_ORIGIN}throttle-count",
    differs="It is of all clients together, not of each.",
)
PUSHES: Final = Metric(
    "kafka_server_client_metrics_plugin_export_count_total",
    Kind.COUNTER,
    "Pushes that were taken.",
    panel=Panel(Dashboard.CLUSTER, _ROW, "Pushes"),
    origin=f"{_ORIGIN}plugin-export-count",
    differs="It is of all clients together, not of each.",
)
REFUSED: Final = Metric(
    "kafka_server_client_metrics_plugin_error_count_total",
    Kind.COUNTER,
    "Pushes whose metrics could not be read, or were too many.",
    panel=Panel(Dashboard.CLUSTER, _ROW, "Pushes"),
    origin=f"{_ORIGIN}plugin-error-count",
    differs="It is of all clients together, not of each.",
)
SERIES: Final = Metric(
    "ottla_client_telemetry_series",
    Kind.GAUGE,
    "Series of clients' own metrics that are exposed here.",
    requested_by="ottla.telemetry.client.series.max",
)
DROPPED_POINTS: Final = Metric(
    "ottla_client_telemetry_dropped_points_total",
    Kind.COUNTER,
    "Values of clients' metrics without a series: the client has too many, or the name can't be one.",
    requested_by="ottla.telemetry.client.series.max",
)
SENT: Final = Metric(
    "ottla_client_telemetry_sent_pushes_total",
    Kind.COUNTER,
    "Pushes that the collector has taken.",
    panel=Panel(Dashboard.CLUSTER, _ROW, "Pushes sent to the collector"),
    requested_by="ottla.telemetry.otlp.endpoint",
)
SENT_BYTES: Final = Metric(
    "ottla_client_telemetry_sent_bytes_total",
    Kind.COUNTER,
    "Bytes of the pushes that the collector has taken.",
    unit=Unit.BYTES,
    requested_by="ottla.telemetry.otlp.endpoint",
)
QUEUED_BYTES: Final = Metric(
    "ottla_client_telemetry_queued_bytes",
    Kind.GAUGE,
    "Bytes of pushes that wait for the collector.",
    unit=Unit.BYTES,
    panel=Panel(Dashboard.CLUSTER, _ROW, "Pushes that wait for the collector"),
    requested_by="ottla.telemetry.otlp.endpoint",
)
FAILED_REQUESTS: Final = Metric(
    "ottla_client_telemetry_failed_requests_total",
    Kind.COUNTER,
    "Requests to the collector without an answer, or with one that says to come back.",
    requested_by="ottla.telemetry.otlp.endpoint",
)
LOST: Final = Metric(
    "ottla_client_telemetry_lost_pushes_total",
    Kind.COUNTER,
    "Pushes that did not reach the collector: the queue was full, it refused them, or was away for too long.",
    ("reason",),
    panel=Panel(Dashboard.CLUSTER, _ROW, "Pushes lost"),
    requested_by="ottla.telemetry.otlp.endpoint",
)
REJECTED_POINTS: Final = Metric(
    "ottla_client_telemetry_rejected_points_total",
    Kind.COUNTER,
    "Values in pushes that the collector took, which it says it did not want.",
    requested_by="ottla.telemetry.otlp.endpoint",
)

METRICS: Final = metrics_in(globals())
