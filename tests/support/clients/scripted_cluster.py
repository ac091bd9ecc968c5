"""Brokers that answer as a test tells them: several on one event loop, each with an address of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ottla.client.access import ClusterAccess
from ottla.protocol.apis import APIS, ApiKey, request_class
from ottla.protocol.headers import decode_request_header, encode_response
from ottla.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker
from ottla.protocol.schema import Message

Answer = Message | None
"""None hangs up."""
Handler = Callable[[int, Any], Answer]
"""The answer of a broker, by its id, to a request."""


class ScriptedCluster:
    """A cluster of scripted brokers.

    handlers: the answer to each kind of request. versions: of APIs, in place of the newest ones. asked: each
    request in its order, with the broker that got it. controller: of the next Metadata answers.
    """

    def __init__(self, nodes: int, versions: Mapping[ApiKey, tuple[int, int]]) -> None:
        self.handlers: dict[ApiKey, Handler] = {}
        self.asked: list[tuple[int, ApiKey, Any]] = []
        self.controller = 1
        self.ports: dict[int, int] = {}
        self._versions = {key: (api.min_version, api.latest_stable_version) for key, api in APIS.items()}
        self._versions |= versions
        self._servers: dict[int, asyncio.Server] = {}
        self._writers: dict[int, set[asyncio.StreamWriter]] = {
            number: set() for number in range(1, nodes + 1)
        }

    @property
    def access(self) -> ClusterAccess:
        """How to reach it: all brokers are bootstrap servers."""
        return ClusterAccess(",".join(f"127.0.0.1:{port}" for port in self.ports.values()))

    def count(self, key: ApiKey) -> int:
        """How many requests of a kind were asked."""
        return sum(1 for _, asked, _ in self.asked if asked is key)

    def brokers_asked(self, key: ApiKey) -> list[int]:
        """The brokers that got requests of a kind, in order."""
        return [node for node, asked, _ in self.asked if asked is key]

    async def start(self) -> None:
        """Listen."""
        for node in self._writers:
            server = await asyncio.start_server(
                lambda reader, writer, node=node: self._serve(node, reader, writer), "127.0.0.1", 0
            )
            self._servers[node] = server
            self.ports[node] = server.sockets[0].getsockname()[1]

    async def stop(self, node: int) -> None:
        """The broker is gone: its port is closed. Metadata still names it."""
        server = self._servers.pop(node)
        server.close()
        for writer in self._writers[node]:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def stop_all(self) -> None:
        """All brokers are gone."""
        for node in list(self._servers):
            await self.stop(node)

    async def _serve(self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[node].add(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                header, position = decode_request_header(frame)
                key, version = ApiKey(header.api_key), header.api_version
                body = request_class(key).decode(frame, version, position)
                if key is not ApiKey.API_VERSIONS:
                    self.asked.append((node, key, body))
                answer = self._answer(node, key, body)
                if answer is None:
                    break
                encoded = encode_response(key, version, header.correlation_id, answer)
                writer.write(len(encoded).to_bytes(4, "big") + encoded)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers[node].discard(writer)
            writer.close()

    def _answer(self, node: int, key: ApiKey, body: Any) -> Answer:
        if key in self.handlers:
            return self.handlers[key](node, body)
        if key is ApiKey.API_VERSIONS:
            return ApiVersionsResponse(
                api_keys=[
                    ApiVersion(api_key=each, min_version=least, max_version=most)
                    for each, (least, most) in self._versions.items()
                ]
            )
        assert key is ApiKey.METADATA, key
        return self.metadata()

    def metadata(self, **fields: Any) -> MetadataResponse:
        """A Metadata answer that names the brokers and the controller."""
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port)
                for node, port in self.ports.items()
            ],
            cluster_id="scripted",
            controller_id=self.controller,
            **fields,
        )


@asynccontextmanager
async def scripted_cluster(
    nodes: int = 3, versions: Mapping[ApiKey, tuple[int, int]] | None = None
) -> AsyncIterator[ScriptedCluster]:
    """A cluster of scripted brokers 1, 2, 3 … that runs while the block does."""
    cluster = ScriptedCluster(nodes, versions or {})
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop_all()
