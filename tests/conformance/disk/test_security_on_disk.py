"""Users, ACLs and delegation tokens in the metadata: ottla's on Apache Kafka, and Kafka's on ottla."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.core.decisions.acl_changes import acl_of_record
from ottla.core.decisions.delegation_tokens import token_of_record
from ottla.core.image.image import MetadataImage
from ottla.core.security.delegation_tokens import token_hmac
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from support.java.java_tools import run_java
from support.nodes.in_process import create_topic, running_broker
from support.nodes.sasl import connect_with_sasl, log_in
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.sasl_brokers import SCRAM_MODULE, kafka_listeners, ottla_listeners

pytestmark = [pytest.mark.java, pytest.mark.slow]

TIMEOUT_S = 30
SECRET = "of all nodes"
SNAPSHOT_OFTEN = {
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "metadata.max.retention.bytes": "1",
    "internal.metadata.delete.delay.millis": "0",
}
MECHANISMS = {"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}


def access(bootstrap: str, user: str, mechanism: str) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


def make_user(bootstrap: str, user: str, mechanism: ScramMechanism) -> None:
    info = ScramCredentialInfo(mechanism, 8192)
    upsertion = UserScramCredentialUpsertion(user, info, f"{user}-secret".encode())
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.alter_user_scram_credentials([upsertion])[user].result(TIMEOUT_S)


def logs_in(bootstrap: str, user: str, mechanism: str) -> bool:
    metadata = AdminClient(access(bootstrap, user, mechanism)).list_topics(timeout=TIMEOUT_S)
    return len(metadata.brokers) == 1


def acl(
    name: str, pattern: ResourcePatternType, principal: str, operation: AclOperation, kind: AclPermissionType
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, pattern, principal, "*", operation, kind)


ACLS = (
    acl("orders", ResourcePatternType.LITERAL, "User:alice", AclOperation.READ, AclPermissionType.ALLOW),
    acl("or", ResourcePatternType.PREFIXED, "User:CN=b,O=ü", AclOperation.ALL, AclPermissionType.DENY),
)
ANY_ACL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def described_acls(bootstrap: str) -> set[AclBinding]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return set(admin.describe_acls(ANY_ACL).result(TIMEOUT_S))


def told(image: MetadataImage) -> set[tuple[str, int, str, int, int]]:
    acls = map(acl_of_record, image.acls.values())
    return {
        (each.resource_name, each.pattern_type, each.principal, each.operation, each.permission)
        for each in acls
    }


def token_tool(bootstrap: str, directory: Path, *words: str) -> str:
    """The output of Kafka's own tool, as alice."""
    config = directory / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={SCRAM_MODULE} required username="alice" password="alice-secret";\n'
    )
    run = run_java(
        "org.apache.kafka.tools.DelegationTokenCommand",
        "--bootstrap-server",
        bootstrap,
        "--command-config",
        str(config),
        *words,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def make_token(bootstrap: str, directory: Path) -> tuple[str, bytes]:
    """The id and HMAC of a token of alice's, renewed by bob."""
    words = ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    told = token_tool(bootstrap, directory, *words)
    found = re.search(r"^([\w-]{22})\s+(\S+={0,2})\s+User:alice", told, re.MULTILINE)
    assert found is not None, told
    return found[1], base64.b64decode(found[2])


def described_tokens(bootstrap: str, directory: Path) -> set[str]:
    """The ids of alice's tokens. Without an owner the tool asks for no owner's tokens, and is told none."""
    told = token_tool(bootstrap, directory, "--describe", "--owner-principal", "User:alice")
    return set(re.findall(r"^([\w-]{22})\s+\S+={0,2}\s+User:", told, re.MULTILINE))


def test_users_acls_and_tokens_go_back_and_forth(tmp_path: Path) -> None:
    data, with_sasl, port = tmp_path / "logs", free_port(), free_port()
    secured = f"127.0.0.1:{with_sasl}"
    # given a user that was made here and logs in here
    listen = ottla_listeners(port, with_sasl)
    with OttlaBroker.start(data, port, MECHANISMS, listen) as broker:
        make_user(broker.bootstrap, "alice", ScramMechanism.SCRAM_SHA_256)
        assert logs_in(secured, "alice", "SCRAM-SHA-256")

    # then it logs in to Apache Kafka, which makes another user, ACLs and a token
    kafkas = {
        **kafka_listeners(port, with_sasl, ("SCRAM-SHA-256", "SCRAM-SHA-512")),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice;User:bob",
        "delegation.token.secret.key": SECRET,
        **MECHANISMS,
    }
    with ApacheKafka.start(tmp_path, port, kafkas) as kafka:
        assert logs_in(secured, "alice", "SCRAM-SHA-256")
        make_user(kafka.bootstrap, "bob", ScramMechanism.SCRAM_SHA_512)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for created in admin.create_acls(list(ACLS)).values():
            created.result(TIMEOUT_S)
        token_id, hmac = make_token(secured, tmp_path)

    # when ottla has all of it, lets a client in by Kafka's token, makes one, and has written a snapshot
    async def look() -> tuple[MetadataImage, str]:
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:0",
            "delegation.token.secret.key": SECRET,
            **MECHANISMS,
            **SNAPSHOT_OFTEN,
        }
        async with running_broker(data, settings) as broker:
            by_token = await connect_with_sasl(broker)
            answer = await log_in(by_token, token_id, base64.b64encode(hmac).decode(), by_token=True)
            assert answer.error_code == 0
            alice = await connect_with_sasl(broker)
            assert (await log_in(alice, "alice", "alice-secret")).error_code == 0
            request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
            made: Any = await alice.call(ApiKey.CREATE_DELEGATION_TOKEN, 3, request)
            for number in range(20):
                await create_topic(broker, f"topic-{number}")
            for client in (by_token, alice):
                client.close()
            return broker.image.copy(), made.token_id

    image, our_token_id = asyncio.run(look())
    assert told(image) == {("orders", 3, "User:alice", 3, 3), ("or", 4, "User:CN=b,O=ü", 2, 2)}
    token = token_of_record(image.delegation_tokens[token_id])
    assert (token.owner, token.renewers) == ("User:alice", ("User:bob",))
    assert token_hmac(SECRET.encode(), token_id) == hmac
    with OttlaBroker.start(data, port, MECHANISMS, listen):
        assert logs_in(secured, "bob", "SCRAM-SHA-512")
        with pytest.raises(confluent_kafka.KafkaException):
            logs_in_wrongly(secured)

    # then Apache Kafka has it again
    with ApacheKafka.start(tmp_path, port, kafkas) as kafka:
        assert described_acls(kafka.bootstrap) == set(ACLS)
        assert {token_id, our_token_id} <= described_tokens(secured, tmp_path)
        assert logs_in(secured, "bob", "SCRAM-SHA-512")


def logs_in_wrongly(bootstrap: str) -> None:
    wrong = {**access(bootstrap, "bob", "SCRAM-SHA-512"), "sasl.password": "wrong"}
    AdminClient(wrong).list_topics(timeout=3)
