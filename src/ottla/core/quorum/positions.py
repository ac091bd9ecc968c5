"""How two logs compare: what a leader tells a fetch of its position, and where a follower then cuts."""

from __future__ import annotations

from typing import NamedTuple

from ottla.core.quorum.api import QuorumLog, SnapshotId


class Divergence(NamedTuple):
    """The fetching log goes apart from the leader's: at the latest where `epoch` ends in the leader's."""

    epoch: int
    end_offset: int


def check_position(log: QuorumLog, fetch_offset: int, last_epoch: int) -> Divergence | SnapshotId | None:
    """None where the leader's log goes on from (last epoch, fetch offset); else how the two come together."""
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
    """Where a follower cuts its log: it surely agrees with the leader's below at most this offset."""
    if divergence.epoch == 0:
        return min(divergence.end_offset, log.end_offset)
    epoch, end_offset = log.end_offset_for_epoch(divergence.epoch)
    if epoch == divergence.epoch:
        return min(end_offset, divergence.end_offset)
    return log.start_offset if epoch < 0 else end_offset
