"""A client that speaks the protocol one request at a time, for requests that no real client would send."""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import BatchHeader, NewRecord, encode_batch, iterate_headers
from ottla.protocol.schema import Message

TIMEOUT_S = 20.0
BASE_TIMESTAMP_MS = 1_700_000_000_000


class ConnectionClosed(Exception):
    """The broker closed the connection where an answer was expected."""


class Client(Protocol):
    """What helpers need of a client: one connection, or one that chooses the broker of each request."""

    def call(self, request: Message, version: int | None = None) -> Any:
        """Send a request and return its response."""

    def create_topic(self, topic: str, partitions: int = 1) -> uuid.UUID:
        """Create a topic, wait until its partitions are led, and return its id."""

    def fetch(self, topic: str, partitions: Sequence[int]) -> dict[int, Any]:
        """Fetch some partitions of a topic from its start; the answers by partition."""


@dataclass(slots=True)
class WireClient:
    """One connection. A request goes out in its newest version unless told otherwise."""

    connection: socket.socket
    client_id: str | None = "wire"
    _correlation_id: int = 0
    _topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def connect(cls, bootstrap: str, client_id: str | None = "wire") -> Iterator[WireClient]:
        host, port = bootstrap.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield cls(connection, client_id)

    # --- requests and responses ---------------------------------------------------------------------------

    def call(self, request: Message, version: int | None = None) -> Any:
        """Send a request and return its response."""
        return self.receive(request, self.send(request, version), version)

    def send(self, request: Message, version: int | None = None) -> int:
        """Send a request and return its correlation id."""
        api_key = _api_key(request)
        self._correlation_id += 1
        frame = encode_request(
            api_key, _version(api_key, version), self._correlation_id, self.client_id, request
        )
        self.send_frame(frame)
        return self._correlation_id

    def receive(self, request: Message, correlation_id: int, version: int | None = None) -> Any:
        """The response to a request that was sent."""
        api_key = _api_key(request)
        received, response = decode_response(api_key, _version(api_key, version), self.receive_frame())
        assert received == correlation_id
        return response

    def send_frame(self, frame: bytes) -> None:
        self.connection.sendall(struct.pack(">i", len(frame)) + frame)

    def receive_frame(self) -> bytes:
        """The contents of the next frame. Raises ConnectionClosed."""
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def is_closed_by_the_broker(self) -> bool:
        """Waits for the broker to close the connection; False if it sends something instead."""
        try:
            return self.connection.recv(1) == b""
        except ConnectionResetError:
            return True

    def _receive_exactly(self, size: int) -> bytes:
        chunks = bytearray()
        while len(chunks) < size:
            try:
                chunk = self.connection.recv(size - len(chunks))
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise ConnectionClosed(f"after {len(chunks)} of {size} bytes")
            chunks += chunk
        return bytes(chunks)

    # --- everyday requests --------------------------------------------------------------------------------

    def create_topic(
        self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> uuid.UUID:
        """Create a topic, wait until the broker leads its partitions, and return its id."""
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in (config or {}).items()]
        new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=configs)
        response = self.call(CreateTopicsRequest(topics=[new]))
        assert response.topics[0].error_code == ErrorCode.NONE, response.topics[0]
        topic_id: uuid.UUID = response.topics[0].topic_id

        def ready() -> bool:
            (metadata,) = self.topic_metadata(topic).topics
            partitions_now = metadata.partitions
            return len(partitions_now) == partitions and all(p.leader_id >= 0 for p in partitions_now)

        wait_for(ready)
        wait_for(lambda: all(p.error_code == 0 for p in self.fetch(topic, range(partitions)).values()))
        return topic_id

    def topic_metadata(self, topic: str) -> Any:
        return self.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)

    def topic_id(self, topic: str) -> uuid.UUID:
        if topic not in self._topic_ids:
            self._topic_ids[topic] = self.topic_metadata(topic).topics[0].topic_id
        return self._topic_ids[topic]

    def produce(
        self, topic: str, partition: int, records: bytes | None, acks: int = -1, version: int = 12
    ) -> Any:
        """Produce one partition's batches and return that partition's part of the response."""
        request = produce_request(topic, partition, records, acks)
        if version >= 13:
            request.topic_data[0].name = ""
            request.topic_data[0].topic_id = self.topic_id(topic)
        response = self.call(request, version)
        return response.responses[0].partition_responses[0]

    def fetch(
        self,
        topic: str,
        partitions: Sequence[int],
        offset: int = 0,
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 50_000_000,
        partition_max_bytes: int = 10_000_000,
        version: int = 12,
    ) -> dict[int, Any]:
        """Fetch some partitions of a topic from one offset, in no session; the answers by partition."""
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            topics=[
                FetchTopic(
                    topic=topic if version < 13 else "",
                    topic_id=self.topic_id(topic) if version >= 13 else uuid.UUID(int=0),
                    partitions=[
                        FetchPartition(
                            partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes
                        )
                        for partition in partitions
                    ],
                )
            ],
        )
        response = self.call(request, version)
        assert response.error_code == 0
        return {p.partition_index: p for t in response.responses for p in t.partitions}

    def read_batches(self, topic: str, partition: int) -> list[tuple[BatchHeader, bytes]]:
        """Every batch of a partition: its header, and all its bytes."""
        batches: list[tuple[BatchHeader, bytes]] = []
        offset = 0
        while True:
            answer = self.fetch(topic, [partition], offset)[partition]
            assert answer.error_code == ErrorCode.NONE
            data = bytes(answer.records or b"")
            found = [(header, data[at : at + header.size_bytes]) for at, header in iterate_headers(data)]
            batches += found
            if not found or found[-1][0].next_offset >= answer.high_watermark:
                return batches
            offset = found[-1][0].next_offset


def produce_request(topic: str, partition: int, records: bytes | None, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def batch(
    count: int = 1, value: bytes = b"value", timestamp_ms: int = BASE_TIMESTAMP_MS, **fields: Any
) -> bytes:
    """A record batch of `count` equal records a millisecond apart; `fields` as in `encode_batch`."""
    records = [NewRecord(key=b"key", value=value, timestamp=timestamp_ms + n) for n in range(count)]
    return encode_batch(records, **fields)


def wait_for(condition: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(0.01)


def _api_key(request: Message) -> ApiKey:
    assert request.API_KEY is not None
    return ApiKey(request.API_KEY)


def _version(api_key: ApiKey, version: int | None) -> int:
    return APIS[api_key].latest_stable_version if version is None else version
