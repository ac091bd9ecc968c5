"""The records of a streams group in Kafka 4.4's format, all in version 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.streams.group import DescriptionEpochs, StreamsMember
from ottla.core.groups.streams.tasks import ActiveTasks, TargetTasks, task_ids_of
from ottla.core.groups.streams.topology import Topology
from ottla.protocol.records import streams_group_current_member_assignment_value as current_values
from ottla.protocol.records import streams_group_member_metadata_value as member_values
from ottla.protocol.records import streams_group_target_assignment_member_value as target_values
from ottla.protocol.records.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from ottla.protocol.records.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from ottla.protocol.records.streams_group_metadata_key import StreamsGroupMetadataKey
from ottla.protocol.records.streams_group_metadata_value import (
    LastAssignmentConfig,
    StreamsGroupMetadataValue,
)
from ottla.protocol.records.streams_group_target_assignment_member_key import (
    StreamsGroupTargetAssignmentMemberKey,
)
from ottla.protocol.records.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from ottla.protocol.records.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from ottla.protocol.records.streams_group_topology_key import StreamsGroupTopologyKey


def member_metadata(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    endpoint = member.user_endpoint
    return CoordinatorRecord(
        StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        member_values.StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=endpoint and member_values.Endpoint(host=endpoint.host, port=endpoint.port),
            client_tags=[
                member_values.KeyValue(key=key, value=value)
                for key, value in sorted(member.client_tags.items())
            ],
        ),
    )


def group_epoch(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    configs: Mapping[str, str],
    described: DescriptionEpochs,
) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupMetadataKey(group_id=group_id),
        StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[
                LastAssignmentConfig(key=key, value=value) for key, value in sorted(configs.items())
            ],
            stored_description_topology_epoch=described.stored,
            failed_description_topology_epoch=described.failed,
        ),
    )


def topology(group_id: str, value: Topology) -> CoordinatorRecord:
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id=group_id), value.to_record_value())


def target_of_member(group_id: str, member_id: str, target: TargetTasks) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        target_values.StreamsGroupTargetAssignmentMemberValue(
            active_tasks=task_ids_of(target_values.TaskIds, target.active),
            standby_tasks=task_ids_of(target_values.TaskIds, target.standby),
            warmup_tasks=task_ids_of(target_values.TaskIds, target.warmup),
        ),
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def current_assignment(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    assigned, pending = member.assigned, member.pending_revocation
    make = current_values.TaskIds
    return CoordinatorRecord(
        StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        current_values.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            active_tasks=_with_epochs(assigned.active),
            standby_tasks=task_ids_of(make, assigned.standby),
            warmup_tasks=task_ids_of(make, assigned.warmup),
            active_tasks_pending_revocation=_with_epochs(pending.active),
            standby_tasks_pending_revocation=task_ids_of(make, pending.standby),
            warmup_tasks_pending_revocation=task_ids_of(make, pending.warmup),
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """The records that remove a member, in the order that Apache Kafka's replay requires."""
    return [
        CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        CoordinatorRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group_id: str) -> list[CoordinatorRecord]:
    """The records that remove an empty group, in the order that Apache Kafka's replay requires."""
    return [
        CoordinatorRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)),
        CoordinatorRecord(StreamsGroupMetadataKey(group_id=group_id)),
        CoordinatorRecord(StreamsGroupTopologyKey(group_id=group_id)),
    ]


def _with_epochs(active: ActiveTasks) -> list[Any]:
    return [
        current_values.TaskIds(
            subtopology_id=name,
            partitions=sorted(active[name]),
            assignment_epochs=[active[name][partition] for partition in sorted(active[name])],
        )
        for name in sorted(active)
    ]
