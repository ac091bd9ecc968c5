"""ListOffsets (API key 2): versions 1 to 11.

Consumers are answered by the leader, once the log that it began its epoch with is committed: before, it does
not know where the committed log ends (OFFSET_NOT_AVAILABLE, LEADER_NOT_AVAILABLE before v5). Brokers see the
log's end; so do debugging consumers (replica id -2), on any replica.

Timestamps with a meaning of their own: -1 latest (the high watermark, or for read_committed the last
stable offset), -2 earliest, -3 the record with the largest timestamp (v7, KIP-734), -4 earliest local
(v8, KIP-405), -5 latest tiered (v9) and -6 earliest pending upload (v11): without tiered storage -4 is
the earliest and -5 and -6 are unknown (-1). Any other timestamp asks for the first record at or after it.

A search by timestamp looks into a batch: that is done in a thread, and other requests get their turns
meanwhile.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.network.context import RequestContext
from ottla.broker.network.turns import in_turns
from ottla.broker.replication.partition import Partition
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError, LeaderNotAvailable, OffsetNotAvailable
from ottla.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from ottla.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.storage.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node
    from ottla.broker.replication.timestamp_lookup import TimestampLookup

log = logging.getLogger("ottla.broker")

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
TIERED = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
FIRST_VERSION_WITH_LEADER_EPOCHS = 4
NO_EPOCH = -1
READ_COMMITTED = 1
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
CONSUMER = -1
"""The replica id of all clients but brokers: only brokers see uncommitted records."""
DEBUGGING_CONSUMER = -2


async def list_offsets(
    node: Node, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    """Answer each partition on its own; a partition named twice is one error."""
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            (twice if key in seen else seen).add(key)
    response = ListOffsetsResponse(topics=[])
    names = (topic.name for topic in request.topics)
    refused = node.authorization.refused(context, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    async for topic in in_turns(request.topics):
        answers = []
        if topic.name in refused:
            unauthorized = [
                _failed(each.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                for each in topic.partitions
            ]
            response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=unauthorized))
            continue
        async for wanted in in_turns(topic.partitions):
            index = wanted.partition_index
            key = (topic.name, index)
            if key in twice:
                if key in seen:
                    answers.append(_failed(index, ErrorCode.INVALID_REQUEST))
                    seen.remove(key)
                continue
            try:
                answers.append(await _answer(node, context, request, topic.name, wanted))
            except KafkaError as error:
                answers.append(_failed(index, error.code))
            except (OSError, ValueError, StorageError) as problem:
                log.error("search failed topic=%s partition=%d error=%s", topic.name, index, problem)
                answers.append(_failed(index, ErrorCode.KAFKA_STORAGE_ERROR))
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return response


async def _answer(
    node: Node,
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: str,
    wanted: ListOffsetsPartition,
) -> ListOffsetsPartitionResponse:
    if context.api_version < FIRST_VERSION_OF.get(wanted.timestamp, 0) or (
        wanted.timestamp < EARLIEST_PENDING_UPLOAD
    ):
        return _failed(wanted.partition_index, ErrorCode.UNSUPPORTED_VERSION)
    if request.replica_id == DEBUGGING_CONSUMER:
        partition = node.partitions.replica(topic, wanted.partition_index)
    else:
        partition = node.partitions.partition(topic, wanted.partition_index)
    partition.check_leader_epoch(wanted.current_leader_epoch)
    if request.replica_id != CONSUMER:
        limit = partition.log.log_end_offset
    elif request.isolation_level == READ_COMMITTED:
        limit = partition.last_stable_offset
    else:
        limit = partition.high_watermark
    offset, timestamp, epoch = await _find(node.replication.timestamps, partition, wanted.timestamp, limit)
    unsettled = request.replica_id == CONSUMER and not partition.leader.settled
    if unsettled and (wanted.timestamp == LATEST or (offset < 0 and wanted.timestamp not in TIERED)):
        if context.api_version >= FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE:
            raise OffsetNotAvailable()
        raise LeaderNotAvailable()
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        error_code=0,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if context.api_version >= FIRST_VERSION_WITH_LEADER_EPOCHS else NO_EPOCH,
    )


async def _find(
    timestamps: TimestampLookup, partition: Partition, timestamp: int, limit: int
) -> tuple[int, int, int]:
    """(offset, timestamp, leader epoch) of the record that `timestamp` asks for; -1 where there is none."""
    stored = partition.log
    if timestamp == LATEST:
        return limit, -1, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = stored.log_start_offset
        return start, -1, stored.epoch_at(start) if start < stored.log_end_offset else partition.leader_epoch
    if timestamp in TIERED:
        return -1, -1, -1
    found = await timestamps.find(partition, None if timestamp == MAX_TIMESTAMP else timestamp)
    if found is None or (found.offset >= limit):
        return -1, -1, -1
    return found.offset, found.timestamp, found.leader_epoch


def _failed(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index, error_code=code, timestamp=-1, offset=-1, leader_epoch=-1
    )


HANDLERS = {ApiKey.LIST_OFFSETS: list_offsets}
