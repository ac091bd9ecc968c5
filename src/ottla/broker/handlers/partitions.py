"""CreatePartitions (API key 37) 0-3, ElectLeaders (43) 0-2, ListPartitionReassignments (46) 0.

CreatePartitions and ElectLeaders are told in `ottla.core.metadata.partitions` and `.elections`.
ListPartitionReassignments (KIP-455): the partitions whose replicas are on the way to others; null asks for
all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context import RequestContext
from ottla.broker.handlers.forwarding import forward
from ottla.broker.system_randomness import SystemRandomness
from ottla.core.metadata.elections import elect_leaders as decide_elections
from ottla.core.metadata.image import TopicImage
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest
from ottla.protocol.messages.create_partitions_response import CreatePartitionsResponse
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.messages.elect_leaders_response import ElectLeadersResponse
from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ottla.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def create_partitions(
    broker: Broker, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Errors are told topic by topic."""
    from ottla.core.metadata.partitions import create_partitions as decide

    return await broker.controller.submit(lambda image: decide(image, request, SystemRandomness()))


async def elect_leaders(
    broker: Broker, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Errors are told partition by partition."""
    return await broker.controller.submit(lambda image: decide_elections(image, request))


def list_partition_reassignments(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The partitions asked for that are being reassigned; others, and unknown ones, are left out."""
    image = broker.image
    if request.topics is None:
        ongoing = [_ongoing(topic, sorted(topic.partitions)) for _, topic in sorted(image.topics.items())]
    else:
        ongoing = [
            _ongoing(image.topics[asked.name], asked.partition_indexes)
            for asked in request.topics
            if asked.name in image.topics
        ]
    return ListPartitionReassignmentsResponse(
        error_message=None, topics=[topic for topic in ongoing if topic.partitions]
    )


def _ongoing(topic: TopicImage, indexes: list[int]) -> OngoingTopicReassignment:
    known = (topic.partitions[index] for index in indexes if index in topic.partitions)
    return OngoingTopicReassignment(
        name=topic.name,
        partitions=[
            OngoingPartitionReassignment(
                partition_index=partition.partition_id,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for partition in known
            if partition.adding_replicas or partition.removing_replicas
        ],
    )


HANDLERS = dict.fromkeys(
    (ApiKey.CREATE_PARTITIONS, ApiKey.ELECT_LEADERS, ApiKey.LIST_PARTITION_REASSIGNMENTS), forward
)
CONTROLLER_HANDLERS = {
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
}
