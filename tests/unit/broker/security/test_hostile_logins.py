"""Clients that mean harm at a SASL listener: nobody gets in by halves, and nothing secret is told."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from kafka.net.sasl.scram import ScramClient

from ottla.broker.broker import Broker
from ottla.broker.network import connection as connections
from ottla.core.security.sasl.connection import MAX_REFUSED_VERSIONS
from ottla.protocol.apis import ApiKey, advertised_versions, request_class
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import encode_request
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ottla.protocol.schema import Message
from support.nodes.in_process import connect, running_broker, until
from support.nodes.sasl import connect_with_sasl, handshake, log_in, make_users, token

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRETS = {name: f"hunter2-{name}" for name in ("plain", "node", "token", "first", "keystore", "oauth")}
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required user_alice="{SECRETS["plain"]}";'
    ),
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
        f'{SCRAM_MODULE} required username="node" password="{SECRETS["node"]}";'
    ),
    "sasl.jaas.config": f'{SCRAM_MODULE} required password="{SECRETS["node"]}";',
    "delegation.token.secret.key": SECRETS["token"],
    "ottla.format.add.scram": f"SCRAM-SHA-256=[name=first,password={SECRETS['first']}]",
    "ssl.keystore.password": SECRETS["keystore"],
    "sasl.oauthbearer.client.credentials.client.secret": SECRETS["oauth"],
    "connection.failed.authentication.delay.ms": "0",
}
GOOD = f"\0alice\0{SECRETS['plain']}".encode()
METADATA = MetadataRequest(topics=[])
Story = Callable[[Broker], Awaitable[None]]


def play(directory: Path, story: Story, changed: Mapping[str, str] | None = None) -> None:
    async def run() -> None:
        async with running_broker(directory, {**SETTINGS, **(changed or {})}) as broker:
            await story(broker)

    asyncio.run(asyncio.wait_for(run(), 120))


def framed(key: int, version: int, request: Message) -> bytes:
    payload = encode_request(key, version, 1, "test", request)
    return len(payload).to_bytes(4, "big") + payload


def drawn_frame(rng: random.Random) -> bytes:
    """A request that a client may send at any time, or bytes that are none."""
    match rng.randrange(8):
        case 0:
            mechanism = rng.choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "", "plain"))
            return framed(ApiKey.SASL_HANDSHAKE, rng.randrange(2), SaslHandshakeRequest(mechanism=mechanism))
        case 1 | 2:
            wrong = rng.choice((b"", b"\0alice\0wrong", rng.randbytes(rng.randrange(40)), b"n,,n=first,r=x"))
            version = rng.randrange(3)
            return framed(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=wrong))
        case 3:
            asked = ApiVersionsRequest(client_software_name="t", client_software_version="1")
            return framed(ApiKey.API_VERSIONS, 4, asked)
        case 4:
            data = rng.randbytes(rng.randrange(1, 60))
            return len(data).to_bytes(4, "big") + data
        case 5:  # a token without a header, as after a handshake of version 0
            data = b"\0alice\0" + rng.randbytes(3)
            return len(data).to_bytes(4, "big") + data
        case _:
            key = rng.choice((ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.CREATE_TOPICS))
            return framed(key, advertised_versions(key)[1], request_class(key)())


@pytest.mark.parametrize("seed", range(4))
def test_drawn_requests_let_nobody_in(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)

    async def story(broker: Broker) -> None:
        for _ in range(50):
            client = await connect_with_sasl(broker)
            try:
                await client.send(b"".join(drawn_frame(rng) for _ in range(rng.randrange(1, 8))))
                await client.send(framed(ApiKey.METADATA, 12, METADATA))
            except ConnectionError:
                continue
            while True:
                try:
                    answer = await client.receive()
                except (asyncio.IncompleteReadError, ConnectionError):
                    break
                assert b"127.0.0.1" not in answer  # nobody is told of brokers
        sessions = [each.session for each in broker.server._clients.connections if each.session.sasl]
        assert {session.principal for session in sessions} <= {"User:ANONYMOUS"}
        # and a good client still gets in
        client = await connect_with_sasl(broker)
        await handshake(client)
        assert (await token(client, GOOD)).error_code == 0
        client.close()

    play(tmp_path, story)


def test_a_recorded_login_can_not_be_played_again(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        scram = ScramClient("first", SECRETS["first"], "SCRAM-SHA-256")
        client = await connect_with_sasl(broker)
        await handshake(client, "SCRAM-SHA-256")
        first = scram.first_message()
        scram.process_server_first_message((await token(client, first)).auth_bytes)
        final = scram.final_message()
        assert (await token(client, final)).error_code == 0
        nonces = set()
        for _ in range(5):
            thief = await connect_with_sasl(broker)
            await handshake(thief, "SCRAM-SHA-256")
            nonces.add((await token(thief, first)).auth_bytes)
            assert (await token(thief, final)).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await thief.closed_by_broker()
        assert len(nonces) == 5
        client.close()

    play(tmp_path, story)


def test_a_mechanism_of_another_listener_is_refused(tmp_path: Path) -> None:
    """A listener for SCRAM takes no PLAIN because another one does."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,"
        "OUTSIDE:SASL_PLAINTEXT",
        "listener.name.outside.sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }

    async def story(broker: Broker) -> None:
        client = await connect_with_sasl(broker, "OUTSIDE")
        answer = await handshake(client, "PLAIN")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["SCRAM-SHA-256"]
        assert await client.closed_by_broker()

    play(tmp_path, story, settings)


def test_a_session_is_renewed_by_the_same_mechanism_and_user_only(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        await make_users(broker, "alice", "bob")
        for mechanism, last in (("PLAIN", None), ("SCRAM-SHA-256", "bob")):
            client = await connect_with_sasl(broker)
            assert (await log_in(client, "alice", "alice")).error_code == 0
            if last is None:
                assert (await handshake(client, mechanism)).error_code != 0
            else:
                answer = await log_in(client, last, last)
                assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                assert "Cannot change principals" in answer.error_message
            assert await client.closed_by_broker()

    play(tmp_path, story, {"connections.max.reauth.ms": "60000"})


def test_nothing_else_is_served_while_a_session_is_renewed(tmp_path: Path) -> None:
    async def story(broker: Broker) -> None:
        client = await connect_with_sasl(broker)
        await handshake(client)
        assert (await token(client, GOOD)).error_code == 0
        assert (await handshake(client)).error_code == 0
        await client.send(framed(ApiKey.METADATA, 12, METADATA))
        assert await client.closed_by_broker()

    play(tmp_path, story, {"connections.max.reauth.ms": "60000"})


def test_a_mechanism_has_a_session_lifetime_of_its_own(tmp_path: Path) -> None:
    settings = {
        "connections.max.reauth.ms": "60000",
        "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "30000",
    }

    async def story(broker: Broker) -> None:
        client = await connect_with_sasl(broker)
        await handshake(client)
        assert (await token(client, GOOD)).session_lifetime_ms == 30_000
        other = await connect_with_sasl(broker)
        assert (await log_in(other, "first", SECRETS["first"])).session_lifetime_ms == 60_000
        for each in (client, other):
            each.close()

    play(tmp_path, story, settings)


def test_refused_versions_are_not_asked_for_ever(tmp_path: Path) -> None:
    bad = ApiVersionsRequest(client_software_name="-", client_software_version="-")

    async def story(broker: Broker) -> None:
        client = await connect_with_sasl(broker)
        for _ in range(MAX_REFUSED_VERSIONS):
            answer: Any = await client.call(ApiKey.API_VERSIONS, 4, bad)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
        await client.send(framed(ApiKey.API_VERSIONS, 4, bad))
        assert await client.closed_by_broker()

    play(tmp_path, story)


def test_a_login_that_takes_too_long_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LOGIN_SECONDS", 0.0)

    async def story(broker: Broker) -> None:
        slow, half = await connect_with_sasl(broker), await connect_with_sasl(broker)
        await handshake(half)
        authenticated = await connect_with_sasl(broker)
        await handshake(authenticated)
        await token(authenticated, GOOD)
        open_to_all = await connect(broker)
        await until(lambda: len(broker.server._clients.connections) == 4)
        await broker.server.close_idle()
        assert await slow.closed_by_broker()
        assert await half.closed_by_broker()
        for each in (authenticated, open_to_all):
            served: Any = await each.call(ApiKey.METADATA, 12, METADATA)
            assert len(served.brokers) == 1
            each.close()

    play(tmp_path, story)


def test_users_of_plain_are_changed_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that can't be read lets nobody in, and the log says why without the text."""
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"

    async def story(broker: Broker) -> None:
        admin = await connect(broker)

        async def alter(value: str) -> None:
            resource = AlterConfigsResource(
                resource_type=4,
                resource_name=str(broker.node_id),
                configs=[AlterableConfig(name=name, config_operation=0, value=value)],
            )
            request = IncrementalAlterConfigsRequest(resources=[resource])
            answer: Any = await admin.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
            assert answer.responses[0].error_code == 0, answer.responses[0].error_message

        async def error_of(message: bytes) -> int:
            client = await connect_with_sasl(broker)
            await handshake(client)
            answer = await token(client, message)
            client.close()
            return int(answer.error_code)

        bob = b"\0bob\0hunter2-bob"
        await alter(f'{PLAIN_MODULE} required user_bob="hunter2-bob"')
        assert await error_of(bob) == ErrorCode.SASL_AUTHENTICATION_FAILED
        await alter(f'{PLAIN_MODULE} required user_bob="hunter2-bob";')
        assert await error_of(bob) == 0
        assert await error_of(GOOD) == ErrorCode.SASL_AUTHENTICATION_FAILED
        admin.close()

    play(tmp_path, story)
    assert f"reason={name}: it lacks" in caplog.text
    assert "hunter2" not in caplog.text


def test_no_secret_is_shown_or_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story(broker: Broker) -> None:
        client = await connect(broker)
        resource = DescribeConfigsResource(resource_type=4, resource_name=str(broker.node_id))
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        answer: Any = await client.call(ApiKey.DESCRIBE_CONFIGS, 4, request)
        shown = {each.name: each for each in answer.results[0].configs}
        for name in SETTINGS:
            if "jaas" in name or "password" in name or "secret" in name or "scram" in name:
                assert shown[name].value is None, name
                assert shown[name].is_sensitive, name
                assert all(synonym.value is None for synonym in shown[name].synonyms), name
        assert not any(secret in repr(answer) for secret in SECRETS.values())
        # logins that fail, at a listener whose log lines name the reason
        for mechanism, message in (("PLAIN", b"\0alice\0hunter2-wrong"), ("PLAIN", b"\0hunter2-user\0x")):
            other = await connect_with_sasl(broker)
            await handshake(other, mechanism)
            refused = await token(other, message)
            assert "hunter2" not in (refused.error_message or "")
        client.close()

    with caplog.at_level(logging.DEBUG):
        play(tmp_path, story)
    out, err = capfd.readouterr()
    assert "hunter2" not in caplog.text + out + err
    first_records = (tmp_path / "bootstrap.checkpoint").read_bytes()
    assert b"hunter2" not in first_records
