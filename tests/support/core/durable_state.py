"""The state of coordinators that is in their logs, to be compared with that of a shard loaded anew."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from ottla.core.groups.consumer.group import ConsumerGroup
from ottla.core.groups.coordinator_records import CommittedOffset
from ottla.core.groups.offset_store import CommittedOffsets, OffsetKey
from ottla.core.groups.shard import Shard
from ottla.core.groups.share.group import ShareGroup
from ottla.core.groups.streams.group import StreamsGroup
from ottla.core.transactions.shard import Shard as TransactionShard
from ottla.core.transactions.transaction import Transaction
from ottla.protocol.record_batch import NO_PRODUCER_EPOCH
from ottla.protocol.records.group_metadata_value import GroupMetadataValue

ClassicState: TypeAlias = tuple[
    dict[str, GroupMetadataValue], CommittedOffsets, dict[int, dict[OffsetKey, CommittedOffset | None]]
]
GroupState: TypeAlias = tuple[object, ...]


def classic_state(shard: Shard) -> ClassicState:
    """Every classic group's last record, every committed offset, and those of open transactions."""
    return shard._stored, shard._store.committed, shard._store.transactional


def consumer_groups(shard: Shard) -> dict[str, GroupState]:
    """The consumer groups (KIP-848) of a shard."""
    return {group_id: _consumer_group(group) for group_id, group in shard._context.consumer.items()}


def share_groups(shard: Shard) -> dict[str, GroupState]:
    """The share groups of a shard."""
    return {group_id: share_group(group) for group_id, group in shard._context.share.items()}


def streams_groups(shard: Shard) -> dict[str, GroupState]:
    """The streams groups of a shard whose first records are in the log."""
    groups = shard._context.streams
    return {group_id: _streams_group(group) for group_id, group in groups.items() if group.is_in_log}


def transactions(shard: TransactionShard) -> dict[str, Transaction]:
    """The transactional ids of a shard, without the field that is in memory only."""
    return {
        name: replace(transaction, last_producer_epoch=NO_PRODUCER_EPOCH)
        for name, transaction in shard.transactions.items()
    }


def share_group(group: ShareGroup) -> GroupState:
    """The fields of a share group that its records hold."""
    return (
        group.epoch,
        group.metadata_hash,
        dict(group.members),
        group.target_epoch,
        group.target_timestamp_ms,
        dict(group.targets),
        group.states,
    )


def _consumer_group(group: ConsumerGroup) -> GroupState:
    return (
        group.epoch,
        group.metadata_hash,
        dict(group.members),
        group.target_epoch,
        group.target_timestamp_ms,
        dict(group.targets),
        dict(group.resolved),
        group.has_partition_metadata,
    )


def _streams_group(group: StreamsGroup) -> GroupState:
    return (
        group.epoch,
        group.metadata_hash,
        group.validated_topology_epoch,
        dict(group.assignment_configs),
        group.topology,
        dict(group.members),
        group.target_epoch,
        group.target_timestamp_ms,
        dict(group.targets),
    )
