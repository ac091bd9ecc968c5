"""The preferred replica of a reader, and the checks of its epochs."""

from __future__ import annotations

import pytest

from ottla.core.replica.reading import (
    EpochEnd,
    ReadableReplica,
    check_leader_epoch,
    find_divergence,
    preferred_replica,
)
from ottla.core.replica.throttle import RateWindow, throttled_partitions
from ottla.protocol.errors import FencedLeaderEpoch, OffsetOutOfRange, UnknownLeaderEpoch

NEAR = ReadableReplica(2, "a", 0, 90, 5)
NEARER = ReadableReplica(3, "a", 0, 95, 1)
FAR = ReadableReplica(4, "b", 0, 99, 9)


@pytest.mark.parametrize(
    ("rack", "offset", "leader_rack", "preferred"),
    [
        ("a", 50, "z", 3),  # the replica with most records
        ("b", 50, "z", 4),
        ("a", 96, "z", None),  # no replica there has the offset
        ("c", 50, "z", None),
        ("a", 50, "a", None),  # the leader is there itself
        ("", 50, "z", None),
    ],
)
def test_consumers_are_sent_to_their_rack(
    rack: str, offset: int, leader_rack: str, preferred: int | None
) -> None:
    assert preferred_replica(rack, offset, 1, leader_rack, [NEAR, NEARER, FAR]) == preferred


def test_leader_epochs() -> None:
    check_leader_epoch(5, 5)
    check_leader_epoch(5, -1)
    with pytest.raises(FencedLeaderEpoch):
        check_leader_epoch(5, 4)
    with pytest.raises(UnknownLeaderEpoch):
        check_leader_epoch(5, 6)


def test_divergence() -> None:
    assert find_divergence(-1, 50, (-1, -1)) is None
    assert find_divergence(3, 50, (3, 50)) is None
    assert find_divergence(3, 50, (3, 49)) == EpochEnd(3, 49)
    assert find_divergence(3, 50, (2, 80)) == EpochEnd(2, 80)
    with pytest.raises(OffsetOutOfRange):
        find_divergence(3, 50, (-1, -1))


def test_a_throttle_counts_the_bytes_of_its_windows() -> None:
    rate = RateWindow(100, samples=3, window_ms=1000)
    assert not rate.is_exceeded(0)
    rate.record(300, 500)
    assert rate.is_exceeded(600)  # 300 bytes where two seconds have room for 200
    assert not rate.is_exceeded(3500)  # forgotten
    rate.bytes_per_second = 2**63 - 1
    rate.record(10**9, 3600)
    assert not rate.is_exceeded(3600)


def test_which_partitions_are_throttled() -> None:
    assert throttled_partitions(["0:1", "1:2", "4:1"], 1) == {0, 4}
    assert throttled_partitions(["*"], 1) is None
    assert throttled_partitions([], 1) == frozenset()
