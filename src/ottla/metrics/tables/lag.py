"""The metrics of `ottla lag serve`: those of kafka_exporter by its names, and the times and verdicts."""

from __future__ import annotations

from typing import Final

from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "Lag of groups (ottla lag serve)"

PARTITION_SERIES: Final = 100_000
"""Groups times partitions: those beyond are counted, the groups' sums are always there."""
GROUP_SERIES: Final = 20_000

_OF_PARTITION: Final = ("consumergroup", "topic", "partition")
_OF_GROUP: Final = ("consumergroup",)

LAG: Final = Metric(
    "kafka_consumergroup_lag",
    Kind.GAUGE,
    "Records between a group's offset and the end of the log; 0 where none is left to read.",
    _OF_PARTITION,
    panel=Panel(Dashboard.GROUPS, "Lag", "Lag of groups", by=_OF_GROUP),
    origin="kafka_exporter",
    differs="It is 0 where only markers of transactions are left, and never negative; where it is not known "
    "there is no series, and not -1.",
    most_series=PARTITION_SERIES,
)
CURRENT_OFFSET: Final = Metric(
    "kafka_consumergroup_current_offset",
    Kind.GAUGE,
    "The offset that a group has committed.",
    _OF_PARTITION,
    origin="kafka_exporter",
    most_series=PARTITION_SERIES,
)
LAG_SECONDS: Final = Metric(
    "kafka_consumergroup_lag_seconds",
    Kind.GAUGE,
    "How long the next record of a group has waited; 0 where none is left to read.",
    _OF_PARTITION,
    unit=Unit.SECONDS,
    panel=Panel(
        Dashboard.GROUPS,
        "Lag",
        "Lag in time",
        query="max by (consumergroup) (kafka_consumergroup_lag_seconds)",
    ),
    most_series=PARTITION_SERIES,
)
PARTITION_STATUS: Final = Metric(
    "kafka_consumergroup_partition_status",
    Kind.GAUGE,
    "The verdict on a group in a partition: 1 OK, 2 WARN, 4 STOP, 5 STALL, 6 REWIND.",
    _OF_PARTITION,
    most_series=PARTITION_SERIES,
)
LAG_SUM: Final = Metric(
    "kafka_consumergroup_lag_sum",
    Kind.GAUGE,
    "The lag of a group in all partitions of a topic.",
    ("consumergroup", "topic"),
    origin="kafka_exporter",
    most_series=GROUP_SERIES,
)
OFFSET_SUM: Final = Metric(
    "kafka_consumergroup_current_offset_sum",
    Kind.GAUGE,
    "The sum of a group's offsets in all partitions of a topic.",
    ("consumergroup", "topic"),
    origin="kafka_exporter",
    most_series=GROUP_SERIES,
)
REMOVED: Final = Metric(
    "kafka_consumergroup_removed_records",
    Kind.GAUGE,
    "Records that retention removed before the group had read them, over all partitions of a topic.",
    ("consumergroup", "topic"),
    most_series=GROUP_SERIES,
)
STATUS: Final = Metric(
    "kafka_consumergroup_status",
    Kind.GAUGE,
    "The verdict on a group: 1 OK, 2 WARN, 3 ERR.",
    _OF_GROUP,
    panel=Panel(Dashboard.GROUPS, "Lag", "Groups that are not well", query="kafka_consumergroup_status > 1"),
    most_series=GROUP_SERIES,
)
GROUPS: Final = Metric(
    "ottla_lag_groups",
    Kind.GAUGE,
    "Groups that are watched, by verdict.",
    ("status",),
    panel=Panel(Dashboard.GROUPS, "Lag", "Groups by verdict"),
)
ROUNDS: Final = Metric(
    "ottla_lag_rounds_total",
    Kind.COUNTER,
    "Rounds in which the cluster was read, by outcome: ok or failed.",
    ("outcome",),
)
ROUND_SECONDS: Final = Metric(
    "ottla_lag_round_duration_seconds",
    Kind.GAUGE,
    "How long the last round took.",
    unit=Unit.SECONDS,
    panel=Panel(Dashboard.GROUPS, "Watching", "Time of a round"),
)
ROUND_AT: Final = Metric(
    "ottla_lag_round_timestamp_seconds",
    Kind.GAUGE,
    "When the last round that succeeded ended, in seconds since 1970.",
    unit=Unit.SECONDS,
)
READS_COMMITS: Final = Metric(
    "ottla_lag_reads_commits",
    Kind.GAUGE,
    "1 if commits are read in __consumer_offsets, 0 if groups are asked for their offsets.",
    unit=Unit.FLAG,
)
INCIDENTS: Final = Metric("ottla_lag_incidents", Kind.GAUGE, "Groups with an open incident.")
NOTICES: Final = Metric(
    "ottla_lag_notices_total",
    Kind.COUNTER,
    "Messages about incidents to the webhook, by outcome: sent, failed or dropped.",
    ("outcome",),
    panel=Panel(Dashboard.GROUPS, "Watching", "Messages about incidents"),
)

METRICS: Final = metrics_in(globals())
