"""What every coordinator's runner does with transactions in its log: batches of a producer, ends in order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.broker.coordinators.coordinator_shard import ShardFamily, ShardRunner, TransactionEnd
from ottla.broker.supervisor import Supervisor
from ottla.core.coordination.api import (
    Append,
    AppendDone,
    Client,
    Loaded,
    Moment,
    ProducerStamp,
    RequestReceived,
)
from ottla.core.coordination.records import CoordinatorRecord
from ottla.protocol.compression import Codec
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.record_batch import (
    BatchHeader,
    NewRecord,
    Record,
    decode_records,
    encode_batch,
    encode_end_transaction_marker,
    parse_batch_header,
)
from ottla.protocol.records.framing import Coordinator
from ottla.protocol.records.offset_commit_key import OffsetCommitKey

RED, BLUE = ProducerStamp(1, 0), ProducerStamp(2, 0)


class StoryShard:
    """Writes down what it is told; each request appends the next of `appends`."""

    def __init__(self) -> None:
        self.story: list[Any] = []
        self.appends: list[Append] = []

    def step(self, event: Any) -> Sequence[Any]:
        match event:
            case RequestReceived():
                return [self.appends.pop(0)]
            case AppendDone(_, append_id, base_offset):
                self.story.append(("done", append_id, base_offset))
            case Loaded():
                self.story.append("loaded")
            case str():
                self.story.append(event)
        return []

    def next_wake_ms(self) -> int | None:
        return None

    def replay(self, record: CoordinatorRecord, producer: ProducerStamp | None) -> None:
        assert isinstance(record.key, OffsetCommitKey)
        self.story.append((record.key.group, producer))

    def replay_transaction_end(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        self.story.append(("end", producer_id, producer_epoch, committed))


class FakeLog:
    """One partition; an append waits for the gate before or after it has its offset."""

    def __init__(self) -> None:
        self.batches: list[tuple[ProducerStamp | None, list[str]]] = []
        self.stored: list[bytes] = []
        self.end_offset = 0
        self.before, self.after = asyncio.Event(), asyncio.Event()
        self.before.set()
        self.after.set()

    async def append_records(
        self,
        topic: str,
        index: int,
        records: Sequence[NewRecord],
        *,
        codec: Codec = Codec.NONE,
        producer: ProducerStamp | None = None,
    ) -> int:
        await self.before.wait()
        self.batches.append((producer, [str(len(records))]))
        offset = self.end_offset
        self.end_offset += len(records)
        await self.after.wait()
        return offset

    async def until_committed(self, topic: str, index: int) -> None:
        """All is committed at once."""

    def iterate_batches(self, topic: str, index: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
        for batch in self.stored:
            yield parse_batch_header(batch), decode_records(batch)


class FakeBroker:
    def __init__(self) -> None:
        self.internal_appends = FakeLog()
        self.failures: list[BaseException] = []
        self.supervisor = Supervisor(lambda name, failure: self.failures.append(failure))

    @staticmethod
    def now_ms() -> int:
        return 1_700_000_000_000


def runner_of(broker: FakeBroker, shard: StoryShard) -> ShardRunner:
    def make(_: Moment) -> StoryShard:
        return shard

    family = ShardFamily(Coordinator.GROUP, "groups", Codec.NONE, make, lambda request, error: request)
    return ShardRunner(broker, family, 0, 0, lambda runner: None)


def record(group: str) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group, topic="t", partition=0))


def ask(runner: ShardRunner) -> None:
    runner.request(HeartbeatRequest(), Client("", "", 0))


async def settled() -> None:
    """Let everything run that needs no more than turns of the loop."""
    for _ in range(20):
        await asyncio.sleep(0)


def stored(group: str, producer: ProducerStamp | None, base_offset: int) -> bytes:
    from ottla.broker.coordinators.coordinator_shard import encode_record

    stamp = producer or ProducerStamp(-1, -1)
    return encode_batch(
        [encode_record(record(group), 0)],
        base_offset=base_offset,
        producer_id=stamp.producer_id,
        producer_epoch=stamp.producer_epoch,
        transactional=producer is not None,
    )


def test_loading_tells_whose_transaction_a_record_is_part_of_and_how_it_ended() -> None:
    async def scenario() -> None:
        # given
        broker, shard = FakeBroker(), StoryShard()
        broker.internal_appends.stored = [
            stored("plain", None, 0),
            stored("red", RED, 1),
            stored("blue", BLUE, 2),
            encode_end_transaction_marker(
                committed=False,
                coordinator_epoch=0,
                producer_id=2,
                producer_epoch=0,
                timestamp=0,
                base_offset=3,
            ),
            encode_end_transaction_marker(
                committed=True,
                coordinator_epoch=0,
                producer_id=1,
                producer_epoch=1,
                timestamp=0,
                base_offset=4,
            ),
        ]
        runner = runner_of(broker, shard)
        # when: one end is told twice, being in the log already, and one is new
        runner.on_transaction_end(TransactionEnd(4, 1, 1, True))
        runner.on_transaction_end(TransactionEnd(5, 3, 0, True))
        runner.tell(lambda at: "an event")
        await runner.load()
        # then
        assert shard.story == [
            ("plain", None),
            ("red", RED),
            ("blue", BLUE),
            ("end", 2, 0, False),
            ("end", 1, 1, True),
            ("end", 3, 0, True),
            "loaded",
            "an event",
        ]

    asyncio.run(scenario())


def test_records_of_a_transaction_share_a_batch_with_none_but_their_own() -> None:
    async def scenario() -> None:
        # given: an append that takes time, and more that wait
        broker, shard = FakeBroker(), StoryShard()
        stamps = [None, None, RED, RED, BLUE, None]
        shard.appends = [Append(i, (record("g"),), stamp) for i, stamp in enumerate(stamps)]
        runner = runner_of(broker, shard)
        await runner.load()
        broker.internal_appends.before.clear()
        for _ in stamps:
            ask(runner)
        # when
        broker.internal_appends.before.set()
        await settled()
        # then
        assert broker.internal_appends.batches == [(None, ["2"]), (RED, ["2"]), (BLUE, ["1"]), (None, ["1"])]
        assert broker.failures == []

    asyncio.run(scenario())


def test_an_end_is_replayed_in_the_logs_order_among_appends() -> None:
    async def scenario() -> None:
        # given: an append that has its offset, but is not committed
        broker, shard = FakeBroker(), StoryShard()
        shard.appends = [Append(0, (record("g"),), RED)]
        runner = runner_of(broker, shard)
        await runner.load()
        broker.internal_appends.end_offset = 1
        runner.on_transaction_end(TransactionEnd(0, 9, 0, True))
        broker.internal_appends.after.clear()
        ask(runner)
        await settled()
        # when: the marker comes behind it
        runner.on_transaction_end(TransactionEnd(2, 1, 1, True))
        assert shard.story == ["loaded", ("end", 9, 0, True)]
        broker.internal_appends.after.set()
        await settled()
        # then
        assert shard.story[2:] == [("done", 0, 1), ("end", 1, 1, True)]

    asyncio.run(scenario())


def test_an_end_that_comes_before_an_append_is_replayed_before_it() -> None:
    async def scenario() -> None:
        # given: an append that is on its way
        broker, shard = FakeBroker(), StoryShard()
        shard.appends = [Append(0, (record("g"),), RED)]
        runner = runner_of(broker, shard)
        await runner.load()
        broker.internal_appends.before.clear()
        ask(runner)
        await settled()
        # when
        runner.on_transaction_end(TransactionEnd(0, 9, 0, True))
        broker.internal_appends.end_offset = 1
        broker.internal_appends.before.set()
        await settled()
        # then
        assert shard.story == ["loaded", ("end", 9, 0, True), ("done", 0, 1)]

    asyncio.run(scenario())
