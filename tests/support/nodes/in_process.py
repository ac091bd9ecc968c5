"""A broker in the test's own process and event loop, with a client that speaks raw requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.broker.controller.topic_creation import create_topics
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.create_topics_request import CreatableTopic
from ottla.protocol.schema import Message
from support.servers.cluster import NO_RETENTION

ANSWER_TIMEOUT_S = 10
CONDITION_TIMEOUT_S = 20


class RawClient:
    """One connection; each call waits for its answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0

    async def call(self, api_key: int, version: int, request: Message) -> Message:
        """Send `request` and return its response."""
        self._correlation_id += 1
        payload = encode_request(api_key, version, self._correlation_id, "test", request)
        await self.send(len(payload).to_bytes(4, "big") + payload)
        correlation_id, response = decode_response(api_key, version, await self.receive())
        assert correlation_id == self._correlation_id
        return response

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> bytes:
        """The next answer without its size. Raises IncompleteReadError when the broker has hung up."""
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            return await self._reader.readexactly(size)

    async def closed_by_broker(self) -> bool:
        """Whether the broker hangs up without another byte."""
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await self._reader.read(1) == b""

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def open_connections(broker: Broker) -> int:
    """How many clients are connected."""
    return sum(limits.total for _, _, limits, _ in broker.server.groups)


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds that the product has no event for."""
    async with asyncio.timeout(CONDITION_TIMEOUT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@asynccontextmanager
async def running_broker(data: Path, settings: Mapping[str, str] | None = None) -> AsyncIterator[Broker]:
    """A broker on a free port, stopped cleanly at the end."""
    failed = asyncio.Event()
    values = {
        "log.dirs": str(data),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        **NO_RETENTION,
        **(settings or {}),
    }
    broker = await Broker.start(BrokerConfig.from_mapping(values), on_failure=failed.set)
    try:
        yield broker
        assert not failed.is_set(), "a background task of the broker died"
    finally:
        await broker.stop()


async def connect(broker: Broker) -> RawClient:
    """A new connection to `broker`."""
    return RawClient(*await asyncio.open_connection("127.0.0.1", broker.port))


def with_client(
    data: Path,
    story: Callable[[Broker, RawClient], Awaitable[None]],
    settings: Mapping[str, str] | None = None,
    topics: Iterable[str] = (),
) -> None:
    """Play `story` with a broker that has these topics, and a connection to it."""

    async def run() -> None:
        async with running_broker(data, settings) as broker:
            for topic in topics:
                await create_topic(broker, topic)
            client = await connect(broker)
            await story(broker, client)
            client.close()

    asyncio.run(run())


async def create_topic(
    broker: Broker, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Create a topic through the controller; it can be used when this returns."""
    from ottla.protocol.messages.create_topics_request import CreatableTopicConfig

    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    response = await create_topics(broker, [topic])
    assert response.topics[0].error_code == 0, response.topics[0].error_message
