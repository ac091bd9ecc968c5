"""Each group API's answer that holds only an error, in the field where the API has it."""

from __future__ import annotations

from ottla.core.groups.share.responses import share_group_error
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from ottla.protocol.messages.consumer_group_describe_response import DescribedGroup as DescribedConsumerGroup
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.list_groups_response import ListGroupsResponse
from ottla.protocol.messages.offset_commit_request import OffsetCommitRequest
from ottla.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ottla.protocol.messages.offset_delete_response import OffsetDeleteResponse
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup
from ottla.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_describe_response import (
    DescribedGroup as DescribedStreamsGroup,
)
from ottla.protocol.messages.streams_group_describe_response import StreamsGroupDescribeResponse
from ottla.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from ottla.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from ottla.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ottla.protocol.messages.sync_group_request import SyncGroupRequest
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from ottla.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from ottla.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.schema import Message


def coordinator_error(request: Message, error: ErrorCode) -> Message:
    """An answer that refuses `request` (in the form that api.py describes) as a whole with `error`."""
    match request:
        case JoinGroupRequest():
            return JoinGroupResponse(error_code=error, member_id=request.member_id)
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=error)
        case ConsumerGroupHeartbeatRequest():
            return ConsumerGroupHeartbeatResponse(error_code=error, error_message=error.name)
        case ConsumerGroupDescribeRequest():
            return ConsumerGroupDescribeResponse(
                groups=[
                    DescribedConsumerGroup(group_id=group_id, error_code=error)
                    for group_id in request.group_ids
                ]
            )
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=error)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=error)
        case StreamsGroupHeartbeatRequest():
            return StreamsGroupHeartbeatResponse(error_code=error)
        case StreamsGroupTopologyDescriptionUpdateRequest():
            return StreamsGroupTopologyDescriptionUpdateResponse(error_code=error)
        case StreamsGroupDescribeRequest():
            return StreamsGroupDescribeResponse(
                groups=[
                    DescribedStreamsGroup(group_id=group_id, error_code=error, error_message=error.message)
                    for group_id in request.group_ids
                ]
            )
        case OffsetCommitRequest():
            return offset_commit_error(request, error)
        case TxnOffsetCommitRequest():
            return txn_offset_commit_error(request, error)
        case OffsetFetchRequest():
            return OffsetFetchResponse(
                groups=[
                    OffsetFetchResponseGroup(group_id=group.group_id, error_code=error)
                    for group in request.groups
                ]
            )
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=error)
        case DescribeGroupsRequest():
            return DescribeGroupsResponse(
                groups=[DescribedGroup(group_id=group_id, error_code=error) for group_id in request.groups]
            )
        case ListGroupsRequest():
            return ListGroupsResponse(error_code=error)
        case DeleteGroupsRequest():
            return DeleteGroupsResponse(
                results=[
                    DeletableGroupResult(group_id=group_id, error_code=error)
                    for group_id in request.groups_names
                ]
            )
        case _:
            return share_group_error(request, error)


def offset_commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """An answer with the same error for every partition of the request."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def txn_offset_commit_error(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """An answer with the same error for every partition of the request."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
