"""A share partition's durable state, and the records of `__share_group_state` that hold it.

A ShareSnapshot is the whole state, a ShareUpdate the changes since the snapshot with the same snapshot epoch;
a snapshot's tombstone deletes the state. An update whose start offset is -1 does not change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.share.keys import SharePartitionKey
from ottla.core.share.state_batches import NO_OFFSET, StateBatch, combine
from ottla.protocol.records.share_snapshot_key import ShareSnapshotKey
from ottla.protocol.records.share_snapshot_value import ShareSnapshotValue
from ottla.protocol.records.share_snapshot_value import StateBatch as SnapshotBatch
from ottla.protocol.records.share_update_key import ShareUpdateKey
from ottla.protocol.records.share_update_value import ShareUpdateValue
from ottla.protocol.records.share_update_value import StateBatch as UpdateBatch

NO_EPOCH = -1
UNKNOWN_COUNT = -1


@dataclass(frozen=True, slots=True)
class ShareState:
    """The state of a share partition, as in the log.

    `delivery_complete_count` is the number of records from the start offset on that need no delivery any
    more; -1 if unknown. The timestamps are those of the snapshot: the time of its contents, and the time of
    its writing; they differ if it was written because of its age.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    create_timestamp_ms: int = 0
    write_timestamp_ms: int = 0


def snapshot_record(key: SharePartitionKey, state: ShareState) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition),
        ShareSnapshotValue(
            snapshot_epoch=state.snapshot_epoch,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            create_timestamp=state.create_timestamp_ms,
            write_timestamp=state.write_timestamp_ms,
            state_batches=[
                SnapshotBatch(
                    first_offset=first, last_offset=last, delivery_state=delivery_state, delivery_count=count
                )
                for first, last, delivery_state, count in state.batches
            ],
        ),
    )


def update_record(key: SharePartitionKey, change: ShareState) -> CoordinatorRecord:
    """The record of a change; state epoch and timestamps of `change` are not written."""
    return CoordinatorRecord(
        ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition),
        ShareUpdateValue(
            snapshot_epoch=change.snapshot_epoch,
            leader_epoch=change.leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.delivery_complete_count,
            state_batches=[
                UpdateBatch(
                    first_offset=first, last_offset=last, delivery_state=delivery_state, delivery_count=count
                )
                for first, last, delivery_state, count in change.batches
            ],
        ),
    )


def tombstone_record(key: SharePartitionKey) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    )


def state_of_snapshot(value: ShareSnapshotValue) -> ShareState:
    return ShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        state_batches(value.state_batches),
        value.create_timestamp,
        value.write_timestamp,
    )


def updated(state: ShareState | None, value: ShareUpdateValue) -> ShareState:
    """The state after an update; without a snapshot before it, the update is the state."""
    batches = state_batches(value.state_batches)
    if state is None:
        return ShareState(
            value.snapshot_epoch,
            0,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            batches,
        )
    start_offset = state.start_offset if value.start_offset == NO_OFFSET else value.start_offset
    return replace(
        state,
        start_offset=start_offset,
        leader_epoch=state.leader_epoch if value.leader_epoch == NO_EPOCH else value.leader_epoch,
        delivery_complete_count=value.delivery_complete_count,
        batches=combine(state.batches, batches, start_offset),
    )


def state_batches(batches: Sequence[SnapshotBatch] | Sequence[UpdateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in batches
    )
