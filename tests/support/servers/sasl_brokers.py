"""Single brokers, ottla's and Apache Kafka's, with a plaintext listener and one that asks for a login."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker

SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def ottla_listeners(port: int, with_sasl: int) -> tuple[str, str]:
    """The words of `ottla broker` for the two ports."""
    return ("--listen", f"127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{with_sasl}")


def kafka_listeners(port: int, with_sasl: int, scram_mechanisms: Collection[str] = ()) -> dict[str, str]:
    """Apache Kafka's settings for the two ports, and for logins by these mechanisms."""
    controllers = free_port()
    logins = {
        f"listener.name.sasl_plaintext.{each.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required;"
        for each in scram_mechanisms
    }
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{with_sasl},"
        f"CONTROLLER://127.0.0.1:{controllers}",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controllers}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        **logins,
    }


@contextmanager
def scram_ottla(directory: Path, with_sasl: int, settings: Mapping[str, str]) -> Iterator[str]:
    """An ottla; the address of its plaintext listener."""
    port = free_port()
    with OttlaBroker.start(directory / "ottla", port, settings, ottla_listeners(port, with_sasl)) as broker:
        yield broker.bootstrap


@contextmanager
def scram_kafka(directory: Path, with_sasl: int, settings: Mapping[str, str]) -> Iterator[str]:
    """An Apache Kafka with the mechanisms that `settings` enable; the address of its plaintext listener."""
    port = free_port()
    mechanisms = settings["sasl.enabled.mechanisms"].split(",")
    given = {**settings, **kafka_listeners(port, with_sasl, mechanisms)}
    with ApacheKafka.start(directory, port, given) as kafka:
        yield kafka.bootstrap
