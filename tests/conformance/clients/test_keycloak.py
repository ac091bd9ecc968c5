"""Tokens of a real Keycloak: good ones open SASL_SSL, wrong ones don't, new keys are followed."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc.jwk import RSAKey

from support.java.java_tools import TOOL_FLAGS, java_command
from support.servers.cluster import free_port
from support.servers.keycloak import Keycloak, keycloak
from support.servers.ottla_broker import OttlaBroker
from support.servers.tls_trial import Trial

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(900)]

TIMEOUT_S = 60
TOPIC, AUDIENCE, SECRET = "orders", "kafka", "s3cret-of-the-client"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
PREFIX = "listener.name.sasl_ssl.oauthbearer."
REFRESH_MS = 2_000


def client(client_id: str, audience: str = AUDIENCE, **more: Any) -> dict[str, Any]:
    """A client of the realm that has a secret and gets tokens for an audience."""
    return {
        "clientId": client_id,
        "secret": SECRET,
        "publicClient": False,
        "serviceAccountsEnabled": True,
        "standardFlowEnabled": False,
        "protocolMappers": [
            {
                "name": "audience",
                "protocol": "openid-connect",
                "protocolMapper": "oidc-audience-mapper",
                "config": {"included.custom.audience": audience, "access.token.claim": "true"},
            }
        ],
        **more,
    }


@dataclass(frozen=True)
class Place:
    """Keycloak, a broker that takes its tokens, and a directory with the trial's certificates."""

    keycloak: Keycloak
    bootstrap: str
    trial: Trial
    key: Path

    def librdkafka(self, client_id: str = "writer") -> dict[str, Any]:
        """The properties of a client that asks Keycloak for its tokens by itself."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.trial.ca),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": self.keycloak.token_url,
            "sasl.oauthbearer.client.id": client_id,
            "sasl.oauthbearer.client.secret": SECRET,
            "https.ca.location": str(self.trial.ca),
        }

    def config(self, **login: str) -> Path:
        """A properties file for Java's clients and ottla's commands."""
        given = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trial.ca),
            "sasl.oauthbearer.token.endpoint.url": self.keycloak.token_url,
            "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required "
            f'ssl.truststore.type="PEM" ssl.truststore.location="{self.trial.ca}";',
            **login,
        }
        path = self.trial.directory / f"{uuid.uuid4()}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        return path

    def by_secret(self) -> Path:
        return self.config(
            **{
                "sasl.oauthbearer.client.credentials.client.id": "writer",
                "sasl.oauthbearer.client.credentials.client.secret": SECRET,
            }
        )

    def by_token(self, token: str) -> Path:
        file = self.trial.directory / "token"
        file.write_text(token)
        return self.config(**{"sasl.oauthbearer.token.endpoint.url": file.as_uri()})

    def ottla(self, config: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ottla", *words, "--bootstrap", self.bootstrap]
        command += ["--command-config", str(config)]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )

    def is_taken(self, token: str) -> bool:
        """Whether the broker takes a token."""
        run = self.ottla(self.by_token(token), "topic", "list")
        assert run.returncode == 0 or "refuses the user" in run.stderr, run
        return run.returncode == 0

    def java(self, main_class: str, *words: str, stdin: str = "") -> str:
        """What one of Kafka's tools prints."""
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.keycloak.token_url}"
        command = java_command(main_class, *words, flags=(*TOOL_FLAGS, allowed))
        run = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("keycloak")
    trial = Trial.create(directory / "tls")
    private = rsa.generate_private_key(65537, 2048)
    key = directory / "client.pem"
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    key_set = {"keys": [{**RSAKey.import_key(public).as_dict(), "use": "sig", "alg": "RS256", "kid": "mine"}]}
    clients = [
        client("writer"),
        client("stranger", "another cluster"),
        client("hasty", attributes={"access.token.lifespan": "2"}),
        client(
            "signer",
            clientAuthenticatorType="client-jwt",
            attributes={
                "use.jwks.string": "true",
                "jwks.string": str(key_set).replace("'", '"'),
                "token.endpoint.auth.signing.alg": "RS256",
            },
        ),
    ]
    port, secured = free_port(), free_port()
    with keycloak(directory, trial, clients) as server:
        settings = {
            **trial.settings(),
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": server.keys_url,
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": str(REFRESH_MS),
            "sasl.oauthbearer.expected.issuer": server.issuer,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.sub.claim.name": "azp",
            "sasl.oauthbearer.clock.skew.seconds": "0",
            f"{PREFIX}sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required "
            f'ssl.truststore.location="{trial.ca}";',
        }
        listen = ("--listen", f"127.0.0.1:{port},SASL_SSL://localhost:{secured}")
        with OttlaBroker.start(directory / "data", port, settings, listen):
            made = Place(server, f"localhost:{secured}", trial, key)
            created = made.ottla(made.by_secret(), "topic", "create", TOPIC)
            assert created.returncode == 0, created
            yield made


def test_librdkafka_java_and_ottla_write_and_read(place: Place) -> None:
    values = [uuid.uuid4().hex for _ in range(3)]
    producer = confluent_kafka.Producer(place.librdkafka())
    producer.produce(TOPIC, values[0])
    assert producer.flush(TIMEOUT_S) == 0
    config, to = place.by_secret(), ("--bootstrap-server", place.bootstrap, "--topic", TOPIC)
    place.java(
        "org.apache.kafka.tools.ConsoleProducer", *to, "--command-config", str(config), stdin=values[1] + "\n"
    )
    assert place.ottla(config, "produce", TOPIC, stdin=values[2] + "\n").returncode == 0

    read = place.java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *(*to, "--command-config", str(config), "--from-beginning", "--max-messages", "3"),
    )
    assert read.split() == values
    assert place.ottla(config, "consume", TOPIC, "--exit", "--from", "start").stdout.split() == values
    consumer = confluent_kafka.Consumer({**place.librdkafka(), "group.id": uuid.uuid4().hex})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    found = []
    while len(found) < 3:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None and message.error() is None
        found.append(message.value().decode())
    consumer.close()
    assert found == values


def test_an_assertion_stands_for_a_secret_at_keycloak(place: Place) -> None:
    """KIP-1258, by ottla's commands and by Kafka's tool."""
    assertion = "sasl.oauthbearer.assertion."
    template = place.trial.directory / "template.json"
    template.write_text('{"header": {"kid": "mine"}}')
    config = place.config(
        **{
            f"{assertion}private.key.file": str(place.key),
            f"{assertion}claim.aud": place.keycloak.issuer,
            f"{assertion}claim.iss": "signer",
            f"{assertion}claim.sub": "signer",
            f"{assertion}claim.jti.include": "true",
            f"{assertion}claim.exp.seconds": "60",
            f"{assertion}template.file": str(template),
        }
    )
    run = place.ottla(config, "topic", "list")
    assert (run.returncode, run.stderr) == (0, "")
    assert TOPIC in run.stdout


def test_tokens_that_are_over_or_for_others_are_refused(place: Place) -> None:
    assert place.is_taken(place.keycloak.token("writer", SECRET))
    assert not place.is_taken(place.keycloak.token("stranger", SECRET))
    short = place.keycloak.token("hasty", SECRET)
    deadline = time.monotonic() + TIMEOUT_S
    while place.is_taken(short):
        assert time.monotonic() < deadline
    told: list[confluent_kafka.KafkaError] = []
    consumer = confluent_kafka.Consumer(
        {**place.librdkafka("stranger"), "group.id": "g", "error_cb": told.append}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    while not told:
        assert time.monotonic() < deadline + TIMEOUT_S
        consumer.poll(0.1)
    consumer.close()
    assert told[0].code() == confluent_kafka.KafkaError._AUTHENTICATION


def test_keys_that_keycloak_changes_are_followed(place: Place) -> None:
    former = place.keycloak.token("writer", SECRET)
    assert place.is_taken(former)
    old_keys = place.keycloak.signing_keys()
    place.keycloak.add_signing_key()
    newer = place.keycloak.token("writer", SECRET)
    deadline = time.monotonic() + TIMEOUT_S
    while not place.is_taken(newer):
        assert time.monotonic() < deadline
    assert place.is_taken(former)  # its key is still published
    for each in old_keys:
        place.keycloak.remove_signing_key(each)
    while place.is_taken(former):
        assert time.monotonic() < deadline
    assert place.is_taken(newer)
