"""How the sockets of a broker are set up."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.broker.broker import Broker
from ottla.broker.network.connection import ClientConnection
from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import encode_request
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata_request import MetadataRequest
from support.nodes.in_process import connect, create_topic, running_broker, until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux doubles buffers")


def options(broker: Broker, option: int) -> tuple[int, int]:
    """(of the socket that listens, of a client's connection)"""
    _, listening = broker.server._accepting["PLAINTEXT"]
    (connection,) = broker.server._clients.connections
    assert connection._transport is not None
    accepted = connection._transport.get_extra_info("socket")
    level = socket.IPPROTO_TCP if option == socket.TCP_NODELAY else socket.SOL_SOCKET
    return listening.getsockopt(level, option), accepted.getsockopt(level, option)


@asynccontextmanager
async def connected(data: Path, settings: Mapping[str, str]) -> AsyncIterator[Broker]:
    """A broker with one client."""
    async with running_broker(data, settings) as broker:
        client = await connect(broker)
        await client.call(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        yield broker
        client.close()


def test_buffers_are_as_large_as_they_were_configured(tmp_path: Path) -> None:
    async def scenario() -> None:
        sizes = {"socket.receive.buffer.bytes": "30000", "socket.send.buffer.bytes": "20000"}
        async with connected(tmp_path, sizes) as broker:
            # the system doubles what is asked for, to have room for its own
            assert options(broker, socket.SO_RCVBUF)[0] == 2 * 30_000
            assert options(broker, socket.SO_SNDBUF)[1] == 2 * 20_000

    asyncio.run(scenario())


def test_buffers_are_the_systems_by_default(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with connected(tmp_path, {}) as broker:
            with socket.socket() as untouched:
                default = untouched.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            assert options(broker, socket.SO_RCVBUF)[0] == default
            assert options(broker, socket.SO_SNDBUF)[1] != 2 * 102_400
            assert options(broker, socket.TCP_NODELAY)[1] == 1
            assert options(broker, socket.SO_KEEPALIVE)[1] == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("uses", ["nothing", "a request", "a fetch that waits"])
def test_a_connection_that_has_closed_is_freed_without_the_collector(tmp_path: Path, uses: str) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await create_topic(broker, "t", 1)
            gc.collect()
            gc.disable()
            # when
            clients = [await connect(broker) for _ in range(5)]
            for client in clients:
                if uses == "a request":
                    await client.call(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
                elif uses == "a fetch that waits":
                    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
                    fetch = FetchRequest(
                        max_wait_ms=60_000, topics=[FetchTopic(topic="t", partitions=[wanted])], min_bytes=1
                    )
                    payload = encode_request(ApiKey.FETCH, 12, 1, "c", fetch)
                    await client.send(len(payload).to_bytes(4, "big") + payload)
            await until(lambda: len(broker.server._clients.connections) == 5)
            for client in clients:
                client.close()
            await until(lambda: not broker.server._clients.connections)
            await asyncio.sleep(0)
            # then
            left = sum(type(each) is ClientConnection for each in gc.get_objects())
            assert not left

    try:
        asyncio.run(scenario())
    finally:
        gc.enable()
