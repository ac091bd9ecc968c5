"""The metrics of state that services keep in compacted topics: replay, lag, the primary and its writes."""

from __future__ import annotations

from typing import Final

from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "State of services in topics"


def _panel(title: str) -> Panel:
    return Panel(Dashboard.SERVICES, "State in topics", title)


OFFSET: Final = Metric(
    "ottla_replicated_offset",
    Kind.GAUGE,
    "The offset up to which this instance has replayed the partition: that of the next record.",
    ("topic", "partition"),
)
END_OFFSET: Final = Metric(
    "ottla_replicated_end_offset",
    Kind.GAUGE,
    "The end of the partition's committed records, as its leader last told.",
    ("topic", "partition"),
)
LAG: Final = Metric(
    "ottla_replicated_lag",
    Kind.GAUGE,
    "Committed offsets that this instance has not replayed, over all partitions.",
    ("topic",),
    panel=_panel("Offsets to replay"),
)
REPLAYED: Final = Metric(
    "ottla_replicated_replayed_records_total",
    Kind.COUNTER,
    "Records that this instance has replayed.",
    ("topic",),
    panel=_panel("Records replayed a second"),
)
READ_FAILURES: Final = Metric(
    "ottla_replicated_read_failures_total",
    Kind.COUNTER,
    "Times that a partition could not be read; it is tried again.",
    ("topic",),
    panel=_panel("Failed reads a second"),
)
LOST: Final = Metric(
    "ottla_replicated_topic_lost",
    Kind.GAUGE,
    "1 once the topic was deleted, replaced or cut: this instance takes no writes.",
    ("topic",),
    Unit.FLAG,
    _panel("Topics that are lost"),
)
WRITTEN: Final = Metric(
    "ottla_replicated_written_records_total",
    Kind.COUNTER,
    "Records that this instance has stored as the primary.",
    ("topic",),
    panel=_panel("Records written a second"),
)
WRITES: Final = Metric(
    "ottla_replicated_writes_total",
    Kind.COUNTER,
    "Writes of the primary by outcome: stored, fenced (another instance has become the primary), too_large, "
    "not_primary, lost (the topic), unknown (the cluster gave no answer in time, or refused).",
    ("topic", "outcome"),
    panel=_panel("Writes a second"),
)
WRITE_SECONDS: Final = Metric(
    "ottla_replicated_write_duration_seconds",
    Kind.HISTOGRAM,
    "From a write's turn until its records were stored and replayed.",
    ("topic",),
    Unit.SECONDS,
)
TAKEOVERS: Final = Metric(
    "ottla_replicated_takeovers_total",
    Kind.COUNTER,
    "Times that this instance has fenced the primary before it and replayed the topic to its end.",
    ("topic",),
    panel=_panel("Takeovers"),
)
PRIMARY: Final = Metric(
    "ottla_replicated_primary",
    Kind.GAUGE,
    "1 on the instance that is the primary, as far as it knows.",
    ("group",),
    Unit.FLAG,
    _panel("The primary"),
)
PRIMARY_KNOWN: Final = Metric(
    "ottla_replicated_primary_known",
    Kind.GAUGE,
    "1 while this instance knows a primary, itself or another one.",
    ("group",),
    Unit.FLAG,
)
ELECTIONS: Final = Metric(
    "ottla_replicated_elections_total",
    Kind.COUNTER,
    "Times that this instance has learnt of another primary, or of none.",
    ("group",),
    panel=_panel("Elections"),
)
JOINS: Final = Metric(
    "ottla_replicated_group_joins_total",
    Kind.COUNTER,
    "Times that this instance has joined its group, for the first time or because the group rebalanced.",
    ("group",),
)
FORWARDED: Final = Metric(
    "ottla_replicated_forwarded_total",
    Kind.COUNTER,
    "Requests passed on to the primary by outcome: answered, no_primary, unreachable, client_gone, lost.",
    ("topic", "outcome"),
    panel=_panel("Requests forwarded a second"),
)

METRICS: Final = metrics_in(globals())
