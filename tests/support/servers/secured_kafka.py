"""A broker, ottla's or Apache Kafka, that wants TLS and a password, or elsewhere a client's certificate."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import ClusterRequests, error_codes
from ottla.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from support.servers.apache_kafka import ApacheKafka
from support.servers.certificates import Authority
from support.servers.cluster import CONFORMANCE_SETTINGS, ServerProcess, free_port

USER = "app"
PASSWORD = 'with "quotes", a \\ and spaces'
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAM_HASHES = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
_ITERATIONS = 4096


@dataclass(frozen=True, slots=True)
class SecuredKafka:
    """A broker behind SASL_SSL. client_options: librdkafka's, for a user who gets in.

    mutual_bootstrap, mutual_options: for a client that gets in by its certificate alone, as CN=client.
    """

    bootstrap: str
    client_options: dict[str, str]
    mutual_bootstrap: str
    mutual_options: dict[str, str]

    def options_of(self, mechanism: str, user: str, password: str) -> dict[str, str]:
        """The options of another user."""
        own = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
        return {**self.client_options, **own}

    async def add_scram_user(self, user: str, password: str) -> None:
        """Give the user a password for both mechanisms, as the user who gets in by PLAIN."""
        salt = b"some salt"
        requests = ClusterRequests(ClusterAccess(self.bootstrap, self.client_options))
        try:
            for number, algorithm in SCRAM_HASHES.values():  # a request may change a user once
                changed = ScramCredentialUpsertion(
                    name=user,
                    mechanism=number,
                    iterations=_ITERATIONS,
                    salt=salt,
                    salted_password=hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, _ITERATIONS),
                )
                request = AlterUserScramCredentialsRequest(upsertions=[changed])
                answer = await requests.ask_controller(request, AlterUserScramCredentialsResponse)
                assert error_codes(answer) == {0}, answer
        finally:
            await requests.close()

    def way_in(self, name: str) -> tuple[str, dict[str, str]]:
        """The bootstrap servers and the options of one of WAYS_IN; makes the user that it needs."""
        if name == "certificate":
            return self.mutual_bootstrap, self.mutual_options
        if name == "PLAIN":
            return self.bootstrap, self.client_options
        asyncio.run(self.add_scram_user("scrammed", PASSWORD))
        return self.bootstrap, self.options_of(name, "scrammed", PASSWORD)


WAYS_IN = ("PLAIN", "SCRAM-SHA-512", "certificate")


@contextmanager
def secured_kafka(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    users: Mapping[str, str] | None = None,
    kind: str = "apache-kafka",
    more_listeners: Mapping[str, str] | None = None,
) -> Iterator[SecuredKafka]:
    """One that runs while the block does; its files are in `directory`. users: further ones, of PLAIN.

    kind: `ottla` or `apache-kafka`; both start with the same settings. more_listeners: name -> HOST:PORT.
    """
    authority = Authority(directory, "authority")
    for name in ("server", "client"):
        identity = authority.identity(name)
        (directory / f"{name}.pem").write_text(identity.key + identity.certificate + authority.pem)
    (directory / "ca.pem").write_text(authority.pem)
    port, mutual, controller = free_port(), free_port(), free_port()

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    known = {"broker": "b", USER: PASSWORD, **(users or {})}
    entries = " ".join(f"user_{name}={quoted(password)}" for name, password in known.items())
    jaas = f'{PLAIN} required username="broker" password="b" {entries};'
    listeners = {
        "SASL_SSL": f"127.0.0.1:{port}",
        "MUTUAL": f"127.0.0.1:{mutual}",
        "CONTROLLER": f"127.0.0.1:{controller}",
        **(more_listeners or {}),
    }
    given = {
        "listeners": ",".join(f"{name}://{place}" for name, place in listeners.items()),
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas.replace("\\", "\\\\"),
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        **(settings or {}),
    }
    start = {"ottla": _started_ottla, "apache-kafka": ApacheKafka.start}[kind]
    with start(directory / "kafka", port, given):
        trusting = {"ssl.ca.location": str(directory / "ca.pem")}
        options = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            **trusting,
        }
        mutual_options = {
            "security.protocol": "SSL",
            "ssl.certificate.location": str(directory / "client.pem"),
            "ssl.key.location": str(directory / "client.pem"),
            **trusting,
        }
        yield SecuredKafka(listeners["SASL_SSL"], options, listeners["MUTUAL"], mutual_options)


@contextmanager
def _started_ottla(directory: Path, port: int, settings: Mapping[str, str]) -> Iterator[None]:
    """ottla with a properties file of these settings, as Apache Kafka takes it."""
    directory.mkdir()
    given = {
        **CONFORMANCE_SETTINGS,
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory / "data"),
        **settings,
    }
    config = directory / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    command = [sys.executable, "-m", "ottla", "broker", "--config", str(config)]
    server = ServerProcess(command, f"127.0.0.1:{port}", directory / "ottla.log")
    try:
        server.start()
        yield
    finally:
        if server.running:
            server.stop()
