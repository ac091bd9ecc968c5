"""The records of a share group in Kafka 4.4's format, all in version 0."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.share.group import ShareMember, StatePartitions, TopicPartitions, TopicState
from ottla.protocol.records.share_group_current_member_assignment_key import (
    ShareGroupCurrentMemberAssignmentKey,
)
from ottla.protocol.records.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
)
from ottla.protocol.records.share_group_current_member_assignment_value import (
    TopicPartitions as AssignedTopic,
)
from ottla.protocol.records.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from ottla.protocol.records.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from ottla.protocol.records.share_group_metadata_key import ShareGroupMetadataKey
from ottla.protocol.records.share_group_metadata_value import ShareGroupMetadataValue
from ottla.protocol.records.share_group_state_partition_metadata_key import (
    ShareGroupStatePartitionMetadataKey,
)
from ottla.protocol.records.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from ottla.protocol.records.share_group_target_assignment_member_key import (
    ShareGroupTargetAssignmentMemberKey,
)
from ottla.protocol.records.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
)
from ottla.protocol.records.share_group_target_assignment_member_value import (
    TopicPartition as TargetTopic,
)
from ottla.protocol.records.share_group_target_assignment_metadata_key import (
    ShareGroupTargetAssignmentMetadataKey,
)
from ottla.protocol.records.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)

STATE_STABLE = 0
"""The only state of a member of a share group."""


def member_metadata(group_id: str, member: ShareMember) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed),
        ),
    )


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareGroupMetadataKey(group_id=group_id),
        ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def target_of_member(group_id: str, member_id: str, target: TopicPartitions) -> CoordinatorRecord:
    topics = [
        TargetTopic(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in target.items()
    ]
    return CoordinatorRecord(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(topic_partitions=topics),
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def current_assignment(group_id: str, member: ShareMember) -> CoordinatorRecord:
    topics = [
        AssignedTopic(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in member.assigned.items()
    ]
    return CoordinatorRecord(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=STATE_STABLE,
            assigned_partitions=topics,
        ),
    )


def state_partitions(group_id: str, states: StatePartitions) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=_topic_infos(states.initializing),
            initialized_topics=_topic_infos(states.initialized),
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in states.deleting.items()
            ],
        ),
    )


def _topic_infos(topics: Mapping[uuid.UUID, TopicState]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in topics.items()
    ]


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The records that remove a member, in the order that Apache Kafka's replay requires."""
    return [
        CoordinatorRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        CoordinatorRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        CoordinatorRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group_id: str) -> list[CoordinatorRecord]:
    """The records that remove an empty group, in the order that Apache Kafka's replay requires."""
    return [
        CoordinatorRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id)),
        CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id)),
        CoordinatorRecord(ShareGroupMetadataKey(group_id=group_id)),
    ]
