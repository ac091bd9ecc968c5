"""Quotas set and described through a broker, kept over a restart; hosts are looked up, addresses are not."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.handlers.cluster import client_quotas
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ottla.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from support.nodes.in_process import RawClient, connect, running_broker, with_client

Entity = tuple[tuple[str, str | None], ...]
ALICE: Entity = (("user", "alice"),)
PRODUCE, CONNECTIONS = "producer_byte_rate", "connection_creation_rate"


async def alter(client: RawClient, *changes: tuple[Entity, str, float], dry: bool = False) -> list[ErrorCode]:
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[OpData(key=key, value=value)],
        )
        for entity, key, value in changes
    ]
    request = AlterClientQuotasRequest(entries=entries, validate_only=dry)
    answer: Any = await client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
    return [ErrorCode(each.error_code) for each in answer.entries]


async def describe(client: RawClient) -> dict[Entity, dict[str, float]]:
    answer: Any = await client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, DescribeClientQuotasRequest())
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries
    }


def test_quotas_are_there_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await connect(broker)
            assert await alter(client, (ALICE, PRODUCE, 1e6), dry=True) == [ErrorCode.NONE]
            assert await describe(client) == {}
            assert await alter(client, (ALICE, PRODUCE, 1e6), (ALICE[:0], PRODUCE, 1.0)) == [
                ErrorCode.NONE,
                ErrorCode.INVALID_REQUEST,
            ]
            assert await describe(client) == {ALICE: {PRODUCE: 1e6}}
            client.close()
        async with running_broker(tmp_path) as broker:
            client = await connect(broker)
            assert await describe(client) == {ALICE: {PRODUCE: 1e6}}
            client.close()

    asyncio.run(scenario())


def test_the_name_service_is_asked_for_hosts_and_not_for_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def story(broker: Any, client: RawClient) -> None:
        async def getaddrinfo(host: str, *_: object, **__: object) -> list[object]:
            asked.append(host)
            if host == "gone.example":
                raise socket.gaierror("unknown")
            return []

        monkeypatch.setattr(broker.loop, "getaddrinfo", getaddrinfo, raising=False)
        hosts = ("192.0.2.1", "2001:db8::1", "here.example", "gone.example")
        codes = await alter(client, *(((("ip", host),), CONNECTIONS, 5.0) for host in hosts))
        assert codes == [ErrorCode.NONE] * 3 + [ErrorCode.INVALID_REQUEST]
        assert sorted(asked) == ["gone.example", "here.example"]
        too_many = [
            ((("ip", f"host-{number}.example"),), CONNECTIONS, 5.0)
            for number in range(client_quotas.MAX_HOST_NAMES + 1)
        ]
        assert set(await alter(client, *too_many)) == {ErrorCode.INVALID_REQUEST}
        assert len(asked) == 2
        assert set(await describe(client)) == {(("ip", host),) for host in hosts[:3]}

    with_client(tmp_path, story)
