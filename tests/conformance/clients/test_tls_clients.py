"""Real clients by TLS, mutual TLS and SASL_SSL: librdkafka, kcat, kafka-python, aiokafka, the Java client.

The broker is started by a server.properties as one writes it for Apache Kafka, and Apache Kafka starts by
the same one: PKCS12, PLAIN by jaas.config, SCRAM, a listener each of SSL and SASL_SSL.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.helpers import create_ssl_context
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from support.java.java_tools import run_java
from support.servers.apache_kafka import READY_TEXT, format_directory, server_command
from support.servers.cluster import ServerProcess, free_port
from support.servers.tls_trial import Trial

TIMEOUT_S = 30
TOPIC, USER, PASSWORD, STORE_PASSWORD = "orders", "alice", "a,b=c", "store-secret"
MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SERVER_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:{controller}
controller.listener.names=CONTROLLER
listeners=SASL_SSL://localhost:{sasl_ssl},SSL://localhost:{ssl},CONTROLLER://localhost:{controller}
advertised.listeners=SASL_SSL://localhost:{sasl_ssl},SSL://localhost:{ssl}
listener.security.protocol.map=CONTROLLER:SSL,SSL:SSL,SASL_SSL:SASL_SSL
security.inter.broker.protocol=SASL_SSL
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config=\\
    org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="admin" password="admin-secret" user_admin="admin-secret" user_alice="a,b=c";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=\\
    org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\\
    org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PKCS12
ssl.keystore.location={directory}/node.p12
ssl.keystore.password={password}
ssl.key.password={password}
ssl.truststore.type=PKCS12
ssl.truststore.location={directory}/trust.p12
ssl.truststore.password={password}
ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=(.*?)$/$1/,DEFAULT
log.dirs={directory}/data
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
"""


@dataclass(frozen=True, slots=True)
class Secured:
    """A broker's listeners, and the files of a client that has a certificate."""

    ssl: str
    sasl_ssl: str
    ca: Path
    certificate: Path
    trust_store: Path
    key_store: Path

    def librdkafka(self, mechanism: str | None) -> dict[str, str]:
        """The properties of a client that shows its certificate, or logs in."""
        common = {"ssl.ca.location": str(self.ca)}
        if mechanism is None:
            shown = {
                "ssl.certificate.location": str(self.certificate),
                "ssl.key.location": str(self.certificate),
            }
            return {**common, **shown, "bootstrap.servers": self.ssl, "security.protocol": "SSL"}
        return {
            **common,
            "bootstrap.servers": self.sasl_ssl,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def java(self, mechanism: str | None) -> dict[str, str]:
        """As for librdkafka, with stores of Java."""
        common = {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(self.trust_store),
            "ssl.truststore.password": STORE_PASSWORD,
        }
        if mechanism is None:
            shown = {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(self.key_store),
                "ssl.keystore.password": STORE_PASSWORD,
                "ssl.key.password": STORE_PASSWORD,
            }
            return {**common, **shown, "security.protocol": "SSL"}
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        return {
            **common,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{USER}" password="{PASSWORD}";',
        }


def secured_broker(directory: Path, start: Callable[[Path, Path], ServerProcess]) -> Iterator[Secured]:
    trial = Trial.create(directory)
    ports = {name: free_port() for name in ("ssl", "sasl_ssl", "controller")}
    shown = trial.client(USER)
    (directory / "node.p12").write_bytes(trial.node().pkcs12("node", STORE_PASSWORD))
    (directory / "trust.p12").write_bytes(trial.authority.truststore(STORE_PASSWORD))
    (directory / "client.p12").write_bytes(shown.pkcs12("client", STORE_PASSWORD))
    config = directory / "server.properties"
    config.write_text(SERVER_PROPERTIES.format(directory=directory, password=STORE_PASSWORD, **ports))
    secured = Secured(
        f"localhost:{ports['ssl']}",
        f"localhost:{ports['sasl_ssl']}",
        trial.ca,
        trial.write("client", shown),
        directory / "trust.p12",
        directory / "client.p12",
    )
    server = start(config, directory)
    try:
        admin = AdminClient(secured.librdkafka(None))
        (created,) = admin.create_topics([NewTopic(TOPIC, 1)]).values()
        created.result(TIMEOUT_S)
        for mechanism in MECHANISMS.values():
            upsertion = UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(mechanism, 8192), PASSWORD.encode()
            )
            admin.alter_user_scram_credentials([upsertion])[USER].result(TIMEOUT_S)
        yield secured
    finally:
        server.stop()


def start_ottla(config: Path, directory: Path) -> ServerProcess:
    command = [sys.executable, "-m", "ottla", "broker", "--config", str(config)]
    server = ServerProcess(command, "ottla broker ready", directory / "ottla.log")
    server.start()
    return server


def start_kafka(config: Path, directory: Path) -> ServerProcess:
    format_directory(config)
    server = ServerProcess(server_command(config, "512m"), READY_TEXT, directory / "kafka.log")
    server.start()
    return server


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    yield from secured_broker(tmp_path_factory.mktemp("tls"), start_ottla)


# -- clients ----------------------------------------------------------------------------------------------


def by_librdkafka(secured: Secured, mechanism: str | None, value: str) -> list[str]:
    access = secured.librdkafka(mechanism)
    producer = confluent_kafka.Producer(access)
    producer.produce(TOPIC, value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer({**access, "group.id": value, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: list[str] = []
    while value not in found:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None and message.error() is None
        found.append((message.value() or b"").decode())
    consumer.close()
    return found


def by_kcat(secured: Secured, mechanism: str | None, value: str) -> list[str]:
    options = [
        word for name, each in secured.librdkafka(mechanism).items() for word in ("-X", f"{name}={each}")
    ]

    def kcat(*words: str, input: str = "") -> str:
        done = subprocess.run(
            ["kcat", "-q", *options, "-t", TOPIC, *words],
            input=input, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    kcat("-P", input=value)
    return kcat("-C", "-e", "-o", "beginning").splitlines()


def by_kafka_python(secured: Secured, mechanism: str | None, value: str) -> list[str]:
    access: dict[str, object] = {"ssl_cafile": str(secured.ca)}
    if mechanism is None:
        access |= {"bootstrap_servers": secured.ssl, "security_protocol": "SSL"}
        access |= {"ssl_certfile": str(secured.certificate), "ssl_keyfile": str(secured.certificate)}
    else:
        access |= {"bootstrap_servers": secured.sasl_ssl, "security_protocol": "SASL_SSL"}
        access |= {"sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    producer = kafka.KafkaProducer(**access)
    producer.send(TOPIC, value.encode()).get(TIMEOUT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(**access, consumer_timeout_ms=TIMEOUT_S * 1000)
    consumer.assign([kafka.TopicPartition(TOPIC, 0)])
    consumer.seek_to_beginning()
    found: list[str] = []
    while value not in found:
        found.append(next(consumer).value.decode())
    consumer.close()
    return found


def by_aiokafka(secured: Secured, mechanism: str | None, value: str) -> list[str]:
    access: dict[str, object] = {
        "ssl_context": create_ssl_context(
            cafile=str(secured.ca), certfile=str(secured.certificate) if mechanism is None else None
        )
    }
    if mechanism is None:
        access |= {"bootstrap_servers": secured.ssl, "security_protocol": "SSL"}
    else:
        access |= {"bootstrap_servers": secured.sasl_ssl, "security_protocol": "SASL_SSL"}
        access |= {"sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}

    async def run() -> list[str]:
        async with aiokafka.AIOKafkaProducer(**access) as producer:
            await producer.send_and_wait(TOPIC, value.encode())
        async with aiokafka.AIOKafkaConsumer(**access) as consumer:
            consumer.assign([aiokafka.TopicPartition(TOPIC, 0)])
            await consumer.seek_to_beginning()
            found: list[str] = []
            while value not in found:
                found.append((await consumer.getone()).value.decode())
            return found

    return asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


def by_ottla(secured: Secured, mechanism: str | None, value: str) -> list[str]:
    config = secured.ca.with_name(f"{uuid.uuid4()}.properties")
    options = secured.java(mechanism)
    # Commands take PEM.
    options = {name: each for name, each in options.items() if not name.startswith("ssl.")}
    options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(secured.ca)}
    if mechanism is None:
        options |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(secured.certificate)}
    config.write_text("".join(f"{name}={each}\n" for name, each in options.items()))
    bootstrap = secured.ssl if mechanism is None else secured.sasl_ssl

    def ottla(*words: str, input: str = "") -> str:
        command = [
            sys.executable,
            "-m",
            "ottla",
            *words,
            "--bootstrap",
            bootstrap,
            "--command-config",
            str(config),
        ]
        done = subprocess.run(
            command, input=input, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    ottla("produce", TOPIC, input=value)
    return ottla("consume", TOPIC, "--exit", "--from", "start").splitlines()


def by_java(secured: Secured, mechanism: str | None, value: str) -> list[str]:
    config = secured.ca.with_name(f"{uuid.uuid4()}.properties")
    config.write_text("".join(f"{name}={each}\n" for name, each in secured.java(mechanism).items()))
    bootstrap = ("--bootstrap-server", secured.ssl if mechanism is None else secured.sasl_ssl)
    tools = "org.apache.kafka.tools"
    sent = run_java(
        f"{tools}.ConsoleProducer",
        *bootstrap,
        "--topic",
        TOPIC,
        "--command-config",
        str(config),
        input=f"{value}\n",
    )
    assert sent.returncode == 0, sent.stderr
    read = run_java(
        f"{tools}.consumer.ConsoleConsumer", *bootstrap, "--topic", TOPIC, "--command-config", str(config),
        "--from-beginning", "--timeout-ms", "5000",
    )  # fmt: skip
    return read.stdout.splitlines()


CLIENTS = (
    by_librdkafka,
    pytest.param(by_kcat, marks=pytest.mark.system("kcat")),
    by_kafka_python,
    by_aiokafka,
    by_ottla,
    pytest.param(by_java, marks=[pytest.mark.java, pytest.mark.long]),
)


@pytest.mark.parametrize("mechanism", [None, "PLAIN", *MECHANISMS])
@pytest.mark.parametrize("client", CLIENTS)
def test_clients_write_and_read(
    secured: Secured, client: Callable[[Secured, str | None, str], list[str]], mechanism: str | None
) -> None:
    value = str(uuid.uuid4())
    assert value in client(secured, mechanism, value)


def test_a_megabyte_goes_there_and_back_in_one_record_and_in_many(secured: Secured) -> None:
    access = secured.librdkafka(None)
    producer = confluent_kafka.Producer({**access, "message.max.bytes": "2000000"})
    values = [os.urandom(900_000) for _ in range(5)] + [os.urandom(100) for _ in range(10_000)]
    start = _end(access)
    for value in values:
        while True:
            try:
                producer.produce(TOPIC, value)
                break
            except BufferError:
                producer.poll(1)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer({**access, "group.id": "large", "fetch.max.bytes": "5000000"})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, start)])
    found: list[bytes] = []
    end = time.monotonic() + TIMEOUT_S
    while len(found) < len(values):
        messages = consumer.consume(1000, 1)
        assert time.monotonic() < end
        assert not [each.error() for each in messages if each.error()]
        found += [each.value() or b"" for each in messages]
    consumer.close()
    assert found == values


def _end(access: dict[str, str]) -> int:
    consumer = confluent_kafka.Consumer({**access, "group.id": "end"})
    _, end = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(TOPIC, 0), TIMEOUT_S)
    consumer.close()
    return int(end)


def test_a_client_without_a_certificate_is_told_so(secured: Secured) -> None:
    told: list[confluent_kafka.KafkaError] = []
    access = {
        "bootstrap.servers": secured.ssl,
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.ca),
        "reconnect.backoff.ms": 500,
    }
    consumer = confluent_kafka.Consumer({**access, "group.id": "g", "error_cb": told.append})
    with pytest.raises(confluent_kafka.KafkaException):
        consumer.list_topics(timeout=2)
    consumer.poll(1)
    consumer.close()
    assert any("certificate required" in each.str() for each in told), told


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(300)
def test_apache_kafka_starts_by_the_same_file(tmp_path: Path) -> None:
    for secured in secured_broker(tmp_path, start_kafka):
        for mechanism in (None, "PLAIN", *MECHANISMS):
            value = str(uuid.uuid4())
            assert value in by_librdkafka(secured, mechanism, value)
