"""Consumer groups of KIP-848 by hand: the answers to members and administrators, beside Apache Kafka's."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
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
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.records.consumer_protocol_assignment import TopicPartition as AssignedTopic
from ottla.protocol.records.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from support.clients.transcript import Transcript
from support.clients.wire import wait_for

GROUP_RESOURCE = 32
SET = 0
Begin = Callable[[str], Transcript]
NO_ID = uuid.UUID(int=0)


class Conversation:
    """A conversation about one group and the topic t with four partitions."""

    def __init__(self, transcript: Begin, name: str, partitions: int = 4) -> None:
        self.told = transcript(name)
        self.wire = self.told.wire
        self.group, self.topic = f"{self.told.prefix}-group", f"{self.told.prefix}-t"
        self.wire.create_topic(self.topic, partitions=partitions)
        self.topic_id = NO_ID
        wait_for(self._ready)
        self.configure({"consumer.assignment.interval.ms": "0"})

    def configure(self, configs: dict[str, str]) -> None:
        """Give the group configs of its own; not part of the conversation."""
        changes = [
            AlterableConfig(name=name, config_operation=SET, value=value) for name, value in configs.items()
        ]
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=self.group, configs=changes
        )
        answer = self.wire.call(IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == ErrorCode.NONE

    def _ready(self) -> bool:
        found = self.wire.call(FindCoordinatorRequest(coordinator_keys=[self.group])).coordinators[0]
        probe = HeartbeatRequest(group_id=self.group, generation_id=1, member_id="nobody")
        return (
            found.error_code == ErrorCode.NONE
            and self.wire.call(probe, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        )

    def beat(self, member: str, epoch: int, version: int = 1, **fields: Any) -> Any:
        """A heartbeat; one that joins has all fields."""
        if epoch == 0:
            fields = {
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": [self.topic],
                "topic_partitions": [],
                **fields,
            }
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group_id", self.group), member_id=member, member_epoch=epoch, **fields
        )
        answer = self.told.say(request, version, keep=_sorted_partitions)
        if getattr(answer, "assignment", None) and answer.assignment.topic_partitions:
            self.topic_id = answer.assignment.topic_partitions[0].topic_id
        return answer

    def owns(self, *partitions: int) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=self.topic_id, partitions=list(partitions))] if partitions else []

    def describe(self, *groups: str) -> None:
        self.told.say(ConsumerGroupDescribeRequest(group_ids=[*groups] or [self.group]), keep=_sorted_members)


def _sorted_partitions(answer: Any) -> None:
    for topic in answer.assignment.topic_partitions if answer.assignment else ():
        topic.partitions.sort()


def _sorted_members(answer: Any) -> None:
    for group in answer.groups:
        if group.group_state == "Empty":
            # Kafka's target of an empty group stays behind its epoch.
            group.assignment_epoch = group.group_epoch
        for member in group.members:
            member.client_host = ""
            for part in (member.assignment, member.target_assignment):
                for topic in part.topic_partitions:
                    topic.partitions.sort()


def test_life_of_a_group(transcript: Begin) -> None:
    it = Conversation(transcript, "consumer_group_life")
    it.told.title("One member gets everything")
    it.beat("m1", 0)
    it.beat("m1", 2)
    it.describe()
    it.told.title("A second one waits until the first has given back what it is due")
    it.beat("m2", 0)
    it.beat("m1", 2)
    it.beat("m2", 3)
    it.describe()
    it.told.title("Saying nothing, or saying that it still has them, gives nothing back")
    it.beat("m1", 2)
    it.beat("m1", 2, topic_partitions=it.owns(0, 1, 2, 3))
    it.beat("m1", 2, topic_partitions=it.owns(0, 1))
    it.beat("m2", 3)
    it.beat("m1", 3, topic_partitions=it.owns(0, 1))
    it.describe()
    it.told.title("The epoch before is fine while the member has nothing that it should not")
    it.beat("m1", 2, topic_partitions=it.owns(0))
    it.beat("m1", 2)
    it.beat("m1", 1, topic_partitions=[])
    it.beat("m1", 4)
    it.beat("m3", 3)
    it.told.title("A request that says everything is answered so")
    it.beat(
        "m2",
        3,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[it.topic],
        topic_partitions=it.owns(2, 3),
    )
    it.told.title("One wants nothing any more, and then the other leaves, and it too")
    it.beat("m2", 3, subscribed_topic_names=[])
    it.beat("m2", 3, topic_partitions=[])
    it.beat("m1", 3)
    it.beat("m1", -1)
    it.describe()
    it.beat("m2", -1)
    it.told.say(ListGroupsRequest(), keep=lambda answer: _only(answer, it.group))
    it.told.title("It joins again")
    it.beat("m1", 0)


def _only(answer: Any, group: str) -> None:
    answer.groups = [each for each in answer.groups if each.group_id.startswith(group)]


def test_what_is_refused(transcript: Begin) -> None:
    it = Conversation(transcript, "consumer_group_heartbeats_refused")
    it.told.title("Before any group is looked at")
    it.beat("", 0)
    it.beat("", 1, version=0)
    it.beat("m", 0, group_id="")
    it.beat("m", 0, instance_id="")
    it.beat("m", 0, rack_id="")
    it.beat("m", 0, rebalance_timeout_ms=-1)
    it.beat("m", 0, topic_partitions=None)
    it.beat("m", 0, topic_partitions=[TopicPartitions(topic_id=NO_ID, partitions=[0])])
    it.beat("m", 0, subscribed_topic_names=None)
    it.beat("m", -2)
    it.beat("m", -3)
    it.beat("m", 0, server_assignor="sticky")
    it.told.title("No such group")
    it.beat("m", 1)
    it.beat("m", -1)
    it.describe()
    it.told.title("An expression that is none, and a group that was not made by it")
    it.beat("m", 0, subscribed_topic_names=None, subscribed_topic_regex="[")
    it.beat("m", 0, subscribed_topic_names=None, subscribed_topic_regex="(?<!a)b")
    it.describe()
    it.told.title("No such member")
    it.beat("m1", 0)
    it.beat("m2", 2)
    it.beat("m2", -1)
    it.beat("m2", -2, instance_id="i")
    it.beat("m2", 2, instance_id="i")
    it.told.title("A classic group of another kind of protocol has the name")
    it.told.say(
        JoinGroupRequest(
            group_id=f"{it.group}-connect",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="connect",
            protocols=[JoinGroupRequestProtocol(name="p", metadata=b"x")],
        ),
        3,
    )
    it.beat("m", 0, group_id=f"{it.group}-connect")
    it.beat("m", 1, group_id=f"{it.group}-connect")
    it.describe(f"{it.group}-connect")
    it.told.title("The classic protocol's questions about a consumer group")
    it.told.say(DescribeGroupsRequest(groups=[it.group]))
    it.told.say(DescribeGroupsRequest(groups=[it.group]), 5)
    it.told.say(HeartbeatRequest(group_id=it.group, generation_id=2, member_id="m1"))
    it.told.say(HeartbeatRequest(group_id=it.group, generation_id=2, member_id="m2"))
    it.told.say(SyncGroupRequest(group_id=it.group, generation_id=2, member_id="m1"))
    it.told.say(DeleteGroupsRequest(groups_names=[it.group]))
    it.told.title("It may be deleted once it is empty")
    it.beat("m1", -1)
    it.told.say(DeleteGroupsRequest(groups_names=[it.group]))
    it.describe()


def test_static_members(transcript: Begin) -> None:
    it = Conversation(transcript, "consumer_group_static_members")
    it.told.title("Two static members")
    it.beat("m1", 0, instance_id="i1")
    it.beat("m2", 0, instance_id="i2")
    it.beat("m1", 2, instance_id="i1", topic_partitions=it.owns(0, 1))
    it.beat("m1", 2, instance_id="i1", topic_partitions=it.owns(0, 1))
    it.beat("m2", 3, instance_id="i2")
    it.told.title("The instance id is taken")
    it.beat("m3", 0, instance_id="i1")
    it.beat("m3", 3, instance_id="i1")
    it.beat("m3", -1, instance_id="i1")
    it.told.title("It goes, to come back")
    it.beat("m1", -2, instance_id="i1")
    it.describe()
    it.beat("m2", 3, instance_id="i2")
    it.beat("m1", 3, instance_id="i1")
    it.beat("m3", 0, instance_id="i1")
    it.describe()
    it.told.title("Its old self is fenced")
    it.beat("m1", 3, instance_id="i1")
    it.beat("m1", 3)
    it.told.title("It goes for good")
    it.beat("m3", -1, instance_id="i1")
    it.beat("m2", 3, instance_id="i2")
    it.beat("m2", -1)
    it.describe()


def commit(it: Conversation, member: str, epoch: int, version: int = 9, partition: int = 0) -> None:
    each = OffsetCommitRequestPartition(partition_index=partition, committed_offset=7)
    topic = OffsetCommitRequestTopic(name=it.topic, partitions=[each])
    request = OffsetCommitRequest(
        group_id=it.group, member_id=member, generation_id_or_member_epoch=epoch, topics=[topic]
    )
    it.told.say(request, version)


def fetch(it: Conversation, member: str | None, epoch: int) -> None:
    topic = OffsetFetchRequestTopics(name=it.topic, partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id=it.group, member_id=member, member_epoch=epoch, topics=[topic])
    it.told.say(OffsetFetchRequest(groups=[group]), 9)


def test_offsets_of_members(transcript: Begin) -> None:
    it = Conversation(transcript, "consumer_group_offsets")
    it.told.title("At its epoch, and at others")
    it.beat("m1", 0)
    commit(it, "m1", 2)
    commit(it, "m1", 1)
    commit(it, "m1", 3)
    commit(it, "m2", 2)
    commit(it, "", -1)
    it.told.title("Older versions know no member epochs")
    commit(it, "m1", 2, version=8)
    it.told.title("Read by a member, by others, and by nobody in particular")
    fetch(it, "m1", 2)
    fetch(it, "m1", 1)
    fetch(it, "m2", 2)
    fetch(it, None, -1)
    it.told.title("At the epoch before, for what it had then")
    it.beat("m2", 0)
    it.beat("m1", 2, topic_partitions=it.owns(0, 1, 2, 3))
    it.beat("m1", 2, topic_partitions=it.owns(0, 1))
    commit(it, "m1", 2)
    commit(it, "m1", 2, partition=3)
    it.told.title("What members read is not to be deleted")
    each = OffsetDeleteRequestTopic(
        name=it.topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )
    it.told.say(OffsetDeleteRequest(group_id=it.group, topics=[each]))
    it.beat("m1", -1)
    it.beat("m2", -1)
    it.told.say(OffsetDeleteRequest(group_id=it.group, topics=[each]))
    fetch(it, None, -1)
    it.told.title("Nobody's member commits to an empty group")
    commit(it, "", -1)
    commit(it, "m1", 2)


class ClassicMember:
    """A member of the classic protocol, by hand."""

    def __init__(self, it: Conversation, instance_id: str | None = None) -> None:
        self.it = it
        self.member_id = ""
        self.generation = -1
        self.instance_id = instance_id

    def join(self, *owned: int, topics: list[str] | None = None) -> Any:
        partitions = [TopicPartition(topic=self.it.topic, partitions=list(owned))] if owned else []
        subscription = ConsumerProtocolSubscription(
            topics=[self.it.topic] if topics is None else topics,
            owned_partitions=partitions,
            generation_id=self.generation,
        )
        request = JoinGroupRequest(
            group_id=self.it.group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x03" + subscription.encode(3))],
        )
        answer = self.it.told.say(request, 9)
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self, *given: int, generation: int | None = None) -> Any:
        """Ask for the assignment; in a classic group, as its leader, assign these partitions to itself."""
        body = ConsumerProtocolAssignment(
            assigned_partitions=[AssignedTopic(topic=self.it.topic, partitions=list(given))] if given else []
        )
        assignment = SyncGroupRequestAssignment(
            member_id=self.member_id, assignment=b"\x00\x03" + body.encode(3)
        )
        request = SyncGroupRequest(
            group_id=self.it.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assignment] if given else [],
        )
        return self.it.told.say(request, 5)

    def beat(self, generation: int | None = None) -> Any:
        request = HeartbeatRequest(
            group_id=self.it.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return self.it.told.say(request, 4)

    def leave(self) -> Any:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        return self.it.told.say(LeaveGroupRequest(group_id=self.it.group, members=[identity]), 5)


def test_a_classic_group_is_upgraded(transcript: Begin) -> None:
    it = Conversation(transcript, "consumer_group_upgrade")
    it.told.title("A classic group of one")
    classic = ClassicMember(it)
    classic.join()
    classic.join()
    classic.sync(0, 1, 2, 3)
    it.told.title("A member of the new protocol joins")
    joined = it.beat("m1", 0)
    it.describe()
    it.told.title("The classic member learns of it, and gives back what it is told to")
    classic.beat()
    classic.sync()
    classic.join(0, 1, 2, 3)
    classic.sync()
    classic.beat()
    it.beat("m1", joined.member_epoch)
    classic.join(0, 1)
    classic.sync()
    classic.beat()
    it.topic_id = it.wire.topic_id(it.topic)
    it.beat("m1", joined.member_epoch)
    it.describe()
    it.told.title("Wrong generations and protocols")
    classic.beat(generation=1)
    classic.sync(generation=77)
    commit(it, classic.member_id, classic.generation)
    commit(it, classic.member_id, 77)
    it.told.title("It leaves, and the group is one of the new protocol alone")
    classic.leave()
    classic.leave()
    it.beat("m1", joined.member_epoch)
    it.describe()


def test_a_consumer_group_is_downgraded(transcript: Begin) -> None:
    it = Conversation(transcript, "consumer_group_downgrade")
    it.told.title("A member of the new protocol, then one of the classic one")
    it.beat("m1", 0)
    classic = ClassicMember(it)
    classic.member_id = "c1"
    classic.join()
    classic.sync()
    classic.beat()
    it.beat("m1", 2, topic_partitions=it.owns(0, 1))
    it.beat("m1", 2, topic_partitions=it.owns(0, 1))
    classic.beat()
    classic.join()
    classic.sync()
    it.describe()
    it.told.title("The last of the new protocol leaves")
    it.beat("m1", -1)
    it.describe()
    classic.beat()
    classic.join(2, 3)
    classic.sync(0, 1, 2, 3)
    it.told.say(DescribeGroupsRequest(groups=[it.group]))
    it.told.title("An empty group takes either kind")
    classic.leave()
    it.beat("m1", 0)
    it.describe()
    it.beat("m1", -1)
    other = ClassicMember(it)
    other.join()
    other.join()
    it.told.say(DescribeGroupsRequest(groups=[it.group]))


def test_a_static_member_changes_its_protocol(transcript: Begin) -> None:
    it = Conversation(transcript, "consumer_group_static_migration")
    it.told.title("A static member of the new protocol restarts with the classic one: the group is classic")
    it.beat("m1", 0, instance_id="i1")
    it.beat("m1", -2, instance_id="i1")
    classic = ClassicMember(it, "i1")
    classic.join()
    classic.sync(0, 1, 2, 3)
    it.told.say(DescribeGroupsRequest(groups=[it.group]))
    it.told.title("And back again")
    it.beat("m2", 0, instance_id="i1")
    it.describe()
    classic.beat()
    it.told.lines[:] = [line.replace(classic.member_id, "<made id>") for line in it.told.lines]


def test_sizes_and_settings_of_groups(transcript: Begin) -> None:
    it = Conversation(transcript, "consumer_group_settings")
    it.told.title("The group has a heartbeat interval and a session timeout of its own")
    it.beat("m1", 0)
    it.configure({"consumer.heartbeat.interval.ms": "700", "consumer.session.timeout.ms": "1000"})
    again = ConsumerGroupHeartbeatRequest(group_id=it.group, member_id="m1", member_epoch=2)
    wait_for(lambda: it.wire.call(again).heartbeat_interval_ms == 700)
    it.beat("m1", 2)

    def is_empty() -> bool:
        described = it.wire.call(ConsumerGroupDescribeRequest(group_ids=[it.group])).groups[0]
        return bool(described.group_state == "Empty")

    wait_for(is_empty)
    it.told.title("Nothing was heard of the member for that time")
    it.beat("m1", 2)
    it.told.say(ListGroupsRequest(types_filter=["consumer"]), keep=lambda answer: _only(answer, it.group))
    it.told.say(ListGroupsRequest(types_filter=["classic"]), keep=lambda answer: _only(answer, it.group))
    it.told.say(ListGroupsRequest(states_filter=["stable"]), keep=lambda answer: _only(answer, it.group))
