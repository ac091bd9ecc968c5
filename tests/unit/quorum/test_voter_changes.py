"""Voters added, removed and updated, by an operator or by themselves; kraft.version raised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.core.quorum import requests
from ottla.core.quorum.api import AppendControls, Became, ElectionState, Reply, Role, VoterSet
from ottla.core.quorum.control_records import LogControl, voter_set
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ottla.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from ottla.protocol.messages.update_raft_voter_response import UpdateRaftVoterResponse
from ottla.protocol.record_batch import ControlRecordType
from ottla.protocol.records.voters_record import VotersRecord
from ottla.protocol.schema import ZERO_UUID
from support.core.quorum_node import (
    CLUSTER,
    SETTINGS,
    NodeUnderTest,
    fetch_answer,
    key,
    listeners,
    voter,
    voters,
)

NEW = 3
"""A node that is not a voter yet."""


def leader(*, static: bool = False) -> NodeUnderTest:
    """Leads voters 0, 1 and 2, and its epoch's first records are committed."""
    node = NodeUnderTest(static=static).be_elected(1)
    node.fetched_by(1, node.log.end_offset)
    return node


def add(node_id: int = NEW, **changes: Any) -> AddRaftVoterRequest:
    request = requests.add_voter(CLUSTER, voter(node_id), 1000)
    request.ack_when_committed = True
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def versions(low: int = 0, high: int = 1) -> ApiVersionsResponse:
    feature = SupportedFeatureKey(name="kraft.version", min_version=low, max_version=high)
    return ApiVersionsResponse(supported_features=[feature])


def appended_voters(node: NodeUnderTest) -> VoterSet | None:
    for controls in node.all(AppendControls):
        for kind, value in controls.records:
            if kind is ControlRecordType.KRAFT_VOTERS:
                return voter_set(VotersRecord.decode(value, 0))
    return None


def ready_to_add() -> NodeUnderTest:
    """A leader, and a new node that has caught up."""
    node = leader()
    node.fetched_by(NEW, node.log.end_offset, high_watermark=3)
    return node


def adding() -> NodeUnderTest:
    """The voters record with the new node is in the log and not committed."""
    node = ready_to_add()
    assert node.ask(add()) is None
    (send,) = node.sent(ApiVersionsRequest)
    node.answer(send, versions())
    return node


class TestAdding:
    def test_asks_for_versions_appends_and_answers_when_committed(self) -> None:
        node = ready_to_add()
        assert node.ask(add()) is None
        token = node.last_token
        (send,) = node.sent(ApiVersionsRequest)
        assert send.to.host == "node-3"

        node.answer(send, versions())
        added = appended_voters(node)
        assert added is not None
        assert added.node_ids == (0, 1, 2, 3)
        assert node.quorum.voters.node_ids == (0, 1, 2, 3)
        assert node.all(Reply) == []

        node.flush()
        node.fetched_by(1, node.log.end_offset)
        assert node.answer_to(token) is None  # two of four are not a majority
        node.fetched_by(NEW, node.log.end_offset)
        assert node.answer_to(token).error_code == ErrorCode.NONE

    def test_answers_before_the_commit_if_asked_to(self) -> None:
        node = ready_to_add()
        node.ask(add(ack_when_committed=False))
        token = node.last_token

        node.answer(node.sent(ApiVersionsRequest)[0], versions())

        assert node.answer_to(token).error_code == ErrorCode.NONE

    def test_one_change_at_a_time(self) -> None:
        node = adding()

        assert node.ask(add(4)).error_code == ErrorCode.REQUEST_TIMED_OUT
        removal = requests.remove_voter(CLUSTER, key(1))
        assert node.ask(removal).error_code == ErrorCode.REQUEST_TIMED_OUT

    def test_a_change_that_took_too_long_still_holds_off_the_next(self) -> None:
        node = adding()
        token = node.last_token

        node.after(1000)
        assert node.answer_to(token).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert node.ask(add(4)).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert node.quorum.voters.node_ids == (0, 1, 2, 3)

    def test_a_lone_leader_waits_for_its_second_voter_from_then_on(self) -> None:
        node = NodeUnderTest(among=(0,))
        node.flush()
        node.after(100 * SETTINGS.fetch_timeout_ms)
        node.fetched_by(NEW, node.log.end_offset)
        node.ask(add())

        node.answer(node.sent(ApiVersionsRequest)[0], versions())
        node.after(SETTINGS.fetch_timeout_ms)
        assert node.quorum.role is Role.LEADER

        node.after(SETTINGS.fetch_timeout_ms)
        assert node.quorum.role is Role.RESIGNED

    def test_refusals(self) -> None:
        assert leader().ask(add(1)).error_code == ErrorCode.DUPLICATE_VOTER
        assert leader().ask(add(cluster_id="another")).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert leader().ask(add(voter_directory_id=ZERO_UUID)).error_code == ErrorCode.INVALID_REQUEST
        assert leader().ask(add(listeners=[])).error_code == ErrorCode.INVALID_REQUEST
        assert leader(static=True).ask(add()).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert NodeUnderTest(1).ask(add()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        not_committed = NodeUnderTest().be_elected(1)
        assert not_committed.ask(add()).error_code == ErrorCode.REQUEST_TIMED_OUT

    def test_a_node_that_has_not_caught_up_is_not_added(self) -> None:
        node = leader()
        node.ask(add())
        token = node.last_token

        node.answer(node.sent(ApiVersionsRequest)[0], versions())

        assert node.answer_to(token).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert node.quorum.voters.node_ids == (0, 1, 2)

    def test_nor_one_that_knows_no_dynamic_voters_or_does_not_answer(self) -> None:
        for response, error in (
            (versions(0, 0), ErrorCode.INVALID_REQUEST),
            (ApiVersionsResponse(), ErrorCode.INVALID_REQUEST),
            (None, ErrorCode.REQUEST_TIMED_OUT),
        ):
            node = ready_to_add()
            node.ask(add())
            token = node.last_token
            node.answer(node.sent(ApiVersionsRequest)[0], response)
            assert node.answer_to(token).error_code == error

    def test_waiting_requests_are_refused_when_the_leader_loses_its_epoch(self) -> None:
        node = adding()
        token = node.last_token

        node.ask(requests.begin_epoch(CLUSTER, 9, 1, listeners(1), key(0)))

        assert node.answer_to(token).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestRemoving:
    def test_another_voter(self) -> None:
        node = leader()
        assert node.ask(requests.remove_voter(CLUSTER, key(2))) is None
        token = node.last_token
        assert node.quorum.voters.node_ids == (0, 1)

        node.flush()
        node.fetched_by(1, node.log.end_offset)

        assert node.answer_to(token).error_code == ErrorCode.NONE

    def test_the_leader_itself_which_resigns_when_that_is_committed(self) -> None:
        node = leader()
        assert node.ask(requests.remove_voter(CLUSTER, key(0))) is None
        token = node.last_token
        node.flush()

        node.fetched_by(1, node.log.end_offset)
        assert node.quorum.role is Role.LEADER  # its own log no longer counts
        node.fetched_by(2, node.log.end_offset)

        assert node.answer_to(token).error_code == ErrorCode.NONE
        assert [each.role for each in node.all(Became)] == [Role.RESIGNED]

    def test_a_leader_whose_removal_is_lost_with_it_may_come_back_to_commit_it(self) -> None:
        node = leader()
        node.ask(requests.remove_voter(CLUSTER, key(0)))
        again = NodeUnderTest(entries=tuple(node.log.entries), election=ElectionState(1, 0))
        assert again.quorum.voters.node_ids == (1, 2)

        again.be_elected(1, 2)

        assert again.quorum.role is Role.LEADER

    def test_refusals(self) -> None:
        node = leader()
        assert node.ask(requests.remove_voter(CLUSTER, key(9))).error_code == ErrorCode.VOTER_NOT_FOUND
        other_directory = requests.remove_voter(CLUSTER, key(1)._replace(directory_id=key(9).directory_id))
        assert node.ask(other_directory).error_code == ErrorCode.VOTER_NOT_FOUND
        no_directory = requests.remove_voter(CLUSTER, key(1)._replace(directory_id=ZERO_UUID))
        assert node.ask(no_directory).error_code == ErrorCode.INVALID_REQUEST
        alone = NodeUnderTest(among=(0,))
        alone.flush()
        assert alone.ask(requests.remove_voter(CLUSTER, key(0))).error_code == ErrorCode.INVALID_REQUEST


class TestUpdating:
    MOVED = replace(voter(1), endpoints=listeners(8))

    def test_new_listeners_go_into_the_log(self) -> None:
        node = leader()

        answer = node.ask(requests.update_voter(CLUSTER, 1, self.MOVED))

        assert answer.error_code == ErrorCode.NONE
        assert (answer.current_leader.leader_id, answer.current_leader.host) == (0, "node-0")
        assert node.quorum.voters.get(1) == self.MOVED

    def test_an_unchanged_registration_is_not_written(self) -> None:
        node = leader()

        assert node.ask(requests.update_voter(CLUSTER, 1, voter(1))).error_code == ErrorCode.NONE
        assert node.all(AppendControls) == []

    def test_refusals(self) -> None:
        node = leader()
        assert node.ask(requests.update_voter(CLUSTER, 0, self.MOVED)).error_code == (
            ErrorCode.FENCED_LEADER_EPOCH
        )
        assert node.ask(requests.update_voter(CLUSTER, 1, voter(9))).error_code == ErrorCode.VOTER_NOT_FOUND
        too_old = replace(voter(1), max_kraft_version=0)
        assert node.ask(requests.update_voter(CLUSTER, 1, too_old)).error_code == ErrorCode.INVALID_REQUEST

    def test_a_voter_that_has_moved_says_so(self) -> None:
        node = NodeUnderTest()
        moved = (*voters(1, 2).voters, replace(voter(0), endpoints=listeners(8)))
        node.quorum._node.history.add(LogControl(-1, VoterSet(moved)))
        node.ask(requests.begin_epoch(CLUSTER, 5, 1, listeners(1), key(0)))

        asked = asks_for(node, UpdateRaftVoterRequest)

        assert asked.request.listeners[0].host == "node-0"


class TestKRaftVersion:
    def test_is_raised_when_all_voters_have_told_of_themselves(self) -> None:
        node = leader(static=True)
        error, _, _ = node.quorum.upgrade_kraft_version(node.now_ms, 1, validate_only=False)
        assert error is ErrorCode.INVALID_UPDATE_VERSION

        for node_id in (1, 2):
            answer = node.ask(requests.update_voter(CLUSTER, 1, voter(node_id)))
            assert answer.error_code == ErrorCode.NONE
        error, _, effects = node.quorum.upgrade_kraft_version(node.now_ms, 1, validate_only=True)
        assert (error, node.quorum.kraft_version) == (ErrorCode.NONE, 0)
        error, _, effects = node.quorum.upgrade_kraft_version(node.now_ms, 1, validate_only=False)
        node.do(effects)

        assert (error, node.quorum.kraft_version) == (ErrorCode.NONE, 1)
        assert node.quorum.voters == voters(0, 1, 2)
        (controls,) = node.all(AppendControls)
        assert [kind for kind, _ in controls.records] == [
            ControlRecordType.KRAFT_VERSION,
            ControlRecordType.KRAFT_VOTERS,
        ]

    def test_is_not_lowered(self) -> None:
        node = leader()

        assert node.quorum.upgrade_kraft_version(node.now_ms, 1, validate_only=False)[0] is ErrorCode.NONE
        error, _, _ = node.quorum.upgrade_kraft_version(node.now_ms, 0, validate_only=False)
        assert error is ErrorCode.INVALID_UPDATE_VERSION

    def test_a_static_voter_tells_the_leader_of_itself_until_it_knows(self) -> None:
        node = NodeUnderTest(static=True)
        node.ask(requests.begin_epoch(CLUSTER, 5, 1, listeners(1), key(0)))

        asked = asks_for(node, UpdateRaftVoterRequest)
        node.answer(asked, UpdateRaftVoterResponse())

        assert asks_for(node, UpdateRaftVoterRequest) is None


def asks_for(node: NodeUnderTest, kind: Any) -> Any:
    """The node's next request of this kind, while its leader answers its fetches; None after a minute."""
    end_ms = node.now_ms + 60_000
    while node.now_ms < end_ms:
        if node.last_fetch is not None:
            node.answer(node.last_fetch, fetch_answer(1, 5))
            if node.sent(kind):
                return node.sent(kind)[0]
        node.after(500)
        if node.sent(kind):
            return node.sent(kind)[0]
    return None


class TestJoiningByItself:
    SETTINGS = replace(SETTINGS, auto_join=True)

    def joining(self, node_id: int, **changes: Any) -> NodeUnderTest:
        node = NodeUnderTest(node_id, settings=replace(self.SETTINGS, **changes))
        node.ask(requests.begin_epoch(CLUSTER, 5, 1, listeners(1), key(node_id)))
        return node

    def test_an_observer_asks_to_be_a_voter(self) -> None:
        asked = asks_for(self.joining(NEW), AddRaftVoterRequest)

        assert (asked.request.voter_id, asked.request.ack_when_committed) == (NEW, False)
        assert asked.to.host == "node-1"

    def test_it_asks_again_while_it_is_none(self) -> None:
        node = self.joining(NEW)
        first = asks_for(node, AddRaftVoterRequest)
        node.answer(first, AddRaftVoterResponse(error_code=ErrorCode.REQUEST_TIMED_OUT))

        assert asks_for(node, AddRaftVoterRequest) is not None

    def test_its_former_self_goes_first(self) -> None:
        node = self.joining(NEW)
        former = replace(voter(NEW), key=key(NEW)._replace(directory_id=key(77).directory_id))
        node.quorum._node.history.add(LogControl(-1, VoterSet((*voters(0, 1, 2).voters, former))))

        asked = asks_for(node, RemoveRaftVoterRequest)

        assert asked.request.voter_directory_id == key(77).directory_id

    def test_not_without_the_setting_and_not_a_broker(self) -> None:
        assert asks_for(self.joining(NEW, auto_join=False), AddRaftVoterRequest) is None
        assert asks_for(self.joining(NEW, may_vote=False), AddRaftVoterRequest) is None
