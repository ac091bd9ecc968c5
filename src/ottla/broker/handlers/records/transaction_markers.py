"""WriteTxnMarkers (API key 27): a transaction coordinator ends transactions in the partitions led here.

    v1  flexible        v2  the transaction's version (KIP-1228)

Markers of one producer are answered together, whatever their number, as in Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.network.context import RequestContext
from ottla.broker.network.turns import in_turns
from ottla.broker.replication.marker_appends import (
    AppendedMarker,
    TopicPartition,
    TransactionEnd,
    append_markers,
    until_committed,
)
from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from ottla.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

#: Producer id -> the errors of its partitions.
Results: TypeAlias = dict[int, dict[TopicPartition, ErrorCode]]


async def write_txn_markers(
    node: Node, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Append every marker to each of its partitions; answered when all are committed."""
    may = node.authorization
    if not may.allows_unnamed(context, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        may.require_on_cluster(context, AclOperation.CLUSTER_ACTION)
    results: Results = {}
    uncommitted: list[tuple[int, AppendedMarker]] = []
    async for marker in in_turns(request.markers):
        by_partition = results.setdefault(marker.producer_id, {})
        end = TransactionEnd(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            marker.transaction_version,
        )
        partitions = [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
        appends = append_markers(node, end, partitions)
        by_partition.update(appends.errors)
        uncommitted += ((marker.producer_id, appended) for appended in appends.uncommitted)
    return await _later(node, results, uncommitted) if uncommitted else _response(results)


async def _later(
    node: Node, results: Results, uncommitted: list[tuple[int, AppendedMarker]]
) -> WriteTxnMarkersResponse:
    by_producer: dict[int, list[AppendedMarker]] = {}
    for producer_id, appended in uncommitted:
        by_producer.setdefault(producer_id, []).append(appended)
    outcomes = await asyncio.gather(*(until_committed(node, each) for each in by_producer.values()))
    for producer_id, outcome in zip(by_producer, outcomes, strict=True):
        results[producer_id].update(outcome)
    return _response(results)


def _response(results: Results) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=_by_topic(errors))
            for producer_id, errors in results.items()
        ]
    )


def _by_topic(errors: Mapping[TopicPartition, ErrorCode]) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, WritableTxnMarkerTopicResult] = {}
    for (name, index), code in errors.items():
        topic = topics.setdefault(name, WritableTxnMarkerTopicResult(name=name, partitions=[]))
        topic.partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
    return list(topics.values())


HANDLERS = {ApiKey.WRITE_TXN_MARKERS: write_txn_markers}
