"""Share groups: members, topics, administrators, failing appends, a failing share coordinator, reloads.

A shard is driven by members that may use any epoch, in any order; its appends and the share coordinator's
answers end when hypothesis says so, with success or not, and another coordinator may load the log at any
moment. Invariants: the log holds the shard's state; epochs only go up; no member is given a partition without
state or of a topic that it does not subscribe to; a new target is balanced; a partition that counts as
initialized has state with the share coordinator; every request is answered. At the end, when everything works
again, every partition with a subscriber is assigned.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.core.coordination.timers import TimerKey
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.share.group import ShareGroup
from ottla.core.groups.share.membership import SESSION_TIMER
from ottla.core.groups.topics import TopicDescription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_groups_response import DeleteGroupsResponse
from ottla.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ottla.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from support.core.durable_state import share_groups
from support.core.share_groups import ShareDriver
from support.exploration import examples

GROUP = "g"
SESSION_TIMEOUT_MS = 45_000
RETRY_INTERVAL_MS = 30_000
HEARTBEAT_INTERVAL_MS = 5_000
APPEND_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
LAPSES_MS = (1, 1_000, HEARTBEAT_INTERVAL_MS, RETRY_INTERVAL_MS, SESSION_TIMEOUT_MS)
TOPICS = ("t", "u")


@dataclass
class Member:
    """A member as it sees itself."""

    member_id: str
    epoch: int = 0
    wants: tuple[str, ...] = ()


class ShareConversations(RuleBasedStateMachine):
    @initialize(
        assignment_interval_ms=st.sampled_from([0, 0, 1_000]),
        max_size=st.sampled_from([2, 200]),
        slowly=st.booleans(),
    )
    def start(self, assignment_interval_ms: int, max_size: int, slowly: bool) -> None:
        self.world = ShareDriver(
            GroupSettings(share_assignment_interval_ms=assignment_interval_ms, share_max_size=max_size)
        )
        self.driver = self.world.shard
        self.members = [Member(f"m{number}") for number in range(4)]
        self.askers: dict[int, Member] = {}
        self.seen = 0
        self.last_epoch = 0
        self.last_target_epoch = -1
        self.world.create_topic("t", 2)
        self.driver.hold_appends = self.world.hold_answers = slowly

    # Members

    @rule(
        who=st.integers(0, 3),
        wants=st.sampled_from([("t",), ("t",), ("u",), ("t", "u"), ("nowhere",)]),
    )
    def join(self, who: int, wants: tuple[str, ...]) -> None:
        self.members[who].wants = wants
        self._heartbeat(self.members[who], 0, wants)

    @rule(who=st.integers(0, 3), off_by=st.sampled_from([0, 0, 0, -1, 1]))
    def heartbeat(self, who: int, off_by: int) -> None:
        self._heartbeat(self.members[who], max(self.members[who].epoch + off_by, 1), None)

    @rule(who=st.integers(0, 3), wants=st.sampled_from([(), ("t",), ("u",), ("t", "u")]))
    def change_subscription(self, who: int, wants: tuple[str, ...]) -> None:
        self.members[who].wants = wants
        self._heartbeat(self.members[who], max(self.members[who].epoch, 1), wants)

    @rule()
    def everybody_heartbeats(self) -> None:
        for member in self.members:
            if member.epoch > 0:
                self._heartbeat(member, member.epoch, None)

    @rule(who=st.integers(0, 3))
    def leave(self, who: int) -> None:
        self._heartbeat(self.members[who], -1, None)

    # Administrators

    @rule(offset=st.integers(0, 9), topic=st.sampled_from([*TOPICS, "nowhere"]))
    def alter_offsets(self, offset: int, topic: str) -> None:
        partitions = [
            AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
            for index in (0, 1, 7)
        ]
        altered = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
        self.world.send(AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[altered]))
        self._read_answers()

    @rule(topic=st.sampled_from(TOPICS))
    def delete_offsets(self, topic: str) -> None:
        deleted = DeleteShareGroupOffsetsRequestTopic(topic_name=topic)
        self.world.send(DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=[deleted]))
        self._read_answers()

    @rule()
    def delete_group(self) -> None:
        self.world.send(DeleteGroupsRequest(groups_names=[GROUP]), 2)
        self._read_answers()

    # Topics

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 5))
    def topic_grows_or_begins(self, name: str, partitions: int) -> None:
        topic = self.driver.topics.named(name)
        if topic is None:
            self.world.create_topic(name, partitions)
        else:
            self.world.set_topic(name, topic.topic_id, max(partitions, topic.partition_count))

    @rule(name=st.sampled_from(TOPICS))
    def topic_ends(self, name: str) -> None:
        if self.driver.topics.named(name) is not None:
            self.world.delete_topic(name)

    # The environment

    @rule(
        milliseconds=st.sampled_from([1, 1_000, HEARTBEAT_INTERVAL_MS, RETRY_INTERVAL_MS, SESSION_TIMEOUT_MS])
    )
    def time_passes(self, milliseconds: int) -> None:
        self.driver.advance(milliseconds)
        self.world.settle()
        self._read_answers()

    @precondition(lambda self: self.driver.held)
    @rule()
    def append_succeeds(self) -> None:
        self.driver.append_done()
        self.world.settle()
        self._read_answers()

    @precondition(lambda self: self.driver.held)
    @rule(error=st.sampled_from(APPEND_ERRORS))
    def append_fails(self, error: ErrorCode) -> None:
        self.driver.append_failed(error)
        self._read_answers()

    @precondition(lambda self: self.world.asks)
    @rule()
    def share_coordinator_answers(self) -> None:
        self.world.answer()
        self._read_answers()

    @precondition(lambda self: self.world.asks)
    @rule(failing=st.sampled_from([{0}, {0, 1, 2, 3, 4}]))
    def share_coordinator_fails(self, failing: set[int]) -> None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.world.answer(lambda _, partition: error if partition in failing else ErrorCode.NONE)
        self._read_answers()

    @rule()
    def everything_goes_through(self) -> None:
        while self.driver.held or self.world.asks:
            if self.driver.held:
                self.driver.append_done()
                self._look_at_epochs()
            else:
                self.world.answer()
        self._read_answers()

    @rule(asks_performed=st.booleans(), rarely=st.integers(0, 2))
    def coordinator_changes(self, asks_performed: bool, rarely: int) -> None:
        if not rarely:
            self.world.lose_asks(asks_performed)
            self.driver.reload()
            self._read_answers()

    # Invariants

    @invariant()
    def the_log_says_what_the_shard_believes(self) -> None:
        if hasattr(self, "world"):
            copy = self.driver.reloaded_copy()
            assert share_groups(copy) == share_groups(self.driver.shard)

    @invariant()
    def epochs_go_up(self) -> None:
        if hasattr(self, "world"):
            self._look_at_epochs()

    def _look_at_epochs(self) -> None:
        group = self._group()
        if group is None:
            self.last_epoch, self.last_target_epoch = 0, -1
            return
        assert group.epoch >= self.last_epoch
        assert group.target_epoch <= group.epoch
        for member in group.members.values():
            assert member.previous_epoch < member.epoch <= group.target_epoch
        self.last_epoch = group.epoch
        if group.target_epoch != self.last_target_epoch:
            self.last_target_epoch = group.target_epoch
            check_target(group)

    @invariant()
    def members_read_what_they_want(self) -> None:
        group = self._group()
        for member in group.members.values() if group is not None else ():
            for topic_id in member.assigned:
                topic = self.driver.topics.with_id(topic_id)
                assert topic is None or topic.name in member.subscribed

    @invariant()
    def what_is_initialized_has_state(self) -> None:
        group = self._group()
        for topic_id, partitions in group.initialized.items() if group is not None else ():
            if self.driver.topics.with_id(topic_id) is not None:
                for partition in partitions:
                    assert (GROUP, topic_id, partition) in self.world.states

    @invariant()
    def the_subscriptions_are_those_of_the_members(self) -> None:
        group = self._group()
        if group is not None:
            wanted = [name for member in group.members.values() for name in member.subscribed]
            assert sorted(group.subscriptions.elements()) == sorted(wanted)

    @invariant()
    def everybody_has_a_session(self) -> None:
        group = self._group()
        timers = self.driver.shard._outbox.timers if hasattr(self, "world") else None
        for member_id in group.members if group is not None else ():
            has_deadline = timers.deadline_of(TimerKey(SESSION_TIMER, GROUP, member_id)) is not None
            # A member whose session ended while another decision was on its way leaves after that.
            assert has_deadline or self.driver.held

    @invariant()
    def every_open_request_is_known(self) -> None:
        if hasattr(self, "world") and not self.driver.held and not self.world.asks:
            assert self.driver.waiting() == []

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.everything_works_again()
        self.every_partition_is_read()
        self.driver.advance(3 * SESSION_TIMEOUT_MS)
        group = self._group()
        assert group is None or not group.members, "silent members stay"
        self.delete_group()
        reply = self.driver.replies[max(self.driver.replies)]
        assert isinstance(reply, DeleteGroupsResponse)
        assert reply.results[0].error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
        assert self._group() is None
        assert not self.world.states, "state that nobody will delete"
        assert self.driver.waiting() == []

    def everything_works_again(self) -> None:
        self.everything_goes_through()
        self.driver.hold_appends = self.world.hold_answers = False
        group = self._group()
        for member in self.members:
            known = group.members.get(member.member_id) if group is not None else None
            member.epoch = known.epoch if known is not None else 0
        # Initialization is retried, topics are checked, targets made and reached.
        for _ in range(12):
            self.driver.advance(HEARTBEAT_INTERVAL_MS)
            self.everybody_heartbeats()

    def every_partition_is_read(self) -> None:
        group = self._group()
        if group is None:
            return
        read: dict[uuid.UUID, set[int]] = {}
        for member in group.members.values():
            assert member.epoch == group.epoch
            for topic_id, partitions in member.assigned.items():
                read.setdefault(topic_id, set()).update(partitions)
        wanted = {name for member in group.members.values() for name in member.subscribed}
        for name in wanted:
            topic: TopicDescription | None = self.driver.topics.named(name)
            if topic is not None:
                assert read.get(topic.topic_id) == set(range(topic.partition_count))

    # Helpers

    def _group(self) -> ShareGroup | None:
        return self.driver.shard._context.share.get(GROUP) if hasattr(self, "world") else None

    def _heartbeat(self, member: Member, epoch: int, wants: tuple[str, ...] | None) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member.member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if wants is None else list(wants),
        )
        self.askers[len(self.driver.requests)] = member
        self.world.send(request, 1, client_id=member.member_id)
        self._read_answers()

    def _read_answers(self) -> None:
        for request_id in self.driver.answered[self.seen :]:
            reply = self.driver.replies[request_id]
            if isinstance(reply, ShareGroupHeartbeatResponse) and not reply.error_code:
                member = self.askers[request_id]
                assert reply.member_id == member.member_id
                member.epoch = max(reply.member_epoch, 0)
        self.seen = len(self.driver.answered)


def check_target(group: ShareGroup) -> None:
    """Check the invariants of a new target."""
    assert group.targets.keys() == group.members.keys()
    initialized = group.initialized
    for target in group.targets.values():
        for topic_id, partitions in target.items():
            assert partitions and partitions <= initialized[topic_id]
    if len({member.subscribed for member in group.members.values()}) == 1:
        sizes = [sum(map(len, target.values())) for target in group.targets.values()]
        assert max(sizes) - min(sizes) <= 1


TestShareConversations = ShareConversations.TestCase
TestShareConversations.settings = settings(max_examples=examples(40), stateful_step_count=50, deadline=None)
pytestmark = pytest.mark.filterwarnings("error")
