"""Another broker's log, read by Fetch: whole, over batches of any cut, and not before its end is known."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.peers import remote_log
from ottla.broker.peers.peers import PeerAddress, PeerUnreachable
from ottla.broker.peers.remote_log import LATEST, read_remote_log
from ottla.protocol.errors import CorruptBatch, ErrorCode, OffsetNotAvailable
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.list_offsets_request import ListOffsetsRequest
from ottla.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.record_batch import NewRecord, encode_batch

LEADER = 2
START = 40


class Leader:
    """Five batches of two records from offset 40 on; answers one and a half batches at a time."""

    def __init__(self) -> None:
        self.batches = [
            encode_batch(
                [NewRecord(b"k", b"%d" % (offset + each), 0) for each in range(2)], base_offset=offset
            )
            for offset in range(START, START + 10, 2)
        ]
        self.committed = START + 10
        self.end_is_known = True

    async def ask(self, purpose: str, to: Any, request: Any, **_: Any) -> Any:
        match request:
            case ListOffsetsRequest():
                latest = request.topics[0].partitions[0].timestamp == LATEST
                refused = latest and not self.end_is_known
                found = ListOffsetsPartitionResponse(
                    partition_index=0,
                    error_code=ErrorCode.OFFSET_NOT_AVAILABLE if refused else ErrorCode.NONE,
                    offset=self.committed if latest else START,
                )
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])
            case FetchRequest():
                first = (request.topics[0].partitions[0].fetch_offset - START) // 2
                readable = b"".join(self.batches[first : (self.committed - START) // 2])
                data = PartitionData(
                    partition_index=0,
                    high_watermark=self.committed,
                    records=readable[: len(self.batches[0]) * 3 // 2],
                )
                return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
        raise AssertionError(request)


async def read(leader: Leader) -> list[int]:
    broker: Any = SimpleNamespace(peers=leader)
    return [
        record.offset
        async for _, records in read_remote_log(broker, "test", LEADER, "t", 0)
        for record in records
    ]


@pytest.fixture(autouse=True)
def there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_log, "address_of_broker", lambda broker, node_id: PeerAddress("h", 1))


def test_the_log_is_read_whole() -> None:
    assert asyncio.run(read(Leader())) == list(range(START, START + 10))


def test_nothing_is_read_before_the_leader_knows_the_end() -> None:
    """A new leader's high watermark lags: what was committed before it led would be missed."""
    leader = Leader()
    leader.committed, leader.end_is_known = START + 8, False
    with pytest.raises(OffsetNotAvailable):
        asyncio.run(read(leader))


def test_a_log_that_does_not_get_on_is_no_end() -> None:
    leader = Leader()
    leader.batches[2:] = []
    with pytest.raises(CorruptBatch):
        asyncio.run(read(leader))


def test_a_broker_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_log, "address_of_broker", lambda broker, node_id: None)
    with pytest.raises(PeerUnreachable):
        asyncio.run(read(Leader()))
