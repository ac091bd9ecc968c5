"""Which of a broker's data directories a replica lies in: AssignReplicasToDirs 0, failed directories (KIP-858)."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from ottla.core.metadata.decisions import Decision
from ottla.core.metadata.image import MetadataImage
from ottla.core.metadata.partition_changes import PartitionChanges, TopicRules
from ottla.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from ottla.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse


def assign_replicas_to_dirs(
    image: MetadataImage, request: AssignReplicasToDirsRequest, rules: TopicRules
) -> Decision[AssignReplicasToDirsResponse]:
    """A broker says where its replicas lie. Raises StaleBrokerEpoch."""
    raise AssertionError("not yet")


def wanted_assignment(
    image: MetadataImage, broker_id: int, directory_id: UUID
) -> AssignReplicasToDirsRequest | None:
    """What a broker with this one directory must send: its replicas that the metadata has elsewhere."""
    raise AssertionError("not yet")


def directories_failed(changes: PartitionChanges, broker_id: int, failed: Collection[UUID]) -> None:
    """Replicas in directories that failed lead nothing and are in sync with nothing any more."""
    raise AssertionError("not yet")
