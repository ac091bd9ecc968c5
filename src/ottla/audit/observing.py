"""The metrics of counting, and of what each tier lacks."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.audit.core.view import DAY_MS, AuditView, sum_of
from ottla.audit.count.counter import ClusterCounter
from ottla.metrics.exposition import Family
from ottla.metrics.tables import audit as table


def count_families(counter: ClusterCounter, now_ms: int) -> Iterator[Family]:
    """The families of a counter."""
    tier = (counter.options.tier,)
    yield Family(table.COUNTED, [(tier, counter.counted)])
    yield Family(table.PARTITIONS, [(tier, counter.partitions)])
    yield Family(table.LIVES, [(tier, counter.lives)])
    if counter.caught_up_ms:
        yield Family(table.BEHIND, [(tier, max(now_ms - counter.caught_up_ms, 0) / 1_000)])


def serve_families(view: AuditView, now_ms: int) -> Iterator[Family]:
    """The families of all tiers, over the buckets of the last day."""
    sums = {tier: sum_of(view.of_tier(tier, 0, now_ms - DAY_MS).values()) for tier in view.tiers()}
    yield Family(
        table.MESSAGES,
        [
            ((tier, state), value)
            for tier, one in sums.items()
            for state, value in (
                ("sent", one.sent),
                ("counted", one.counted),
                ("lost", one.lost),
                ("doubled", one.doubled),
                ("late", one.late),
                ("unreported", one.unreported),
            )
        ],
    )
    yield Family(table.COMPLETE, [((tier,), one.percent) for tier, one in sums.items()])
    yield Family(table.INCOMPLETE, [((tier,), one.incomplete) for tier, one in sums.items()])
