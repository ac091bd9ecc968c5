"""Changes groups: their offsets, their members, and their end. The coordinator of the group is asked.

Offsets of classic, consumer and streams groups are committed from outside (OffsetCommit without a member),
which coordinators refuse while a group has members; those of share groups are altered
(AlterShareGroupOffsets).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.client.cluster_requests import (
    ClusterRequests,
    CoordinatorType,
    TopicPartition,
    by_topic,
    refusal,
    require_success,
)
from ottla.client.errors import ClusterError
from ottla.client.groups.model import GroupMember, GroupType
from ottla.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_groups_response import DeleteGroupsResponse
from ottla.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse
from ottla.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_delete_response import OffsetDeleteResponse
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ottla.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from ottla.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

LEAVE_EPOCH: Final = -1
"""The epoch of a heartbeat with which a member leaves."""
REMOVAL_REASON: Final = "removed by an administrator"

PartitionResults = dict[TopicPartition, ClusterError | None]
"""The error of each partition, None where the change was made."""


async def commit_offsets(
    client: ClusterRequests,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    metadata: Mapping[TopicPartition, str] | None = None,
) -> PartitionResults:
    """Commit offsets for a group without members. Raises ClusterError if the coordinator does not answer.

    metadata: the text that is kept with an offset, where it has one.
    """
    texts = metadata or {}
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offsets[TopicPartition(topic, partition)],
                    committed_metadata=texts.get(TopicPartition(topic, partition), ""),
                )
                for partition in partitions
            ],
        )
        for topic, partitions in by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(group_id=group_id, topics=topics)
    answer = await client.ask_coordinator(CoordinatorType.GROUP, group_id, request, OffsetCommitResponse)
    return {
        TopicPartition(topic.name, one.partition_index): _error(one.error_code, None, group_id)
        for topic in answer.topics
        for one in topic.partitions
    }


async def alter_share_offsets(
    client: ClusterRequests, group_id: str, offsets: Mapping[TopicPartition, int]
) -> PartitionResults:
    """Set the start offsets of a share group without members. Raises ClusterError if all of it is refused."""
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=topic,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(
                    partition_index=partition, start_offset=offsets[TopicPartition(topic, partition)]
                )
                for partition in partitions
            ],
        )
        for topic, partitions in by_topic(offsets).items()
    ]
    request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP, group_id, request, AlterShareGroupOffsetsResponse
    )
    require_success(answer.error_code, answer.error_message, f"group {group_id}")
    return {
        TopicPartition(topic.topic_name, one.partition_index): _error(
            one.error_code, one.error_message, group_id
        )
        for topic in answer.responses
        for one in topic.partitions
    }


async def delete_offsets(
    client: ClusterRequests, group_id: str, partitions: Iterable[TopicPartition]
) -> PartitionResults:
    """Forget a group's offsets of partitions that no member is subscribed to. Raises ClusterError."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in some]
        )
        for topic, some in by_topic(partitions).items()
    ]
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)
    answer = await client.ask_coordinator(CoordinatorType.GROUP, group_id, request, OffsetDeleteResponse)
    require_success(answer.error_code, None, f"group {group_id}")
    return {
        TopicPartition(topic.name, one.partition_index): _error(one.error_code, None, group_id)
        for topic in answer.topics
        for one in topic.partitions
    }


async def delete_share_offsets(
    client: ClusterRequests, group_id: str, topics: Iterable[str]
) -> dict[str, ClusterError | None]:
    """Forget a share group's state of topics; the error of each, None for success. Raises ClusterError."""
    request = DeleteShareGroupOffsetsRequest(
        group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    )
    answer = await client.ask_coordinator(
        CoordinatorType.GROUP, group_id, request, DeleteShareGroupOffsetsResponse
    )
    require_success(answer.error_code, answer.error_message, f"group {group_id}")
    return {
        topic.topic_name: _error(topic.error_code, topic.error_message, group_id)
        for topic in answer.responses
    }


async def delete_groups(client: ClusterRequests, group_ids: Iterable[str]) -> dict[str, ClusterError | None]:
    """Delete groups of any kind that have no members; the error of each, None where it was done."""

    def request(some: Sequence[str]) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=list(some))

    def parts(answer: Any) -> Iterable[tuple[str, int, ClusterError | None]]:
        for one in answer.results:
            yield one.group_id, one.error_code, _error(one.error_code, one.error_message, one.group_id)

    return await client.ask_coordinators(
        CoordinatorType.GROUP, group_ids, request, DeleteGroupsResponse, parts
    )


async def remove_member(
    client: ClusterRequests, group_id: str, group_type: GroupType, member: GroupMember
) -> None:
    """Take a member out of its group. One that lives joins again. Raises ClusterError."""
    subject = f"member {member.member_id}"
    if group_type in (GroupType.CLASSIC, GroupType.UNKNOWN) or member.protocol == "classic":
        identity = MemberIdentity(
            # a static member is known by its instance, whose member id changes with each start
            member_id="" if member.instance_id is not None else member.member_id,
            group_instance_id=member.instance_id,
            reason=REMOVAL_REASON,
        )
        leave = LeaveGroupRequest(group_id=group_id, members=[identity])
        left = await client.ask_coordinator(CoordinatorType.GROUP, group_id, leave, LeaveGroupResponse)
        require_success(left.error_code, None, subject)
        for one in left.members:
            require_success(one.error_code, None, subject)
        return
    request, response = _farewell(group_id, group_type, member)
    answer: Any = await client.ask_coordinator(CoordinatorType.GROUP, group_id, request, response)
    require_success(answer.error_code, answer.error_message, subject)


def _farewell(group_id: str, group_type: GroupType, member: GroupMember) -> tuple[Any, Any]:
    """The heartbeat with which the member would leave, and the class of its answer."""
    member_id, instance_id = member.member_id, member.instance_id
    match group_type:
        case GroupType.SHARE:
            return ShareGroupHeartbeatRequest(
                group_id=group_id, member_id=member_id, member_epoch=LEAVE_EPOCH
            ), ShareGroupHeartbeatResponse
        case GroupType.STREAMS:
            return StreamsGroupHeartbeatRequest(
                group_id=group_id, member_id=member_id, member_epoch=LEAVE_EPOCH, instance_id=instance_id
            ), StreamsGroupHeartbeatResponse
        case _:
            return ConsumerGroupHeartbeatRequest(
                group_id=group_id, member_id=member_id, member_epoch=LEAVE_EPOCH, instance_id=instance_id
            ), ConsumerGroupHeartbeatResponse


def _error(error_code: int, message: str | None, group_id: str) -> ClusterError | None:
    return refusal(error_code, message, f"group {group_id}") if error_code else None
