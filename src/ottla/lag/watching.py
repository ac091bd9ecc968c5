"""Judges repeated readings by Burrow's rules: each that finds another offset is taken for a commit.

A reading does not tell when an offset was committed, nor whether it was committed once more. So a
group whose offsets stay is STOP here and never STALL, and both are ERR for the group. The service reads the
commits themselves where it may (commit_log.py).
"""

from __future__ import annotations

from ottla.client.admin.partition_offsets import FoundOffset
from ottla.client.cluster_requests import TopicPartition
from ottla.lag.core.tracker import PartitionVerdict, Rules, Tracker
from ottla.lag.reading import Lags


class Watching:
    """The readings of one run of a command."""

    def __init__(self, rules: Rules | None = None) -> None:
        self._tracker = Tracker(rules)

    def judge(self, lags: Lags) -> dict[tuple[str, TopicPartition], PartitionVerdict]:
        """The verdict on each group in each partition, by this reading and those before."""
        take_in(self._tracker, lags)
        found = {}
        for group in lags.groups:
            verdict = self._tracker.verdict(group.group.group_id, lags.read_ms)
            for one in () if verdict is None else verdict.partitions:
                found[group.group.group_id, one.partition] = one
        return found


def take_in(tracker: Tracker, lags: Lags) -> None:
    """Tell the tracker all that a reading found."""
    for page in lags.ends:
        for partition, end in page.found.items():
            if isinstance(end, FoundOffset):
                tracker.saw_end(partition, end.offset, page.asked_ms, page.answered_ms)
    there = {one.group.group_id for one in lags.groups}
    for group_id in tracker.groups:
        if group_id not in there:
            tracker.forget_group(group_id)
    ends = {}
    for group in lags.groups:
        for one in group.partitions:
            if one.start is not None:
                tracker.saw_start(one.partition, one.start)
            if one.end is not None:
                ends[one.partition] = one.end
            tracker.saw_position(
                group.group.group_id,
                one.partition,
                one.offset,
                lags.read_ms,
                lag=one.standing.lag if group.is_told else None,
                is_commit=True,
            )
    for place, found in lags.firsts.items():
        if place[0] in ends:
            tracker.saw_first(place, found, ends[place[0]], lags.read_ms)
