"""The shell around a group shard: loading, batching of appends, failing appends, change of leadership."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from ottla.broker.authorization import OpenAuthorization
from ottla.broker.config import BrokerConfig
from ottla.broker.coordinators.coordinator_partitions import CoordinatorPartitions
from ottla.broker.coordinators.coordinator_routing import answer_of
from ottla.broker.coordinators.group_coordinator import GroupCoordinator
from ottla.broker.coordinators.node import GroupsNode
from ottla.broker.network.context import RequestContext, Session
from ottla.broker.peers.broker_requests import BrokerRequests
from ottla.broker.peers.peers import PeerConnections
from ottla.broker.supervisor import Supervisor
from ottla.core.groups import coordinator_records
from ottla.core.groups.coordinator_records import CommittedOffset
from ottla.core.image.image import MetadataImage
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import (
    ErrorCode,
    KafkaError,
    MessageTooLarge,
    NotEnoughReplicas,
    RequestTimedOut,
)
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ottla.protocol.record_batch import (
    BatchHeader,
    NewRecord,
    Record,
    decode_records,
    encode_batch,
    parse_batch_header,
)
from ottla.protocol.records.framing import encode_coordinator_key, encode_coordinator_value

GROUP = "g"
NO_DIRECTORY = Path("/nonexistent")


class FakeLog:
    """One partition's records, and errors on order."""

    def __init__(self) -> None:
        self.batches: list[list[NewRecord]] = []
        self.errors: deque[Exception | None] = deque()
        self.gate, self.committed = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.committed.set()

    async def append_records(self, topic: str, index: int, records: Sequence[NewRecord], **_: object) -> int:
        assert topic == "__consumer_offsets"
        await self.gate.wait()
        error = self.errors.popleft() if self.errors else None
        if error is not None and not isinstance(error, RequestTimedOut):
            raise error
        base_offset = sum(map(len, self.batches))
        self.batches.append(list(records))
        if error is not None:
            raise error
        return base_offset

    async def until_committed(self, topic: str, index: int) -> None:
        """Once the test says so."""
        await self.committed.wait()

    def iterate_batches(self, topic: str, index: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
        offset = 0
        for batch in list(self.batches):
            encoded = encode_batch(batch, base_offset=offset)
            yield parse_batch_header(encoded), decode_records(encoded)
            offset += len(batch)


class FakeBroker:
    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.node_id = 1
        self.loop = asyncio.get_running_loop()
        self.config = BrokerConfig.from_mapping(settings or {})
        self.image = MetadataImage()
        self.internal_appends = FakeLog()
        self.broker_requests = BrokerRequests(self, PeerConnections("test"))
        self.failures: list[BaseException] = []
        self.supervisor = Supervisor(lambda name, failure: self.failures.append(failure))
        self.coordinator_partitions = CoordinatorPartitions(self, NO_DIRECTORY, lambda: None)
        #: Commits use no more of a node; the way to other brokers is not taken.
        self.authorization = OpenAuthorization()
        self.groups = GroupCoordinator(cast(GroupsNode, self))

    @staticmethod
    def now_ms() -> int:
        return 1_700_000_000_000

    @property
    def partition(self) -> int:
        return self.groups.partition_for(GROUP)

    async def commit(self, offset: int, metadata: str = "") -> ErrorCode:
        request = commit(offset, metadata)
        answer = await answer_of(self.groups.request(GROUP, request, context(ApiKey.OFFSET_COMMIT, 9)))
        assert isinstance(answer, OffsetCommitResponse)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def fetch(self) -> int | ErrorCode:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        answer = await answer_of(self.groups.request(GROUP, request, context(ApiKey.OFFSET_FETCH, 9)))
        assert isinstance(answer, OffsetFetchResponse)
        group = answer.groups[0]
        if group.error_code:
            return ErrorCode(group.error_code)
        return group.topics[0].partitions[0].committed_offset if group.topics else -1


def context(key: ApiKey, version: int) -> RequestContext:
    return RequestContext(int(key), version, 1, "client", Session("127.0.0.1", "PLAINTEXT"))


def commit(offset: int, metadata: str = "") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    return OffsetCommitRequest(
        group_id=GROUP, topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])]
    )


def stored(offset: int) -> NewRecord:
    record = coordinator_records.offset_commit(GROUP, "t", 0, CommittedOffset(offset, -1, "", 0))
    assert record.value is not None
    return NewRecord(
        encode_coordinator_key(record.key), encode_coordinator_value(record.value, record.value_version), 0
    )


async def settled() -> None:
    """Let everything run that needs no more than turns of the loop."""
    for _ in range(20):
        await asyncio.sleep(0)


async def elected(broker: FakeBroker) -> None:
    """Give the broker the group's partition and let it load."""
    broker.groups.on_elected(broker.partition, 0)
    await settled()


async def finished(broker: FakeBroker) -> None:
    await broker.groups.stop()
    await broker.supervisor.stop()
    assert broker.failures == []


def test_a_partition_is_loaded_before_it_is_served() -> None:
    async def scenario() -> None:
        # given: a log with commits, damage and a record of a later version
        broker = FakeBroker()
        broker.internal_appends.batches.append(
            [stored(4), NewRecord(b"\0\1\0", b"?", 0), NewRecord(None, b"x", 0)]
        )
        broker.internal_appends.batches.append([NewRecord(b"\x7f\x7f", b"?", 0), stored(5)])
        # when
        assert await broker.fetch() is ErrorCode.NOT_COORDINATOR
        broker.groups.on_elected(broker.partition, 0)
        # then
        assert await broker.fetch() == 5
        await finished(broker)

    asyncio.run(scenario())


def test_requests_wait_for_the_replicas_of_a_log_that_loads() -> None:
    async def scenario() -> None:
        # given: a new coordinator, whose log's end is not yet on its replicas
        broker = FakeBroker()
        broker.internal_appends.batches.append([stored(4)])
        broker.internal_appends.committed.clear()
        await elected(broker)
        # when: the group's members go on
        fetching = asyncio.ensure_future(broker.fetch())
        committing = asyncio.ensure_future(broker.commit(5))
        await settled()
        assert not fetching.done() and not committing.done()
        broker.internal_appends.committed.set()
        # then
        assert (await fetching, await committing) == (4, ErrorCode.NONE)
        assert await broker.fetch() == 5
        await finished(broker)

    asyncio.run(scenario())


def test_a_load_that_takes_longer_than_a_commit_may_is_told() -> None:
    async def scenario() -> None:
        broker = FakeBroker({"offsets.commit.timeout.ms": "50"})
        broker.internal_appends.committed.clear()
        await elected(broker)
        # when
        early = [asyncio.ensure_future(broker.commit(offset)) for offset in (1, 2)]
        # then
        assert await asyncio.gather(*early) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
        broker.internal_appends.committed.set()
        await settled()
        assert await broker.commit(3) is ErrorCode.NONE
        assert sum(map(len, broker.internal_appends.batches)) == 1
        await finished(broker)

    asyncio.run(scenario())


def test_the_time_of_a_load_is_counted_once_for_all_requests() -> None:
    async def scenario() -> None:
        # given: a load that began an hour ago
        broker = FakeBroker({"offsets.commit.timeout.ms": "3600000"})
        broker.internal_appends.committed.clear()
        await elected(broker)
        runner = broker.groups.shards.runner(broker.partition)
        assert runner is not None
        runner.load_began -= 3600
        # then: requests to many partitions, one after the other, do not wait for an hour each
        assert await broker.commit(1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await finished(broker)

    asyncio.run(scenario())


@pytest.mark.parametrize("then_leads_again", [False, True])
def test_a_request_that_waits_for_a_load_in_vain_is_sent_to_find_the_coordinator(
    then_leads_again: bool,
) -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        broker.internal_appends.committed.clear()
        await elected(broker)
        waiting = asyncio.ensure_future(broker.commit(1))
        await settled()
        # when: names may live in other partitions, if the broker leads again
        if then_leads_again:
            broker.groups.shards.reload_all()
        else:
            broker.groups.on_resigned(broker.partition)
        broker.internal_appends.committed.set()
        # then
        assert await waiting is ErrorCode.NOT_COORDINATOR
        assert broker.internal_appends.batches == []
        await finished(broker)

    asyncio.run(scenario())


def test_commits_that_come_during_an_append_share_the_next() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        await elected(broker)
        # given: an append that takes time
        broker.internal_appends.gate.clear()
        first = asyncio.ensure_future(broker.commit(1))
        await asyncio.sleep(0)
        # when: more commits come meanwhile
        others = [asyncio.ensure_future(broker.commit(offset)) for offset in (2, 3, 4)]
        await asyncio.sleep(0)
        assert await broker.fetch() == -1, "nothing is committed yet"
        broker.internal_appends.gate.set()
        # then
        assert await asyncio.gather(first, *others) == [ErrorCode.NONE] * 4
        assert [len(batch) for batch in broker.internal_appends.batches] == [1, 3]
        assert await broker.fetch() == 4
        await finished(broker)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (NotEnoughReplicas(), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (MessageTooLarge(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_append_that_wrote_nothing_fails_its_request_alone(error: KafkaError, answer: ErrorCode) -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        await elected(broker)
        assert await broker.commit(1) is ErrorCode.NONE
        # when
        broker.internal_appends.errors.append(error)
        assert await broker.commit(2) is answer
        # then
        assert await broker.fetch() == 1
        assert await broker.commit(3) is ErrorCode.NONE
        assert await broker.fetch() == 3
        await finished(broker)

    asyncio.run(scenario())


def test_of_a_batch_that_is_too_large_only_the_culprit_fails() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        await elected(broker)
        # given: three commits that wait for one append
        broker.internal_appends.gate.clear()
        blocker = asyncio.ensure_future(broker.commit(1))
        await asyncio.sleep(0)
        three = [asyncio.ensure_future(broker.commit(offset)) for offset in (2, 3, 4)]
        await asyncio.sleep(0)
        # when: all of them together are too large, and then the second one by itself
        broker.internal_appends.errors.extend([None, MessageTooLarge(), None, MessageTooLarge(), None])
        broker.internal_appends.gate.set()
        # then
        assert await blocker is ErrorCode.NONE
        assert await asyncio.gather(*three) == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_SERVER_ERROR,
            ErrorCode.NONE,
        ]
        assert await broker.fetch() == 4
        await finished(broker)

    asyncio.run(scenario())


def test_when_it_is_not_known_how_an_append_ended_the_log_decides() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        await elected(broker)
        assert await broker.commit(1) is ErrorCode.NONE
        # when: the records are written, but the append ends in an error
        broker.internal_appends.errors.append(RequestTimedOut())
        assert await broker.commit(2) is ErrorCode.NOT_COORDINATOR
        # then: the groups are loaded again, with what the log has
        await settled()
        assert await broker.fetch() == 2
        assert await broker.commit(3) is ErrorCode.NONE
        await finished(broker)

    asyncio.run(scenario())


def test_whoever_waits_when_leadership_is_lost_is_sent_away() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        await elected(broker)
        # given: a commit that waits for the log, and a join that waits for more members
        join = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        broker.internal_appends.gate.clear()
        committing = asyncio.ensure_future(broker.commit(1))
        await settled()
        joining = broker.groups.request(GROUP, join, context(ApiKey.JOIN_GROUP, 3))
        # when
        broker.groups.on_resigned(broker.partition)
        # then
        assert (await joining).error_code == ErrorCode.NOT_COORDINATOR
        assert await committing is ErrorCode.NOT_COORDINATOR
        assert await broker.fetch() is ErrorCode.NOT_COORDINATOR
        broker.internal_appends.gate.set()
        await finished(broker)

    asyncio.run(scenario())


def test_a_client_that_hung_up_needs_no_answer() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        await elected(broker)
        broker.internal_appends.gate.clear()
        committing = asyncio.ensure_future(broker.commit(1))
        await asyncio.sleep(0)
        # when
        committing.cancel()
        await asyncio.sleep(0)
        broker.internal_appends.gate.set()
        # then
        assert await broker.commit(2) is ErrorCode.NONE
        assert await broker.fetch() == 2
        await finished(broker)

    asyncio.run(scenario())


def test_topics_deleted_while_the_groups_load_lose_their_offsets_too() -> None:
    async def scenario() -> None:
        broker = FakeBroker()
        broker.internal_appends.batches.append([stored(4)])
        broker.groups.on_elected(broker.partition, 0)
        # when
        broker.groups.on_topics_deleted([(uuid.UUID(int=7), "t")])
        # then
        await settled()
        assert await broker.fetch() == -1
        await finished(broker)

    asyncio.run(scenario())
