"""RecordWriter before a leader that fails at any point: each record is written once, and in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.client.cluster_requests import TopicPartition
from ottla.client.connection import ConnectionLost
from ottla.client.errors import ClusterError
from ottla.client.records import writer as writing
from ottla.client.records.batches import OutgoingBatch, ProducerIdentity
from ottla.client.records.writer import RecordWriter, WriteSettings
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce_request import ProduceRequest
from ottla.protocol.messages.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.record_batch import NO_SEQUENCE, decode_records, iterate_headers

PLACE = TopicPartition("numbers", 0)
REMEMBERED = 5
TURNS = 6
"""The longest wait of a scripted step, in turns of the event loop."""

OK, REFUSED, LOST_BEFORE, LOST_AFTER, AWAY = range(5)


class Leader:
    """One partition's leader with Kafka's check of sequence numbers; `steps` script what becomes of requests.

    A step is an outcome and a number of turns of the event loop that it takes; after the last, all is well.
    """

    def __init__(self, steps: list[tuple[int, int]]) -> None:
        self.steps = steps
        self.log: list[bytes] = []
        self.batches: list[tuple[int, int]] = []
        """The first and last sequence number of the newest batches."""
        self.connection: Connection | None = None

    def step(self, *outcomes: int) -> tuple[int, int]:
        """The next step if it is for this point, else success at once."""
        if self.steps and self.steps[0][0] in outcomes:
            return self.steps.pop(0)
        return OK, 0

    def append(self, records: bytes) -> ErrorCode:
        ((position, header),) = iterate_headers(records)
        first, last = header.base_sequence, header.base_sequence + header.record_count - 1
        if (first, last) in self.batches[-REMEMBERED:]:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        # A producer without state may begin with any number, as on a broker that has forgotten it.
        if self.batches and first != self.batches[-1][1] + 1:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self.batches.append((first, last))
        self.log += [record.value for record in decode_records(records, position)]
        return ErrorCode.NONE


class Connection:
    """A connection that answers in order, and is lost with all of its requests."""

    def __init__(self, leader: Leader) -> None:
        self.leader = leader
        self.open = True
        self.versions = {ApiKey.PRODUCE: (0, 11)}
        self._turn = asyncio.Lock()

    def hang_up(self) -> None:
        self.open = False

    async def ask(self, key: ApiKey, version: int, request: ProduceRequest) -> ProduceResponse:
        if not self.open:
            raise ConnectionLost("closed")
        async with self._turn:
            if not self.open:
                raise ConnectionLost("lost with the ones before it")
            outcome, turns = self.leader.step(OK, REFUSED, LOST_BEFORE, LOST_AFTER)
            for _ in range(turns):
                await asyncio.sleep(0)
            if outcome == LOST_BEFORE:
                self.open = False
                raise ConnectionLost("before it was written")
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if outcome != REFUSED:
                records = request.topic_data[0].partition_data[0].records
                assert records is not None
                code = self.leader.append(bytes(records))
            if outcome == LOST_AFTER:
                self.open = False
                raise ConnectionLost("after it was written")
        answer = PartitionProduceResponse(index=0, error_code=code, base_offset=0)
        return ProduceResponse(
            responses=[TopicProduceResponse(name=PLACE.topic, partition_responses=[answer])]
        )


def connections_of(leader: Leader) -> Callable[..., Any]:
    async def connection(partition: TopicPartition, *, anew: bool) -> Connection:
        outcome, turns = leader.step(AWAY)
        for _ in range(turns):
            await asyncio.sleep(0)
        if outcome == AWAY:
            raise writing._NotNow(ClusterError("nobody there"))
        if leader.connection is None or not leader.connection.open:
            leader.connection = Connection(leader)
        return leader.connection

    return connection


def numbered(first: int, count: int) -> OutgoingBatch:
    values = [b"%d" % number for number in range(first, first + count)]
    return OutgoingBatch(PLACE, range(first, first + count), 0, 0, None, values, None, 100, NO_SEQUENCE)


async def written(steps: list[tuple[int, int]], counts: list[int]) -> list[bytes]:
    leader = Leader(list(steps))
    nothing: Any = object()
    writer = RecordWriter(nothing, nothing, WriteSettings())
    writer._identity = ProducerIdentity(7, 0)
    writer.connection = connections_of(leader)  # type: ignore[method-assign]
    first = 0
    for count in counts:
        await writer.add(numbered(first, count))
        first += count
        await asyncio.sleep(0)
    await asyncio.wait_for(writer.flush(), 30)
    assert writer.written == first
    await writer.close()
    return leader.log


@pytest.fixture(autouse=True, scope="module")
def without_pauses() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "FIRST_PAUSE_SECONDS", 0)
        yield


outcomes = st.sampled_from([OK, OK, OK, REFUSED, LOST_BEFORE, LOST_AFTER, AWAY])


@given(
    steps=st.lists(st.tuples(outcomes, st.integers(0, TURNS)), max_size=25),
    counts=st.lists(st.integers(1, 3), min_size=1, max_size=20),
)
# The leader is away for a moment while batches are lost under way: a later batch went before them.
@example(steps=[(OK, 1), (LOST_AFTER, 2), (AWAY, 0)], counts=[1] * 8)
@settings(max_examples=150)
def test_each_record_is_written_once_and_in_order(steps: list[tuple[int, int]], counts: list[int]) -> None:
    assert asyncio.run(written(steps, counts)) == [b"%d" % number for number in range(sum(counts))]
