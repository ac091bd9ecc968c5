"""One connection to a node: frames in pieces, answers that are not Kafka's, requests whose asker has gone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from ottla.client.access import Address, ClusterAccess
from ottla.client.connection import SESSION_PART, ConnectionLost, NodeConnection
from ottla.client.kafka_requests import NodeConnections, NodeUnreachable, UnsupportedRequest
from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import encode_response
from ottla.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.create_topics_request import CreateTopicsRequest
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from support.clients.scripted_cluster import scripted_cluster

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
ACCESS = ClusterAccess("127.0.0.1:1")


@asynccontextmanager
async def node(serve: Serve) -> AsyncIterator[Address]:
    """A server that does `serve` with every connection."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    try:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def correlation_of_next(reader: asyncio.StreamReader) -> int:
    frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    return int.from_bytes(frame[4:8], "big")


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def versions_answer(correlation_id: int) -> bytes:
    apis = [ApiVersion(api_key=key, min_version=0, max_version=4) for key in (16, 18)]
    answer = ApiVersionsResponse(api_keys=apis)
    return framed(encode_response(ApiKey.API_VERSIONS, 0, correlation_id, answer))


def groups_answer(correlation_id: int, names: list[str]) -> bytes:
    groups = [ListedGroup(group_id=name) for name in names]
    return framed(encode_response(ApiKey.LIST_GROUPS, 4, correlation_id, ListGroupsResponse(groups=groups)))


def test_answers_may_come_in_any_pieces() -> None:
    names = [f"group-{number}" for number in range(300)]

    async def in_pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(versions_answer(await correlation_of_next(reader)))
        # The answers to all of ten requests, cut anywhere.
        content = b"".join(
            [groups_answer(await correlation_of_next(reader), names[:count]) for count in COUNTS]
        )
        while content:
            size = random.choice((1, 2, 3, 4, 5, 100, 5_000))
            writer.write(content[:size])
            await writer.drain()
            content = content[size:]
        await reader.read()

    async def ask() -> None:
        async with node(in_pieces) as address:
            connection = await NodeConnection.to(address, ACCESS.connection())
            answers = await asyncio.gather(
                *(connection.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()) for _ in COUNTS)
            )
            assert [len(answer.groups) for answer in answers] == COUNTS
            await connection.close()
            assert not connection.open

    COUNTS = [random.randrange(300) for _ in range(10)]
    asyncio.run(ask())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol there.*HTTP"),
        (bytes.fromhex("15030300020246"), "speaks TLS there: set security.protocol to SSL or SASL_SSL"),
        (b"\0\0\0\1x", "does not speak Kafka's protocol"),
        (b"\xff\xff\xff\xff", "does not speak Kafka's protocol"),
        (framed(b"\0\0\0\x63\0\0\0\0\0\0"), "the answer to request 99 comes in place of 1"),
        (framed(b"\0\0\0\1\0"), "ApiVersionsResponse v0"),
        (versions_answer(1) * 2, "belongs to no request|the answer to request 1 comes in place of 2"),
        (b"", "the node closed the connection before it answered"),
    ],
)
def test_an_answer_that_is_none_is_told_in_a_sentence(answer: bytes, told: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await correlation_of_next(reader)
        writer.write(answer)
        await writer.drain()

    async def ask() -> None:
        async with node(serve) as address:
            nodes = NodeConnections(ACCESS.with_request_timeout_ms(10_000))
            with pytest.raises(NodeUnreachable, match=told):
                await nodes.ask(*address, ListGroupsRequest())
            await nodes.close()

    asyncio.run(ask())


def test_an_answer_whose_asker_has_gone_is_passed_over() -> None:
    asked = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(versions_answer(await correlation_of_next(reader)))
        first = await correlation_of_next(reader)
        asked.set()
        second = await correlation_of_next(reader)
        writer.write(groups_answer(first, ["first"]) + groups_answer(second, ["second"]))
        await reader.read()

    async def ask() -> None:
        async with node(slow) as address:
            connection = await NodeConnection.to(address, ACCESS.connection())
            given_up = asyncio.create_task(connection.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()))
            await asked.wait()
            given_up.cancel()
            answer = await connection.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())
            assert [group.group_id for group in answer.groups] == ["second"]
            await connection.close()

    asyncio.run(ask())


def test_requests_that_wait_when_the_connection_ends_fail_and_the_next_opens_another() -> None:
    connections = 0

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.write(versions_answer(await correlation_of_next(reader)))
        asked = await correlation_of_next(reader)
        if connections > 1:
            writer.write(groups_answer(asked, ["there"]))
            await reader.read()

    async def ask() -> None:
        async with node(once) as address:
            nodes = NodeConnections(ACCESS)
            with pytest.raises(NodeUnreachable, match="closed the connection before it answered"):
                await nodes.ask(*address, ListGroupsRequest())
            answer = await nodes.ask(*address, ListGroupsRequest())
            assert [group.group_id for group in answer.groups] == ["there"]
            await nodes.close()
            assert connections == 2

    asyncio.run(ask())


def test_a_frozen_node_is_given_up_in_time() -> None:
    async def frozen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def ask() -> None:
        async with node(frozen) as address:
            nodes = NodeConnections(ACCESS.with_request_timeout_ms(50))
            with pytest.raises(NodeUnreachable, match="did not answer in time"):
                await nodes.ask(*address, ListGroupsRequest())
            await nodes.close()

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("request_", "versions", "told"),
    [
        (CreateTopicsRequest(), (0, 1), "serves no version of CREATE_TOPICS"),
        (MetadataRequest(), (100, 200), "serves no version of METADATA"),
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]), (1, 5), "can't be asked this.*topics"),
    ],
)
def test_a_request_that_the_node_does_not_know_is_not_sent(
    request_: CreateTopicsRequest, versions: tuple[int, int], told: str
) -> None:
    async def ask() -> None:
        key = request_.API_KEY
        assert key is not None
        async with scripted_cluster(1, {ApiKey(key): versions}) as cluster:
            nodes = NodeConnections(cluster.access)
            with pytest.raises(UnsupportedRequest, match=told):
                await nodes.ask("127.0.0.1", cluster.ports[1], request_)
            await nodes.close()
            assert cluster.asked == []

    asyncio.run(ask())


def test_a_session_of_a_user_ends_and_the_connection_is_opened_anew() -> None:
    user = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    user |= {"sasl.username": "me", "sasl.password": "secret"}

    async def ask() -> None:
        async with scripted_cluster(1) as cluster:
            cluster.handlers[ApiKey.SASL_HANDSHAKE] = lambda node, body: SaslHandshakeResponse()
            # A lifetime of a minute, of which all but a moment has passed at once.
            cluster.handlers[ApiKey.SASL_AUTHENTICATE] = lambda node, body: SaslAuthenticateResponse(
                session_lifetime_ms=60_000
            )
            access = cluster.access.with_properties(user)
            connection = await NodeConnection.to(access.addresses()[0], access.connection())
            loop = asyncio.get_running_loop()
            now = loop.time()
            assert not connection.outdated
            loop.time = lambda: now + 60 * SESSION_PART + 1  # type: ignore[method-assign]
            assert connection.outdated
            loop.time = lambda: now  # type: ignore[method-assign]
            await connection.close()
            with pytest.raises(ConnectionLost):
                await connection.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())

    asyncio.run(ask())
