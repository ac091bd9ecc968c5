"""Votes given and requested, epochs that begin and end."""

from __future__ import annotations

from ottla.core.quorum import requests
from ottla.core.quorum.api import (
    NO_NODE,
    Address,
    AppendControls,
    Became,
    Commit,
    ElectionState,
    ReplicaKey,
    Report,
    Role,
    SaveElection,
    Send,
    Trouble,
)
from ottla.core.quorum.control_records import voters_control
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from ottla.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.vote_request import VoteRequest
from ottla.protocol.record_batch import ControlRecordType
from support.core.quorum_network import Entry
from support.core.quorum_node import (
    CLUSTER,
    SETTINGS,
    NodeUnderTest,
    fetch_answer,
    key,
    listeners,
    vote_answer,
    vote_request,
    voters,
)

ELECTION_MS = SETTINGS.election_timeout_ms
FETCH_MS = SETTINGS.fetch_timeout_ms


def granted(answer: object) -> bool:
    return answer.topics[0].partitions[0].vote_granted  # type: ignore[attr-defined, no-any-return]


def error(answer: object) -> ErrorCode:
    return ErrorCode(answer.topics[0].partitions[0].error_code)  # type: ignore[attr-defined]


def follower_of(leader_id: int, epoch: int = 5, **kwargs: object) -> NodeUnderTest:
    node = NodeUnderTest(**kwargs)  # type: ignore[arg-type]
    node.ask(requests.begin_epoch(CLUSTER, epoch, leader_id, listeners(leader_id), key(node.node_id)))
    return node


class TestASingleVoter:
    def test_leads_when_the_start_returns_with_one_write_before_the_first_batch(self) -> None:
        node = NodeUnderTest(0, among=(0,))

        assert [type(effect) for effect in node.effects] == [SaveElection, Became, AppendControls]
        assert node.saved == [ElectionState(1, 0)]
        assert node.quorum.role is Role.LEADER
        assert node.quorum.leader_address == Address("node-0", 9093)

    def test_writes_leader_kraft_version_and_voters_into_a_new_log(self) -> None:
        (controls,) = NodeUnderTest(0, among=(0,)).all(AppendControls)

        assert [kind for kind, _ in controls.records] == [
            ControlRecordType.LEADER_CHANGE,
            ControlRecordType.KRAFT_VERSION,
            ControlRecordType.KRAFT_VOTERS,
        ]

    def test_writes_only_the_leader_into_a_log_that_has_its_voters(self) -> None:
        kind, value = voters_control(voters(0))
        (controls,) = NodeUnderTest(0, among=(0,), entries=(Entry(1, value, kind),)).all(AppendControls)

        assert controls.epoch == 2
        assert [kind for kind, _ in controls.records] == [ControlRecordType.LEADER_CHANGE]

    def test_commits_when_its_log_is_synced_and_not_before(self) -> None:
        node = NodeUnderTest(0, among=(0,))
        assert node.quorum.high_watermark == -1

        node.flush()

        assert node.all(Commit) == [Commit(3)]

    def test_never_leads_an_epoch_twice(self) -> None:
        node = NodeUnderTest(0, among=(0,), election=ElectionState(7, 0), entries=(Entry(7, b""),))

        assert node.quorum.epoch == 8

    def test_needs_no_time(self) -> None:
        node = NodeUnderTest(0, among=(0,))
        node.flush()

        assert node.quorum.next_wake_ms() is None


class TestStanding:
    def test_asks_first_without_a_new_epoch(self) -> None:
        node = NodeUnderTest()

        node.after(ELECTION_MS)

        assert node.quorum.role is Role.PROSPECTIVE
        assert node.saved == []
        assert [send.request.topics[0].partitions[0].pre_vote for send in node.sent(VoteRequest)] == [
            True
        ] * 2  # type: ignore[attr-defined]

    def test_then_votes_for_itself_durably_before_it_asks(self) -> None:
        node = NodeUnderTest()
        node.after(ELECTION_MS)

        node.answer(node.sent(VoteRequest)[0], vote_answer(0, granted=True))

        assert node.quorum.role is Role.CANDIDATE
        assert node.saved == [ElectionState(1, NO_NODE, key(0))]
        kinds = [type(effect) for effect in node.effects]
        assert kinds.index(SaveElection) < kinds.index(Send)

    def test_leads_with_a_majority_and_tells_the_voters(self) -> None:
        node = NodeUnderTest()
        node.after(ELECTION_MS)
        node.answer(node.sent(VoteRequest)[0], vote_answer(0, granted=True))

        node.answer(node.sent(VoteRequest)[1], vote_answer(1, granted=True))

        assert node.quorum.role is Role.LEADER
        assert {send.to.host for send in node.sent(BeginQuorumEpochRequest)} == {"node-1", "node-2"}

    def test_counts_a_voter_once(self) -> None:
        node = NodeUnderTest(among=(0, 1, 2, 3, 4))
        node.after(ELECTION_MS)
        send = node.sent(VoteRequest)[0]

        node.answer(send, vote_answer(0, granted=True))
        node.answer(send, vote_answer(0, granted=True))

        assert node.quorum.role is Role.PROSPECTIVE

    def test_gives_way_to_a_newer_epoch(self) -> None:
        node = NodeUnderTest()
        node.after(ELECTION_MS)

        node.answer(node.sent(VoteRequest)[0], vote_answer(9, granted=False))

        assert node.quorum.role is Role.UNATTACHED
        assert node.saved == [ElectionState(9)]

    def test_follows_the_leader_that_a_refusal_names(self) -> None:
        node = NodeUnderTest()
        node.after(ELECTION_MS)

        node.answer(node.sent(VoteRequest)[0], vote_answer(3, granted=False, leader_id=2))

        assert (node.quorum.role, node.quorum.leader_id) == (Role.FOLLOWER, 2)
        assert [send.to for send in node.sent(FetchRequest)] == [Address("node-2", 9093)]

    def test_an_observer_never_stands(self) -> None:
        node = NodeUnderTest(7)

        node.after(20 * ELECTION_MS)

        assert node.quorum.role is Role.UNATTACHED
        assert node.sent(VoteRequest) == []

    def test_does_not_stand_again_in_an_epoch_that_it_led(self) -> None:
        node = NodeUnderTest(election=ElectionState(4, 0))
        assert node.quorum.role is Role.RESIGNED
        assert {send.to.host for send in node.sent(EndQuorumEpochRequest)} == {"node-1", "node-2"}

        node.after(2 * ELECTION_MS)

        assert node.saved == [ElectionState(5)]


class TestVoting:
    def test_grants_one_vote_an_epoch_saved_before_it_is_said(self) -> None:
        node = NodeUnderTest()

        assert granted(node.ask(vote_request(1, 3)))
        kinds = [type(effect).__name__ for effect in node.effects]
        assert kinds.index("SaveElection") < kinds.index("Reply")
        assert not granted(node.ask(vote_request(2, 3)))
        assert granted(node.ask(vote_request(1, 3)))
        assert granted(node.ask(vote_request(2, 4)))

    def test_remembers_its_vote_after_a_restart(self) -> None:
        node = NodeUnderTest(election=ElectionState(3, NO_NODE, key(1)))

        assert not granted(node.ask(vote_request(2, 3)))

    def test_a_vote_is_for_one_directory_of_the_candidate(self) -> None:
        other = ReplicaKey(1, key(9).directory_id)
        node = NodeUnderTest(election=ElectionState(3, NO_NODE, other))

        assert not granted(node.ask(vote_request(1, 3)))

    def test_refuses_a_candidate_whose_log_is_older(self) -> None:
        node = NodeUnderTest(entries=(Entry(2, b""), Entry(2, b"")))

        assert not granted(node.ask(vote_request(1, 5, (2, 1))))
        assert not granted(node.ask(vote_request(1, 6, (1, 9))))
        assert granted(node.ask(vote_request(1, 7, (2, 2))))

    def test_refuses_old_epochs_and_names_the_newer(self) -> None:
        node = NodeUnderTest(election=ElectionState(8))

        answer = node.ask(vote_request(1, 7))

        assert error(answer) is ErrorCode.FENCED_LEADER_EPOCH
        assert answer.topics[0].partitions[0].leader_epoch == 8

    def test_a_follower_that_hears_from_its_leader_refuses_pre_votes(self) -> None:
        node = follower_of(1)
        (send,) = node.sent(FetchRequest)
        assert granted(node.ask(vote_request(2, 5, pre_vote=True)))

        node.answer(send, fetch_answer(1, 5, high_watermark=0))

        assert not granted(node.ask(vote_request(2, 5, pre_vote=True)))
        assert node.quorum.role is Role.FOLLOWER

    def test_names_the_leader_it_follows(self) -> None:
        answer = follower_of(1).ask(vote_request(2, 5))

        assert not granted(answer)
        assert answer.topics[0].partitions[0].leader_id == 1
        assert [(each.node_id, each.host) for each in answer.node_endpoints] == [(1, "node-1")]

    def test_every_version_can_be_answered(self) -> None:
        for version in range(3):
            assert granted(NodeUnderTest().ask(vote_request(1, 3), version))

    def test_refuses_requests_for_other_clusters_topics_and_nodes(self) -> None:
        node = NodeUnderTest()
        other_cluster = vote_request(1, 3)
        other_cluster.cluster_id = "another"
        other_topic = vote_request(1, 3)
        other_topic.topics[0].topic_name = "orders"

        assert node.ask(other_cluster).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert node.ask(other_topic).error_code == ErrorCode.INVALID_REQUEST
        assert error(node.ask(vote_request(1, 3, to=key(5)))) is ErrorCode.INVALID_VOTER_KEY
        assert error(node.ask(vote_request(1, 9, (9, 1)))) is ErrorCode.INVALID_REQUEST
        assert error(node.ask(vote_request(-1, 9))) is ErrorCode.INVALID_REQUEST

    def test_a_candidate_with_this_nodes_id_is_reported_and_refused(self) -> None:
        node = NodeUnderTest()

        assert not granted(node.ask(vote_request(0, 3)))
        assert node.all(Report) == [Report(Trouble.DUPLICATE_NODE_ID, 0, None)]


class TestEpochs:
    def test_a_new_leader_is_saved_and_fetched_from(self) -> None:
        node = NodeUnderTest()

        answer = node.ask(requests.begin_epoch(CLUSTER, 5, 2, listeners(2), key(0)))

        assert error(answer) is ErrorCode.NONE
        assert node.saved == [ElectionState(5, 2)]
        assert [send.to for send in node.sent(FetchRequest)] == [Address("node-2", 9093)]

    def test_the_first_version_knows_no_addresses_but_the_voters_do(self) -> None:
        node = NodeUnderTest()

        assert error(node.ask(requests.begin_epoch(CLUSTER, 5, 2, (), key(0)), 0)) is ErrorCode.NONE
        assert node.quorum.leader_address == Address("node-2", 9093)

    def test_an_old_epoch_begins_no_more(self) -> None:
        node = follower_of(1, 5)

        answer = node.ask(requests.begin_epoch(CLUSTER, 4, 2, listeners(2), key(0)))

        assert error(answer) is ErrorCode.FENCED_LEADER_EPOCH
        assert node.quorum.leader_id == 1

    def test_a_silent_leader_is_replaced(self) -> None:
        node = follower_of(1)

        node.after(FETCH_MS)

        assert node.quorum.role is Role.PROSPECTIVE

    def test_a_resigning_leader_names_its_preferred_successors(self) -> None:
        first, second = follower_of(1), follower_of(1)

        first.ask(requests.end_epoch(CLUSTER, 5, 1, listeners(1), [key(0), key(2)]))
        second.ask(requests.end_epoch(CLUSTER, 5, 1, listeners(1), [key(2), key(0)]))

        assert (first.quorum.role, second.quorum.role) == (Role.PROSPECTIVE, Role.FOLLOWER)
        assert granted(second.ask(vote_request(2, 5, pre_vote=True)))

    def test_a_leader_that_stops_hands_over(self) -> None:
        node = NodeUnderTest().be_elected(1)
        node.fetched_by(2, node.log.end_offset)

        node.feed(node.quorum.resign)

        assert node.quorum.role is Role.RESIGNED
        (end, _) = node.sent(EndQuorumEpochRequest)
        candidates = end.request.topics[0].partitions[0].preferred_candidates  # type: ignore[attr-defined]
        assert [each.candidate_id for each in candidates] == [2, 1]
        assert not node.quorum.resigned

    def test_a_leader_without_a_majority_resigns(self) -> None:
        node = NodeUnderTest().be_elected(1)
        node.after(FETCH_MS)
        node.fetched_by(1, 0)

        node.after(FETCH_MS)
        assert node.quorum.role is Role.LEADER
        node.after(FETCH_MS)

        assert node.quorum.role is Role.RESIGNED
        assert node.quorum.leader_id == NO_NODE
