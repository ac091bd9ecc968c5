"""The metrics of every HTTP service: its requests, their ends and times, and its connections."""

from __future__ import annotations

from typing import Final

from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "Services over HTTP"

ROUTE_SERIES: Final = 2_000
"""Routes are templates of the services' own; each has a few methods and statuses."""


def _panel(title: str, by: tuple[str, ...] = (), query: str = "") -> Panel:
    return Panel(Dashboard.SERVICES, "Requests", title, by, query)


HTTP_REQUESTS: Final = Metric(
    "ottla_http_requests_total",
    Kind.COUNTER,
    "Requests that have ended, by the template of their route (unmatched: none) and status (499: the client "
    "went away before an answer).",
    ("service", "route", "method", "status"),
    panel=_panel("Requests a second", ("service", "status")),
    most_series=ROUTE_SERIES,
)
HTTP_ERRORS: Final = Metric(
    "ottla_http_errors_total",
    Kind.COUNTER,
    "Requests that were answered with an error, by the service's error code, else by the status; 0: "
    "further codes.",
    ("service", "error_code"),
    panel=_panel("Errors a second", ("service", "error_code")),
)
HTTP_REFUSED: Final = Metric(
    "ottla_http_refused_total",
    Kind.COUNTER,
    "Requests that were refused before their operation was tried: host, authentication, access, body_bytes, "
    "head_bytes, bounds (429, and 503 for want of room), connections, malformed.",
    ("service", "reason"),
    panel=_panel("Refused requests a second", ("service", "reason")),
)
HTTP_SECONDS: Final = Metric(
    "ottla_http_request_duration_seconds",
    Kind.HISTOGRAM,
    "From a request's head to the end of its answer; streams of records last as long as their clients like.",
    ("service", "route", "method"),
    Unit.SECONDS,
    panel=_panel(
        "99 of 100 requests took at most",
        (),
        "histogram_quantile(0.99, sum by (le, service, route) (rate("
        "ottla_http_request_duration_seconds_bucket[$__rate_interval])))",
    ),
    most_series=ROUTE_SERIES,
)
HTTP_REQUEST_BYTES: Final = Metric(
    "ottla_http_request_bytes_total",
    Kind.COUNTER,
    "Bytes of request bodies as they arrived, gzip not unfolded.",
    ("service", "route", "method"),
    Unit.BYTES,
    panel=_panel("Bytes of requests a second", ("service",)),
    most_series=ROUTE_SERIES,
)
HTTP_RESPONSE_BYTES: Final = Metric(
    "ottla_http_response_bytes_total",
    Kind.COUNTER,
    "Bytes of answers' bodies as they were sent, in gzip or not.",
    ("service", "route", "method"),
    Unit.BYTES,
    panel=_panel("Bytes of answers a second", ("service",)),
    most_series=ROUTE_SERIES,
)
HTTP_IN_FLIGHT: Final = Metric(
    "ottla_http_requests_in_flight",
    Kind.GAUGE,
    "Requests under way.",
    ("service",),
    panel=_panel("Requests under way"),
)
HTTP_CONNECTIONS: Final = Metric(
    "ottla_http_connections",
    Kind.GAUGE,
    "Open connections of clients.",
    ("service",),
    panel=_panel("Connections"),
)
HTTP_CONNECTIONS_OPENED: Final = Metric(
    "ottla_http_connections_opened_total",
    Kind.COUNTER,
    "Connections that clients have opened.",
    ("service",),
)
SERVICE_UP: Final = Metric(
    "ottla_service_up",
    Kind.GAUGE,
    "1 while the service answers; 0 while it starts, and from its end until it is started again.",
    ("service",),
    Unit.FLAG,
    Panel(Dashboard.SERVICES, "Health", "Services that answer"),
)
SERVICE_STARTS: Final = Metric(
    "ottla_service_starts_total",
    Kind.COUNTER,
    "Times that the service was started in this process, failed attempts included.",
    ("service",),
    panel=Panel(Dashboard.SERVICES, "Health", "Starts"),
)

METRICS: Final = metrics_in(globals())
