"""DeleteRecords (API key 21): versions 0 to 2, moves a partition's log start offset forward (KIP-107).

Offset -1 stands for the high watermark. The new start is on disk before it is answered, so that a kill -9
after the answer brings nothing deleted back. The answer waits for the followers that are not fenced: they
hear of the new start with their fetches, and their next ones tell that theirs has moved (REQUEST_TIMED_OUT
otherwise; the records are gone from the leader all the same).

The coordinators' topics are refused: only a coordinator knows which of its records it needs no more (the
share coordinator prunes its own).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.network.context import RequestContext
from ottla.broker.replication.partition import Partition
from ottla.broker.replication.replication_settings import read_only
from ottla.core.decisions.topic_names import is_internal
from ottla.core.links.topic_state import is_mirror
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import (
    ErrorCode,
    InvalidTopicException,
    KafkaError,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.delete_records_request import DeleteRecordsRequest
from ottla.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

log = logging.getLogger("ottla.broker")

HIGH_WATERMARK = -1


async def delete_records(
    node: Node, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Delete up to each partition's offset; answers with the new low watermark."""
    response = DeleteRecordsResponse(topics=[])
    deleted: list[tuple[DeleteRecordsPartitionResult, Partition, int]] = []
    names = (topic.name for topic in request.topics)
    refused = node.authorization.refused(context, AclOperation.DELETE, ResourceType.TOPIC, names)
    for topic, offsets in _wanted(request).items():
        results = []
        for index, wanted in offsets.items():
            result = _result(index, -1, ErrorCode.NONE)
            results.append(result)
            if topic in refused:
                result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                continue
            try:
                partition, offset = _delete(node, topic, index, wanted)
                deleted.append((result, partition, offset))
            except KafkaError as error:
                result.error_code = error.code
        response.topics.append(DeleteRecordsTopicResult(name=topic, partitions=results))
    if deleted:
        try:
            await node.replication.logs.checkpoint_offsets()
        except OSError as problem:  # no record is below the new start now, but it may come back after a kill
            log.error("log start offsets not written: %s", problem)
            for result, _, _ in deleted:
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return response
    deadline = node.loop.time() + request.timeout_ms / 1000
    for result, partition, offset in deleted:
        try:
            await node.replication.in_sync.until_deleted(partition, offset, deadline)
            result.low_watermark = node.replication.in_sync.low_watermark(partition)
        except KafkaError as error:
            result.error_code = error.code
    return response


def _wanted(request: DeleteRecordsRequest) -> dict[str, dict[int, int]]:
    """Offsets by topic and partition; of a partition that is named twice, the last offset counts."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = wanted.setdefault(topic.name, {})
        for partition in topic.partitions:
            offsets[partition.partition_index] = partition.offset
    return wanted


def _delete(node: Node, topic: str, index: int, wanted: int) -> tuple[Partition, int]:
    """Move the leader's log start. Returns the partition, and the offset that every replica's is to reach."""
    known = node.image.topics.get(topic)
    if known is None or index not in known.partitions:
        raise UnknownTopicOrPartition()
    if is_internal(topic):
        raise InvalidTopicException(f"{topic} is the cluster's own, its records can't be deleted")
    partition = node.partitions.partition(topic, index)
    if is_mirror(node.image, topic):
        raise read_only(topic)
    if "delete" not in partition.log.config.cleanup_policy:
        raise PolicyViolation(f"topic {topic} is compacted only, its records can't be deleted by offset")
    offset = partition.high_watermark if wanted == HIGH_WATERMARK else wanted
    if not 0 <= offset <= partition.high_watermark:
        raise OffsetOutOfRange(f"offset {offset} is outside of 0 to {partition.high_watermark}")
    partition.log.advance_log_start_offset(offset)
    partition.wake_followers()
    return partition, offset


def _result(index: int, low_watermark: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=code)


HANDLERS = {ApiKey.DELETE_RECORDS: delete_records}
