"""TxnOffsetCommit on a broker: what is asked of the transaction coordinator, and when its answer is void."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.controller.topic_creation import create_internal_topic
from ottla.broker.coordinators.transaction_verification import TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.clients.raw_transactions import StubGate, with_gate, write_marker
from support.nodes.in_process import RawClient, connect, create_topic, running_broker

GROUP, OFFSETS = "g", "__consumer_offsets"
SETTINGS = {"offsets.topic.num.partitions": "1"}
V1, V2 = 4, 5

Scene = Callable[[Broker, RawClient, StubGate], Awaitable[None]]


def play(tmp_path: Path, scene: Scene, *answers: ErrorCode, **settings: str) -> None:
    """A broker with the topic t and one partition of groups; a gate that gives `answers`, then says yes."""

    async def run() -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        async with running_broker(tmp_path, SETTINGS | named) as broker:
            await create_topic(broker, "t")
            await create_internal_topic(broker, OFFSETS)
            client = await connect(broker)
            async with asyncio.timeout(10):
                while (await offset(client)).error_code:  # the groups are being loaded
                    pass
            await scene(broker, client, with_gate(broker, *answers))
            client.close()

    asyncio.run(run())


async def commit(client: RawClient, version: int, value: int = 7, epoch: int = 0) -> ErrorCode:
    one = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=value)
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id=GROUP,
        producer_id=7,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[one])],
    )
    answer: Any = await client.call(ApiKey.TXN_OFFSET_COMMIT, version, request)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def offset(client: RawClient) -> Any:
    wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])], require_stable=True
    )
    answer: Any = await client.call(ApiKey.OFFSET_FETCH, 9, request)
    group = answer.groups[0]
    return group if group.error_code else group.topics[0].partitions[0]


@pytest.mark.parametrize("version", [V1, V2])
def test_the_coordinator_is_asked_once_a_transaction(tmp_path: Path, version: int) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        assert await commit(client, version) is ErrorCode.NONE
        assert await commit(client, version, 8) is ErrorCode.NONE
        assert gate.asked == [(7, 0, ((OFFSETS, 0),), version == V1)]
        # when
        await write_marker(client, committed=True, topic=OFFSETS)
        # then
        assert (await offset(client)).committed_offset == 8
        assert await commit(client, version, 9) is ErrorCode.NONE
        assert len(gate.asked) == 2

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("version", "answer", "told"),
    [
        (3, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (5, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (5, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (5, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_what_the_coordinator_refuses_is_not_appended(
    tmp_path: Path, version: int, answer: ErrorCode, told: ErrorCode
) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        assert await commit(client, version) is told
        assert broker.partitions.partition(OFFSETS, 0).log.log_end_offset == 0

    play(tmp_path, scene, answer)


@pytest.mark.parametrize("version", [V1, V2])
def test_a_marker_between_question_and_answer_makes_the_answer_void(tmp_path: Path, version: int) -> None:
    """Otherwise the offsets would open a transaction that nobody ends."""

    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        async def abort(_: Sequence[TopicPartition]) -> None:
            gate.before_answer = None
            other = await connect(broker)
            assert await write_marker(other, committed=False, topic=OFFSETS) is ErrorCode.NONE
            other.close()

        gate.before_answer = abort
        # when
        assert await commit(client, version) is ErrorCode.INVALID_TXN_STATE
        # then
        found = await offset(client)
        assert (found.committed_offset, found.error_code) == (-1, ErrorCode.NONE)

    play(tmp_path, scene)


def test_without_verification_old_producers_are_believed(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient, gate: StubGate) -> None:
        assert await commit(client, V1) is ErrorCode.NONE
        assert gate.asked == []
        assert await commit(client, V2, epoch=1) is ErrorCode.NONE
        assert len(gate.asked) == 1

    play(tmp_path, scene, transaction_partition_verification_enable="false")
