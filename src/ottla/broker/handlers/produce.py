"""Produce (API key 0): versions 3 to 13, advertised from 0 and refused below 3 (KAFKA-18659).

Each partition's records must be one batch of magic 2 (KIP-98). The batch is checked by its header and
its CRC, its base offset and leader epoch are patched in place, and its bytes are appended as they are;
records are looked at only where a topic asks for it (compacted topics refuse keyless records,
LogAppendTime topics stamp the batch).

    v3   transactional id            v9   flexible
    v5   log start offset            v10  current leader on NOT_LEADER_OR_FOLLOWER (KIP-951)
    v7   zstd                        v12  transactions v2 (KIP-890)
    v8   errors of single records    v13  topic ids (KIP-516)

acks=0 has no answer; a failure there closes the connection, the only sign that the client understands.
acks=1 and acks=all answer once the batch is in the log and, for all, below the high watermark; with one
replica that is the same moment.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.connection import CloseConnection, Reply
from ottla.broker.context import RequestContext
from ottla.broker.replies import frame_reply
from ottla.core.metadata.topic_names import is_internal
from ottla.protocol.apis import ApiKey
from ottla.protocol.batch_validation import RejectedRecords, RejectedTimestamps
from ottla.protocol.errors import ErrorCode, KafkaError, ProtocolError
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest
from ottla.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker")

VALID_ACKS = (-1, 0, 1)
FIRST_VERSION_SERVED = 3
#: The one client that may write to internal topics, as in Kafka.
ADMIN_CLIENT_ID = "__admin_client"
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_TOPIC_IDS = 13


def handle(broker: Broker, context: RequestContext, body: memoryview) -> Reply:
    """Append what the request carries and answer."""
    version = context.api_version
    if version < FIRST_VERSION_SERVED:
        raise CloseConnection(f"Produce v{version} carries a message format that Kafka 4 no longer takes")
    request, _ = ProduceRequest.decode_prefix(body, version)
    response = ProduceResponse(responses=[])
    failures = 0
    for topic_data in request.topic_data:
        topic_response = TopicProduceResponse(
            name=topic_data.name, topic_id=topic_data.topic_id, partition_responses=[]
        )
        response.responses.append(topic_response)
        name = topic_data.name
        by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        if by_id:
            known = broker.image.topics_by_id.get(topic_data.topic_id)
            name = known.name if known is not None else ""
        for data in topic_data.partition_data:
            if by_id and not name:
                answer = _failed(data.index, ErrorCode.UNKNOWN_TOPIC_ID, None)
            else:
                answer = _append(broker, context, request, name, data)
            failures += answer.error_code != 0
            topic_response.partition_responses.append(answer)
    if request.acks == 0:
        if failures:
            raise CloseConnection("a produce with acks=0 failed, closing is the only way to say so")
        return None
    return frame_reply(ApiKey.PRODUCE, version, context.correlation_id, response)


def _append(
    broker: Broker, context: RequestContext, request: ProduceRequest, topic: str, data: PartitionProduceData
) -> PartitionProduceResponse:
    if request.acks not in VALID_ACKS:
        return _failed(data.index, ErrorCode.INVALID_REQUIRED_ACKS, None)
    try:
        partition = broker.replicas.partition(topic, data.index)
        if is_internal(topic) and context.client_id != ADMIN_CLIENT_ID:
            return _failed(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is the cluster's own")
        appended = broker.replicas.append_produced(
            partition, data.records, zstd_allowed=context.api_version >= FIRST_VERSION_WITH_ZSTD
        )
    except (RejectedRecords, RejectedTimestamps) as rejected:
        response = _failed(data.index, rejected.code, str(rejected))
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=each.batch_index, batch_index_error_message=each.message)
            for each in rejected.record_errors
        ]
        return response
    except KafkaError as error:
        return _failed(data.index, error.code, str(error) or None)
    except ProtocolError as problem:
        return _failed(data.index, ErrorCode.CORRUPT_MESSAGE, str(problem))
    except OSError as problem:
        log.error("append failed topic=%s partition=%d error=%s", topic, data.index, problem)
        return _failed(data.index, ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
    return PartitionProduceResponse(
        index=data.index,
        error_code=0,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=partition.log.log_start_offset,
    )


def _failed(index: int, code: ErrorCode, message: str | None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        error_message=message,
    )


RAW_HANDLERS = {ApiKey.PRODUCE: handle}
