"""Real clients with just the ACLs that they need, on a node where nobody else is allowed anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from support.clients.ottla_command import ottla
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker

TIMEOUT_S = 20
USERS = {"admin": "a", "writer": "w", "reader": "r"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": " ".join(
        [PLAIN, *(f'user_{name}="{password}"' for name, password in USERS.items())]
    )
    + ";",
}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the listener with SASL; those of the other one are User:ANONYMOUS: refused."""
    with_sasl, port = free_port(), free_port()
    listen = f"127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{with_sasl}"
    data: Path = tmp_path_factory.mktemp("acls") / "data"
    with OttlaBroker.start(data, port, SETTINGS, ("--listen", listen)):
        address = f"127.0.0.1:{with_sasl}"
        admin = AdminClient(access(address, "admin"))
        (created,) = admin.create_topics([NewTopic("orders", 1)]).values()
        created.result(TIMEOUT_S)
        yield address


def access(bootstrap: str, user: str) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
    }


def allow(bootstrap: str, *words: str) -> None:
    login = ("--set", "security.protocol=SASL_PLAINTEXT", "--set", "sasl.mechanism=PLAIN")
    user = ("--set", "sasl.username=admin", "--set", f"sasl.password={USERS['admin']}")
    run = ottla(bootstrap, "acl", "create", *login, *user, *words)
    assert run.code == 0, run


def test_a_transaction_is_written_and_read(bootstrap: str) -> None:
    allow(
        bootstrap,
        *("--principal", "writer", "--topic", "orders", "--transactional-id", "ledger", "--producer"),
    )
    allow(bootstrap, "--principal", "reader", "--topic", "orders", "--group", "billing", "--consumer")
    producer = confluent_kafka.Producer({**access(bootstrap, "writer"), "transactional.id": "ledger"})
    producer.init_transactions(TIMEOUT_S)
    for value in (b"one", b"two"):
        producer.begin_transaction()
        producer.produce("orders", value)
        producer.commit_transaction(TIMEOUT_S)
    consumer = confluent_kafka.Consumer(
        {**access(bootstrap, "reader"), "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    found = []
    while len(found) < 2:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None and message.error() is None
        found.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    assert found == [b"one", b"two"]


def test_a_client_without_acls_is_told_so(bootstrap: str) -> None:
    other = confluent_kafka.Producer({**access(bootstrap, "reader"), "transactional.id": "ledger"})
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        other.init_transactions(TIMEOUT_S)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    topics = AdminClient(access(bootstrap, "admin")).list_topics(timeout=TIMEOUT_S).topics
    assert "orders" in topics
