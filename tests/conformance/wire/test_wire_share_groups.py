"""Share groups by hand: the answers to members and administrators, compared with Apache Kafka's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.core.image.features import SHARE_VERSION
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
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
from ottla.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ottla.protocol.messages.sync_group_request import SyncGroupRequest
from support.clients.transcript import Transcript
from support.clients.wire import WireClient, batch, wait_for
from support.servers.cluster import Cluster

GROUP_RESOURCE = 32
Begin = Callable[[str], Transcript]


def heartbeat(
    group: str, member: str, epoch: int, *topics: str, rack: str | None = None
) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        rack_id=rack,
        subscribed_topic_names=list(topics) or None,
    )


def offsets(group: str, **topics: list[int]) -> DescribeShareGroupOffsetsRequest:
    """The offsets of some partitions, or of all the group has."""
    wanted = [
        DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
        for name, partitions in topics.items()
    ]
    return DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=wanted or None)]
    )


def alter(group: str, **topics: dict[int, int]) -> AlterShareGroupOffsetsRequest:
    return AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                    for index, offset in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ],
    )


def delete_offsets(group: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(
        group_id=group, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    )


def coordinator_is_ready(wire: WireClient, group: str) -> None:
    """The coordinator's topic is made when it is first asked for, and then loaded."""

    def ready() -> bool:
        wire.call(FindCoordinatorRequest(coordinator_keys=[group]))
        described = wire.call(ShareGroupDescribeRequest(group_ids=[group])).groups[0]
        return bool(described.error_code == ErrorCode.GROUP_ID_NOT_FOUND)

    wait_for(ready)


def assign_at_once(wire: WireClient, group: str) -> None:
    """Let the group's targets be made without waiting for share.assignment.interval.ms."""
    config = AlterableConfig(name="share.assignment.interval.ms", config_operation=0, value="0")
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[config])
    answer = wire.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == ErrorCode.NONE, answer


def initialized_partitions(wire: WireClient, group: str) -> int:
    answer = wire.call(offsets(group))
    assert answer.groups[0].error_code == ErrorCode.NONE, answer
    return sum(len(topic.partitions) for topic in answer.groups[0].topics)


def without_other_groups(prefix: str) -> Callable[[Any], None]:
    def keep(response: Any) -> None:
        response.groups = [group for group in response.groups if group.group_id.startswith(prefix)]

    return keep


def test_heartbeats_that_are_refused(cluster: Cluster, transcript: Begin) -> None:
    talk = transcript("share_group_heartbeats_refused")
    group = f"{talk.prefix}-group"
    coordinator_is_ready(talk.wire, group)
    talk.title("Requests that make no sense")
    talk.say(heartbeat(group, "", 0, "t"))
    talk.say(heartbeat(group, "m" * 37, 0, "t"))
    talk.say(heartbeat("", "m1", 0, "t"))
    talk.say(heartbeat(group, "m1", 0))
    talk.say(heartbeat(group, "m1", 0, "t", rack=""))
    talk.say(heartbeat(group, "m1", -2, "t"))
    talk.title("A group that is not there")
    talk.say(heartbeat(group, "m1", 1))
    talk.say(heartbeat(group, "m1", -1))
    talk.say(ShareGroupDescribeRequest(group_ids=[group, ""]))
    talk.say(offsets(group))
    talk.say(offsets(group, nowhere=[0, 1]))
    talk.say(delete_offsets(group, "nowhere"))
    talk.say(alter(group, nowhere={0: 1}))
    talk.say(DeleteGroupsRequest(groups_names=[group]))
    talk.say(alter("", nowhere={0: 1}))
    talk.say(delete_offsets("", "nowhere"))


def test_the_life_of_a_share_group(cluster: Cluster, transcript: Begin) -> None:
    talk = transcript("share_group_life")
    wire, group, topic, other = talk.wire, f"{talk.prefix}-group", f"{talk.prefix}-t", f"{talk.prefix}-u"
    coordinator_is_ready(wire, group)
    assign_at_once(wire, group)
    wire.create_topic(topic, 1)
    wire.create_topic(other, 2)
    wire.produce(topic, 0, batch(10))
    talk.title("The first member: its partition has no state yet, so it gets nothing")
    talk.say(heartbeat(group, "m1", 0, topic, "nowhere"))
    wait_for(lambda: initialized_partitions(wire, group) == 1)
    talk.say(heartbeat(group, "m1", 2))
    talk.say(heartbeat(group, "m1", 3))
    talk.title("The epoch before, and epochs that are not the member's")
    talk.say(heartbeat(group, "m1", 2))
    talk.say(heartbeat(group, "m1", 1))
    talk.say(heartbeat(group, "m1", 4))
    talk.say(heartbeat(group, "m2", 3))
    talk.title("It joins again as it is, then names its topics, then has another rack")
    talk.say(heartbeat(group, "m1", 0, topic, "nowhere"))
    talk.say(heartbeat(group, "m1", 3, "nowhere", topic))
    talk.say(heartbeat(group, "m1", 3, rack="r1"))
    talk.title("A second member shares the partition")
    talk.say(heartbeat(group, "m2", 0, topic))
    talk.say(heartbeat(group, "m1", 3))
    talk.say(ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=True))
    talk.title("It wants another topic, whose partitions come with the heartbeat after their state")
    talk.say(heartbeat(group, "m2", 4, other))
    wait_for(lambda: initialized_partitions(wire, group) == 3)
    talk.say(heartbeat(group, "m2", 5))
    talk.say(heartbeat(group, "m1", 4))
    talk.say(ShareGroupDescribeRequest(group_ids=[group]))
    talk.title("What needs an empty group")
    talk.say(alter(group, **{topic: {0: 3}}))
    talk.say(delete_offsets(group, topic))
    talk.say(DeleteGroupsRequest(groups_names=[group]))
    talk.title("How others see the group")
    talk.say(ListGroupsRequest(types_filter=["share"]), keep=without_other_groups(talk.prefix))
    talk.say(ListGroupsRequest(types_filter=["classic"]), keep=without_other_groups(talk.prefix))
    talk.say(ListGroupsRequest(states_filter=["stable"]), keep=without_other_groups(talk.prefix))
    talk.say(ListGroupsRequest(states_filter=["empty"]), keep=without_other_groups(talk.prefix))
    talk.title("Members leave")
    talk.say(heartbeat(group, "m1", -1))
    talk.say(heartbeat(group, "m1", 5))
    talk.say(heartbeat(group, "m1", -1))
    talk.say(heartbeat(group, "m2", -1))
    talk.say(ShareGroupDescribeRequest(group_ids=[group]))
    talk.title("Offsets of the empty group")
    talk.say(offsets(group))
    talk.say(alter(group, **{topic: {0: 3, 1: 4}, "nowhere": {0: 5}}))
    talk.say(offsets(group, **{topic: [0], "nowhere": [0]}))
    talk.say(offsets(group, **{topic: [0]}), version=0)
    talk.say(alter(group))
    talk.say(delete_offsets(group, topic, "nowhere"))
    talk.say(delete_offsets(group, topic))
    talk.say(offsets(group))
    talk.title("The end")
    talk.say(DeleteGroupsRequest(groups_names=[group]))
    talk.say(DeleteGroupsRequest(groups_names=[group]))
    talk.say(offsets(group))
    talk.say(ShareGroupDescribeRequest(group_ids=[group]))
    talk.title("To alter offsets makes a group")
    talk.say(alter(group, **{other: {1: 7}}))
    talk.say(ShareGroupDescribeRequest(group_ids=[group]))
    talk.say(offsets(group))
    talk.say(DeleteGroupsRequest(groups_names=[group]))


def test_topics_of_a_share_group_change(cluster: Cluster, transcript: Begin) -> None:
    talk = transcript("share_group_topics")
    wire, group, topic = talk.wire, f"{talk.prefix}-group", f"{talk.prefix}-t"
    coordinator_is_ready(wire, group)
    assign_at_once(wire, group)
    talk.title("The topic is not there yet")
    talk.say(heartbeat(group, "m1", 0, topic))
    talk.say(heartbeat(group, "m1", 2))

    def changes(epoch: int, partitions: int) -> None:
        """Heartbeats show the change, which the coordinator sees when it does; then the new state begins."""
        wait_for(lambda: wire.call(heartbeat(group, "m1", epoch)).member_epoch == epoch + 1)
        wait_for(lambda: initialized_partitions(wire, group) == partitions)

    talk.title("It is created")
    wire.create_topic(topic, 1)
    changes(2, partitions=1)
    talk.say(heartbeat(group, "m1", 3))
    talk.title("It grows")
    grown = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    wire.call(CreatePartitionsRequest(topics=[grown], timeout_ms=10_000))
    changes(4, partitions=3)
    talk.say(heartbeat(group, "m1", 5))
    talk.say(heartbeat(group, "m1", 6))
    talk.title("It is deleted")
    wire.call(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
    changes(6, partitions=0)
    talk.say(heartbeat(group, "m1", 7))
    talk.say(ShareGroupDescribeRequest(group_ids=[group]))
    talk.title("There is one of the same name")
    wire.create_topic(topic, 2)
    changes(7, partitions=2)
    talk.say(heartbeat(group, "m1", 8))
    talk.say(heartbeat(group, "m1", -1))
    talk.say(DeleteGroupsRequest(groups_names=[group]))


def test_a_share_group_is_no_classic_group(cluster: Cluster, transcript: Begin) -> None:
    talk = transcript("share_and_classic_groups")
    wire, group, topic = talk.wire, f"{talk.prefix}-group", f"{talk.prefix}-t"
    coordinator_is_ready(wire, group)
    wire.create_topic(topic, 1)
    talk.say(heartbeat(group, "m1", 0, topic))
    talk.title("The classic protocol on a share group")
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    talk.say(
        JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[protocol],
        ),
        4,
    )
    talk.say(SyncGroupRequest(group_id=group, generation_id=1, member_id="m1"), 3)
    talk.say(HeartbeatRequest(group_id=group, generation_id=1, member_id="m1"))
    talk.say(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="m1")]))
    talk.say(DescribeGroupsRequest(groups=[group]))
    talk.say(DescribeGroupsRequest(groups=[group]), 5)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    committed = OffsetCommitRequestTopic(name=topic, partitions=[partition])
    talk.say(OffsetCommitRequest(group_id=group, topics=[committed]), 9)
    talk.say(OffsetCommitRequest(group_id=group, topics=[committed]), 8)
    fetched = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    talk.say(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[fetched])]), 9)
    talk.say(OffsetDeleteRequest(group_id=group))
    talk.title("The other new protocols on a share group")
    talk.say(
        ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="c1",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
    )
    talk.say(ConsumerGroupHeartbeatRequest(group_id=group, member_id="m1", member_epoch=2))
    talk.say(ConsumerGroupHeartbeatRequest(group_id=group, member_id="m1", member_epoch=-1))
    talk.say(ConsumerGroupDescribeRequest(group_ids=[group]))
    talk.say(StreamsGroupDescribeRequest(group_ids=[group]))
    talk.title("The share protocol on a consumer group")
    consumers = f"{talk.prefix}-consumers"
    joined = wire.call(
        ConsumerGroupHeartbeatRequest(
            group_id=consumers,
            member_id="c1",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
    )
    assert joined.error_code == ErrorCode.NONE
    talk.say(heartbeat(consumers, "m1", 0, topic))
    talk.say(heartbeat(consumers, "c1", -1))
    talk.say(ShareGroupDescribeRequest(group_ids=[consumers]))
    talk.say(alter(consumers, **{topic: {0: 1}}))
    talk.say(delete_offsets(consumers, topic))
    wire.call(ConsumerGroupHeartbeatRequest(group_id=consumers, member_id="c1", member_epoch=-1))
    talk.say(heartbeat(consumers, "m1", 0, topic))
    talk.title("The share protocol on a classic group")
    classic = f"{talk.prefix}-classic"
    wire.call(OffsetCommitRequest(group_id=classic, topics=[committed]), 9)
    talk.say(heartbeat(classic, "m1", 0, topic))
    talk.say(heartbeat(classic, "m1", 1))
    talk.say(heartbeat(classic, "m1", -1))
    talk.say(ShareGroupDescribeRequest(group_ids=[classic]))
    talk.say(alter(classic, **{topic: {0: 1}}))
    talk.say(delete_offsets(classic, topic))
    talk.say(offsets(classic))
    talk.say(DeleteGroupsRequest(groups_names=[classic]))
    talk.say(heartbeat(group, "m1", -1))
    talk.say(DeleteGroupsRequest(groups_names=[group]))


def test_share_version_is_finalized(cluster: Cluster) -> None:
    with WireClient.connect(cluster.bootstrap) as client:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = client.call(request)
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    assert finalized[SHARE_VERSION] == 2
