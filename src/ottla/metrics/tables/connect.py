"""The metrics of Connect's workers: those of all services, then ottla's own."""

from __future__ import annotations

from typing import Final

from ottla.metrics.confluent_http import http_metrics
from ottla.metrics.metric import Dashboard, Kind, Metric, Panel
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
    "Figures that a task tells: records, errors, lag.",
    ("connector", "task", "figure"),
)
PARTITION_FIGURES: Final = Metric(
    "ottla_connect_partition_figure",
    Kind.GAUGE,
    "Figures of single source partitions, of tasks that tell them: a mirror's lag, records, bytes, losses.",
    ("connector", "task", "partition", "figure"),
)

METRICS: Final = metrics_in(globals())
