"""An Apache Kafka that wants TLS and a password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.servers.apache_kafka import ApacheKafka
from support.servers.certificates import Authority
from support.servers.cluster import free_port

USER = "app"
PASSWORD = 'with "quotes", a \\ and spaces'
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class SecuredKafka:
    """An Apache Kafka behind SASL_SSL. client_options: librdkafka's, for a user who gets in."""

    bootstrap: str
    client_options: dict[str, str]


@contextmanager
def secured_kafka(directory: Path) -> Iterator[SecuredKafka]:
    """One that runs while the block does; its files are in `directory`."""
    authority = Authority(directory, "authority")
    identity = authority.identity("server")
    (directory / "ca.pem").write_text(authority.pem)
    (directory / "server.pem").write_text(identity.key + identity.certificate + authority.pem)
    port, controller = free_port(), free_port()

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    jaas = f'{PLAIN} required username="broker" password="b" user_broker="b" user_{USER}={quoted(PASSWORD)};'
    settings = {
        "listeners": f"SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas.replace("\\", "\\\\"),
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
    }
    with ApacheKafka.start(directory / "kafka", port, settings) as kafka:
        options = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(directory / "ca.pem"),
        }
        yield SecuredKafka(kafka.bootstrap, options)
