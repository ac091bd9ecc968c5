"""Requests that once ended in an exception of the broker, as a fuzz found, each as a client's request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.schema import Message
from support.nodes.in_process import RawClient, with_client

LONGEST = "y" * 32_767
BROKER = 4
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
WAIT_S = 20


def with_broker(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    story: Callable[[Broker, RawClient], Awaitable[None]],
) -> None:
    with_client(tmp_path, story, SETTINGS)
    assert not [each for each in caplog.records if each.exc_info]


async def ask_as(client: RawClient, client_id: str, key: ApiKey, version: int, request: Message) -> Any:
    payload = encode_request(key, version, 7, client_id, request)
    await client.send(len(payload).to_bytes(4, "big") + payload)
    return decode_response(key, version, await client.receive())[1]


@pytest.mark.parametrize("client_id", [LONGEST, "é" * 16_383])
def test_a_client_id_as_long_as_strings_get_is_cut_in_its_member_id(
    client_id: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )

    async def story(_: Broker, client: RawClient) -> None:
        # given
        async with asyncio.timeout(WAIT_S):
            await client.call(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
            joined = await ask_as(client, client_id, ApiKey.JOIN_GROUP, 2, request)
            while joined.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                await asyncio.sleep(0.01)
                joined = await ask_as(client, client_id, ApiKey.JOIN_GROUP, 2, request)
        # then
        assert joined.error_code == ErrorCode.NONE
        assert joined.member_id == joined.leader
        assert len(joined.member_id.encode()) <= 32_767
        described: Any = await client.call(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=["g"]))
        assert described.groups[0].members[0].member_id == joined.member_id

    with_broker(tmp_path, caplog, story)


def test_an_error_that_quotes_the_longest_name_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(_: Broker, client: RawClient) -> None:
        request = DescribeProducersRequest(topics=[TopicRequest(name=LONGEST, partition_indexes=[0])])
        answer: Any = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, request)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    with_broker(tmp_path, caplog, story)


def test_the_id_of_a_broker_has_no_five_thousand_digits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    digits = "1" * 5_000

    async def story(_: Broker, client: RawClient) -> None:
        wanted = DescribeConfigsResource(resource_type=BROKER, resource_name=digits)
        described: Any = await client.call(
            ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[wanted])
        )
        assert described.results[0].error_code == ErrorCode.INVALID_REQUEST
        changed = AlterConfigsResource(resource_type=BROKER, resource_name=digits)
        altered: Any = await client.call(ApiKey.ALTER_CONFIGS, 2, AlterConfigsRequest(resources=[changed]))
        assert altered.responses[0].error_code == ErrorCode.INVALID_REQUEST

    with_broker(tmp_path, caplog, story)
