"""The metrics of `ottla balance serve`: plans, executions, the last model."""

from __future__ import annotations

from typing import Final

from ottla.metrics.metric import Kind, Metric, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "Balance (ottla balance serve)"

PLANS: Final = Metric(
    "ottla_balance_plans_total",
    Kind.COUNTER,
    "Plans that were asked for, by outcome: ok or failed.",
    ("outcome",),
)
PLAN_SECONDS: Final = Metric(
    "ottla_balance_plan_duration_seconds",
    Kind.GAUGE,
    "How long the last plan took, with the reading of the cluster.",
    unit=Unit.SECONDS,
)
EXECUTIONS: Final = Metric(
    "ottla_balance_executions_total",
    Kind.COUNTER,
    "Executions that this copy has ended, by outcome: done, stopped or failed.",
    ("outcome",),
)
EXECUTING: Final = Metric(
    "ottla_balance_executing", Kind.GAUGE, "1 while this copy carries a plan out.", unit=Unit.FLAG
)
MOVES: Final = Metric(
    "ottla_balance_execution_partitions",
    Kind.GAUGE,
    "Partitions of this copy's last execution, by state: done, under_way, failed, waiting.",
    ("state",),
)
BYTES_MOVED: Final = Metric(
    "ottla_balance_moved_bytes_total",
    Kind.COUNTER,
    "Bytes that ended executions have moved.",
    unit=Unit.BYTES,
)
HEALED: Final = Metric(
    "ottla_balance_healings_total", Kind.COUNTER, "Executions that self-healing has begun."
)
GOALS_MISSED: Final = Metric(
    "ottla_balance_goal_missed",
    Kind.GAUGE,
    "How many brokers, partitions or topics missed a goal when the last plan was made.",
    ("goal",),
)

METRICS: Final = metrics_in(globals())
