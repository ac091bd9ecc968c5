"""Any interleaving of KIP-848 members, classic ones among them, keeps the promises of consumer groups.

Checked after every step: no request is answered twice; a partition has one owner at a time, and no client
that is still a member uses a partition that it has not been given (invariant 11); an empty group's target is
not behind its epoch; a new coordinator would load the same state. At the end: once appends succeed and the
remaining members go on, all requests are answered, the group is stable and every partition is assigned.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.core.groups.api import TopicsChanged
from ottla.core.groups.consumer.group import ConsumerGroup, ConsumerGroupState, partitions_of
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.topics import TopicDescription, TopicsView
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from ottla.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.records.consumer_protocol_assignment import TopicPartition as AssignedTopic
from ottla.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from support.core.durable_state import classic_state, consumer_groups
from support.core.group_shard import ShardDriver
from support.exploration import examples

GROUP = "g"
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 30_000
HEARTBEAT_INTERVAL_MS = 3_000
APPEND_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE)
MUST_REJOIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
SUBSCRIPTIONS = (["a"], ["a", "b"], ["b"], ["a", "b", "c"], [])
REGEXES = ("[ab]", "c?", "")


@dataclass
class Client:
    """A consumer; `owned` are the partitions that it uses.
    It sends one request at a time, as real clients do.
    """

    name: str
    instance_id: str | None = None
    is_classic: bool = False
    topics: list[str] = field(default_factory=lambda: ["a", "b"])
    regex: str = ""
    member_id: str = ""
    epoch: int = 0
    owned: set[tuple[uuid.UUID, int]] = field(default_factory=set)
    waits_for: int | None = None
    is_gone: bool = False
    must_join: bool = True
    must_sync: bool = False
    says_everything: bool = False
    """Set after an error, as by real clients: the lost answer may have had the assignment."""

    def forget(self) -> None:
        """Fenced: drop everything and join again."""
        self.epoch, self.owned, self.must_join, self.must_sync = 0, set(), True, False


class Conversations(RuleBasedStateMachine):
    @initialize(
        appends_take_time=st.booleans(),
        interval_ms=st.sampled_from([0, 1_000]),
        assignor=st.sampled_from([("uniform", "range"), ("range",)]),
        max_size=st.sampled_from([3, 100, 100]),
        members=st.integers(0, 3),
        classic=st.booleans(),
    )
    def start(
        self,
        appends_take_time: bool,
        interval_ms: int,
        assignor: tuple[str, ...],
        max_size: int,
        members: int,
        classic: bool,
    ) -> None:
        chosen = GroupSettings(
            initial_rebalance_delay_ms=0,
            consumer_assignment_interval_ms=interval_ms,
            consumer_assignors=assignor,
            consumer_max_size=max_size,
        )
        self.driver = ShardDriver(chosen)
        self.clients: list[Client] = []
        self.askers: dict[int, Client] = {}
        self.seen = 0
        self.topics: dict[str, TopicDescription] = {}
        self.made_topics = 0
        self.set_topic("a", 4)
        self.set_topic("b", 3)
        for _ in range(members):
            self.another_client(None, classic)
        self.everybody_acts()
        self.everybody_acts()
        self.driver.hold_appends = appends_take_time

    # The topics

    def set_topic(self, name: str, partitions: int, anew: bool = True) -> None:
        known = self.topics.get(name)
        if known is None or anew:
            self.made_topics += 1
            topic_id = uuid.UUID(int=self.made_topics)
        else:
            topic_id = known.topic_id
            partitions = max(partitions, known.partition_count)
        self.topics[name] = TopicDescription(topic_id, name, (frozenset(),) * partitions)
        self._topics_changed(name)

    def _topics_changed(self, *names: str) -> None:
        self.driver.step(TopicsChanged(self.driver.now, TopicsView(self.topics), frozenset(names)))

    @rule(name=st.sampled_from("abc"), partitions=st.integers(1, 6), anew=st.booleans())
    def topic_changes(self, name: str, partitions: int, anew: bool) -> None:
        self.set_topic(name, partitions, anew)

    @rule(name=st.sampled_from("abc"))
    def topic_goes(self, name: str) -> None:
        if self.topics.pop(name, None) is not None:
            self._topics_changed(name)

    # The clients

    @rule(instance_id=st.sampled_from([None, None, "i1", "i2"]), classic=st.booleans())
    def another_client(self, instance_id: str | None, classic: bool) -> None:
        if len(self.clients) < 12:
            name = f"m{len(self.clients)}"
            self.clients.append(Client(name, instance_id, classic, member_id="" if classic else name))

    @rule(which=st.integers(0, 11))
    def acts(self, which: int) -> None:
        if which < len(self.clients):
            self._act(self.clients[which])

    @rule()
    def everybody_acts(self) -> None:
        for client in self.clients:
            self._act(client)

    @rule(which=st.integers(0, 11), topics=st.sampled_from(SUBSCRIPTIONS), regex=st.sampled_from(REGEXES))
    def subscribes(self, which: int, topics: list[str], regex: str) -> None:
        if which < len(self.clients):
            client = self.clients[which]
            if client.is_gone or client.waits_for is not None:
                return
            client.topics, client.regex = topics, "" if client.is_classic else regex
            if client.is_classic:
                client.must_join = True
            elif client.epoch > 0:
                self._heartbeat(client, says_everything=True)

    @rule(which=st.integers(0, 11), comes_back=st.booleans())
    def leaves(self, which: int, comes_back: bool) -> None:
        if which >= len(self.clients):
            return
        client = self.clients[which]
        if client.is_gone or client.waits_for is not None or client.epoch <= 0 or not client.member_id:
            return
        client.is_gone, client.owned = True, set()
        if client.is_classic:
            identity = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)
            self._send(client, LeaveGroupRequest(group_id=GROUP, members=[identity]), 5)
            return
        pauses = comes_back and client.instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=-2 if pauses else -1,
            instance_id=client.instance_id,
        )
        self._send(client, request, 1)

    @rule(which=st.integers(0, 11))
    def dies(self, which: int) -> None:
        if which < len(self.clients):
            self.clients[which].is_gone = True
            self.clients[which].owned = set()

    def _act(self, client: Client) -> None:
        if client.is_gone or client.waits_for is not None:
            return
        if not client.is_classic:
            self._heartbeat(client, says_everything=client.says_everything)
        elif client.must_sync:
            self._sync(client)
        elif client.must_join or client.epoch <= 0:
            self._join(client)
        else:
            request = HeartbeatRequest(
                group_id=GROUP,
                generation_id=client.epoch,
                member_id=client.member_id,
                group_instance_id=client.instance_id,
            )
            self._send(client, request, 4)

    def _heartbeat(self, client: Client, says_everything: bool) -> None:
        joins = client.epoch == 0
        owned: dict[uuid.UUID, list[int]] = {}
        for topic_id, partition in sorted(client.owned):
            owned.setdefault(topic_id, []).append(partition)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=client.epoch,
            instance_id=client.instance_id,
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in owned.items()
            ],
        )
        if joins or says_everything:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = client.topics
            request.subscribed_topic_regex = client.regex
        self._send(client, request, 1)

    def _join(self, client: Client) -> None:
        names = {topic.topic_id: name for name, topic in self.topics.items()}
        owned: dict[str, list[int]] = {}
        for topic_id, partition in sorted(client.owned):
            if topic_id in names:
                owned.setdefault(names[topic_id], []).append(partition)
        subscription = ConsumerProtocolSubscription(
            topics=client.topics,
            owned_partitions=[TopicPartition(topic=name, partitions=of) for name, of in owned.items()],
            generation_id=client.epoch,
        )
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name="cooperative", metadata=b"\x00\x03" + subscription.encode(3))
            ],
        )
        self._send(client, request, 9)

    def _sync(self, client: Client) -> None:
        body = ConsumerProtocolAssignment(
            assigned_partitions=[
                AssignedTopic(topic=name, partitions=list(range(topic.partition_count)))
                for name, topic in self.topics.items()
                if name in client.topics
            ]
        )
        assignments = [
            # A leader that assigns everything to itself: the classic group's assignment is not tested here.
            SyncGroupRequestAssignment(member_id=client.member_id, assignment=b"\x00\x03" + body.encode(3))
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=client.epoch,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            assignments=assignments,
        )
        self._send(client, request, 5)

    def _send(self, client: Client, request: object, version: int) -> None:
        client.waits_for = len(self.driver.requests)
        self.askers[client.waits_for] = client
        self.driver.send(request, version, client_id=client.name)  # type: ignore[arg-type]
        self._read_answers()

    # The answers

    def _read_answers(self) -> None:
        for request_id in self.driver.answered[self.seen :]:
            client = self.askers.get(request_id)
            if client is None or client.waits_for != request_id:
                continue
            client.waits_for = None
            self._take(client, self.driver.replies[request_id])
        self.seen = len(self.driver.answered)

    def _take(self, client: Client, reply: object) -> None:
        if client.is_gone:
            return
        error = getattr(reply, "error_code", 0)
        if error in MUST_REJOIN or error == ErrorCode.FENCED_INSTANCE_ID:
            client.is_gone = error == ErrorCode.FENCED_INSTANCE_ID
            client.forget()
            if client.is_classic:
                client.member_id = ""
            return
        match reply:
            case ConsumerGroupHeartbeatResponse() if error == ErrorCode.GROUP_MAX_SIZE_REACHED:
                client.forget()  # answered to any id that is not a member, at any epoch, as by Kafka
            case ConsumerGroupHeartbeatResponse() if error:
                client.says_everything = True
            case ConsumerGroupHeartbeatResponse():
                client.says_everything = False
                client.epoch = reply.member_epoch
                if reply.assignment is not None:
                    client.owned = {
                        (topic.topic_id, partition)
                        for topic in reply.assignment.topic_partitions
                        for partition in topic.partitions
                    }
            case JoinGroupResponse():
                if error == ErrorCode.MEMBER_ID_REQUIRED or not error:
                    client.member_id = reply.member_id
                if not error:
                    client.epoch, client.must_join, client.must_sync = reply.generation_id, False, True
            case SyncGroupResponse():
                client.must_sync = False
                if error:
                    client.must_join = True
                else:
                    self._take_assignment(client, reply.assignment)
            case HeartbeatResponse() if error:
                client.must_join = True
                if error == ErrorCode.ILLEGAL_GENERATION:
                    client.owned = set()

    def _take_assignment(self, client: Client, data: bytes) -> None:
        assigned = set()
        if data:
            for topic in ConsumerProtocolAssignment.decode(data, 3, 2).assigned_partitions:
                if topic.topic in self.topics:
                    topic_id = self.topics[topic.topic].topic_id
                    assigned |= {(topic_id, partition) for partition in topic.partitions}
        # Cooperative: partitions to revoke are revoked, and left out of the next join.
        client.must_join = bool(client.owned - assigned)
        client.owned = assigned

    # The environment

    @rule(milliseconds=st.sampled_from([1, 1_000, 10_001, REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS]))
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
    def another_coordinator_loads_the_log(self) -> None:
        self.driver.reload()
        self._topics_changed(*self.topics)
        self._read_answers()

    @rule()
    def an_administrator_deletes_the_group(self) -> None:
        self.driver.send(DeleteGroupsRequest(groups_names=[GROUP]), 2)
        self._read_answers()

    # Invariants

    @property
    def group(self) -> ConsumerGroup | None:
        return self.driver.shard._context.consumer.get(GROUP)

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        group = self.group
        if group is None:
            return
        owners: dict[tuple[uuid.UUID, int], str] = {}
        for member in group.members.values():
            for partition in partitions_of(member.assigned, member.revoking):
                assert partition not in owners, f"{partition} of {owners[partition]} and {member.member_id}"
                owners[partition] = member.member_id
        assert group._owners == owners

    @invariant()
    def clients_have_only_what_they_were_given(self) -> None:
        group = self.group
        if group is None:
            return
        for client in self.clients:
            member = group.members.get(client.member_id)
            if member is None or client.is_gone or client.is_classic != member.uses_classic_protocol:
                continue
            if client.is_classic and (client.epoch != member.epoch or client.must_join or client.must_sync):
                continue  # A member that came from the classic group knows only the names of topics.
            given = set(partitions_of(member.assigned, member.revoking))
            known = {topic.topic_id for topic in self.topics.values()}
            believed = {partition for partition in client.owned if partition[0] in known}
            if not client.is_classic:
                assert believed <= given, f"{client} has {believed - given}"

    @invariant()
    def an_empty_group_is_not_behind(self) -> None:
        if self.group is not None and not self.group.members:
            assert self.group.epoch == self.group.target_epoch

    @invariant()
    def the_log_says_the_same(self) -> None:
        copy = self.driver.reloaded_copy()
        assert consumer_groups(copy) == consumer_groups(self.driver.shard)
        assert classic_state(copy) == classic_state(self.driver.shard)
        assert not set(self.driver.shard._context.consumer) & set(self.driver.shard.groups)

    # The end

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        self.driver.hold_appends = False
        self.all_appends_succeed()
        for client in self.clients:
            if client.is_classic:
                client.is_gone = True
        for _ in range(60):
            self.time_passes(HEARTBEAT_INTERVAL_MS)
            self.everybody_acts()
            self.a_partition_has_one_owner()
        assert not self.driver.waiting(), "everybody is answered"
        group = self.group
        here = [client for client in self.clients if not client.is_gone and client.epoch > 0]
        if group is None or not here:
            return
        assert group.state is ConsumerGroupState.STABLE, {m.member_id: m for m in group.members.values()}
        assert {client.member_id for client in here} == set(group.members)
        wanted = {
            topic.topic_id: topic.partition_count
            for name in group.subscribed_topics
            if (topic := self.topics.get(name)) is not None
        }
        owned = [partition for client in here for partition in client.owned]
        assert sorted(owned) == sorted(
            (topic_id, partition) for topic_id, count in wanted.items() for partition in range(count)
        )


ConsumerGroupInterleavings = Conversations.TestCase
ConsumerGroupInterleavings.settings = settings(
    max_examples=examples(20), stateful_step_count=40, deadline=None
)
ConsumerGroupInterleavings.pytestmark = [pytest.mark.timeout(600)]  # type: ignore[attr-defined]
