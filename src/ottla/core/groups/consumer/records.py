"""The records of consumer groups in `__consumer_offsets`, in Kafka 4.4's versions and order of fields."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.consumer.member import (
    ClassicProtocols,
    ConsumerMember,
    MemberState,
    PartitionEpochs,
    TopicPartitions,
)
from ottla.protocol.records.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from ottla.protocol.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from ottla.protocol.records.consumer_group_current_member_assignment_value import (
    TopicPartitions as CurrentTopic,
)
from ottla.protocol.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from ottla.protocol.records.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from ottla.protocol.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.protocol.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from ottla.protocol.records.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from ottla.protocol.records.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from ottla.protocol.records.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from ottla.protocol.records.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from ottla.protocol.records.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from ottla.protocol.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from ottla.protocol.records.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

ConsumerKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """The tombstone of a record that only Kafka before 4.1 writes."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_metadata(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None,
    )
    if classic is not None:
        value.classic_member_metadata = ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols
            ],
        )
    return CoordinatorRecord(_member_key(group_id, member.member_id), value)


def target_metadata(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_assignment(group_id: str, member_id: str, partitions: TopicPartitions) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(of_topic))
            for topic_id, of_topic in partitions.items()
        ]
    )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(key, value)


def current_assignment(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        assigned_partitions=_current_topics(member.assigned),
        partitions_pending_revocation=_current_topics(member.revoking),
    )
    return CoordinatorRecord(_current_key(group_id, member.member_id), value)


def regular_expression(
    group_id: str, regex: str, topics: Collection[str], version: int, timestamp_ms: int
) -> CoordinatorRecord:
    """The record of an expression's topics, found in the cluster's metadata at the offset `version`."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(topics), version=version, timestamp=timestamp_ms
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return CoordinatorRecord(key, value)


def regular_expression_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The records that remove a member, in the order that Kafka requires."""
    return [
        CoordinatorRecord(_current_key(group_id, member_id)),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        CoordinatorRecord(_member_key(group_id, member_id)),
    ]


def group_tombstones(
    group_id: str, member_ids: Iterable[str], regexes: Iterable[str]
) -> list[CoordinatorRecord]:
    """The records that remove a group with these members, in the order that Kafka requires."""
    members = list(member_ids)
    return [
        *(CoordinatorRecord(_current_key(group_id, member_id)) for member_id in members),
        *(
            CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))
            for member_id in members
        ),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(CoordinatorRecord(_member_key(group_id, member_id)) for member_id in members),
        *(regular_expression_tombstone(group_id, regex) for regex in regexes),
        partition_metadata_tombstone(group_id),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id)),
    ]


# Reading of values


def classic_protocols(value: ConsumerGroupMemberMetadataValue) -> ClassicProtocols | None:
    classic = value.classic_member_metadata
    if classic is None:
        return None
    protocols = tuple((each.name, bytes(each.metadata)) for each in classic.supported_protocols)
    return ClassicProtocols(classic.session_timeout_ms, protocols)


def target_partitions(value: ConsumerGroupTargetAssignmentMemberValue) -> TopicPartitions:
    return {
        topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions if topic.partitions
    }


def partition_epochs(topics: Iterable[CurrentTopic], member_epoch: int) -> PartitionEpochs:
    """A member's partitions; in records before Kafka 4.3, which have no epochs, with the member's epoch."""
    found: dict[uuid.UUID, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        if topic.partitions:
            found[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return found


def member_state(value: int) -> MemberState:
    try:
        return MemberState(value)
    except ValueError:
        return MemberState.UNKNOWN


def _current_topics(partitions: PartitionEpochs) -> list[CurrentTopic]:
    return [
        CurrentTopic(topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic_id, epochs in partitions.items()
    ]


def _member_key(group_id: str, member_id: str) -> ConsumerGroupMemberMetadataKey:
    return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)


def _current_key(group_id: str, member_id: str) -> ConsumerGroupCurrentMemberAssignmentKey:
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
