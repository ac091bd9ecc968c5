"""The metrics of `ottla audit count` and `serve`: how far the count is, and what each tier lacks."""

from __future__ import annotations

from typing import Final

from ottla.metrics.metric import Kind, Metric, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "Audit (ottla audit count, ottla audit serve)"

COUNTED: Final = Metric(
    "ottla_audit_counted_records_total",
    Kind.COUNTER,
    "Records that this counter has counted since its start.",
    ("tier",),
)
PARTITIONS: Final = Metric(
    "ottla_audit_partitions", Kind.GAUGE, "Partitions that this counter counts.", ("tier",)
)
LIVES: Final = Metric(
    "ottla_audit_counter_lives_total",
    Kind.COUNTER,
    "How often counting has begun at what is written: more than once after failures, or where two counters "
    "of a tier meet.",
    ("tier",),
)
BEHIND: Final = Metric(
    "ottla_audit_behind_seconds",
    Kind.GAUGE,
    "The age of the moment of which this counter has seen all; no series before the first one.",
    ("tier",),
    unit=Unit.SECONDS,
)
MESSAGES: Final = Metric(
    "ottla_audit_messages",
    Kind.GAUGE,
    "Messages of the last day's buckets in a tier, by what is known of them: sent, counted, lost, doubled, "
    "late, unreported.",
    ("tier", "state"),
)
COMPLETE: Final = Metric(
    "ottla_audit_complete_percent",
    Kind.GAUGE,
    "How much of what was sent, of the last day's buckets without those that are pending, is in a tier.",
    ("tier",),
    unit=Unit.PERCENT,
)
INCOMPLETE: Final = Metric(
    "ottla_audit_incomplete_buckets",
    Kind.GAUGE,
    "Buckets of the last day that were judged incomplete, in a tier.",
    ("tier",),
)

METRICS: Final = metrics_in(globals())
