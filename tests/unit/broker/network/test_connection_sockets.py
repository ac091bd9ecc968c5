"""How the sockets of a broker are set up."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.broker.broker import Broker
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.metadata_request import MetadataRequest
from support.nodes.in_process import connect, running_broker

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
