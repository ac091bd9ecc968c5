"""Classic groups and committed offsets in conversations: transcripts/ has Apache Kafka's answers."""

from __future__ import annotations

import copy
import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.schema import Message
from support.clients.transcript import Transcript
from support.clients.wire import WireClient, wait_for
from support.servers.cluster import Cluster

Begin = Callable[[str], Transcript]
UNKNOWN_ID = uuid.UUID(int=12345)
NO_ID = uuid.UUID(int=0)


def begin_with_coordinator(transcript: Begin, name: str) -> Transcript:
    """A conversation with a broker that is ready as the coordinator of groups."""
    conversation = transcript(name)

    def ready() -> bool:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[conversation.prefix])
        codes = [c.error_code for c in conversation.wire.call(request, 4).coordinators]
        probe = HeartbeatRequest(group_id=conversation.prefix, generation_id=1, member_id="nobody")
        return codes == [0] and conversation.wire.call(probe, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    wait_for(ready)
    return conversation


def subscription(topic: str) -> bytes:
    """A consumer's metadata.

    Apache Kafka 4.3.1 does not survive other metadata: it allocates as much as the first bytes seem to ask
    for, and the coordinator's thread ends.
    """
    version = 1
    return struct.pack(">h", version) + ConsumerProtocolSubscription(topics=[topic]).encode(version)


class Group:
    """One group as one client sees it; every request and answer is written down."""

    def __init__(
        self, conversation: Transcript, name: str, who: str = "", wire: WireClient | None = None
    ) -> None:
        self.conversation = conversation
        self.name = f"{conversation.prefix}-{name}" if name else ""
        self.topic = conversation.prefix
        self.who = who
        self.wire = wire if wire is not None else conversation.wire
        self._waits = True

    def say(self, request: Message, version: int) -> Any:
        self.conversation.ask(self.who, self.wire, request, version)
        return self.answer() if self._waits else None

    def later(self) -> Group:
        """The same, but a request's answer is waited for by `answer`."""
        other = copy.copy(self)
        other._waits = False
        return other

    def answer(self) -> Any:
        return self.conversation.answer(self.who)

    def join(self, member_id: str = "", *, version: int = 9, **fields: Any) -> Any:
        protocols = fields.pop("protocols", {"range": subscription(self.topic)})
        return self.say(
            JoinGroupRequest(
                group_id=self.name,
                member_id=member_id,
                session_timeout_ms=fields.pop("session_timeout_ms", 60_000),
                rebalance_timeout_ms=fields.pop("rebalance_timeout_ms", 20_000),
                protocol_type=fields.pop("protocol_type", "consumer"),
                protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols.items()],
                **fields,
            ),
            version,
        )

    def sync(
        self,
        member_id: str,
        generation: int,
        assigned: dict[str, bytes] | None = None,
        version: int = 5,
        **fields: Any,
    ) -> Any:
        assignments = [
            SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in (assigned or {}).items()
        ]
        if version >= 5:
            fields = {"protocol_type": "consumer", "protocol_name": "range", **fields}
        request = SyncGroupRequest(
            group_id=self.name,
            generation_id=generation,
            member_id=member_id,
            assignments=assignments,
            **fields,
        )
        return self.say(request, version)

    def heartbeat(self, member_id: str, generation: int, version: int = 4, **fields: Any) -> Any:
        request = HeartbeatRequest(
            group_id=self.name, generation_id=generation, member_id=member_id, **fields
        )
        return self.say(request, version)

    def leave(self, *members: tuple[str, str | None], version: int = 5) -> Any:
        request = LeaveGroupRequest(group_id=self.name)
        if version >= 3:
            request.members = [MemberIdentity(member_id=m, group_instance_id=i) for m, i in members]
        else:
            ((request.member_id, _),) = members
        return self.say(request, version)

    def describe(self, version: int = 6, **fields: Any) -> Any:
        return self.say(DescribeGroupsRequest(groups=[self.name], **fields), version)

    def commit(self, offset: int = 5, *, version: int = 9, **fields: Any) -> Any:
        topic = fields.pop("topic", self.topic)
        partition = OffsetCommitRequestPartition(
            partition_index=fields.pop("partition", 0),
            committed_offset=offset,
            committed_metadata=fields.pop("metadata", "note"),
            committed_leader_epoch=fields.pop("leader_epoch", -1),
        )
        named = {"topic_id": topic} if version >= 10 else {"name": topic}
        topics = [OffsetCommitRequestTopic(**named, partitions=[partition])]
        return self.say(OffsetCommitRequest(group_id=self.name, topics=topics, **fields), version)

    def fetch_offsets(self, asked: dict[Any, list[int]] | None, *, version: int = 9, **fields: Any) -> Any:
        if version < 8:
            topics = [OffsetFetchRequestTopic(name=n, partition_indexes=p) for n, p in (asked or {}).items()]
            request = OffsetFetchRequest(
                group_id=self.name, topics=None if asked is None else topics, **fields
            )
            return self.say(request, version)
        by = "topic_id" if version >= 10 else "name"
        groups_topics = [
            OffsetFetchRequestTopics(**{by: name}, partition_indexes=p) for name, p in (asked or {}).items()
        ]
        group = OffsetFetchRequestGroup(group_id=self.name, topics=None if asked is None else groups_topics)
        return self.say(OffsetFetchRequest(groups=[group], **fields), version)

    def delete_offset(self, topic: str, partition: int = 0) -> Any:
        partitions = [OffsetDeleteRequestPartition(partition_index=partition)]
        topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
        return self.say(OffsetDeleteRequest(group_id=self.name, topics=topics), 0)

    def become_stable(self) -> str:
        """One member joins and assigns itself."""
        member = str(self.join().member_id)
        self.join(member)
        self.sync(member, 1, {member: b"assigned"})
        return member


def test_find_coordinator(transcript: Begin) -> None:
    talk = begin_with_coordinator(transcript, "find_coordinator")
    name = talk.prefix
    for version in range(4):
        talk.say(FindCoordinatorRequest(key=name, key_type=0), version)
    for version in range(4, 7):
        talk.say(FindCoordinatorRequest(key_type=0, coordinator_keys=[name, ""]), version)
    talk.say(FindCoordinatorRequest(key_type=0, coordinator_keys=[]), 4)
    talk.title("kinds of keys that do not exist, or not in this version")
    talk.say(FindCoordinatorRequest(key=name, key_type=9), 3)
    talk.say(FindCoordinatorRequest(key_type=9, coordinator_keys=[name]), 4)
    talk.say(FindCoordinatorRequest(key_type=2, coordinator_keys=[name]), 5)


def test_offsets_of_a_group_without_members(transcript: Begin) -> None:
    talk = begin_with_coordinator(transcript, "offsets")
    topic_id = talk.wire.create_topic(talk.prefix, partitions=2)
    group, both = Group(talk, "simple"), {talk.prefix: [0, 1]}
    talk.title("every version commits")
    for version in range(2, 10):
        group.commit(version=version, offset=version)
    for topic in (topic_id, UNKNOWN_ID, NO_ID):
        group.commit(version=10, topic=topic)
    talk.title("and fetches")
    group.commit(offset=7, leader_epoch=0)
    for version in range(1, 10):
        group.fetch_offsets(both, version=version)
    group.fetch_offsets({topic_id: [0, 5]}, version=10)
    group.fetch_offsets({UNKNOWN_ID: [0]}, version=10)
    talk.title("all offsets")
    for version in range(2, 11):
        group.fetch_offsets(None, version=version)
    talk.title("what is not there")
    group.fetch_offsets({f"{talk.prefix}-not-there": [0]})
    group.fetch_offsets({talk.prefix: [9]})
    group.fetch_offsets({})
    Group(talk, "unknown").fetch_offsets(both)
    Group(talk, "unknown").fetch_offsets(None)
    group.fetch_offsets(both, require_stable=True)
    talk.title("commits that are refused, and odd ones that are not")
    group.commit(topic=f"{talk.prefix}-not-there")
    group.commit(partition=9)
    group.commit(partition=-1)
    group.commit(offset=-1)
    group.commit(metadata=None)
    group.commit(metadata="x" * 4096)
    group.commit(metadata="x" * 4097)
    group.commit(generation_id_or_member_epoch=5, member_id="nobody")
    group.commit(member_id="nobody")
    Group(talk, "unknown").commit(generation_id_or_member_epoch=0, member_id="nobody")
    talk.title("deleting offsets")
    group.delete_offset(f"{talk.prefix}-not-there")
    group.delete_offset(talk.prefix, 9)
    group.delete_offset(talk.prefix)
    group.delete_offset(talk.prefix)
    Group(talk, "unknown").delete_offset(talk.prefix)
    group.fetch_offsets(both)


def test_joining(transcript: Begin) -> None:
    talk = begin_with_coordinator(transcript, "joining")
    talk.wire.create_topic(talk.prefix)
    group = Group(talk, "one")
    talk.title("requests that cannot be served")
    Group(talk, "").join()
    group.join(session_timeout_ms=10)
    group.join(session_timeout_ms=100_000_000)
    group.join(protocols={})
    group.join(protocol_type="")
    group.join("nobody")
    talk.title("a new member is told its id first")
    member = str(group.join().member_id)
    group.describe()
    group.join(member)
    talk.title("it leads generation 1, which waits for its assignment")
    group.describe()
    group.heartbeat(member, 1)
    group.commit(generation_id_or_member_epoch=1, member_id=member)
    talk.title("assignments that are refused")
    group.sync(member, 7)
    group.sync("nobody", 1)
    group.sync(member, 1, protocol_name="other")
    group.sync(member, 1, protocol_type="other")
    talk.title("the right one, and again")
    group.sync(member, 1, {member: b"assigned"})
    group.sync(member, 1)
    talk.title("the group is stable")
    for version in range(7):
        group.describe(version)
    group.describe(include_authorized_operations=True)
    group.heartbeat(member, 1)
    group.commit(generation_id_or_member_epoch=1, member_id=member)
    talk.title("wrong generations, members, instances")
    group.heartbeat(member, 5)
    group.heartbeat(member, 0)
    group.heartbeat("nobody", 1)
    group.heartbeat(member, 1, group_instance_id="instance")
    Group(talk, "unknown").heartbeat(member, 1)
    Group(talk, "").heartbeat(member, 1)
    group.commit(generation_id_or_member_epoch=0, member_id=member)
    group.commit(generation_id_or_member_epoch=1, member_id="nobody")
    group.commit(generation_id_or_member_epoch=1, member_id=member, group_instance_id="instance")
    group.commit()
    talk.title("others must speak the same protocol")
    group.join(protocol_type="connect")
    group.join(protocols={"sticky": subscription(talk.prefix)})
    talk.title("a group in use is not deleted")
    unknown = [f"{talk.prefix}-unknown", ""]
    talk.say(DeleteGroupsRequest(groups_names=[group.name, *unknown]), 2)
    group.delete_offset(talk.prefix)


def test_leaving(transcript: Begin) -> None:
    talk = begin_with_coordinator(transcript, "leaving")
    group = Group(talk, "one")
    member = group.become_stable()
    talk.title("leaving")
    group.leave(("nobody", None))
    group.leave(("nobody", None), version=0)
    Group(talk, "unknown").leave(("nobody", None))
    Group(talk, "").leave(("nobody", None))
    group.leave(("nobody", None), (member, None))
    group.leave((member, None))
    group.leave((member, None), version=2)
    group.leave()
    talk.title("the group is empty, then deleted")
    group.describe()
    talk.say(DeleteGroupsRequest(groups_names=[group.name, group.name]), 2)
    group.describe()
    group.describe(version=5)
    talk.say(DeleteGroupsRequest(groups_names=[group.name]), 0)


def test_the_oldest_versions(transcript: Begin) -> None:
    talk = begin_with_coordinator(transcript, "oldest_versions")
    group = Group(talk, "old")
    # before version 4 a member gets its id and its generation in one step
    member = str(group.join(version=0).member_id)
    group.sync(member, 1, {member: b"assigned"}, version=0)
    group.heartbeat(member, 1, version=0)
    group.describe(version=0)
    group.leave((member, None), version=0)
    group.describe(version=0)
    for version in range(1, 9):
        Group(talk, f"v{version}").join(version=version)


def test_static_members(transcript: Begin) -> None:
    talk = begin_with_coordinator(transcript, "static_members")
    group = Group(talk, "static")
    talk.title("a static member joins in one step")
    first = group.join(group_instance_id="a")
    group.sync(first.member_id, first.generation_id, {first.member_id: b"mine"}, group_instance_id="a")
    talk.title("it comes back under a new member id, without a rebalance")
    second = group.join(group_instance_id="a")
    group.sync(second.member_id, second.generation_id, group_instance_id="a")
    talk.title("the old member id is fenced")
    group.heartbeat(first.member_id, 1, group_instance_id="a")
    group.sync(first.member_id, 1, group_instance_id="a")
    group.join(first.member_id, group_instance_id="a")
    group.heartbeat(second.member_id, 1, group_instance_id="a")
    group.heartbeat(second.member_id, 1, group_instance_id="unknown")
    group.describe()
    talk.title("leaving by instance id")
    group.leave((first.member_id, "a"))
    group.leave(("", "a"))
    group.leave(("", "a"))
    group.describe()


def test_listing(transcript: Begin) -> None:
    talk = begin_with_coordinator(transcript, "listing")
    talk.wire.create_topic(talk.prefix)
    Group(talk, "stable").become_stable()
    Group(talk, "simple").commit()

    def mine(response: Any) -> None:
        response.groups = [group for group in response.groups if group.group_id.startswith(talk.prefix)]

    for version in range(6):
        talk.say(ListGroupsRequest(), version, mine)
    for states in (["Stable"], ["stable"], ["Empty", "Dead"], ["Nonsense"]):
        talk.say(ListGroupsRequest(states_filter=states), 4, mine)
    for types in (["classic"], ["Classic"], ["consumer"]):
        talk.say(ListGroupsRequest(types_filter=types), 5, mine)


class TestSeveralMembers:
    """Clients `a` and `b` on connections of their own."""

    @pytest.fixture
    def connections(self, cluster: Cluster) -> Iterator[tuple[WireClient, WireClient]]:
        with WireClient.connect(cluster.bootstrap) as a, WireClient.connect(cluster.bootstrap) as b:
            yield a, b

    def begin(
        self, transcript: Begin, name: str, connections: tuple[WireClient, WireClient]
    ) -> tuple[Transcript, Group, Group]:
        talk = begin_with_coordinator(transcript, name)
        talk.wire.create_topic(talk.prefix)
        a, b = connections
        return talk, Group(talk, "group", "a", a), Group(talk, "group", "b", b)

    def both_stable(self, a: Group, b: Group, **fields: Any) -> tuple[str, str]:
        """`a` leads generation 2 and has given each member its part."""
        member_a = str(a.join(**fields).member_id)
        a.join(member_a, **fields)
        a.sync(member_a, 1, {member_a: b"all"})
        member_b = str(b.join(**fields).member_id)
        b.later().join(member_b, **fields)
        until_rebalancing(a, member_a, 1)
        a.join(member_a, **fields)
        b.answer()
        b.later().sync(member_b, 2)
        a.sync(member_a, 2, {member_a: b"half", member_b: b"other half"})
        b.answer()
        return member_a, member_b

    def test_second_member(self, transcript: Begin, connections: tuple[WireClient, WireClient]) -> None:
        talk, a, b = self.begin(transcript, "second_member", connections)
        member_a = a.become_stable()
        talk.title("b joins: its answer waits for a, who learns it by its heartbeat")
        member_b = str(b.join().member_id)
        b.later().join(member_b)
        until_rebalancing(a, member_a, 1)
        a.heartbeat(member_a, 1)
        a.describe()
        talk.title("a may still commit for the old generation, but not sync")
        a.commit(generation_id_or_member_epoch=1, member_id=member_a)
        a.sync(member_a, 1)
        talk.title("a joins again: both are answered")
        a.join(member_a)
        b.answer()
        talk.title("nobody has an assignment until the leader gives them")
        b.later().sync(member_b, 2)
        a.heartbeat(member_a, 2)
        a.commit(generation_id_or_member_epoch=2, member_id=member_a)
        a.sync(member_a, 2, {member_a: b"half", member_b: b"other half", "nobody": b"lost"})
        b.answer()
        a.describe()

    def test_joining_again(self, transcript: Begin, connections: tuple[WireClient, WireClient]) -> None:
        talk, a, b = self.begin(transcript, "joining_again", connections)
        member_a, member_b = self.both_stable(a, b)
        talk.title("a follower that comes back unchanged gets what it had")
        b.join(member_b)
        b.sync(member_b, 2)
        talk.title("the leader that comes back begins a generation")
        a.later().join(member_a)
        until_rebalancing(b, member_b, 2)
        b.join(member_b)
        a.answer()
        b.later().sync(member_b, 3)
        a.sync(member_a, 3, {member_a: b"a", member_b: b"b"})
        b.answer()
        talk.title("a follower with other metadata does too")
        changed = {"range": subscription("t" * 13)}
        b.later().join(member_b, protocols=changed)
        until_rebalancing(a, member_a, 3)
        a.join(member_a)
        b.answer()
        talk.title("and while assignments are waited for, coming back unchanged changes nothing")
        b.join(member_b, protocols=changed)
        a.join(member_a)

    def test_a_member_leaves(self, transcript: Begin, connections: tuple[WireClient, WireClient]) -> None:
        talk, a, b = self.begin(transcript, "a_member_leaves", connections)
        member_a, member_b = self.both_stable(a, b)
        talk.title("the leader leaves: the other leads")
        a.leave((member_a, None))
        b.heartbeat(member_b, 2)
        b.join(member_b)
        b.sync(member_b, 3, {member_b: b"all"})
        a.heartbeat(member_a, 2)
        a.commit(generation_id_or_member_epoch=2, member_id=member_a)
        talk.title("the last one leaves")
        b.leave((member_b, None))
        b.describe()

    def test_slow_member(self, transcript: Begin, connections: tuple[WireClient, WireClient]) -> None:
        talk, a, b = self.begin(transcript, "slow_member", connections)
        quick = {"rebalance_timeout_ms": 500}
        member_a, member_b = self.both_stable(a, b, **quick)
        talk.title("b does not come to the rebalance in time: it is out")
        a.later().join(member_a, **quick)
        a.answer()
        b.heartbeat(member_b, 2)
        b.join(member_b, **quick)
        a.sync(member_a, 3, {member_a: b"all"})
        a.describe()

    def test_slow_leader(self, transcript: Begin, connections: tuple[WireClient, WireClient]) -> None:
        talk, a, _ = self.begin(transcript, "slow_leader", connections)
        quick = {"rebalance_timeout_ms": 500}
        member_a = str(a.join(**quick).member_id)
        a.join(member_a, **quick)
        talk.title("the leader never assigns: it is out, the group empty")
        wait_until_empty(a)
        a.sync(member_a, 1, {member_a: b"late"})
        a.describe()

    def test_protocol_that_all_know(
        self, transcript: Begin, connections: tuple[WireClient, WireClient]
    ) -> None:
        talk, a, b = self.begin(transcript, "protocol_that_all_know", connections)
        metadata = subscription(talk.prefix)
        all_three = {"range": metadata, "sticky": metadata, "roundrobin": metadata}
        one_less = {"roundrobin": metadata, "sticky": metadata}
        member_a = str(a.join(protocols=all_three).member_id)
        a.join(member_a, protocols=all_three)
        a.sync(member_a, 1, {member_a: b"all"})
        talk.title("b does not know range; of the others each votes for its first")
        member_b = str(b.join(protocols=one_less).member_id)
        b.later().join(member_b, protocols=one_less)
        until_rebalancing(a, member_a, 1)
        a.join(member_a, protocols=all_three)
        b.answer()
        talk.title("who knows neither is refused")
        Group(talk, "group").join(protocols={"range": metadata})

    def test_static_member_in_a_rebalance(
        self, transcript: Begin, connections: tuple[WireClient, WireClient]
    ) -> None:
        talk, a, b = self.begin(transcript, "static_member_in_a_rebalance", connections)
        first = a.join(group_instance_id="a")
        a.sync(first.member_id, 1, {first.member_id: b"all"}, group_instance_id="a")
        talk.title("b joins, and a is restarted meanwhile")
        b.later().join(group_instance_id="b")
        until_rebalancing(a, first.member_id, 1, group_instance_id="a")
        restarted = a.join(group_instance_id="a")
        b.answer()
        a.heartbeat(first.member_id, 2, group_instance_id="a")
        a.heartbeat(restarted.member_id, 2, group_instance_id="a")
        a.describe()


def until_rebalancing(group: Group, member_id: str, generation: int, **fields: Any) -> None:
    """Heartbeats, not written down, until the group has begun to rebalance."""
    request = HeartbeatRequest(group_id=group.name, generation_id=generation, member_id=member_id, **fields)
    wait_for(lambda: group.wire.call(request, 4).error_code == ErrorCode.REBALANCE_IN_PROGRESS)


def wait_until_empty(group: Group) -> None:
    request = DescribeGroupsRequest(groups=[group.name])
    wait_for(lambda: group.wire.call(request, 5).groups[0].members == [])
