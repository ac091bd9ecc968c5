"""The metrics that Confluent's services have of their HTTP server, for the tables of those that ottla has."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.metrics.metric import Kind, Metric, Unit

_SINCE_START: Final = "of all requests since the start, where Confluent's is of the last 30 s"


class HttpMetrics(NamedTuple):
    """The metrics of one service."""

    connections_active: Metric
    request_total: Metric
    request_rate: Metric
    request_error_total: Metric
    latency_average: Metric
    latency_maximum: Metric
    latency_95: Metric
    latency_99: Metric


def http_metrics(prefix: str, domain: str) -> HttpMetrics:
    """Those of the JMX domain `domain`, whose names begin with `prefix`."""
    mbean = f"{domain}:type=jersey-metrics,"

    def jersey(name: str, kind: Kind, help: str, *labels: str, latency: bool = False) -> Metric:
        attribute = name.replace("_", "-")
        return Metric(
            f"{prefix}_jersey_metrics_{name}",
            kind,
            help,
            labels,
            Unit.MILLISECONDS if latency else Unit.COUNT,
            origin=f"{mbean}attribute={attribute}",
            differs=_SINCE_START if latency else "",
        )

    return HttpMetrics(
        connections_active=Metric(
            f"{prefix}_jetty_metrics_connections_active",
            Kind.GAUGE,
            "Open connections of clients.",
            origin=f"{domain}:type=jetty-metrics,attribute=connections-active",
        ),
        request_total=jersey("request_total", Kind.COUNTER, "Requests of all routes."),
        request_rate=jersey("request_rate", Kind.GAUGE, "Requests a second, over the last 30 s."),
        request_error_total=jersey(
            "request_error_total",
            Kind.COUNTER,
            "Requests that were answered with an error, by the class of its status: 4xx, 5xx.",
            "http_status_code",
        ),
        latency_average=jersey(
            "request_latency_avg", Kind.GAUGE, "The average time of a request.", latency=True
        ),
        latency_maximum=jersey(
            "request_latency_max", Kind.GAUGE, "The longest time of a request.", latency=True
        ),
        latency_95=jersey("request_latency_95", Kind.GAUGE, "95 of 100 requests took at most.", latency=True),
        latency_99=jersey("request_latency_99", Kind.GAUGE, "99 of 100 requests took at most.", latency=True),
    )
