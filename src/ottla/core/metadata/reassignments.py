"""Replicas move: AlterPartitionReassignments 0-1, ListPartitionReassignments 0 (KIP-455).

A reassignment adds the new replicas to the old ones, waits until every replica that stays is in sync, then
removes the others (`partition_changes` sees when that is so). It can be replaced by another one while it runs,
or cancelled. v1 can forbid that the number of replicas changes (KIP-860).
"""

from __future__ import annotations

from ottla.core.metadata.decisions import Decision
from ottla.core.metadata.image import MetadataImage
from ottla.core.metadata.partition_changes import TopicRules
from ottla.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from ottla.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ottla.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse


def alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, rules: TopicRules
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Each partition succeeds or fails by itself."""
    raise AssertionError("not yet")


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """What moves now. It decides nothing: any node with the image can answer, the controller does."""
    raise AssertionError("not yet")
