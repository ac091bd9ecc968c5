"""Reads a partition that another broker leads, from its start to its end, as a consumer would.

A new leader's high watermark lags for a while behind the one of the last leader: a Fetch would end there as
if that were all. So the end is asked for by ListOffsets, which is refused meanwhile (KIP-207).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

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


async def read_remote_log(
    node: PeersNode, purpose: str, leader: int, topic: str, index: int
) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
    """Every batch that is committed when the reading begins, control batches too.

    Raises PeerUnreachable, CorruptBatch, or KafkaError as the leader answers: OffsetNotAvailable while it
    does not know where the committed log ends.
    """
    remote = RemoteLog(node, purpose, leader, topic, index)
    end_offset = await remote.offset_at(LATEST)
    start_offset = await remote.offset_at(EARLIEST)
    async for header, records in remote.batches(start_offset, end_offset):
        yield header, records


class RemoteLog:
    """A partition that another broker leads. Calls raise as `read_remote_log`."""

    def __init__(self, node: PeersNode, purpose: str, leader: int, topic: str, index: int) -> None:
        self._node = node
        self._purpose = purpose
        self._leader = leader
        self._topic = topic
        self._index = index

    async def batches(
        self, start_offset: int, end_offset: int
    ) -> AsyncIterator[tuple[BatchHeader, list[Record]]]:
        """The batches with the offsets from `start_offset` to `end_offset`, which is committed."""
        offset = start_offset
        while offset < end_offset:
            data = await self._fetch(offset)
            before = offset
            records = data.records or b""
            for position, header in iterate_headers(records):
                if header.next_offset > offset:  # a batch may begin before the offset that was asked for
                    yield header, decode_records(records, position)
                    offset = header.next_offset
            if offset == before:
                raise CorruptBatch(f"nothing of {self._topic}-{self._index} can be read at offset {offset}")

    async def offset_at(self, timestamp: int) -> int:
        """The log's end (LATEST) or its start (EARLIEST)."""
        asked = ListOffsetsTopic(
            name=self._topic,
            partitions=[ListOffsetsPartition(partition_index=self._index, timestamp=timestamp)],
        )
        request = ListOffsetsRequest(replica_id=CONSUMER, topics=[asked], timeout_ms=TIMEOUT_MS)
        answer = await self._ask(request, None)
        assert isinstance(answer, ListOffsetsResponse)
        found = answer.topics[0].partitions[0]
        _check(found.error_code)
        return found.offset

    async def _fetch(self, offset: int) -> PartitionData:
        partition = FetchPartition(
            partition=self._index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
        )
        request = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=0,
            min_bytes=0,
            session_epoch=NO_SESSION_EPOCH,
            topics=[FetchTopic(topic=self._topic, partitions=[partition])],
        )
        answer = await self._ask(request, LAST_FETCH_VERSION_WITH_NAMES)
        assert isinstance(answer, FetchResponse)
        _check(answer.error_code)
        found = answer.responses[0].partitions[0]
        _check(found.error_code)
        return found

    async def _ask(self, request: Message, version: int | None) -> Message:
        address = address_of_broker(self._node, self._leader)
        if address is None:
            raise PeerUnreachable(f"broker {self._leader} is not there")
        return await self._node.peers.ask(
            self._purpose, address, request, timeout_ms=TIMEOUT_MS, version=version
        )


def _check(error_code: int) -> None:
    if error_code:
        raise error_class(error_code)()
