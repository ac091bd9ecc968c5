"""Small pure parts of the state machine: votes and offsets, positions, the history of voters."""

from __future__ import annotations

import pytest

from ottla.core.quorum.api import ElectionState, QuorumSettings, SnapshotId
from ottla.core.quorum.control_records import LogControl, controls_of, kraft_version_control, voters_control
from ottla.core.quorum.election import Tally, backoff_ms, may_vote_for, successor_delay_ms
from ottla.core.quorum.leader import MAX_OBSERVERS, Leader, committed_offset
from ottla.core.quorum.positions import Divergence, check_position, truncation_offset
from ottla.core.quorum.voters import VoterHistory
from ottla.protocol.record_batch import decode_records, encode_control_batch
from support.core.quorum_network import Entry, SimulatedLog
from support.core.quorum_node import key, voters


class Last:
    """Random numbers that are always the largest."""

    def below(self, limit: int) -> int:
        return limit - 1


@pytest.mark.parametrize(
    ("end_offsets", "epoch_start", "committed"),
    [
        ([7], 3, 7),
        ([7, 4], 3, 4),
        ([7, 5, 4], 3, 5),
        ([7, 5, 4, 2], 3, 4),
        ([9, 8, 7, 1, 1], 3, 7),
        ([7, 3, 3], 3, None),
        ([7, -1, -1], 3, None),
    ],
)
def test_a_majority_commits_beyond_the_epochs_start(
    end_offsets: list[int], epoch_start: int, committed: int | None
) -> None:
    assert committed_offset(end_offsets, epoch_start) == committed


def test_a_tally_is_won_or_lost_by_a_majority_of_the_voters_it_began_with() -> None:
    tally = Tally(frozenset({1, 2, 3, 4}))
    for voter_id in (1, 2, 2, 9):
        tally.record(voter_id, granted=True)
    assert (tally.won, tally.lost, tally.unanswered) == (False, False, {3, 4})

    tally.record(3, granted=False)
    assert not tally.lost
    tally.record(4, granted=False)
    assert tally.lost


def test_a_known_leader_has_the_epochs_vote() -> None:
    assert may_vote_for(ElectionState(3), key(1))
    assert not may_vote_for(ElectionState(3, leader_id=2), key(1))
    assert may_vote_for(ElectionState(3, voted=key(1)), key(1))


def test_pauses_grow_up_to_a_limit() -> None:
    settings = QuorumSettings(election_backoff_max_ms=300)

    assert [backoff_ms(settings, Last(), losses) for losses in (0, 1, 2, 3, 99)] == [50, 100, 200, 300, 300]
    assert [successor_delay_ms(settings, position) for position in (0, 1, 2, 9)] == [0, 100, 200, 300]


def log_after_a_snapshot() -> SimulatedLog:
    """A snapshot up to offset 10 of epoch 3; then epochs 5, 5, 7."""
    log = SimulatedLog([Entry(5, 0), Entry(5, 1), Entry(7, 2)], 10)
    log.snapshots = {SnapshotId(10, 3): []}
    return log


@pytest.mark.parametrize(
    ("fetch_offset", "last_epoch", "expected"),
    [
        (13, 7, None),
        (12, 5, None),
        (11, 5, None),
        (10, 3, None),
        (14, 7, Divergence(7, 13)),
        (13, 5, Divergence(5, 12)),
        (13, 6, Divergence(5, 12)),
        (13, 9, Divergence(7, 13)),
        (12, 4, Divergence(3, 10)),
        (10, 4, SnapshotId(10, 3)),
        (9, 3, SnapshotId(10, 3)),
        (12, 2, SnapshotId(10, 3)),
        (0, 0, SnapshotId(10, 3)),
    ],
)
def test_positions_beside_a_leaders_log(
    fetch_offset: int, last_epoch: int, expected: Divergence | SnapshotId | None
) -> None:
    assert check_position(log_after_a_snapshot(), fetch_offset, last_epoch) == expected


def test_only_the_beginning_fits_an_empty_log() -> None:
    assert check_position(SimulatedLog(), 0, 0) is None
    assert check_position(SimulatedLog(), 3, 1) == Divergence(0, 0)


@pytest.mark.parametrize(
    ("divergence", "offset"),
    [
        (Divergence(7, 13), 13),
        (Divergence(7, 12), 12),
        (Divergence(6, 40), 12),
        (Divergence(5, 11), 11),
        (Divergence(4, 40), 10),
        (Divergence(0, 0), 0),
    ],
)
def test_where_a_follower_cuts(divergence: Divergence, offset: int) -> None:
    assert truncation_offset(log_after_a_snapshot(), divergence) == offset


def test_voters_by_offset() -> None:
    history = VoterHistory(
        None,
        [LogControl(-1, 1), LogControl(-1, voters(0)), LogControl(5, voters(0, 1)), LogControl(9, voters(1))],
    )
    assert history.voters == voters(1)
    assert [history.voters_at(offset) for offset in (0, 5, 6, 10)] == [
        voters(0),
        voters(0),
        voters(0, 1),
        voters(1),
    ]

    history.truncate(9)
    assert (history.voters, history.voters_offset) == (voters(0, 1), 5)
    history.forget_below(8)
    assert history.voters_at(3) is None
    assert (history.voters, history.kraft_version) == (voters(0, 1), 1)
    history.reset([LogControl(19, voters(2))])
    assert (history.voters, history.kraft_version) == (voters(2), 0)


def test_static_voters_count_while_the_log_names_none() -> None:
    history = VoterHistory(voters(0, 1), [])
    history.add(LogControl(7, 1))
    history.add(LogControl(8, voters(0, 1, 2)))
    assert history.voters == voters(0, 1, 2)

    history.truncate(7)
    assert (history.voters, history.kraft_version) == (voters(0, 1), 0)


def test_voters_and_kraft_version_are_read_from_a_control_batch() -> None:
    batch = encode_control_batch(
        [kraft_version_control(1), voters_control(voters(2, 0))],
        timestamp=0,
        base_offset=40,
        leader_epoch=3,
    )

    assert tuple(controls_of(decode_records(batch))) == (LogControl(40, 1), LogControl(41, voters(0, 2)))


def test_observers_are_bounded() -> None:
    leader = Leader(key(0), 1, 0, (0,), check_quorum_deadline_ms=0)
    leader.set_voters(voters(0), 0, 2000)
    for node_id in range(1, MAX_OBSERVERS + 3):
        leader.progress_of(key(node_id)).fetched(node_id, 0, 0)

    assert len(leader.observers) == MAX_OBSERVERS
    assert key(1) not in leader.observers
