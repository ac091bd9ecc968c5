"""The latencies of the quorum over the last half to whole minute."""

from __future__ import annotations

import pytest

from ottla.broker.controller.quorum_times import WINDOW_SECONDS, QuorumTimes, Window
from ottla.core.quorum.api import Role


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_window_tells_of_the_running_half_minute_and_the_one_before() -> None:
    clock = Clock()
    window = Window(clock)
    for value in (10, 30):
        window.add(value)
    assert (window.mean, window.largest) == (20, 30)
    clock.now += WINDOW_SECONDS
    window.add(5)
    assert (window.mean, window.largest) == (15, 30)
    clock.now += WINDOW_SECONDS
    assert (window.mean, window.largest) == (5, 5)
    clock.now += 10 * WINDOW_SECONDS
    assert (window.mean, window.largest, window.per_second) == (0, 0, 0)


def test_a_commit_takes_from_its_append_to_the_high_watermark() -> None:
    clock = Clock()
    times = QuorumTimes(clock)
    times.appended(10, 3, clock.now)
    clock.now += 0.1
    times.appended(12, 2, clock.now)
    times.committed(11)
    assert times.commit_ms.mean == pytest.approx(100)
    clock.now += 0.1
    times.committed(12)
    assert times.commit_ms.largest == pytest.approx(100)
    assert times.appended_records.per_second == pytest.approx(5 / (WINDOW_SECONDS + 0.2))


def test_an_election_takes_from_its_first_role_to_a_known_leader() -> None:
    clock = Clock()
    times = QuorumTimes(clock)
    times.became(Role.FOLLOWER, 1)
    assert times.elections == 0
    times.became(Role.PROSPECTIVE, -1)
    clock.now += 0.2
    times.became(Role.CANDIDATE, -1)
    clock.now += 0.3
    times.became(Role.LEADER, 2)
    assert times.elections == 1
    assert times.election_ms.mean == pytest.approx(500)


def test_appends_of_a_lost_epoch_are_not_waited_for() -> None:
    clock = Clock()
    times = QuorumTimes(clock)
    times.appended(10, 1, clock.now)
    times.became(Role.FOLLOWER, 2)
    clock.now += 60
    times.committed(20)
    assert times.commit_ms.largest == 0
