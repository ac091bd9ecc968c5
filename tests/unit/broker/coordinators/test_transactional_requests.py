"""Transactions as a partition's leader sees them: verification, markers, read_committed, who is writing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from ottla.protocol.schema import Message
from support.clients.raw_transactions import (
    READ_COMMITTED,
    TIMESTAMP_MS,
    StubGate,
    fetch,
    fetch_request,
    latest_offset,
    produce,
    produce_request,
    transactional_batch,
    with_gate,
    write_marker,
)
from support.nodes.in_process import RawClient, connect, create_topic, running_broker
from support.storage.transactions import committed_records

READ_UNCOMMITTED = 0
VERSION_1, VERSION_2 = 11, 12

Scene = Callable[[Broker, RawClient, StubGate], Awaitable[None]]


@pytest.fixture
def played(tmp_path: Path) -> Callable[..., None]:
    """Plays a scene on a broker with the topic `t` of two partitions and a gate that says yes."""

    def play(scene: Scene, **settings: str) -> None:
        async def run() -> None:
            named = {name.replace("_", "."): value for name, value in settings.items()}
            async with running_broker(tmp_path, named) as broker:
                await create_topic(broker, "t", partitions=2)
                client = await connect(broker)
                await scene(broker, client, with_gate(broker))
                client.close()

        asyncio.run(run())

    return play


async def send(client: RawClient, api: ApiKey, version: int, request: Message) -> None:
    """Send a request and leave its answer for `receive`."""
    payload = encode_request(api, version, 99, "test", request)
    await client.send(len(payload).to_bytes(4, "big") + payload)


# --- verification -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [VERSION_1, VERSION_2])
def test_the_first_batch_asks_the_coordinator_and_the_next_one_does_not(
    played: Callable[..., None], version: int
) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        first = await produce(client, transactional_batch(b"a"), version=version)
        second = await produce(client, transactional_batch(b"b", sequence=1), version=version)

        assert (first.error_code, first.base_offset) == (0, 0)
        assert (second.error_code, second.base_offset) == (0, 1)
        assert gate.asked == [(7, 0, (("t", 0),), version == VERSION_1)]

    played(scene)


TEMPORARY = [
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
]


@pytest.mark.parametrize(
    ("version", "said", "answered"),
    [
        *((version, code, ErrorCode.NOT_ENOUGH_REPLICAS) for version in (10, 11, 12) for code in TEMPORARY),
        (11, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (12, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (10, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (11, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (12, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_the_coordinators_refusal_is_told_as_the_producers_version_understands_it(
    played: Callable[..., None], version: int, said: ErrorCode, answered: ErrorCode
) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        gate.answers = [said] * 100

        answer = await produce(client, transactional_batch(b"a"), version=version)

        assert answer.error_code == answered
        assert broker.partitions.partition("t", 0).log.log_end_offset == 0
        gate.answers.clear()
        assert (await produce(client, transactional_batch(b"a"), version=version)).error_code == 0

    played(scene)


def test_a_v2_producer_is_spared_a_transaction_that_is_just_ending(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        gate.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 2

        answer = await produce(client, transactional_batch(b"a"), version=VERSION_2)

        assert answer.error_code == 0 and len(gate.asked) == 3

    played(scene, add_partitions_to_txn_retry_backoff_max_ms="60000")


def test_a_marker_between_question_and_answer_refuses_the_batch(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        async def abort(_: object) -> None:
            broker.internal_appends.append_end_transaction_marker(
                "t", 0, 7, 0, 0, committed=False, transaction_version=0
            )

        gate.before_answer = abort

        answer = await produce(client, transactional_batch(b"late"), version=VERSION_1)

        assert answer.error_code == ErrorCode.INVALID_TXN_STATE
        assert broker.partitions.partition("t", 0).last_stable_offset == 1

    played(scene)


def test_requests_behind_one_that_waits_keep_their_order(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        asked, go = asyncio.Event(), asyncio.Event()

        async def wait(partitions: Sequence[tuple[str, int]]) -> None:
            if ("t", 0) in partitions:
                asked.set()
                await go.wait()

        gate.before_answer = wait
        requests = [
            produce_request({0: transactional_batch(b"%d" % number, sequence=number)}) for number in range(5)
        ]
        frames = [
            encode_request(ApiKey.PRODUCE, VERSION_1, number, "test", request)
            for number, request in enumerate(requests)
        ]
        await client.send(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))
        await asked.wait()
        # another connection reads into the buffer that all share, while the first request waits
        other = await connect(broker)
        elsewhere = await produce(other, transactional_batch(b"x" * 500, producer_id=8), partition=1)
        assert elsewhere.error_code == 0
        go.set()

        for number in range(5):
            correlation_id, response = decode_response(ApiKey.PRODUCE, 11, await client.receive())
            answer: Any = response.responses[0].partition_responses[0]
            assert (correlation_id, answer.error_code, answer.base_offset) == (number, 0, number)
        values = [
            record.value for record in committed_records((await fetch(client, 0, isolation=0)).records, [])
        ]
        assert values == [b"0", b"1", b"2", b"3", b"4"]
        other.close()

    played(scene)


def test_a_batch_outside_of_every_transaction_is_not_asked_for(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        plain = transactional_batch(b"a", transactional=False)

        assert (await produce(client, plain, transactional_id=None)).error_code == 0
        assert gate.asked == []

    played(scene)


def test_a_transactional_batch_needs_a_transactional_id(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        answer = await produce(client, transactional_batch(b"a"), transactional_id=None)

        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert gate.asked == []

    played(scene)


def test_without_verification_only_what_has_to_add_its_partitions_asks(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        assert (await produce(client, transactional_batch(b"a"), version=VERSION_1)).error_code == 0
        assert gate.asked == []
        added = await produce(client, transactional_batch(b"a"), version=VERSION_2, partition=1)
        assert added.error_code == 0
        assert gate.asked == [(7, 0, (("t", 1),), False)]

    played(scene, transaction_partition_verification_enable="false")


def test_batches_of_two_producers_in_one_request_are_refused(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        request = produce_request(
            {0: transactional_batch(b"a", producer_id=1), 1: transactional_batch(b"a", producer_id=2)}
        )

        response: Any = await client.call(ApiKey.PRODUCE, VERSION_1, request)

        codes = [each.error_code for each in response.responses[0].partition_responses]
        assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2 and gate.asked == []

    played(scene)


def test_partitions_of_one_request_are_answered_each(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        await produce(client, transactional_batch(b"a"), partition=0)
        first = transactional_batch(b"b")
        request = produce_request({0: transactional_batch(b"b", sequence=1), 1: first, 5: first})
        gate.answers = [ErrorCode.NOT_COORDINATOR]

        response: Any = await client.call(ApiKey.PRODUCE, VERSION_1, request)

        assert gate.asked[-1][2] == (("t", 1),)
        assert [each.error_code for each in response.responses[0].partition_responses] == [
            ErrorCode.NONE,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]

    played(scene)


def test_an_older_epoch_is_refused_before_anybody_is_asked(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        await write_marker(client, committed=False, epoch=3)

        answer = await produce(client, transactional_batch(b"a", epoch=2))

        assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH and gate.asked == []

    played(scene)


# --- markers and reading ----------------------------------------------------------------------------------


def test_read_committed_stops_at_an_open_transaction(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        await produce(client, transactional_batch(b"before", transactional=False), transactional_id=None)
        await produce(client, transactional_batch(b"open", producer_id=8))
        await produce(
            client, transactional_batch(b"after", transactional=False, sequence=1), transactional_id=None
        )

        committed = await fetch(client, 0)
        everything = await fetch(client, 0, isolation=READ_UNCOMMITTED)

        assert (committed.high_watermark, committed.last_stable_offset) == (3, 1)
        assert committed.aborted_transactions == [] and everything.aborted_transactions is None
        assert [each.value for each in committed_records(committed.records, [])] == [b"before"]
        assert len(committed_records(everything.records, [])) == 3
        assert await latest_offset(client, READ_COMMITTED) == 1
        assert await latest_offset(client, READ_UNCOMMITTED) == 3
        assert await latest_offset(client, READ_COMMITTED, timestamp=TIMESTAMP_MS) == 0

    played(scene)


def test_an_aborted_transaction_is_named_and_a_committed_one_read(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        await produce(client, transactional_batch(b"aborted"))
        await produce(client, transactional_batch(b"committed", producer_id=8))
        assert await write_marker(client, committed=False) == ErrorCode.NONE
        assert await write_marker(client, committed=True, producer_id=8) == ErrorCode.NONE

        answer = await fetch(client, 0)

        assert [(each.producer_id, each.first_offset) for each in answer.aborted_transactions] == [(7, 0)]
        assert answer.last_stable_offset == 4
        found = committed_records(answer.records, answer.aborted_transactions)
        assert [each.value for each in found] == [b"committed"]

    played(scene)


def test_a_read_committed_fetch_waits_for_the_marker(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        await produce(client, transactional_batch(b"a"))
        reader = await connect(broker)
        await send(reader, ApiKey.FETCH, 12, fetch_request(0, max_wait_ms=30_000))
        waiting = broker.partitions.partition("t", 0)
        await (await connect(broker)).call(ApiKey.FETCH, 12, fetch_request(0))  # the first is waiting now
        await produce(client, transactional_batch(b"b", sequence=1))
        assert waiting.waiter_count == 1

        await write_marker(client, committed=True)

        response: Any = decode_response(ApiKey.FETCH, 12, await reader.receive())[1]
        answer = response.responses[0].partitions[0]
        assert [each.value for each in committed_records(answer.records, [])] == [b"a", b"b"]
        reader.close()

    played(scene)


def test_a_fetch_session_tells_that_the_last_stable_offset_moved(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        await produce(client, transactional_batch(b"a"))
        begun: Any = await client.call(ApiKey.FETCH, 12, fetch_request(2, session_epoch=0, isolation=0))
        session = begun.session_id
        assert begun.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE or session
        following = fetch_request(1, session_epoch=1, session_id=session)
        answer: Any = await client.call(ApiKey.FETCH, 12, following)
        assert answer.responses[0].partitions[0].last_stable_offset == 0

        await write_marker(client, committed=True)
        following = fetch_request(2, session_epoch=2, session_id=session)
        answer = await client.call(ApiKey.FETCH, 12, following)

        assert answer.responses[0].partitions[0].last_stable_offset == 2

    played(scene)


def test_deleted_records_do_not_hold_the_last_stable_offset(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        for number in range(3):
            await produce(client, transactional_batch(b"a", sequence=number))
        partition = broker.partitions.partition("t", 0)

        partition.log.advance_log_start_offset(2)

        assert partition.last_stable_offset == 2

    played(scene)


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_is_checked(played: Callable[..., None], version: int) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        await produce(client, transactional_batch(b"a", epoch=3))

        async def mark(epoch: int, **options: Any) -> ErrorCode:
            return await write_marker(client, committed=False, epoch=epoch, version=version, **options)

        assert await mark(2) == ErrorCode.INVALID_PRODUCER_EPOCH
        if version == 2:
            assert await mark(3, transaction_version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await mark(3, coordinator_epoch=5) == ErrorCode.NONE
        assert await mark(3, coordinator_epoch=4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert await mark(3, coordinator_epoch=5, topic="nothing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert broker.partitions.partition("t", 0).log.log_end_offset == 2

    played(scene)


def test_after_a_restart_the_open_transaction_still_holds_the_readers(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            await create_topic(broker, "t")
            client = await connect(broker)
            with_gate(broker)
            await produce(client, transactional_batch(b"aborted", producer_id=8))
            await write_marker(client, committed=False, producer_id=8)
            await produce(client, transactional_batch(b"open"))
        async with running_broker(tmp_path) as broker:
            client = await connect(broker)
            assert (await fetch(client, 0)).last_stable_offset == 2
            await write_marker(client, committed=True)
            answer = await fetch(client, 0)
            assert answer.last_stable_offset == 4
            found = committed_records(answer.records, answer.aborted_transactions)
            assert [each.value for each in found] == [b"open"]
        async with running_broker(tmp_path) as broker:
            assert broker.partitions.partition("t", 0).last_stable_offset == 4

    asyncio.run(run())


# --- who is writing ---------------------------------------------------------------------------------------


def test_producers_are_described(played: Callable[..., None]) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        await produce(client, transactional_batch(b"a", b"b", epoch=2))
        await write_marker(client, committed=True, epoch=3, coordinator_epoch=6)
        await produce(client, transactional_batch(b"c", producer_id=8))
        request = DescribeProducersRequest(
            topics=[
                TopicRequest(name="t", partition_indexes=[0, 9]),
                TopicRequest(name="not/allowed", partition_indexes=[0]),
                TopicRequest(name="nothing", partition_indexes=[0]),
            ]
        )

        response: Any = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, request)

        known, unknown = response.topics[0].partitions
        assert [
            (each.producer_id, each.producer_epoch, each.last_sequence, each.coordinator_epoch,
             each.current_txn_start_offset)
            for each in known.active_producers
        ] == [(7, 3, -1, 6, -1), (8, 0, 0, -1, 3)]  # fmt: skip
        assert known.active_producers[1].last_timestamp == TIMESTAMP_MS
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert response.topics[1].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert response.topics[2].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    played(scene)
