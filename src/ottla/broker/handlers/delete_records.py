"""DeleteRecords (API key 21): versions 0 to 2, moves a partition's log start offset forward (KIP-107).

Offset -1 stands for the high watermark. The new start is on disk before it is answered, so that a
kill -9 after the answer brings nothing deleted back. The answer waits for the followers that are there: they
hear of the new start with their fetches, and say with the next ones that theirs has moved (REQUEST_TIMED_OUT
otherwise; the records are gone from the leader all the same).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context import RequestContext
from ottla.broker.partition import Partition
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError, OffsetOutOfRange, PolicyViolation
from ottla.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from ottla.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

HIGH_WATERMARK = -1


async def delete_records(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Delete up to each partition's offset; answers with the new low watermark."""
    response = DeleteRecordsResponse(topics=[])
    deleted: list[tuple[DeleteRecordsPartitionResult, Partition, int]] = []
    for topic in request.topics:
        results = []
        for wanted in topic.partitions:
            result = _result(wanted.partition_index, -1, ErrorCode.NONE)
            results.append(result)
            try:
                partition, offset = _delete(broker, topic.name, wanted)
                deleted.append((result, partition, offset))
            except KafkaError as error:
                result.error_code = error.code
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    if deleted:
        await broker.replicas.checkpoint_log_start_offsets()
    deadline = broker.loop.time() + request.timeout_ms / 1000
    for result, partition, offset in deleted:
        try:
            await broker.replicas.until_deleted(partition, offset, deadline)
            result.low_watermark = broker.replicas.low_watermark(partition)
        except KafkaError as error:
            result.error_code = error.code
    return response


def _delete(broker: Broker, topic: str, wanted: DeleteRecordsPartition) -> tuple[Partition, int]:
    """Move the leader's start; where every replica's is to be."""
    partition = broker.replicas.partition(topic, wanted.partition_index)
    if "delete" not in partition.log.config.cleanup_policy:
        raise PolicyViolation(f"topic {topic} is compacted only, its records can't be deleted by offset")
    offset = partition.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
    if not 0 <= offset <= partition.high_watermark:
        raise OffsetOutOfRange(f"offset {offset} is outside of 0 to {partition.high_watermark}")
    partition.log.advance_log_start_offset(offset)
    partition.wake_followers()
    return partition, offset


def _result(index: int, low_watermark: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=code)


HANDLERS = {ApiKey.DELETE_RECORDS: delete_records}
