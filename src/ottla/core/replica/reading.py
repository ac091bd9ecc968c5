"""Checks of reads from a replica: leader epochs compared, offsets in range, the preferred replica.

A follower's fetch offset counts only after three checks:

    the leader epoch in the request is this leader's; otherwise the answer is an error (KIP-320)
    its log does not diverge: the epoch of its last record ends in this log at or behind its end. Otherwise
    the answer has the largest epoch not above and its end, and it truncates (KIP-101, KIP-279, KIP-595)
    its offset lies within this log
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.protocol.errors import FencedLeaderEpoch, OffsetOutOfRange, UnknownLeaderEpoch


class EpochEnd(NamedTuple):
    """A leader epoch and the offset after its last record."""

    epoch: int
    end_offset: int


class ReadableReplica(NamedTuple):
    """A replica that a consumer could read from."""

    node_id: int
    rack: str | None
    log_start_offset: int
    log_end_offset: int
    last_caught_up_ms: int


def check_leader_epoch(known: int, named: int) -> None:
    """Check that the leader epoch in a request (-1: none) is this one.

    Raises FencedLeaderEpoch for an older epoch, UnknownLeaderEpoch for a newer one.
    """
    if named < 0 or named == known:
        return
    if named < known:
        raise FencedLeaderEpoch()
    raise UnknownLeaderEpoch()


def find_divergence(last_fetched_epoch: int, fetch_offset: int, own: tuple[int, int]) -> EpochEnd | None:
    """The point at which the reader's log diverges from this one; None if it does not.

    `own` is (largest epoch not above `last_fetched_epoch`, its end) in this log, (-1, -1) if there is none. A
    `last_fetched_epoch` of -1 is not compared. Raises OffsetOutOfRange if this log does not reach back far
    enough.
    """
    if last_fetched_epoch < 0:
        return None
    epoch, end_offset = own
    if epoch < 0 or end_offset < 0:
        raise OffsetOutOfRange("the end of the last fetched epoch is not known here")
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return EpochEnd(epoch, end_offset)
    return None


def preferred_replica(
    rack: str, fetch_offset: int, leader_id: int, leader_rack: str | None, others: Iterable[ReadableReplica]
) -> int | None:
    """The replica that a consumer in `rack` should read from instead of the leader (KIP-392), or None.

    `others` are in sync and alive. The choice is the replica with most records of those in the rack that have
    the offset.
    """
    if not rack or leader_rack == rack:
        return None
    near = [
        each
        for each in others
        if each.rack == rack and each.log_start_offset <= fetch_offset <= each.log_end_offset
    ]
    if not near:
        return None
    best = max(near, key=lambda each: (each.log_end_offset, each.last_caught_up_ms, -each.node_id))
    return None if best.node_id == leader_id else best.node_id
