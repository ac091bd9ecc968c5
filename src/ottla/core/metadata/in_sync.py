"""AlterPartition 2-3: a leader changes the in-sync set of what it leads, and says that it has recovered.

Each partition succeeds or fails by itself; the leader of one that fails looks at its error: FENCED_LEADER_EPOCH
and NEW_LEADER_ELECTED (the change completed a reassignment and moved the leader away) mean that it leads no more,
INVALID_UPDATE_VERSION that it must wait for newer metadata, INELIGIBLE_REPLICA that a replica is fenced, stops or
has restarted, UNKNOWN_TOPIC_ID that the topic is gone, NOT_CONTROLLER that this controller is behind. v3 names the
broker epochs of the replicas (KIP-903).
"""

from __future__ import annotations

from ottla.core.metadata.decisions import Decision
from ottla.core.metadata.image import MetadataImage
from ottla.core.metadata.partition_changes import TopicRules
from ottla.protocol.messages.alter_partition_request import AlterPartitionRequest
from ottla.protocol.messages.alter_partition_response import AlterPartitionResponse


def alter_partition(
    image: MetadataImage, request: AlterPartitionRequest, rules: TopicRules
) -> Decision[AlterPartitionResponse]:
    """Errors are in the response, partition by partition. Raises StaleBrokerEpoch."""
    raise AssertionError("not yet")
