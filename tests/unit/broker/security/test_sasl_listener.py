"""A SASL listener of a running broker: requests before, during and after authentication, limits, failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import encode_request
from ottla.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ottla.protocol.schema import Message
from support.nodes.in_process import RawClient, connect, running_broker, until
from support.nodes.sasl import connect_with_sasl, handshake, log_in, token, upsertion

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    ),
    "connection.failed.authentication.delay.ms": "20",
    "sasl.server.max.receive.size": "2000",
}
GOOD, WRONG = b"\0alice\0secret", b"\0alice\0wrong"
METADATA = MetadataRequest(topics=[])
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
Story = Callable[[Broker, RawClient], Awaitable[None]]


def play(data: Path, story: Story, **settings: str) -> None:
    """Play the story with a connection to the SASL listener."""

    async def run() -> None:
        changed = {name.replace("__", ".").replace("_", "."): value for name, value in settings.items()}
        async with running_broker(data, {**SETTINGS, **changed}) as broker:
            client = await connect_with_sasl(broker)
            await story(broker, client)
            client.close()

    asyncio.run(asyncio.wait_for(run(), 60))


async def is_served(client: RawClient) -> bool:
    answer: Any = await client.call(ApiKey.METADATA, 12, METADATA)
    return len(answer.brokers) == 1


async def is_hung_up(client: RawClient, key: int, version: int, request: Message) -> bool:
    payload = encode_request(key, version, 1, "test", request)
    await client.send(len(payload).to_bytes(4, "big") + payload)
    return await client.closed_by_broker()


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_asks_for_versions_authenticates_and_is_served(tmp_path: Path, version: int) -> None:
    async def story(broker: Broker, client: RawClient) -> None:
        versions: Any = await client.call(ApiKey.API_VERSIONS, 4, VERSIONS)
        assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= {
            each.api_key for each in versions.api_keys
        }
        assert (await handshake(client)).mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        answer = await token(client, GOOD, version)
        assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
        assert await is_served(client)
        (session,) = [
            each.session for each in broker.server._clients.connections if each.session.sasl is not None
        ]
        assert session.principal == "User:alice"
        # without a lifetime there is nothing to renew, and the client goes on
        assert (await handshake(client)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await token(client, GOOD)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await is_served(client)

    play(tmp_path, story)


def test_tokens_come_without_headers_after_a_handshake_of_version_0(tmp_path: Path) -> None:
    async def story(broker: Broker, client: RawClient) -> None:
        assert (await handshake(client, version=0)).error_code == 0
        await client.send(len(GOOD).to_bytes(4, "big") + GOOD)
        assert await client.receive() == b""
        assert await is_served(client)

    play(tmp_path, story)


@pytest.mark.parametrize("after", ["nothing", "versions", "handshake"])
@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.CREATE_TOPICS])
def test_other_requests_before_authentication_end_the_connection(
    tmp_path: Path, after: str, key: ApiKey
) -> None:
    from ottla.protocol.apis import advertised_versions, request_class

    async def story(broker: Broker, client: RawClient) -> None:
        if after == "versions":
            await client.call(ApiKey.API_VERSIONS, 4, VERSIONS)
        elif after == "handshake":
            await handshake(client)
        assert await is_hung_up(client, key, advertised_versions(key)[1], request_class(key)())

    play(tmp_path, story)


def test_a_version_that_is_refused_may_be_asked_again(tmp_path: Path) -> None:
    async def story(broker: Broker, client: RawClient) -> None:
        bad = ApiVersionsRequest(client_software_name="-", client_software_version="-")
        answer: Any = await client.call(ApiKey.API_VERSIONS, 4, bad)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        await client.call(ApiKey.API_VERSIONS, 4, VERSIONS)
        assert await is_hung_up(client, ApiKey.API_VERSIONS, 4, VERSIONS)

    play(tmp_path, story)


def test_a_wrong_password_is_told_after_the_delay_and_the_rest_is_dropped(tmp_path: Path) -> None:
    async def story(broker: Broker, client: RawClient) -> None:
        await handshake(client)
        requests = [
            encode_request(ApiKey.SASL_AUTHENTICATE, 2, 7, "test", SaslAuthenticateRequest(auth_bytes=WRONG)),
            encode_request(ApiKey.SASL_AUTHENTICATE, 2, 8, "test", SaslAuthenticateRequest(auth_bytes=GOOD)),
            encode_request(ApiKey.METADATA, 12, 9, "test", METADATA),
        ]
        await client.send(b"".join(len(each).to_bytes(4, "big") + each for each in requests))
        answer = await client.receive()
        assert answer[:4] == (7).to_bytes(4, "big")
        assert ErrorCode.SASL_AUTHENTICATION_FAILED.to_bytes(2, "big") == answer[5:7]
        assert b"Invalid username or password" in answer
        assert await client.closed_by_broker()

    play(tmp_path, story)


def test_a_mechanism_that_is_not_enabled_is_refused(tmp_path: Path) -> None:
    async def story(broker: Broker, client: RawClient) -> None:
        answer = await handshake(client, "SCRAM-SHA-512")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        assert await client.closed_by_broker()

    play(tmp_path, story)


def test_a_request_is_small_until_authentication(tmp_path: Path) -> None:
    async def story(broker: Broker, client: RawClient) -> None:
        await client.send((2001).to_bytes(4, "big"))
        assert await client.closed_by_broker()
        again = await connect_with_sasl(broker)
        await handshake(again)
        await token(again, GOOD)
        large = MetadataRequest(topics=None)
        payload = encode_request(ApiKey.METADATA, 12, 1, "x" * 3000, large)
        await again.send(len(payload).to_bytes(4, "big") + payload)
        assert await again.receive()
        again.close()

    play(tmp_path, story)


@pytest.mark.parametrize("cut", [1, 3, 5, 20])
def test_half_a_handshake_harms_nobody(tmp_path: Path, cut: int) -> None:
    async def story(broker: Broker, client: RawClient) -> None:
        payload = encode_request(ApiKey.SASL_HANDSHAKE, 1, 1, "t", SaslHandshakeRequest(mechanism="PLAIN"))
        await client.send((len(payload).to_bytes(4, "big") + payload)[:cut])
        other = await connect_with_sasl(broker)
        await handshake(other)
        await token(other, GOOD)
        assert await is_served(other)
        other.close()

    play(tmp_path, story)


def test_a_session_is_renewed_or_ends(tmp_path: Path) -> None:
    async def story(broker: Broker, client: RawClient) -> None:
        await handshake(client)
        assert (await token(client, GOOD)).session_lifetime_ms == 300
        assert await is_served(client)
        assert (await handshake(client)).error_code == 0
        assert (await token(client, GOOD)).session_lifetime_ms == 300
        assert await is_served(client)
        sasl = next(each.session.sasl for each in broker.server._clients.connections if each.session.sasl)
        await until(lambda: sasl.is_expired(broker.now_ms()))
        assert await is_hung_up(client, ApiKey.METADATA, 12, METADATA)

    play(tmp_path, story, connections_max_reauth_ms="300")


def test_sasl_does_not_belong_on_a_listener_without_it(tmp_path: Path) -> None:
    async def story(broker: Broker, client: RawClient) -> None:
        plain = await connect(broker)
        assert await is_served(plain)
        assert (await handshake(plain)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await token(plain, GOOD)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        plain.close()

    play(tmp_path, story)


def test_users_of_the_metadata_log_in_until_they_are_removed(tmp_path: Path) -> None:
    async def story(broker: Broker, client: RawClient) -> None:
        admin = await connect(broker)

        async def alter(**fields: Any) -> list[int]:
            request = AlterUserScramCredentialsRequest(**fields)
            answer: Any = await admin.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
            return [result.error_code for result in answer.results]

        assert await alter(upsertions=[upsertion("bob", "old")]) == [0]
        assert (await log_in(client, "bob", "old")).error_code == 0
        assert await is_served(client)
        assert await alter(upsertions=[upsertion("bob", "new")]) == [0]
        refusals = []
        for user, password in (("bob", "old"), ("mallory", "old")):
            other = await connect_with_sasl(broker)
            refusals.append(await log_in(other, user, password))
            assert await other.closed_by_broker()
        assert [answer.error_code for answer in refusals] == [ErrorCode.SASL_AUTHENTICATION_FAILED] * 2
        assert refusals[0].error_message == refusals[1].error_message
        assert await alter(deletions=[ScramCredentialDeletion(name="bob", mechanism=1)]) == [0]
        gone = await connect_with_sasl(broker)
        assert (await log_in(gone, "bob", "new")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        admin.close()

    play(tmp_path, story)
