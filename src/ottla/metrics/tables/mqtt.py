"""The metrics of `ottla mqtt`: its clients, their messages, and what waits for the cluster."""

from __future__ import annotations

from typing import Final

from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "MQTT"


def _panel(title: str, by: tuple[str, ...] = (), query: str = "") -> Panel:
    return Panel(Dashboard.SERVICES, "MQTT", title, by, query)


CLIENTS: Final = Metric(
    "ottla_mqtt_clients",
    Kind.GAUGE,
    "Clients that are connected, by the version that they speak.",
    ("version",),
    panel=_panel("Clients", ("version",)),
)
CONNECTIONS: Final = Metric(
    "ottla_mqtt_connections",
    Kind.GAUGE,
    "Connections of the network, those without a CONNECT yet among them.",
)
CONNECTS: Final = Metric(
    "ottla_mqtt_connects_total",
    Kind.COUNTER,
    "Attempts to connect that have ended, by the reason that the client was told: SUCCESS, say.",
    ("reason",),
    panel=_panel("Connects a second", ("reason",)),
)
DISCONNECTS: Final = Metric(
    "ottla_mqtt_disconnects_total",
    Kind.COUNTER,
    "Ends of clients' connections: left (by DISCONNECT), lost (the network), else the reason that the client "
    "was told.",
    ("reason",),
    panel=_panel("Disconnects a second", ("reason",)),
)
MESSAGES: Final = Metric(
    "ottla_mqtt_messages_total",
    Kind.COUNTER,
    "Messages of clients, by QoS and what became of them: stored (all replicas in sync have it), "
    "TOPIC_NAME_INVALID (no route), NOT_AUTHORIZED, SERVER_BUSY (not stored in time), "
    "IMPLEMENTATION_SPECIFIC_ERROR (refused by the cluster).",
    ("qos", "outcome"),
    panel=_panel("Messages a second", ("qos", "outcome")),
)
DELIVERIES: Final = Metric(
    "ottla_mqtt_deliveries_total",
    Kind.COUNTER,
    "Messages to subscribers: sent, or dropped as the client takes them too slowly.",
    ("outcome",),
    panel=_panel("Messages to subscribers a second", ("outcome",)),
)
SESSIONS: Final = Metric(
    "ottla_mqtt_sessions",
    Kind.GAUGE,
    "Sessions that outlive their connections, by where their clients are: connected, or away.",
    ("state",),
    panel=_panel("Sessions", ("state",)),
)
WILLS: Final = Metric("ottla_mqtt_wills_total", Kind.COUNTER, "Wills that were given to the cluster.")
STORE_SECONDS: Final = Metric(
    "ottla_mqtt_store_duration_seconds",
    Kind.HISTOGRAM,
    "From a message to the acknowledgement of all replicas in sync.",
    (),
    Unit.SECONDS,
    panel=_panel(
        "99 of 100 messages were stored within",
        (),
        "histogram_quantile(0.99, sum by (le) (rate("
        "ottla_mqtt_store_duration_seconds_bucket[$__rate_interval])))",
    ),
)
UNDER_WAY: Final = Metric(
    "ottla_mqtt_messages_under_way", Kind.GAUGE, "Messages that the cluster has not acknowledged yet."
)
UNDER_WAY_BYTES: Final = Metric(
    "ottla_mqtt_messages_under_way_bytes", Kind.GAUGE, "Their bytes.", (), Unit.BYTES
)
PAUSES: Final = Metric(
    "ottla_mqtt_pauses_total",
    Kind.COUNTER,
    "Times that clients were read no further, as too much waited for the cluster.",
)
RETAINED: Final = Metric(
    "ottla_mqtt_retained_messages", Kind.GAUGE, "Retained messages that are held for subscribers."
)
RETAINED_BYTES: Final = Metric(
    "ottla_mqtt_retained_bytes",
    Kind.GAUGE,
    "About what they take in memory.",
    (),
    Unit.BYTES,
)
RETAINED_LEFT_OUT: Final = Metric(
    "ottla_mqtt_retained_left_out_total",
    Kind.COUNTER,
    "Retained messages in the Kafka topic that found no room, so that subscribers do not get them here.",
)

METRICS: Final = metrics_in(globals())
