"""The records of offsets and of classic groups in `__consumer_offsets`, in Kafka 4.4's versions.

Kafka 4.4 writes OffsetCommitValue in version 4 (version 1 if the commit carries an expiry time of its own,
which only that version has) and GroupMetadataValue in version 3.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple

from ottla.core.coordination.records import CoordinatorRecord
from ottla.protocol.records.group_metadata_key import GroupMetadataKey
from ottla.protocol.records.group_metadata_value import GroupMetadataValue
from ottla.protocol.records.legacy_offset_commit_key import LegacyOffsetCommitKey
from ottla.protocol.records.legacy_offset_commit_value import LegacyOffsetCommitValue
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.offset_commit_value import OffsetCommitValue
from ottla.protocol.schema import ZERO_UUID

OFFSET_COMMIT_VALUE_VERSION = 4
OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_METADATA_VALUE_VERSION = 3
NO_TIMESTAMP = -1


class CommittedOffset(NamedTuple):
    """An offset that a group has committed for one partition; `expire_timestamp_ms` is -1 without one."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: uuid.UUID = ZERO_UUID


def offset_commit(group_id: str, topic: str, partition: int, offset: CommittedOffset) -> CoordinatorRecord:
    has_expiry = offset.expire_timestamp_ms != NO_TIMESTAMP
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            commit_timestamp=offset.commit_timestamp_ms,
            expire_timestamp=offset.expire_timestamp_ms,
            topic_id=offset.topic_id,
        ),
        OFFSET_COMMIT_VALUE_VERSION_WITH_EXPIRY if has_expiry else OFFSET_COMMIT_VALUE_VERSION,
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def committed_offset(value: OffsetCommitValue) -> CommittedOffset:
    """The offset in an OffsetCommitValue of any version."""
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=value.expire_timestamp,
        topic_id=value.topic_id,
    )


def group_metadata(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VALUE_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id))


def from_legacy(key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None) -> CoordinatorRecord:
    """A record of Kafka 0.8's type 0, which old topics may still hold, as one of type 1."""
    return CoordinatorRecord(
        OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition),
        value
        and OffsetCommitValue(
            offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
        ),
    )
