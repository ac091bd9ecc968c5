"""The metrics of the service: of each group, of each partition that it reads, and of the watching itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ottla.lag.core.incidents import Incidents
from ottla.lag.core.tracker import GroupVerdict, PartitionVerdict
from ottla.lag.notifying import Notifier
from ottla.lag.sampler import Sampler, Snapshot
from ottla.metrics.exposition import Family, Sample, by_label, single
from ottla.metrics.tables import lag as table


def lag_families(sampler: Sampler, incidents: Incidents, notifier: Notifier) -> Iterator[Family]:
    """The families of one service. The groups are those of the last round that succeeded."""
    yield by_label(table.ROUNDS, {"ok": sampler.rounds, "failed": sampler.failed_rounds})
    yield single(table.INCIDENTS, len(incidents))
    outcomes = {"sent": notifier.sent, "failed": notifier.failed, "dropped": notifier.dropped}
    yield by_label(table.NOTICES, outcomes)
    snapshot = sampler.snapshot
    if snapshot is not None:
        yield single(table.ROUND_SECONDS, snapshot.took_ms / 1_000)
        yield single(table.ROUND_AT, snapshot.at_ms / 1_000)
        yield single(table.READS_COMMITS, int(snapshot.by_topic))
        yield from _groups(snapshot)


def _groups(snapshot: Snapshot) -> Iterator[Family]:
    verdicts = list(snapshot.verdicts.values())
    yield by_label(table.GROUPS, Counter(one.status.name for one in verdicts))
    yield Family(table.STATUS, (((one.group,), int(one.status)) for one in verdicts))
    yield Family(table.LAG_SUM, _by_topic(verdicts, lambda one: one.standing.lag))
    yield Family(table.OFFSET_SUM, _by_topic(verdicts, lambda one: one.offset))
    yield Family(table.REMOVED, _by_topic(verdicts, lambda one: one.standing.removed))
    yield Family(table.LAG, _by_partition(verdicts, lambda one: one.standing.lag))
    yield Family(table.LAG_SECONDS, _by_partition(verdicts, _waiting_seconds))
    yield Family(table.CURRENT_OFFSET, _by_partition(verdicts, lambda one: one.offset))
    yield Family(table.PARTITION_STATUS, _by_partition(verdicts, lambda one: int(one.status)))


def _waiting_seconds(one: PartitionVerdict) -> float | None:
    return None if one.lag_ms is None else one.lag_ms / 1_000


def _by_partition(
    verdicts: Sequence[GroupVerdict], value: Callable[[PartitionVerdict], float | None]
) -> Iterator[Sample]:
    """A sample for each group and partition where the value is known."""
    for verdict in verdicts:
        for one in verdict.partitions:
            found = value(one)
            if found is not None:
                yield (verdict.group, *one.partition), found


def _by_topic(
    verdicts: Sequence[GroupVerdict], value: Callable[[PartitionVerdict], int | None]
) -> Iterator[Sample]:
    """The sum for each group and topic over the partitions where the value is known."""
    for verdict in verdicts:
        sums: dict[str, int] = {}
        for one in verdict.partitions:
            found = value(one)
            if found is not None:
                sums[one.partition.topic] = sums.get(one.partition.topic, 0) + found
        for topic, total in sums.items():
            yield (verdict.group, topic), total
