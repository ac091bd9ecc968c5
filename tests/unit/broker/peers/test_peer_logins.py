"""Connections to other nodes log in: by each mechanism, again before the session ends, never by halves."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.broker.peers.peers import PeerAddress, PeerConnections, PeerUnreachable
from ottla.broker.security.node_logins import node_login
from ottla.protocol.messages.metadata_request import MetadataRequest
from support.nodes.in_process import running_broker, until
from support.nodes.sasl import make_users

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
UNSIGNED = "org.apache.kafka.common.security.oauthbearer.internals.unsecured"
JAAS = "listener.name.sasl_plaintext.{}.sasl.jaas.config"
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    JAAS.format("plain"): (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="node" password="secret" user_node="secret";'
    ),
    JAAS.format("scram-sha-256"): f'{SCRAM_MODULE} required username="node" password="node";',
    "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": (
        f"{UNSIGNED}.OAuthBearerUnsecuredValidatorCallbackHandler"
    ),
    "connection.failed.authentication.delay.ms": "10",
}
Story = Callable[[Broker, PeerConnections, PeerAddress], Awaitable[None]]


def encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def unsigned_token(name: str, lifetime_s: float = 3600) -> str:
    claims = {"sub": name, "iat": time.time(), "exp": time.time() + lifetime_s}
    return f"{encoded({'alg': 'none'})}.{encoded(claims)}."


def play(data: Path, story: Story, mechanism: str, changed: Mapping[str, str] | None = None) -> None:
    """Play the story with connections of a node to the SASL listener of a broker that knows its user."""

    async def run() -> None:
        settings = {**SETTINGS, **(changed or {})}
        token = data / "token"
        token.write_text(unsigned_token("node"))
        settings.setdefault("sasl.oauthbearer.token.endpoint.url", token.as_uri())
        async with running_broker(data / "logs", settings) as broker:
            await make_users(broker, "node")
            config = BrokerConfig.from_mapping({**settings, "log.dirs": "none"})
            peers = PeerConnections("node", node_login(config, "SASL_PLAINTEXT", mechanism))
            await story(broker, peers, PeerAddress("127.0.0.1", broker.ports["SASL_PLAINTEXT"]))
            peers.close()

    asyncio.run(asyncio.wait_for(run(), 60))


async def ask(peers: PeerConnections, to: PeerAddress) -> Any:
    return await peers.ask("test", to, MetadataRequest(topics=[]), timeout_ms=10_000)


def principals(broker: Broker) -> list[str]:
    return [each.session.principal for each in broker.server._clients.connections if each.session.sasl]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_a_connection_logs_in_once_for_all_requests(tmp_path: Path, mechanism: str) -> None:
    async def story(broker: Broker, peers: PeerConnections, to: PeerAddress) -> None:
        answers = await asyncio.gather(*(ask(peers, to) for _ in range(30)))
        assert all(len(each.brokers) == 1 for each in answers)
        assert principals(broker) == ["User:node"]

    play(tmp_path, story, mechanism)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_a_session_is_renewed_on_its_connection(tmp_path: Path, mechanism: str) -> None:
    async def story(broker: Broker, peers: PeerConnections, to: PeerAddress) -> None:
        await ask(peers, to)
        (connection,) = (each for each in broker.server._clients.connections if each.session.sasl)
        sasl = connection.session.sasl
        assert sasl is not None
        first_end = sasl._expires_at_ms
        assert first_end is not None

        async def goes_on() -> bool:
            answers = await asyncio.gather(*(ask(peers, to) for _ in range(5)))
            return all(len(each.brokers) == 1 for each in answers) and sasl._expires_at_ms != first_end

        while not await goes_on():
            pass
        assert not connection.closed
        assert principals(broker) == ["User:node"]

    play(tmp_path, story, mechanism, {"connections.max.reauth.ms": "1500"})


@pytest.mark.parametrize(
    ("mechanism", "setting", "value"),
    [
        (
            "PLAIN",
            JAAS.format("plain"),
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="node" password="hunter2" user_node="secret";',
        ),
        (
            "SCRAM-SHA-256",
            JAAS.format("scram-sha-256"),
            f'{SCRAM_MODULE} required username="node" password="hunter2";',
        ),
        (
            "SCRAM-SHA-512",
            JAAS.format("scram-sha-512"),
            f'{SCRAM_MODULE} required username="n" password="p";',
        ),
    ],
)
def test_a_login_that_fails_is_told_without_the_password(
    tmp_path: Path, mechanism: str, setting: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(broker: Broker, peers: PeerConnections, to: PeerAddress) -> None:
        with caplog.at_level(logging.DEBUG), pytest.raises(PeerUnreachable, match="login failed") as failed:
            await ask(peers, to)
        assert "hunter2" not in str(failed.value) + caplog.text
        await until(lambda: principals(broker) == [])

    play(tmp_path, story, mechanism, {setting: value})


def test_a_token_that_is_gone_or_refused_is_told(tmp_path: Path) -> None:
    async def story(broker: Broker, peers: PeerConnections, to: PeerAddress) -> None:
        token = tmp_path / "token"
        token.write_text(unsigned_token("node", lifetime_s=-10))
        with pytest.raises(PeerUnreachable, match="invalid_token"):
            await ask(peers, to)
        token.unlink()
        with pytest.raises(PeerUnreachable, match="no token"):
            await ask(peers, to)
        # when the file is good again, so is the connection
        token.write_text(unsigned_token("node"))
        assert len((await ask(peers, to)).brokers) == 1

    play(tmp_path, story, "OAUTHBEARER")


def test_an_attempt_that_is_given_up_leaves_no_connection(tmp_path: Path) -> None:
    """A token that does not come holds the login up; the request gives up, and so does the connection."""

    async def story(broker: Broker, peers: PeerConnections, to: PeerAddress) -> None:
        class NoToken:
            mechanism = "OAUTHBEARER"

            async def begin(self) -> Any:
                await asyncio.Event().wait()

        slow = PeerConnections("slow", NoToken())
        with pytest.raises(PeerUnreachable, match="did not answer within"):
            await slow.ask("test", to, MetadataRequest(topics=[]), timeout_ms=200)
        await until(lambda: broker.server._clients.connections == set())
        slow.close()

    play(tmp_path, story, "PLAIN")
