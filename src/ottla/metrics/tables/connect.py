"""The metrics of Connect's workers: those of all services, then ottla's own."""

from __future__ import annotations

from typing import Final

from ottla.metrics.confluent_http import http_metrics
from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "Connect"


def _panel(title: str) -> Panel:
    return Panel(Dashboard.SERVICES, "Connect", title)


HTTP: Final = http_metrics("kafka_connect_rest", "kafka.connect.rest")

CONNECTORS: Final = Metric(
    "ottla_connect_connectors",
    Kind.GAUGE,
    "Connectors that this worker runs, by state.",
    ("state",),
    panel=_panel("Connectors by state"),
)
TASKS: Final = Metric(
    "ottla_connect_tasks",
    Kind.GAUGE,
    "Tasks that this worker runs, by state.",
    ("state",),
    panel=_panel("Tasks by state"),
)
CONNECTORS_CONFIGURED: Final = Metric(
    "ottla_connect_connectors_configured", Kind.GAUGE, "Connectors of the whole cluster."
)
HOSTS: Final = Metric("ottla_connect_hosts", Kind.GAUGE, "Processes of this worker that run tasks.")
HOST_STARTS: Final = Metric(
    "ottla_connect_host_starts_total",
    Kind.COUNTER,
    "Processes that this worker has started to run tasks.",
    panel=_panel("Host processes started"),
)
TASK_FIGURES: Final = Metric(
    "ottla_connect_task_figure",
    Kind.GAUGE,
    "Figures that a task tells: records, errors, lag. Those of its connector begin with connector.",
    ("connector", "task", "figure"),
)
PARTITION_FIGURES: Final = Metric(
    "ottla_connect_partition_figure",
    Kind.GAUGE,
    "Figures of single source partitions, of tasks that tell them: a mirror's lag, records, bytes, losses.",
    ("connector", "task", "partition", "figure"),
)

_SLOT: Final = ("connector", "task")
SLOT_LAG: Final = Metric(
    "ottla_connect_slot_lag_bytes",
    Kind.GAUGE,
    "The database's log that is not yet in Kafka, behind the place that a replication slot has confirmed.",
    _SLOT,
    Unit.BYTES,
    panel=_panel("Replication slots: log kept by the database"),
)
SLOT_RETAINED: Final = Metric(
    "ottla_connect_slot_retained_bytes",
    Kind.GAUGE,
    "The log that the database keeps on its disk for a replication slot.",
    _SLOT,
    Unit.BYTES,
    panel=_panel("Replication slots: log kept by the database"),
)
SLOT_SAFE: Final = Metric(
    "ottla_connect_slot_safe_bytes",
    Kind.GAUGE,
    "What the database may still write before a replication slot is in danger of being lost; no series where "
    "max_slot_wal_keep_size is not set.",
    _SLOT,
    Unit.BYTES,
    panel=_panel("Replication slots: log kept by the database"),
)
SLOT_WAL_STATUS: Final = Metric(
    "ottla_connect_slot_wal_status",
    Kind.GAUGE,
    "Whether the database still has what a replication slot needs: 0 reserved, 1 extended (more than "
    "max_wal_size is kept), 2 unreserved (the next checkpoint may throw it away), 3 lost.",
    _SLOT,
    panel=_panel("Replication slots: state"),
)

METRICS: Final = metrics_in(globals())
