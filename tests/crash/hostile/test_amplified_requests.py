"""Small requests that ask for a lot: bounded in what they get, and others have their turns meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.handlers.cluster import configs
from ottla.broker.handlers.coordinators import transactions
from ottla.broker.network import turns
from ottla.protocol.apis import ApiKey
from ottla.protocol.codec import MAX_ELEMENTS, MAX_REQUEST_ELEMENTS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import encode_request
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.schema import Message
from support.nodes.in_process import RawClient, connect, with_client

BROKER, GROUP = 4, 32
PARTS = 1_000
MANY: dict[str, tuple[ApiKey, int, Callable[[], Message]]] = {
    "settings": (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        lambda: DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=GROUP, resource_name=str(each)) for each in range(PARTS)
            ]
        ),
    ),
    "offsets": (
        ApiKey.LIST_OFFSETS,
        9,
        lambda: ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(
                    name="t",
                    partitions=[
                        ListOffsetsPartition(partition_index=each, timestamp=-1) for each in range(PARTS)
                    ],
                )
            ]
        ),
    ),
    "epochs": (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        lambda: OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic="t", partitions=[OffsetForLeaderPartition(partition=each) for each in range(PARTS)]
                )
            ]
        ),
    ),
    "groups' offsets": (
        ApiKey.OFFSET_FETCH,
        8,
        lambda: OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=str(each), topics=None) for each in range(PARTS)]
        ),
    ),
    "coordinators": (
        ApiKey.FIND_COORDINATOR,
        4,
        lambda: FindCoordinatorRequest(key_type=7, coordinator_keys=["k"] * PARTS),
    ),
    "transactions": (
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        lambda: DescribeTransactionsRequest(transactional_ids=["t"] * PARTS),
    ),
}


@pytest.mark.parametrize("what", MANY)
def test_others_have_their_turns_while_a_request_of_many_parts_is_worked_on(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given: a slice of no time, so every few parts are one
    monkeypatch.setattr(turns, "SLICE_SECONDS", 0.0)
    key, version, make = MANY[what]

    async def story(broker: Broker, client: RawClient) -> None:
        other = await connect(broker)
        await other.call(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        # when
        large = asyncio.ensure_future(client.call(key, version, make()))
        await asyncio.sleep(0)
        small = asyncio.ensure_future(other.call(ApiKey.METADATA, 12, MetadataRequest(topics=[])))
        done, _ = await asyncio.wait({large, small}, return_when=asyncio.FIRST_COMPLETED)
        # then
        assert small in done
        assert large not in done
        await large
        other.close()

    with_client(tmp_path, story, topics=["t"])


def test_an_answer_describes_so_many_settings_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configs, "MAX_SETTINGS", 300)

    async def story(broker: Broker, client: RawClient) -> None:
        own = DescribeConfigsResource(resource_type=BROKER, resource_name=str(broker.node_id))
        request = DescribeConfigsRequest(resources=[own] * 5)
        answer: Any = await client.call(ApiKey.DESCRIBE_CONFIGS, 4, request)
        codes = [result.error_code for result in answer.results]
        described = sum(len(result.configs) for result in answer.results)
        assert codes[0] == ErrorCode.NONE
        assert codes[-1] == ErrorCode.INVALID_REQUEST
        assert 300 <= described < 300 + len(answer.results[0].configs)

    with_client(tmp_path, story, topics=["t"])


def test_a_request_of_more_elements_than_make_sense_ends_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topics = [MetadataRequestTopic(name="")] * (MAX_ELEMENTS + 1)
    payload = encode_request(ApiKey.METADATA, 4, 1, "large", MetadataRequest(topics=topics))

    async def story(broker: Broker, client: RawClient) -> None:
        await client.send(len(payload).to_bytes(4, "big") + payload)
        assert await client.closed_by_broker()
        other = await connect(broker)
        await other.call(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        other.close()

    with_client(tmp_path, story, topics=["t"])
    closed = [each.getMessage() for each in caplog.records if "connection closed" in each.getMessage()]
    assert len(closed) == 1
    assert "topics has a wrong count" in closed[0]


def test_a_request_that_is_too_large_to_read_at_once_is_read_beside_others(tmp_path: Path) -> None:
    # given: as many groups as one read on the event loop does not take; Kafka takes a million
    groups = [f"{each}" for each in range(MAX_REQUEST_ELEMENTS + 1)]

    async def story(broker: Broker, client: RawClient) -> None:
        other = await connect(broker)
        large = asyncio.ensure_future(
            client.call(
                ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=7, coordinator_keys=groups)
            )
        )
        await asyncio.sleep(0)
        await other.call(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        # then
        answer: Any = await large
        assert len(answer.coordinators) == len(groups)
        other.close()

    with_client(tmp_path, story, topics=["t"])


def test_topics_that_would_be_refused_count_as_topics_that_are_asked_for(tmp_path: Path) -> None:
    wanted = [
        CreatableTopic(name=str(each), num_partitions=0, replication_factor=1) for each in range(10_001)
    ]

    async def story(_: Broker, client: RawClient) -> None:
        for count, code in ((10_000, ErrorCode.INVALID_PARTITIONS), (10_001, ErrorCode.POLICY_VIOLATION)):
            request = CreateTopicsRequest(topics=wanted[:count])
            answer: Any = await client.call(ApiKey.CREATE_TOPICS, 7, request)
            assert {topic.error_code for topic in answer.topics} == {code}

    with_client(tmp_path, story, topics=["t"])


def test_the_transactions_of_one_request_are_not_all_asked_for_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    add = transactions._add_partitions
    running = most = 0

    async def counted(*args: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return await add(*args)

    monkeypatch.setattr(transactions, "_add_partitions", counted)
    asked = [
        AddPartitionsToTxnTransaction(transactional_id=str(each), producer_id=1, topics=[])
        for each in range(1_000)
    ]

    async def story(_: Broker, client: RawClient) -> None:
        # when
        request = AddPartitionsToTxnRequest(transactions=asked)
        answer: Any = await client.call(ApiKey.ADD_PARTITIONS_TO_TXN, 5, request)
        # then
        assert len(answer.results_by_transaction) == 1_000
        assert 1 < most <= transactions.TRANSACTIONS_AT_A_TIME

    with_client(tmp_path, story, topics=["t"])


def test_changes_of_more_resources_than_one_request_may_change_are_refused_unseen(tmp_path: Path) -> None:
    resources = [AlterConfigsResource(resource_type=GROUP, resource_name=str(each)) for each in range(10_001)]
    topics = [CreatePartitionsTopic(name=str(each), count=2) for each in range(10_001)]

    async def story(_: Broker, client: RawClient) -> None:
        request = IncrementalAlterConfigsRequest(resources=resources)
        changed: Any = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        assert {each.error_code for each in changed.responses} == {ErrorCode.POLICY_VIOLATION}
        more: Any = await client.call(ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=topics))
        assert {each.error_code for each in more.results} == {ErrorCode.POLICY_VIOLATION}
        assert len(changed.responses) == len(more.results) == 10_001

    with_client(tmp_path, story, topics=["t"])
