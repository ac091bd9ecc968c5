"""Reads a partition that another broker leads, from its start to its end, as a consumer would.

A new leader's high watermark lags for a while behind the one of the last leader: a Fetch would end there as
if that were all. So the end is asked for by ListOffsets, which is refused meanwhile (KIP-207).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.peers.broker_requests import address_of_broker
from ottla.broker.peers.peers import PeerUnreachable
from ottla.protocol.errors import CorruptBatch, error_class
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse
from ottla.protocol.record_batch import BatchHeader, Record, decode_records, iterate_headers
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.peers.broker_requests import PeersNode

TIMEOUT_MS: Final = 30_000
LAST_FETCH_VERSION_WITH_NAMES: Final = 12
LATEST: Final = -1
EARLIEST: Final = -2
CONSUMER: Final = -1
FETCH_BYTES: Final = 1 << 20
NO_SESSION_EPOCH: Final = -1

Ask: TypeAlias = Callable[[Message, int | None], Awaitable[Message]]
"""A request to the leader, in at most some version."""


async def read_remote_log(
    node: PeersNode, purpose: str, leader: int, topic: str, index: int
) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
    """Every batch that is committed when the reading begins, control batches too.

    Raises PeerUnreachable, CorruptBatch, or KafkaError as the leader answers: OffsetNotAvailable while it
    does not know where the committed log ends.
    """

    async def ask(request: Message, version: int | None) -> Message:
        address = address_of_broker(node, leader)
        if address is None:
            raise PeerUnreachable(f"broker {leader} is not there")
        return await node.peers.ask(purpose, address, request, timeout_ms=TIMEOUT_MS, version=version)

    end_offset = await _offset_at(ask, topic, index, LATEST)
    offset = await _offset_at(ask, topic, index, EARLIEST)
    while offset < end_offset:
        data = await _fetch(ask, topic, index, offset)
        before = offset
        records = data.records or b""
        for position, header in iterate_headers(records):
            if header.next_offset > offset:  # a batch may begin before the offset that was asked for
                yield header, decode_records(records, position)
                offset = header.next_offset
        if offset == before:
            raise CorruptBatch(f"nothing of {topic}-{index} can be read at offset {offset}")


async def _offset_at(ask: Ask, topic: str, index: int, timestamp: int) -> int:
    asked = ListOffsetsTopic(
        name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp)]
    )
    answer = await ask(ListOffsetsRequest(replica_id=CONSUMER, topics=[asked], timeout_ms=TIMEOUT_MS), None)
    assert isinstance(answer, ListOffsetsResponse)
    found = answer.topics[0].partitions[0]
    _check(found.error_code)
    return found.offset


async def _fetch(ask: Ask, topic: str, index: int, offset: int) -> PartitionData:
    asked = FetchTopic(
        topic=topic,
        partitions=[FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)],
    )
    request = FetchRequest(
        replica_id=CONSUMER, max_wait_ms=0, min_bytes=0, session_epoch=NO_SESSION_EPOCH, topics=[asked]
    )
    answer = await ask(request, LAST_FETCH_VERSION_WITH_NAMES)
    assert isinstance(answer, FetchResponse)
    _check(answer.error_code)
    found = answer.responses[0].partitions[0]
    _check(found.error_code)
    return found


def _check(error_code: int) -> None:
    if error_code:
        raise error_class(error_code)()
