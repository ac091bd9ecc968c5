"""WriteTxnMarkers (API key 27): a transaction coordinator ends transactions in the partitions led here.

    v1  flexible        v2  the transaction's version (KIP-1228)

Markers of one producer are answered together, whatever their number, as in Kafka.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.context import RequestContext
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from ottla.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")


def write_txn_markers(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Append every marker to each of its partitions."""
    results: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for marker in request.markers:
        by_topic = results.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            by_partition = by_topic.setdefault(topic.name, {})
            for index in topic.partition_indexes:
                by_partition[index] = _append(broker, marker, topic.name, index)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index, code in by_partition.items()
                        ],
                    )
                    for name, by_partition in by_topic.items()
                ],
            )
            for producer_id, by_topic in results.items()
        ]
    )


def _append(broker: Broker, marker: WritableTxnMarker, topic: str, index: int) -> ErrorCode:
    try:
        broker.replicas.append_end_transaction_marker(
            topic,
            index,
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            transaction_version=marker.transaction_version,
        )
    except KafkaError as error:
        return error.code
    except OSError as problem:
        log.error("append of a marker failed topic=%s partition=%d error=%s", topic, index, problem)
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE


HANDLERS = {ApiKey.WRITE_TXN_MARKERS: write_txn_markers}
