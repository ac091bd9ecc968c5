"""OAUTHBEARER: real clients get in by tokens; wrong ones are refused as Apache Kafka refuses them."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.core.security.sasl.client import OAuthBearerLogin
from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ottla.protocol.schema import Message
from support.identity_provider import AUDIENCE, ISSUER, IdentityProvider, served
from support.java.java_tools import TOOL_FLAGS, java_command
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.sasl_brokers import kafka_listeners, ottla_listeners

TIMEOUT_S = 20
TOPIC = "orders"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
PREFIX = "listener.name.sasl_plaintext.oauthbearer."
PROVIDER = IdentityProvider()
SETTINGS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{PREFIX}sasl.oauthbearer.expected.audience": AUDIENCE,
    f"{PREFIX}sasl.oauthbearer.expected.issuer": ISSUER,
    f"{PREFIX}sasl.server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{PREFIX}sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a listener that takes tokens; its keys are those of a provider over http."""
    data: Path = tmp_path_factory.mktemp("oauth") / "data"
    port, with_sasl = free_port(), free_port()
    listen = f"127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{with_sasl}"
    with served(PROVIDER) as server:
        settings = {**SETTINGS, f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": server.key_set_url}
        with OttlaBroker.start(data, port, settings, ("--listen", listen)) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(TIMEOUT_S)
            yield f"127.0.0.1:{with_sasl}"


def librdkafka_access(bootstrap: str, lifetime_s: float = 3600) -> tuple[dict[str, Any], list[float]]:
    """The options of a client, and when it asked for tokens."""
    asked: list[float] = []

    def token(_: str) -> tuple[str, float]:
        asked.append(time.time())
        ends = time.time() + lifetime_s
        return PROVIDER.token(exp=ends), ends

    access = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": token,
    }
    return access, asked


def written_by_librdkafka(bootstrap: str, value: bytes) -> bool:
    access, _ = librdkafka_access(bootstrap)
    producer = confluent_kafka.Producer(access)
    producer.poll(0.1)
    producer.produce(TOPIC, value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer({**access, "group.id": str(value)})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    found = None
    while found != value:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None and message.error() is None
        found = message.value()
    consumer.close()
    return True


class Tokens(AbstractTokenProvider):
    """aiokafka asks for a token for each connection."""

    async def token(self) -> str:
        return PROVIDER.token()


def written_by_aiokafka(bootstrap: str, value: bytes) -> bool:
    access: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }

    async def run() -> bool:
        async with aiokafka.AIOKafkaProducer(**access, sasl_oauth_token_provider=Tokens()) as producer:
            await producer.send_and_wait(TOPIC, value)
        async with aiokafka.AIOKafkaConsumer(**access, sasl_oauth_token_provider=Tokens()) as consumer:
            consumer.assign([aiokafka.TopicPartition(TOPIC, 0)])
            await consumer.seek_to_beginning()
            while (await consumer.getone()).value != value:
                pass
        return True

    return asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


@pytest.mark.parametrize("client", [written_by_librdkafka, written_by_aiokafka])
def test_clients_get_in_write_and_read(bootstrap: str, client: Callable[[str, bytes], bool]) -> None:
    assert client(bootstrap, uuid.uuid4().bytes)


@pytest.mark.slow
def test_librdkafka_renews_its_session_with_a_new_token(bootstrap: str) -> None:
    """Tokens of 6 s: it asks for new ones (once a second it looks) and goes on without an error."""
    access, asked = librdkafka_access(bootstrap, lifetime_s=6)
    failures: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer({**access, "error_cb": failures.append})
    begun = time.monotonic()
    while len(asked) < 2 or time.monotonic() - begun < 8:
        producer.produce(TOPIC, b"again")
        assert producer.flush(TIMEOUT_S) == 0
        producer.poll(0.1)
    assert failures == []


def test_librdkafka_is_told_that_its_token_is_refused(bootstrap: str) -> None:
    told: list[confluent_kafka.KafkaError] = []
    access, _ = librdkafka_access(bootstrap)
    access["oauth_cb"] = lambda _: (PROVIDER.token(aud="another"), time.time() + 3600)
    consumer = confluent_kafka.Consumer({**access, "group.id": "g", "error_cb": told.append})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    for _ in range(TIMEOUT_S * 10):
        consumer.poll(0.1)
        if told:
            break
    consumer.close()
    assert told[0].code() == confluent_kafka.KafkaError._AUTHENTICATION


@pytest.mark.java
@pytest.mark.slow
def test_a_java_client_gets_in_with_client_credentials(bootstrap: str, tmp_path: Path) -> None:
    with served(PROVIDER, sub="service") as server:
        config = tmp_path / "client.properties"
        config.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
            f"sasl.oauthbearer.token.endpoint.url={server.token_url}\n"
            f"sasl.login.callback.handler.class={PACKAGE}.OAuthBearerLoginCallbackHandler\n"
            f"sasl.jaas.config={PACKAGE}.OAuthBearerLoginModule required "
            'clientId="service" clientSecret="secret" scope="kafka";\n'
        )
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={server.token_url}"
        command = java_command(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", bootstrap, "--command-config", str(config), "--list"),
            flags=(*TOOL_FLAGS, allowed),
        )
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
        assert TOPIC in run.stdout.splitlines()
        assert server.forms


# -- beside Apache Kafka -------------------------------------------------------------------------------------


def verdict(port: int, bearer: str) -> bool:
    """Whether a login with the token succeeds; the server hangs up if it does not."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as wire:

        def call(key: int, version: int, request: Message) -> Any:
            payload = encode_request(key, version, 1, "test", request)
            wire.sendall(len(payload).to_bytes(4, "big") + payload)
            data = b""
            while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
                part = wire.recv(65536)
                if not part:
                    return None
                data += part
            return decode_response(key, version, data[4:])[1]

        login = OAuthBearerLogin(bearer)
        assert call(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="OAUTHBEARER")).error_code == 0
        answer = call(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=login.first()))
        return answer is not None and answer.error_code == 0 and not answer.auth_bytes


@pytest.mark.java
@pytest.mark.slow
def test_tokens_are_judged_as_apache_kafka_judges_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(PROVIDER.key_set())
    url = keys.as_uri()
    monkeypatch.setenv(
        "JAVA_TOOL_OPTIONS",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url} "
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={keys}",
    )
    settings = {**SETTINGS, f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": url}

    def verdicts(port: int) -> tuple[dict[str, bool], dict[str, bool]]:
        """Those on good tokens and on wrong ones, all made now: the brokers run one after the other."""
        now = int(time.time())
        good = {
            "good": PROVIDER.token(),
            "of several audiences": PROVIDER.token(aud=["another", AUDIENCE]),
            "with a scope": PROVIDER.token(scope="a b"),
            "with scopes": PROVIDER.token(scope=["a", "b"]),
            "just begun": PROVIDER.token(iat=now + 5),
            "made in the future": PROVIDER.token(iat=now + 1000),
            "within the skew": PROVIDER.token(exp=now - 5, iat=now - 100),
        }
        given = (good, PROVIDER.wrong())
        first, second = ({name: verdict(port, each) for name, each in tokens.items()} for tokens in given)
        return first, second

    port, with_sasl = free_port(), free_port()
    with OttlaBroker.start(tmp_path / "ottla", port, settings, ottla_listeners(port, with_sasl)):
        ours = verdicts(with_sasl)
    with ApacheKafka.start(tmp_path / "kafka", port, {**settings, **kafka_listeners(port, with_sasl)}):
        theirs = verdicts(with_sasl)
    assert ours == theirs
    good, wrong = ours
    assert all(good.values()) and not any(wrong.values())
