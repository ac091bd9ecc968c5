"""DescribeProducers (API key 61, KIP-664): the producers of a partition, and their open transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.network.context import RequestContext
from ottla.core.decisions.topic_names import topic_name_problem
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.describe_producers_request import DescribeProducersRequest
from ottla.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


def describe_producers(
    node: Node, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Every producer in the state of the partition's log."""
    names = [topic.name for topic in request.topics if topic_name_problem(topic.name) is None]
    refused = node.authorization.refused(context, AclOperation.READ, ResourceType.TOPIC, names)
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(node, topic.name, index, is_refused=topic.name in refused)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(node: Node, topic: str, index: int, *, is_refused: bool) -> PartitionResponse:
    answer = PartitionResponse(partition_index=index, error_code=ErrorCode.NONE, active_producers=[])
    problem = topic_name_problem(topic)
    if problem is not None:
        answer.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
        answer.error_message = problem
        return answer
    if is_refused:
        answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answer.error_message = answer.error_code.message
        return answer
    try:
        partition = node.partitions.partition(topic, index)
    except KafkaError as error:
        answer.error_code = error.code
        return answer
    answer.active_producers = [
        ProducerState(
            producer_id=state.producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.current_txn_first_offset,
        )
        for state in partition.log.producers
    ]
    return answer


HANDLERS = {ApiKey.DESCRIBE_PRODUCERS: describe_producers}
