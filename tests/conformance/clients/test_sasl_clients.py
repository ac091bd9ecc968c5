"""Real clients log in by PLAIN and SCRAM, write and read; librdkafka's administration makes their users."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker

TIMEOUT_S = 20
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TOPIC, USER, PASSWORD = "orders", "alice", "a,b=c"
USERS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a listener with SASL; the user has SCRAM credentials too, made over another listener."""
    data: Path = tmp_path_factory.mktemp("sasl") / "data"
    with_sasl = free_port()
    port = free_port()
    settings = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
        "connections.max.reauth.ms": "2000",
    }
    listen = f"127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{with_sasl}"
    with OttlaBroker.start(data, port, settings, ("--listen", listen)) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        (created,) = admin.create_topics([NewTopic(TOPIC, 1)]).values()
        created.result(TIMEOUT_S)
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            upsertion = UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(mechanism, 8192), PASSWORD.encode()
            )
            admin.alter_user_scram_credentials([upsertion])[USER].result(TIMEOUT_S)
        yield f"127.0.0.1:{with_sasl}"


def written_by_librdkafka(bootstrap: str, mechanism: str, value: bytes) -> list[bytes]:
    access = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    producer = confluent_kafka.Producer(access)
    producer.produce(TOPIC, value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer({**access, "group.id": str(value), "auto.offset.reset": "earliest"})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    found: list[bytes] = []
    while value not in found:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None and message.error() is None
        found.append(message.value() or b"")
    consumer.close()
    return found


def written_by_kafka_python(bootstrap: str, mechanism: str, value: bytes) -> list[bytes]:
    access = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    producer = kafka.KafkaProducer(**access)
    producer.send(TOPIC, value).get(TIMEOUT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(**access, consumer_timeout_ms=TIMEOUT_S * 1000)
    consumer.assign([kafka.TopicPartition(TOPIC, 0)])
    consumer.seek_to_beginning()
    found: list[bytes] = []
    while value not in found:
        found.append(next(consumer).value)
    consumer.close()
    return found


def written_by_aiokafka(bootstrap: str, mechanism: str, value: bytes) -> list[bytes]:
    access = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }

    async def run() -> list[bytes]:
        async with aiokafka.AIOKafkaProducer(**access) as producer:
            await producer.send_and_wait(TOPIC, value)
        async with aiokafka.AIOKafkaConsumer(**access) as consumer:
            consumer.assign([aiokafka.TopicPartition(TOPIC, 0)])
            await consumer.seek_to_beginning()
            found: list[bytes] = []
            while value not in found:
                found.append((await consumer.getone()).value)
            return found

    return asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


CLIENTS = (written_by_librdkafka, written_by_kafka_python, written_by_aiokafka)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_clients_log_in_write_and_read(
    bootstrap: str, client: Callable[[str, str, bytes], list[bytes]], mechanism: str
) -> None:
    value = uuid.uuid4().bytes
    assert value in client(bootstrap, mechanism, value)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("mallory", PASSWORD)])
def test_librdkafka_is_told_that_a_login_failed(
    bootstrap: str, mechanism: str, user: str, password: str
) -> None:
    told: list[confluent_kafka.KafkaError] = []
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "group.id": "g",
            "error_cb": told.append,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    for _ in range(TIMEOUT_S * 10):
        consumer.poll(0.1)
        if told:
            break
    consumer.close()
    assert told[0].code() == confluent_kafka.KafkaError._AUTHENTICATION


def test_a_producer_renews_its_session(bootstrap: str) -> None:
    """Of 2 s; librdkafka renews it in time, without an error."""
    failures: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "error_cb": failures.append,
        }
    )
    for _ in range(30):
        producer.produce(TOPIC, b"again")
        assert producer.flush(TIMEOUT_S) == 0
        producer.poll(0.1)
    assert failures == []


def test_a_user_is_described_and_removed(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        upsertion = UserScramCredentialUpsertion(
            "bob", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 5000), b"secret"
        )
        admin.alter_user_scram_credentials([upsertion])["bob"].result(TIMEOUT_S)
        described = admin.describe_user_scram_credentials(["bob"])["bob"].result(TIMEOUT_S)
        (info,) = described.scram_credential_infos
        assert (info.mechanism, info.iterations) == (ScramMechanism.SCRAM_SHA_512, 5000)
        deletion = UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512)
        admin.alter_user_scram_credentials([deletion])["bob"].result(TIMEOUT_S)
        with pytest.raises(confluent_kafka.KafkaException):
            admin.describe_user_scram_credentials(["bob"])["bob"].result(TIMEOUT_S)
