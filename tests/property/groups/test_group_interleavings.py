"""Any interleaving of clients, time and failing appends keeps the promises of the group protocol.

Checked after every step: no request is answered twice; a generation has one leader, which is a member of it;
a group's generations go up while one coordinator has it; an acknowledged commit is never lost; a new
coordinator would load the same durable state; the groups' own bookkeeping is consistent. At the end: once
appends succeed and time passes, no request waits any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from ottla.core.coordination.timers import TimerKey
from ottla.core.groups.classic.group import ClassicGroup, GroupState
from ottla.core.groups.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from support.core.durable_state import classic_state
from support.core.group_shard import ShardDriver
from support.exploration import examples

GROUP = "g"
SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 30_000
LONGER_THAN_ANY_DEADLINE_MS = 4 * (300_000 + REBALANCE_TIMEOUT_MS + SESSION_TIMEOUT_MS)
APPEND_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@dataclass
class Consumer:
    """A client as the coordinator sees it; it may use outdated ids and generations."""

    name: str
    instance_id: str | None
    version: int
    member_id: str = ""
    generation: int = -1
    is_leader: bool = False
    members: list[str] = field(default_factory=list)


class Conversations(RuleBasedStateMachine):
    consumers = Bundle("consumers")

    @initialize(
        target=consumers,
        delay_ms=st.sampled_from([0, 3_000]),
        max_size=st.sampled_from([2, 100, 100]),
        appends_take_time=st.booleans(),
        first_members=st.lists(st.sampled_from([None, "i1", "i2"]), max_size=3, unique_by=lambda name: name),
    )
    def start(
        self, delay_ms: int, max_size: int, appends_take_time: bool, first_members: list[str | None]
    ) -> MultipleResults[Consumer]:
        self.driver = ShardDriver(GroupSettings(initial_rebalance_delay_ms=delay_ms, max_size=max_size))
        self.askers: dict[int, Consumer] = {}
        self.everybody: list[Consumer] = []
        self.seen = 0
        self.last_generation = 0
        self.sent_commits: dict[int, int] = {}
        """request id -> the offset that it commits"""
        self.acknowledged = -1
        """The largest acknowledged offset of the commits since the group was last deleted."""
        self.next_offset = 0
        self.deleted_up_to = 0
        """Commits that were sent before a deletion may be deleted by it, whenever they are acknowledged."""
        made = [self._consumer(name, 9) for name in first_members]
        self.the_group_gathers()
        self.driver.hold_appends = appends_take_time
        return multiple(*made)

    # Clients

    @rule(
        target=consumers,
        instance_id=st.sampled_from([None, None, "i1", "i2"]),
        version=st.sampled_from([0, 3, 4, 8, 9]),
    )
    def another_consumer(self, instance_id: str | None, version: int) -> Consumer:
        return self._consumer(instance_id, version)

    def _consumer(self, instance_id: str | None, version: int) -> Consumer:
        name = f"c{len(self.everybody)}" if instance_id is None else instance_id
        who = Consumer(name, instance_id, max(version, 8) if instance_id else version)
        self.everybody.append(who)
        return who

    @rule(who=consumers)
    def restart(self, who: Consumer) -> None:
        who.member_id = ""
        self.join(who, "ra")

    @rule(who=consumers, protocols=st.sampled_from(["ra", "ra", "ar", "r", "a"]))
    def join(self, who: Consumer, protocols: str) -> None:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=who.member_id,
            group_instance_id=who.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=b"") for name in protocols],
        )
        self._send(who, request, who.version)

    @rule(who=consumers)
    def sync(self, who: Consumer) -> None:
        assignments = [
            SyncGroupRequestAssignment(member_id=member, assignment=f"{who.generation}:{member}".encode())
            for member in (who.members if who.is_leader else [])
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=who.generation,
            member_id=who.member_id,
            group_instance_id=who.instance_id,
            assignments=assignments,
        )
        self._send(who, request, 5)

    @rule()
    def everybody_joins(self) -> None:
        for who in self.everybody:
            self.join(who, "ra")
            if who.version >= 4 and who.instance_id is None:
                self.join(who, "ra")

    @rule()
    def the_group_gathers(self) -> None:
        self.everybody_joins()
        self.time_passes(3_000)
        self.everybody_joins()

    @rule()
    def everybody_syncs(self) -> None:
        for who in self.everybody:
            self.sync(who)

    @rule()
    def followers_sync(self) -> None:
        for who in self.everybody:
            if not who.is_leader:
                self.sync(who)

    @rule(who=consumers)
    def heartbeat(self, who: Consumer) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=who.generation,
            member_id=who.member_id,
            group_instance_id=who.instance_id,
        )
        request_id = self._send(who, request, 4)
        assert isinstance(self.driver.replies[request_id], HeartbeatResponse), "heartbeats never wait"

    @rule(who=consumers, by_instance=st.booleans())
    def leave(self, who: Consumer, by_instance: bool) -> None:
        member_id = "" if by_instance else who.member_id
        leaver = MemberIdentity(member_id=member_id, group_instance_id=who.instance_id)
        self._send(who, LeaveGroupRequest(group_id=GROUP, members=[leaver]), 5)

    @rule(who=consumers, as_member=st.booleans())
    def commit(self, who: Consumer, as_member: bool) -> None:
        self.next_offset += 1
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=self.next_offset)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=who.generation if as_member else -1,
            member_id=who.member_id if as_member else "",
            group_instance_id=who.instance_id if as_member else None,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        self.sent_commits[len(self.driver.requests)] = self.next_offset
        self._send(who, request, 9)

    # The environment

    @rule(milliseconds=st.sampled_from([1, 1_000, 5_000, SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS]))
    def time_passes(self, milliseconds: int) -> None:
        self.driver.advance(milliseconds)
        self._read_answers()

    @precondition(lambda self: self.driver.held)
    @rule()
    def append_succeeds(self) -> None:
        self.driver.append_done()
        self._read_answers()

    @precondition(lambda self: self.driver.held)
    @rule()
    def all_appends_succeed(self) -> None:
        while self.driver.held:
            self.driver.append_done()
        self._read_answers()

    @precondition(lambda self: self.driver.held)
    @rule(error=st.sampled_from(APPEND_ERRORS))
    def append_fails(self, error: ErrorCode) -> None:
        self.driver.append_failed(error)
        self._read_answers()

    @rule()
    def group_is_deleted(self) -> None:
        request_id = self._send(Consumer("admin", None, 2), DeleteGroupsRequest(groups_names=[GROUP]), 2)
        reply = self.driver.replies.get(request_id)
        if reply is None or not reply.results[0].error_code:
            self.acknowledged = -1
            self.deleted_up_to = self.next_offset
            self._new_incarnation()

    @rule(rarely=st.integers(0, 2))
    def coordinator_changes(self, rarely: int) -> None:
        if rarely:
            return
        self.driver.reload()
        self._new_incarnation()
        self._read_answers()

    def _new_incarnation(self) -> None:
        """From now on generations may begin at 1 again."""
        self.last_generation = 0

    # Invariants

    @invariant()
    def the_log_says_what_the_shard_believes(self) -> None:
        if hasattr(self, "driver"):
            assert classic_state(self.driver.reloaded_copy()) == classic_state(self.driver.shard)

    @invariant()
    def acknowledged_commits_are_there(self) -> None:
        if not hasattr(self, "driver"):
            return
        offsets = classic_state(self.driver.shard)[1]
        committed = offsets.get(GROUP, {}).get("t", {}).get(0)
        if self.acknowledged >= 0:
            assert committed is not None
            assert committed.offset >= self.acknowledged

    @invariant()
    def the_group_is_consistent(self) -> None:
        if hasattr(self, "driver"):
            for group in self.driver.shard.groups.values():
                check_group(group, self.driver)

    @invariant()
    def every_open_request_is_known(self) -> None:
        """A request without an answer waits for the group's next step, or for an append."""
        if not hasattr(self, "driver") or self.driver.held:
            return
        parked: set[int] = set()
        for group in self.driver.shard.groups.values():
            parked.update(group.waiting_joins.values(), group.waiting_syncs.values())
        assert set(self.driver.waiting()) == parked

    @invariant()
    def generations_go_up(self) -> None:
        group = self.driver.shard.groups.get(GROUP) if hasattr(self, "driver") else None
        generation = 0 if group is None else group.generation
        assert generation >= self.last_generation or generation == 0
        self.last_generation = generation

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        self.driver.hold_appends = False
        while self.driver.held:
            self.driver.append_done()
        self.driver.advance(LONGER_THAN_ANY_DEADLINE_MS)
        assert self.driver.waiting() == [], "somebody would wait for ever"

    # Helpers

    def _send(self, who: Consumer, request: object, version: int) -> int:
        self.askers[len(self.driver.requests)] = who
        request_id = self.driver.send(request, version, client_id=who.name)
        self._read_answers()
        return request_id

    def _read_answers(self) -> None:
        leaders: dict[int, str] = {}
        for request_id in self.driver.answered[self.seen :]:
            who, reply = self.askers[request_id], self.driver.replies[request_id]
            match reply:
                case JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED):
                    assert who.version >= 4 and who.instance_id is None
                    who.member_id = reply.member_id
                case JoinGroupResponse(error_code=ErrorCode.NONE):
                    self._joined(who, reply)
                    # Before version 9 a restarted static leader is told that its old id leads.
                    if who.instance_id is None or who.version >= 9:
                        leader = leaders.setdefault(reply.generation_id, reply.leader)
                        assert reply.leader == leader, "everybody is told of the same leader"
                case SyncGroupResponse(error_code=ErrorCode.NONE) if reply.assignment:
                    generation, _, _ = bytes(reply.assignment).decode().partition(":")
                    asked = self.driver.requests[request_id]
                    assert asked.generation_id == int(generation), (
                        "the assignment is of the generation asked for"
                    )
                case OffsetCommitResponse():
                    offset = self.sent_commits[request_id]
                    if not reply.topics[0].partitions[0].error_code and offset > self.deleted_up_to:
                        self.acknowledged = max(self.acknowledged, offset)
        self.seen = len(self.driver.answered)

    def _joined(self, who: Consumer, reply: JoinGroupResponse) -> None:
        who.member_id, who.generation = reply.member_id, reply.generation_id
        who.is_leader = reply.leader == reply.member_id
        who.members = [each.member_id for each in reply.members]
        if who.is_leader:
            assert reply.member_id in who.members, "the leader is one of the members"
        else:
            assert not who.members, "only the leader is told who the members are"


def check_group(group: ClassicGroup, driver: ShardDriver) -> None:
    """Check the invariants of a group."""
    members, timers = group.members, driver.shard._outbox.timers
    assert set(group.static_members.values()) == {
        member.member_id for member in members.values() if member.group_instance_id is not None
    }
    assert (group.leader in members) == bool(members)
    assert group.waiting_joins.keys() <= members.keys()
    assert group.waiting_syncs.keys() <= members.keys()
    assert group.pending_syncs <= members.keys()
    assert not group.pending_joins & members.keys()
    match group.state:
        case GroupState.EMPTY | GroupState.DEAD:
            assert not members
        case GroupState.PREPARING_REBALANCE:
            assert not group.waiting_syncs
            assert timers.deadline_of(TimerKey("join", group.group_id)) is not None
        case GroupState.COMPLETING_REBALANCE:
            assert members and not group.waiting_joins
            if group.pending_syncs:
                assert timers.deadline_of(TimerKey("sync", group.group_id)) is not None
        case GroupState.STABLE:
            assert members and not group.waiting_syncs
    for member_id in [*members, *group.pending_joins]:
        has_deadline = timers.deadline_of(TimerKey("session", group.group_id, member_id)) is not None
        assert has_deadline or group.is_waiting(member_id), f"nobody would notice that {member_id} is gone"


TestConversations = Conversations.TestCase
TestConversations.settings = settings(max_examples=examples(100), stateful_step_count=50, deadline=None)
pytestmark = pytest.mark.filterwarnings("error")
