"""Any interleaving of streams members, topics, time and failing appends keeps the promises of the protocol.

Members are like Kafka's clients: they own the tasks of the last answer, revoke those that it took, and rejoin
when they are fenced. Checked after every step: a task is active at one member at a time, by the coordinator's
state and by the members'; a process has a task in one role; epochs go up; a new coordinator would load the
same durable state. At the end, when appends succeed and all members go on sending heartbeats: the group is
stable, every task is active somewhere, and the group's epoch is that of its assignment.
"""

from __future__ import annotations

import uuid
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

from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.streams.api import CreateInternalTopics, InternalTopicsCreated
from ottla.core.groups.streams.group import StreamsGroup, StreamsGroupState
from ottla.core.groups.streams.tasks import TaskRole
from ottla.core.groups.topics import TopicDescription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    Endpoint,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from ottla.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from support.core.durable_state import streams_groups
from support.core.group_shard import ShardDriver
from support.exploration import examples

GROUP = "app"
SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 6_000
APPEND_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
MUST_REJOIN = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.INVALID_REQUEST,  # A task that a topic with fewer partitions has no longer.
)
SOURCES = ("left", "right")


def topology() -> Topology:
    """Two copartitioned inputs and a repartition topic; a second subtopology counts, with a store."""
    return Topology(
        epoch=0,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=list(SOURCES),
                repartition_sink_topics=["repartition"],
                copartition_groups=[CopartitionGroup(source_topics=[0, 1])],
            ),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name="repartition")],
                state_changelog_topics=[TopicInfo(name="changelog")],
            ),
        ],
    )


@dataclass
class Member:
    """A thread of an application. Its tasks change only with answers, as in Kafka's client."""

    member_id: str
    process_id: str
    has_endpoint: bool
    epoch: int = 0
    active: dict[str, set[int]] = field(default_factory=dict)
    standby: dict[str, set[int]] = field(default_factory=dict)
    running: dict[str, set[int]] = field(default_factory=dict)
    """Its active tasks, and those to revoke that it has not closed yet."""
    waiting: int | None = None
    """The request without an answer: a member sends one at a time."""
    alive: bool = True

    def lose_everything(self) -> None:
        self.epoch, self.active, self.standby, self.running = 0, {}, {}, {}


def task_ids(tasks: dict[str, set[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in tasks if tasks[name]]


class StreamsConversations(RuleBasedStateMachine):
    members = Bundle("members")

    @initialize(
        target=members,
        delay_ms=st.sampled_from([0, 3_000]),
        interval_ms=st.sampled_from([0, 1_000]),
        standbys=st.sampled_from([0, 1, 1]),
        appends_take_time=st.booleans(),
        first_members=st.lists(st.sampled_from("PQR"), max_size=3),
        counts=st.tuples(st.integers(1, 4), st.integers(1, 4)),
        equal=st.sampled_from([True, True, False]),
    )
    def start(
        self,
        delay_ms: int,
        interval_ms: int,
        standbys: int,
        appends_take_time: bool,
        first_members: list[str],
        counts: tuple[int, int],
        equal: bool,
    ) -> MultipleResults[Member]:
        self.driver = ShardDriver(
            GroupSettings(
                streams_initial_rebalance_delay_ms=delay_ms,
                streams_assignment_interval_ms=interval_ms,
                streams_num_standby_replicas=standbys,
                streams_session_timeout_ms=SESSION_TIMEOUT_MS,
            )
        )
        self.everybody: dict[str, Member] = {}
        self.askers: dict[int, Member] = {}
        self.seen = 0
        self.effects_seen = 0
        self.last_epoch = 0
        self.deletion_asked = False
        self.next_topic_id = 1
        self.set_topic("left", counts[0])
        self.set_topic("right", counts[0] if equal else counts[1])
        made = [self.join_anew(process, False) for process in first_members]
        self.the_group_gathers()
        self.driver.hold_appends = appends_take_time
        return multiple(*made)

    # Members

    @rule(target=members, process=st.sampled_from("PQR"), has_endpoint=st.booleans())
    def another_member(self, process: str, has_endpoint: bool) -> Member:
        return self.join_anew(process, has_endpoint)

    def join_anew(self, process: str, has_endpoint: bool) -> Member:
        member = Member(f"m{len(self.everybody)}", process, has_endpoint)
        self.everybody[member.member_id] = member
        self.heartbeat(member, True)
        return member

    @rule(member=members, says_what_it_owns=st.booleans())
    def heartbeat(self, member: Member, says_what_it_owns: bool) -> None:
        if member.waiting is not None or not member.alive:
            return
        joins = member.epoch == 0
        says = joins or says_what_it_owns
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member.member_id,
            member_epoch=member.epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joins else -1,
            topology=topology() if joins else None,
            active_tasks=task_ids(member.running) if says else None,
            standby_tasks=task_ids(member.standby) if says else None,
            warmup_tasks=[] if says else None,
            process_id=member.process_id if joins else None,
            user_endpoint=Endpoint(host=member.member_id, port=80) if joins and member.has_endpoint else None,
        )
        self.send(member, request)

    @rule(member=members)
    def close_what_was_taken(self, member: Member) -> None:
        member.running = {name: set(partitions) for name, partitions in member.active.items()}

    @rule()
    def the_group_gathers(self) -> None:
        """The usual case: topics exist, all members send heartbeats and close revoked tasks."""
        for _ in range(3):
            while self.driver.held:
                self.append_succeeds()
            self.internal_topics_are_created(False)
            self.everybody_sends_a_heartbeat()
            for member in self.everybody.values():
                self.close_what_was_taken(member)
            self.time_passes(1_000)

    @rule()
    def everybody_sends_a_heartbeat(self) -> None:
        for member in list(self.everybody.values()):
            self.heartbeat(member, True)

    @rule(member=members)
    def leave(self, member: Member) -> None:
        if member.waiting is None and member.alive:
            member.lose_everything()
            member.alive = False
            request = StreamsGroupHeartbeatRequest(
                group_id=GROUP, member_id=member.member_id, member_epoch=-1
            )
            self.send(member, request)

    @rule(member=members)
    def crash_and_restart(self, member: Member) -> None:
        """The thread dies with its tasks and begins again under the same id."""
        if member.waiting is None:
            member.alive = True
            member.lose_everything()
            self.heartbeat(member, True)

    @rule(member=members)
    def fall_silent(self, member: Member) -> None:
        """Its session will end, and by then it has stopped its tasks, as a client does."""
        if member.waiting is None:
            member.alive = False
            member.lose_everything()

    # The environment

    @rule(milliseconds=st.sampled_from([1, 500, 1_000, 3_000, REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS + 1]))
    def time_passes(self, milliseconds: int) -> None:
        if milliseconds > SESSION_TIMEOUT_MS / 2:
            for member in self.everybody.values():
                member.lose_everything()  # A client that cannot reach its coordinator gives up first.
        self.driver.advance(milliseconds)
        self.read_answers()

    @rule(name=st.sampled_from(SOURCES), count=st.integers(1, 4))
    def set_topic(self, name: str, count: int) -> None:
        """Create a topic, or add partitions."""
        known = self.driver.topics.named(name)
        if known is None or known.partition_count < count:
            topic_id = uuid.UUID(int=self.next_topic_id) if known is None else known.topic_id
            self.next_topic_id += 1
            racks = (frozenset[str](),) * count
            self.driver.change_topics({name: TopicDescription(topic_id, name, racks)})

    @rule()
    def sources_have_the_same_width(self) -> None:
        count = max((self.width(name) for name in SOURCES), default=1) or 1
        for name in SOURCES:
            self.set_topic(name, count)

    def width(self, name: str) -> int:
        topic = self.driver.topics.named(name)
        return 0 if topic is None else topic.partition_count

    @rule(name=st.sampled_from([*SOURCES, "repartition", "changelog"]))
    def delete_topic(self, name: str) -> None:
        if self.driver.topics.named(name) is not None:
            self.driver.topic_deleted(name)
            self.read_answers()

    @rule(fails=st.booleans())
    def internal_topics_are_created(self, fails: bool) -> None:
        """The shell creates the requested topics."""
        effects = self.driver.other_effects[self.effects_seen :]
        self.effects_seen = len(self.driver.other_effects)
        for effect in effects:
            assert isinstance(effect, CreateInternalTopics)
            names = tuple(topic.name for topic in effect.topics)
            if not fails:
                for topic in effect.topics:
                    self.set_topic(topic.name, topic.partition_count)
            errors = dict.fromkeys(names, "no") if fails else {}
            self.driver.step(InternalTopicsCreated(self.driver.now, effect.group_id, names, errors))

    @precondition(lambda self: self.driver.held)
    @rule()
    def append_succeeds(self) -> None:
        self.driver.append_done()
        self.read_answers()

    @precondition(lambda self: self.driver.held)
    @rule(error=st.sampled_from(APPEND_ERRORS))
    def append_fails(self, error: ErrorCode) -> None:
        self.driver.append_failed(error)
        self.read_answers()

    @rule()
    def group_is_deleted(self) -> None:
        self.driver.send(DeleteGroupsRequest(groups_names=[GROUP]), 2)
        self.deletion_asked = True
        self.read_answers()

    @rule(rarely=st.integers(0, 2))
    def coordinator_changes(self, rarely: int) -> None:
        if not rarely:
            self.driver.reload()
            self.last_epoch = 0
            self.read_answers()

    # Invariants

    @invariant()
    def the_log_says_what_the_shard_believes(self) -> None:
        if hasattr(self, "driver"):
            loaded = self.driver.reloaded_copy()
            assert streams_groups(loaded) == streams_groups(self.driver.shard)

    @invariant()
    def a_task_is_active_at_one_member(self) -> None:
        group = self.group()
        if group is None:
            return
        for (role, task), holders in group._holders.items():
            assert holders <= group.members.keys()
            if role is TaskRole.ACTIVE:
                assert len(holders) == 1, f"{task} is active at {holders}"
        believed: dict[tuple[str, int], str] = {}
        for member in self.everybody.values():
            for name, partitions in member.running.items():
                for partition in partitions:
                    other = believed.setdefault((name, partition), member.member_id)
                    assert other == member.member_id, f"{name}-{partition} runs at {other} and {member}"

    @invariant()
    def a_process_has_a_task_once(self) -> None:
        """At one of its members, which may have it in two roles while it changes from one to the other."""
        group = self.group()
        if group is not None:
            had: dict[tuple[str, object], str] = {}
            for (_, task), holders in group._holders.items():
                for member_id in holders:
                    key = group.members[member_id].process_id, task
                    other = had.setdefault(key, member_id)
                    assert other == member_id, f"{key} at {other} and {member_id}"

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.group()
        if group is not None:
            if group.epoch < self.last_epoch and self.deletion_asked:
                self.deletion_asked, self.last_epoch = False, 0  # another group of the same name
            assert group.epoch >= self.last_epoch or self.driver.held
            self.last_epoch = group.epoch
            assert group.target_epoch <= group.epoch
            assert all(member.epoch <= group.epoch for member in group.members.values())

    @invariant()
    def who_is_silent_is_noticed(self) -> None:
        group = self.group()
        if group is not None and not self.driver.held:
            timers = self.driver.shard._outbox.timers
            deadlines = {(key.kind, key.member_id) for key in timers._deadlines}
            for member_id in group.members:
                assert ("streams-session", member_id) in deadlines

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        self.driver.hold_appends = False
        while self.driver.held:
            self.driver.append_done()
        self.read_answers()
        self.internal_topics_are_created(False)  # Requested when the sources were perhaps wider.
        self.sources_have_the_same_width()
        for name in ("repartition", "changelog"):
            if self.driver.topics.named(name) is not None:
                self.driver.topic_deleted(name)
        living = [member for member in self.everybody.values() if member.alive]
        for _ in range(40):
            self.internal_topics_are_created(False)
            self.everybody_sends_a_heartbeat()
            for member in living:
                self.close_what_was_taken(member)
            self.driver.advance(2_000)
            self.read_answers()
        assert not [member for member in living if member.waiting is not None], "somebody waits for ever"
        group = self.group()
        if living:
            assert group is not None
            assert group.state is StreamsGroupState.STABLE
            assert group.members.keys() == {member.member_id for member in living}
            width = self.width("left")
            for name in ("0", "1"):
                running = [partition for member in living for partition in member.active.get(name, ())]
                assert sorted(running) == list(range(width)), f"tasks of {name}: {running}"
            loads = [sum(map(len, member.active.values())) for member in living]
            assert max(loads) - min(loads) <= max(1, 2 * width)

    # Helpers

    def group(self) -> StreamsGroup | None:
        if not hasattr(self, "driver"):
            return None
        return self.driver.shard._context.streams.get(GROUP)

    def send(self, member: Member, request: StreamsGroupHeartbeatRequest) -> None:
        member.waiting = len(self.driver.requests)
        self.askers[member.waiting] = member
        self.driver.send(request, 0, client_id=member.member_id)
        self.read_answers()

    def read_answers(self) -> None:
        for request_id in self.driver.answered[self.seen :]:
            reply = self.driver.replies[request_id]
            if isinstance(reply, StreamsGroupHeartbeatResponse):
                self.hear(self.askers[request_id], request_id, reply)
                self.a_task_is_active_at_one_member()
        self.seen = len(self.driver.answered)

    def hear(self, member: Member, request_id: int, reply: StreamsGroupHeartbeatResponse) -> None:
        assert member.waiting == request_id
        member.waiting = None
        if not member.alive:
            return
        if reply.error_code in MUST_REJOIN:
            member.lose_everything()
        elif not reply.error_code:
            assert reply.member_epoch > 0
            member.epoch = reply.member_epoch
            if reply.active_tasks is not None:
                member.active = {each.subtopology_id: set(each.partitions) for each in reply.active_tasks}
                for name, partitions in member.active.items():
                    member.running.setdefault(name, set()).update(partitions)
                member.standby = {
                    each.subtopology_id: set(each.partitions) for each in reply.standby_tasks or ()
                }


TestStreamsConversations = StreamsConversations.TestCase
TestStreamsConversations.settings = settings(max_examples=examples(20), stateful_step_count=50, deadline=None)
pytestmark = pytest.mark.filterwarnings("error")
