"""A leader that hears from no majority resigns in time; one that needs no other voter does not."""

from __future__ import annotations

from uuid import UUID

from ottla.core.quorum.api import ReplicaKey, Voter, VoterSet
from ottla.core.quorum.leader import Leader, check_quorum_deadline_ms

FETCH_TIMEOUT_MS = 2_000
ONE, TWO, THREE = (ReplicaKey(number, UUID(int=number)) for number in (1, 2, 3))


def voters(*keys: ReplicaKey) -> VoterSet:
    return VoterSet(tuple(Voter(key, ()) for key in keys))


def leader_of(*keys: ReplicaKey) -> Leader:
    leader = Leader(ONE, 1, 0, (), check_quorum_deadline_ms=check_quorum_deadline_ms(0, FETCH_TIMEOUT_MS))
    leader.set_voters(voters(*keys), 0, FETCH_TIMEOUT_MS)
    return leader


def test_a_lone_leader_that_gets_a_second_voter_begins_to_wait_for_it() -> None:
    leader = leader_of(ONE)
    assert not leader.checks_quorum()
    # when: it has led alone for an hour
    leader.set_voters(voters(ONE, TWO), 3_600_000, FETCH_TIMEOUT_MS)
    # then
    assert leader.checks_quorum()
    assert leader.check_quorum_deadline_ms == check_quorum_deadline_ms(3_600_000, FETCH_TIMEOUT_MS)


def test_a_third_voter_gives_no_more_time() -> None:
    leader = leader_of(ONE, TWO)
    deadline_ms = leader.check_quorum_deadline_ms
    leader.set_voters(voters(ONE, TWO, THREE), 1_000, FETCH_TIMEOUT_MS)
    assert leader.check_quorum_deadline_ms == deadline_ms
