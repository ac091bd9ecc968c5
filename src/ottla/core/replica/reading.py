"""What a replica answers to those who read it: epochs compared, offsets in range, another replica preferred.

Three checks come before a follower's fetch offset counts for anything:

    the leader epoch it names is this leader's: who follows another leader is told so (KIP-320)
    its log does not diverge: the epoch of its last record ends in this log at or behind its end. Otherwise it
    is told the largest epoch not above, and its end, and truncates (KIP-101, KIP-279, KIP-595)
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
    """Whether a request that names a leader epoch (-1: none) means this one.

    Raises FencedLeaderEpoch for an older one, UnknownLeaderEpoch for a newer one.
    """
    if named < 0 or named == known:
        return
    if named < known:
        raise FencedLeaderEpoch()
    raise UnknownLeaderEpoch()


def find_divergence(last_fetched_epoch: int, fetch_offset: int, own: tuple[int, int]) -> EpochEnd | None:
    """Where the reader's log parts from this one; None if it does not.

    `own`: (largest epoch not above `last_fetched_epoch`, its end) of this log, (-1, -1) if there is none.
    `last_fetched_epoch` -1: the reader has nothing to compare. Raises OffsetOutOfRange if this log knows too
    little.
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
    """Whom a consumer in `rack` should rather read from than from the leader (KIP-392); None for nobody.

    `others` are in sync and alive. Of those in the rack that have the offset, the one with most records.
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
