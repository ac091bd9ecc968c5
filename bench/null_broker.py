"""A broker that keeps nothing: the limit of a client, seen beside the figures of real ones.

`python -m bench.null_broker --port N`. It answers the requests of a scenario's clients with as little work as
Python can: a produce request is counted, not checked and not kept; a fetch gets batches of records made up
beforehand, with the offsets that it asks for, as far as records were produced. It has no disk, does no
checks, lets no fetch wait, and knows one member a group.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import signal
import struct
import uuid
from collections.abc import Callable
from typing import Any, cast

from ottla.cli.frame.event_loop import loop_factory
from ottla.protocol import single_partition_fetch, single_partition_produce
from ottla.protocol.apis import ApiKey, request_class
from ottla.protocol.headers import decode_request_header, encode_response
from ottla.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
from ottla.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from ottla.protocol.record_batch import NewRecord, encode_batch
from ottla.protocol.schema import Message

# The versions that it speaks, of what the clients of the scenarios ask.
VERSIONS = {
    ApiKey.PRODUCE: (9, 13),
    ApiKey.FETCH: (13, 17),
    ApiKey.LIST_OFFSETS: (4, 8),
    ApiKey.METADATA: (0, 12),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_FETCH: (1, 9),
    ApiKey.FIND_COORDINATOR: (0, 4),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (4, 7),
    ApiKey.INIT_PRODUCER_ID: (2, 5),
}
FIRST_VERSION_WITH_COORDINATORS = 4
FIRST_VERSION_WITH_GROUPS = 8
NODE_ID = 1
BATCH_RECORDS, RECORD_BYTES = 140, 100
"""The fetched batches: about the 16 KiB of the clients' batch.size."""
BATCHES = 2_048
LATEST = -1
RECORD_COUNT_POSITION = 57
READ_BYTES = 256 * 1024
_SIZE = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_RECORD_COUNT = struct.Struct(">i")


class Topics:
    """The topics' ids, partitions, and the records that were produced to each partition."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.partitions: dict[str, int] = {}
        self.names: dict[uuid.UUID, str] = {}
        self.ends: dict[tuple[object, int], int] = {}
        draw = random.Random(1)
        records = [
            NewRecord(None, draw.randbytes(RECORD_BYTES), 1_700_000_000_000) for _ in range(BATCH_RECORDS)
        ]
        self.batch_bytes = len(encode_batch(records))
        self._batches = bytearray(encode_batch(records) * BATCHES)

    def create(self, name: str, partitions: int) -> None:
        self.partitions[name] = max(1, partitions)
        self.names[self.id_of(name)] = name

    @staticmethod
    def id_of(name: str) -> uuid.UUID:
        return uuid.uuid5(uuid.NAMESPACE_DNS, name)

    def name_of(self, topic: str | uuid.UUID) -> str:
        return topic if isinstance(topic, str) else self.names[topic]

    def produced(self, topic: str | uuid.UUID, partition: int, records: Any) -> int:
        """Count a batch; its base offset. The same topic is counted under its name and under its id."""
        key = (topic, partition)
        base = self.ends.get(key, 0)
        self.ends[key] = base + _RECORD_COUNT.unpack_from(records, RECORD_COUNT_POSITION)[0]
        return base

    def end(self, name: str, partition: int) -> int:
        return self.ends.get((name, partition), 0) + self.ends.get((self.id_of(name), partition), 0)

    def batches_from(self, offset: int, end: int, max_bytes: int) -> memoryview:
        """Whole batches from the one that holds `offset` on, as far as `end`; one at least below it."""
        first = offset - offset % BATCH_RECORDS
        count = min(BATCHES, max(1, max_bytes // self.batch_bytes), -(-(end - first) // BATCH_RECORDS))
        if offset >= end:
            return memoryview(b"")
        found = self._batches[: count * self.batch_bytes]
        for number in range(count):
            _OFFSET.pack_into(found, number * self.batch_bytes, first + number * BATCH_RECORDS)
        return memoryview(found)


class Client(asyncio.BufferedProtocol):
    """A connection: frames in, answers out, at once."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._buffer = bytearray(READ_BYTES)
        self._fill = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._fill :]

    def buffer_updated(self, nbytes: int) -> None:
        self._fill += nbytes
        buffer, position, end = memoryview(self._buffer), 0, self._fill
        answers: list[bytes | memoryview] = []
        size = 0
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(buffer, position)
            if position + 4 + size > end:
                break
            answers += self._answer(buffer[position + 4 : position + 4 + size])
            position += 4 + size
        if position or size + 4 > len(self._buffer):
            rest = bytes(buffer[position:end])
            buffer.release()
            if size + 4 > len(self._buffer):
                self._buffer = bytearray(2 * size)
            self._buffer[: len(rest)] = rest
            self._fill = len(rest)
        if answers and self._transport is not None:
            self._transport.writelines(answers)

    def _answer(self, frame: memoryview) -> list[bytes | memoryview]:
        header, position = decode_request_header(frame)
        key, version, correlation_id = header.api_key, header.api_version, header.correlation_id
        body = frame[position:]
        if key == ApiKey.PRODUCE:
            single = single_partition_produce.decode(body, version)
            if single is not None and single.records is not None:
                base = self._topics.produced(single.topic, single.partition, single.records)
                if single.acks == 0:
                    return []
                told = (single.topic, single.partition, correlation_id, base, -1, 0)
                return [single_partition_produce.encode_answer(*told)]
        elif key == ApiKey.FETCH:
            return self._fetched(body, version, correlation_id)
        request, _ = request_class(ApiKey(key)).decode_prefix(body, version)
        answer = ANSWERS[ApiKey(key)](self._topics, request, version)
        whole = encode_response(key, version, correlation_id, answer)
        return [len(whole).to_bytes(4, "big") + whole]

    def _fetched(self, body: memoryview, version: int, correlation_id: int) -> list[bytes | memoryview]:
        single = single_partition_fetch.decode(body, version)
        if single is None:
            return self._fetched_from_several(body, version, correlation_id)
        wanted = single.wanted
        if wanted is None:
            return [single_partition_fetch.encode_empty_answer(correlation_id, 0)]
        end = self._topics.end(self._topics.name_of(wanted.topic_id), wanted.partition)
        records = self._topics.batches_from(wanted.fetch_offset, end, wanted.partition_max_bytes)
        answer = single_partition_fetch.encode_answer(
            correlation_id,
            0,
            wanted.topic_id,
            wanted.partition,
            (end, end, 0),
            records,
            no_transaction_aborted=False,
        )
        return list(answer)

    def _fetched_from_several(
        self, body: memoryview, version: int, correlation_id: int
    ) -> list[bytes | memoryview]:
        request, _ = FetchRequest.decode_prefix(body, version)
        topics = self._topics
        responses = []
        for topic in request.topics:
            answers = []
            for each in topic.partitions:
                end = topics.end(topics.names[topic.topic_id], each.partition)
                answers.append(
                    PartitionData(
                        partition_index=each.partition,
                        error_code=0,
                        high_watermark=end,
                        last_stable_offset=end,
                        log_start_offset=0,
                        aborted_transactions=None,
                        records=topics.batches_from(each.fetch_offset, end, each.partition_max_bytes),
                    )
                )
            responses.append(FetchableTopicResponse(topic_id=topic.topic_id, partitions=answers))
        answer = FetchResponse(error_code=0, session_id=0, responses=responses)
        whole = encode_response(ApiKey.FETCH, version, correlation_id, answer)
        return [len(whole).to_bytes(4, "big") + whole]


# --- the other answers ----------------------------------------------------------------------------------


def _api_versions(topics: Topics, request: Any, version: int) -> Message:
    keys = [
        ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in VERSIONS.items()
    ]
    return ApiVersionsResponse(error_code=0, api_keys=keys)


def _metadata(topics: Topics, request: Any, version: int) -> Message:
    wanted = request.topics
    names = (
        list(topics.partitions)
        if wanted is None
        else [each.name or topics.names[each.topic_id] for each in wanted]
    )
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=NODE_ID, host="127.0.0.1", port=topics.port)],
        cluster_id="null",
        controller_id=NODE_ID,
        topics=[
            MetadataResponseTopic(
                error_code=0,
                name=name,
                topic_id=topics.id_of(name),
                is_internal=False,
                partitions=[
                    MetadataResponsePartition(
                        error_code=0,
                        partition_index=index,
                        leader_id=NODE_ID,
                        leader_epoch=0,
                        replica_nodes=[NODE_ID],
                        isr_nodes=[NODE_ID],
                        offline_replicas=[],
                    )
                    for index in range(topics.partitions[name])
                ],
            )
            for name in names
        ],
    )


def _create_topics(topics: Topics, request: Any, version: int) -> Message:
    made = []
    for each in request.topics:
        topics.create(each.name, each.num_partitions)
        made.append(CreatableTopicResult(name=each.name, topic_id=topics.id_of(each.name), error_code=0))
    return CreateTopicsResponse(topics=made)


def _init_producer_id(topics: Topics, request: Any, version: int) -> Message:
    return InitProducerIdResponse(error_code=0, producer_id=1, producer_epoch=0)


def _produce(topics: Topics, request: Any, version: int) -> Message:
    """A request of several partitions, or of a transaction."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=each.index,
                        error_code=0,
                        base_offset=topics.produced(topic.name or topic.topic_id, each.index, each.records),
                        log_append_time_ms=-1,
                        log_start_offset=0,
                    )
                    for each in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _list_offsets(topics: Topics, request: Any, version: int) -> Message:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=each.partition_index,
                        error_code=0,
                        offset=topics.end(topic.name, each.partition_index)
                        if each.timestamp == LATEST
                        else 0,
                        leader_epoch=0,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _find_coordinator(topics: Topics, request: Any, version: int) -> Message:
    if version < FIRST_VERSION_WITH_COORDINATORS:
        return FindCoordinatorResponse(
            error_code=0, error_message=None, node_id=NODE_ID, host="127.0.0.1", port=topics.port
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key, node_id=NODE_ID, host="127.0.0.1", port=topics.port, error_code=0, error_message=None
            )
            for key in request.coordinator_keys
        ]
    )


def _join_group(topics: Topics, request: Any, version: int) -> Message:
    member = request.member_id or str(uuid.uuid4())
    chosen = request.protocols[0]
    return JoinGroupResponse(
        error_code=0,
        generation_id=1,
        protocol_type=request.protocol_type,
        protocol_name=chosen.name,
        leader=member,
        skip_assignment=False,
        member_id=member,
        members=[JoinGroupResponseMember(member_id=member, metadata=chosen.metadata)],
    )


def _sync_group(topics: Topics, request: Any, version: int) -> Message:
    return SyncGroupResponse(
        error_code=0,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=request.assignments[0].assignment,
    )


def _heartbeat(topics: Topics, request: Any, version: int) -> Message:
    return HeartbeatResponse(error_code=0)


def _leave_group(topics: Topics, request: Any, version: int) -> Message:
    return LeaveGroupResponse(error_code=0, members=[])


def _offset_fetch(topics: Topics, request: Any, version: int) -> Message:
    if version < FIRST_VERSION_WITH_GROUPS:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=index, committed_offset=-1, metadata=None, error_code=0
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics or ()
            ]
        )
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                group_id=group.group_id,
                error_code=0,
                topics=[
                    OffsetFetchResponseTopics(
                        name=topic.name,
                        partitions=[
                            OffsetFetchResponsePartitions(
                                partition_index=index, committed_offset=-1, metadata=None, error_code=0
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics or ()
                ],
            )
            for group in request.groups
        ]
    )


def _offset_commit(topics: Topics, request: Any, version: int) -> Message:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=0)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


ANSWERS: dict[ApiKey, Callable[[Topics, Any, int], Message]] = {
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.PRODUCE: _produce,
    ApiKey.SYNC_GROUP: _sync_group,
}


async def serve(port: int) -> None:
    """Serve until SIGTERM."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    topics = Topics(port)
    server = await loop.create_server(lambda: Client(topics), "127.0.0.1", port)
    await stop.wait()
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.null_broker")
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(port))


if __name__ == "__main__":
    main()
