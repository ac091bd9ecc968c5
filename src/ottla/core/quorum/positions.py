"""Comparing two logs: the leader's answer to a fetch's position, and the offset at which a follower cuts."""

from __future__ import annotations

from typing import NamedTuple

from ottla.core.quorum.api import QuorumLog, SnapshotId


class Divergence(NamedTuple):
    """The fetching log differs from the leader's after the end of `epoch` there at the latest."""

    epoch: int
    end_offset: int


def check_position(log: QuorumLog, fetch_offset: int, last_epoch: int) -> Divergence | SnapshotId | None:
    """None if the leader's log continues at (last epoch, fetch offset), else the way to align."""
    start, earliest = log.start_offset, log.earliest_snapshot
    if start == 0 and fetch_offset == 0 and last_epoch == 0:
        return None
    if earliest is not None and start > 0:
        if fetch_offset == start and last_epoch == earliest.epoch:
            return None
        if fetch_offset <= start or last_epoch < earliest.epoch:
            return log.latest_snapshot
    epoch, end_offset = log.end_offset_for_epoch(last_epoch)
    if epoch < 0:
        return Divergence(0 if earliest is None else earliest.epoch, start)
    if epoch == last_epoch and fetch_offset <= end_offset:
        return None
    return Divergence(epoch, end_offset)


def truncation_offset(log: QuorumLog, divergence: Divergence) -> int:
    """The offset at which a follower cuts its log: above it the logs do not agree."""
    if divergence.epoch == 0:
        return min(divergence.end_offset, log.end_offset)
    epoch, end_offset = log.end_offset_for_epoch(divergence.epoch)
    if epoch == divergence.epoch:
        return min(end_offset, divergence.end_offset)
    return log.start_offset if epoch < 0 else end_offset
