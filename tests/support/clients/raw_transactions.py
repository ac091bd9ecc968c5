"""Requests of producers and consumers of transactions, to a broker in the test's own process."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.broker.broker import Broker
from ottla.broker.coordinators.transaction_verification import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.protocol.record_batch import NewRecord, encode_batch
from support.nodes.in_process import RawClient

TOPIC = "t"
#: Of every record: not so long ago that the broker's own markers roll the segment.
TIMESTAMP_MS = time.time_ns() // 1_000_000
READ_COMMITTED = 1
LATEST = -1


@dataclass
class StubGate:
    """A transaction coordinator whose answers, and their times, are the test's choice."""

    answers: list[ErrorCode] = field(default_factory=list)
    asked: list[tuple[int, int, tuple[TopicPartition, ...], bool]] = field(default_factory=list)
    #: Awaited with the partitions before they are answered.
    before_answer: Callable[[Sequence[TopicPartition]], Awaitable[None]] | None = None

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """The next of `answers` for every partition; no error when they are used up."""
        self.asked.append((producer_id, producer_epoch, tuple(partitions), verify_only))
        if self.before_answer is not None:
            await self.before_answer(partitions)
        code = self.answers.pop(0) if self.answers else ErrorCode.NONE
        return dict.fromkeys(partitions, code)


def transactional_batch(
    *values: bytes, producer_id: int = 7, epoch: int = 0, sequence: int = 0, transactional: bool = True
) -> bytes:
    """A producer's batch."""
    return encode_batch(
        [NewRecord(None, value, TIMESTAMP_MS) for value in values],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def produce_request(
    batches: Mapping[int, bytes], *, transactional_id: str | None = "tx", topic: str = TOPIC
) -> ProduceRequest:
    """One batch for each of these partitions."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=index, records=records) for index, records in batches.items()
                ],
            )
        ],
    )


async def produce(
    client: RawClient,
    records: bytes,
    *,
    version: int = 11,
    partition: int = 0,
    transactional_id: str | None = "tx",
    topic: str = TOPIC,
) -> Any:
    """Produce one batch; the partition's answer. Below version 13."""
    request = produce_request({partition: records}, transactional_id=transactional_id, topic=topic)
    response: Any = await client.call(ApiKey.PRODUCE, version, request)
    return response.responses[0].partition_responses[0]


def fetch_request(
    offset: int, *, isolation: int = READ_COMMITTED, topic: str = TOPIC, partition: int = 0, **options: int
) -> FetchRequest:
    """A fetch of one partition, in no session, which waits for nothing unless told so."""
    values = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1} | options
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        isolation_level=isolation,
        topics=[FetchTopic(topic=topic, topic_id=uuid.UUID(int=0), partitions=[wanted])],
        **values,
    )


async def fetch(client: RawClient, offset: int, **options: Any) -> Any:
    """The answer of the partition that is fetched."""
    response: Any = await client.call(ApiKey.FETCH, 12, fetch_request(offset, **options))
    return response.responses[0].partitions[0]


async def latest_offset(client: RawClient, isolation: int, timestamp: int = LATEST) -> int:
    """The latest offset, by ListOffsets."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])],
    )
    response: Any = await client.call(ApiKey.LIST_OFFSETS, 7, request)
    answer = response.topics[0].partitions[0]
    assert answer.error_code == 0
    return int(answer.offset)


async def write_marker(
    client: RawClient,
    *,
    committed: bool,
    producer_id: int = 7,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 2,
    transaction_version: int = 0,
    topic: str = TOPIC,
    partition: int = 0,
) -> ErrorCode:
    """WriteTxnMarkers with one marker for one partition."""
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=committed,
        coordinator_epoch=coordinator_epoch,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
    )
    if version >= 2:
        marker.transaction_version = transaction_version
    response: Any = await client.call(
        ApiKey.WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest(markers=[marker])
    )
    (result,) = response.markers
    assert result.producer_id == producer_id
    return ErrorCode(result.topics[0].partitions[0].error_code)


def with_gate(broker: Broker, *answers: ErrorCode) -> StubGate:
    """Put a gate between the broker and its coordinator."""
    gate = StubGate(list(answers))
    broker.transactions.add_partitions = gate.add_partitions  # type: ignore[method-assign]
    return gate
