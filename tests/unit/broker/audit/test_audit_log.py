"""The audit log of running nodes: its records, over restarts and failures, and that it is off by default."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.audit.chain_writer import END_FILE
from ottla.broker.broker import Broker, StartError
from ottla.broker.config import BrokerConfig
from ottla.core.decisions import topic_names
from ottla.core.decisions.topic_names import ADMIN_CLIENT_ID
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ottla.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.produce_response import ProduceResponse
from ottla.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from ottla.protocol.record_batch import NewRecord, encode_batch
from ottla.security import audit_chain
from ottla.security.audit_chain import AUDIT_TOPIC
from support.broker.audit import AUDIT_ON, records_of, values_of, verified
from support.nodes.in_process import RawClient, connect, running_broker, until
from support.nodes.in_process_cluster import BOTH, BROKER, CONTROLLER, nodes
from support.nodes.sasl import connect_with_sasl, handshake, log_in, make_users, token
from support.servers.tls_trial import Trial

REPLICAS = "ottla.audit.log.topic.replication.factor"
LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="node" password="secret" user_node="secret" user_alice="alice-secret";'
)
SASL = {
    **AUDIT_ON,
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGIN,
    "connection.failed.authentication.delay.ms": "0",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:node",
    "delegation.token.secret.key": "tokens-secret",
}


async def create(client: RawClient, *names: str, replicas: int = 1) -> list[int]:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=replicas) for name in names]
    answer: Any = await client.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics))
    return [each.error_code for each in answer.topics]


def changes(broker: Broker, **wanted: object) -> list[dict[str, Any]]:
    found = [each for each in records_of(broker) if each.get("event") == "administration"]
    return [each for each in found if all(each[key] == value for key, value in wanted.items())]


async def write_there(client: RawClient, client_id: str = "test") -> int:
    """The error of a foreign record for the audit log."""
    batch = encode_batch([NewRecord(b"1", b"{}", 0)])
    data = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=AUDIT_TOPIC, partition_data=[data])]
    )
    payload = encode_request(ApiKey.PRODUCE, 9, 1, client_id, request)
    await client.send(len(payload).to_bytes(4, "big") + payload)
    _, answer = decode_response(ApiKey.PRODUCE, 9, await client.receive())
    assert isinstance(answer, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def test_nodes_and_super_users_alone_write_to_the_log(tmp_path: Path) -> None:
    """Whoever may write to all topics, and whatever id it has."""

    async def main() -> None:
        async with running_broker(tmp_path, SASL) as broker:
            admin, alice = await connect(broker), await connect_with_sasl(broker)
            acl = AclCreation(
                resource_type=2,
                resource_name="*",
                resource_pattern_type=3,
                principal="User:alice",
                host="*",
                operation=4,
                permission_type=3,
            )
            made: Any = await admin.call(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(creations=[acl]))
            assert made.results[0].error_code == 0
            await handshake(alice)
            assert (await token(alice, b"\0alice\0alice-secret")).error_code == 0
            for client_id in ("test", ADMIN_CLIENT_ID):
                assert await write_there(alice, client_id) == ErrorCode.INVALID_TOPIC_EXCEPTION
            assert await write_there(admin, "test") == ErrorCode.INVALID_TOPIC_EXCEPTION
            assert verified(broker).broken.count == 0
            assert await write_there(admin, ADMIN_CLIENT_ID) == ErrorCode.NONE
            assert [each.text for each in verified(broker).broken.first] == [
                "version None of an audit record is not known"
            ]
            (told,) = changes(broker, operation="CREATE_ACL")
            assert (told["resource_name"], told["details"]["principal"]) == ("*", "User:alice")
            admin.close()
            alice.close()

    asyncio.run(main())


def test_a_change_is_in_the_log_before_it_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path, AUDIT_ON) as broker:
            client = await connect(broker)
            assert await create(client, "orders", "payments") == [0, 0]
            names = [each["resource_name"] for each in changes(broker, client_id="test")]
            assert names == ["orders", "payments"]
            assert await write_there(client) == ErrorCode.INVALID_TOPIC_EXCEPTION
            client.close()
        async with running_broker(tmp_path, AUDIT_ON) as broker:
            client = await connect(broker)
            assert await create(client, "orders", "more") == [36, 0]
            assert [each["resource_name"] for each in changes(broker)][-1] == "more"
            found = verified(broker)
            assert (found.broken.first, found.gaps.first) == ([], [])
            events = [each["event"] for each in records_of(broker)]
            assert events[0] == "chain-started"
            assert events.count("chain-ended") == events.count("chain-resumed") == 1
            client.close()

    asyncio.run(main())


def test_a_node_without_the_setting_has_no_audit_log(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client = await connect(broker)
            assert await create(client, "orders") == [0]
            assert broker.audit is None
            assert AUDIT_TOPIC not in broker.image.topics
            client.close()

    asyncio.run(main())
    assert not (tmp_path / END_FILE).exists()


def test_logins_and_refusals_are_recorded_without_secrets(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path, SASL) as broker:
            await make_users(broker, "bob")
            alice = await connect_with_sasl(broker)
            await handshake(alice)
            assert (await token(alice, b"\0alice\0alice-secret")).error_code == 0
            for _ in range(20):  # a flood is counted
                assert await create(alice, "orders") == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            assert await write_there(alice) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            made: Any = await alice.call(
                ApiKey.CREATE_DELEGATION_TOKEN,
                3,
                CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1),
            )
            renewed: Any = await alice.call(
                ApiKey.RENEW_DELEGATION_TOKEN,
                2,
                RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1),
            )
            assert (made.error_code, renewed.error_code) == (0, 0)
            mallory = await connect_with_sasl(broker)
            await handshake(mallory)
            assert (await token(mallory, b"\0alice\0wrong-secret")).error_code == 58
            bob = await connect_with_sasl(broker)
            assert (await log_in(bob, "bob", "bob")).error_code == 0
            await until(lambda: "20" in refusals(broker))
            records = records_of(broker)
            logins = [each for each in records if each["event"] == "authentication"]
            assert [(each["outcome"], each["principal"]) for each in logins] == [
                ("success", "User:alice"),
                ("failure", None),
                ("success", "User:bob"),
            ]
            assert logins[0]["details"] == {"mechanism": "PLAIN", "token": False}
            (user,) = changes(broker, resource_type="USER")
            assert user["details"] == {"mechanism": "SCRAM-SHA-256", "iterations": 4096}
            tokens = changes(broker, resource_type="DELEGATION_TOKEN")
            assert [each["operation"] for each in tokens] == ["CREATE", "RENEW"]
            assert {each["resource_name"] for each in tokens} == {made.token_id}
            text = b"\n".join(value for _, _, value in values_of(broker)).decode()
            for secret in ("alice-secret", "wrong-secret", "tokens-secret", "salt", made.hmac.hex()):
                assert secret not in text
            assert base64.b64encode(made.hmac).decode() not in text
            assert verified(broker).broken.first == []
            for client in (alice, mallory, bob):
                client.close()

    asyncio.run(main())


def refusals(broker: Broker) -> str:
    """How many refusals of a topic's creation were told."""
    found = [each for each in records_of(broker) if each["outcome"] == "denied"]
    return str(sum(each["count"] for each in found if each["operation"] == "CREATE"))


def test_changes_of_many_kinds_are_recorded(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path, AUDIT_ON) as broker:
            client = await connect(broker)
            await create(client, "orders")
            configs = [
                AlterableConfig(name="retention.ms", config_operation=0, value="1000"),
                AlterableConfig(name="cleanup.policy", config_operation=2, value="compact"),
                AlterableConfig(name="segment.ms", config_operation=1, value=None),
            ]
            own = [AlterableConfig(name="ssl.key.password", config_operation=0, value="very-secret")]
            logger = [AlterableConfig(name="ottla.broker", config_operation=0, value="INFO")]
            resources = [
                AlterConfigsResource(resource_type=2, resource_name="orders", configs=configs),
                AlterConfigsResource(resource_type=4, resource_name="1", configs=own),
                AlterConfigsResource(resource_type=8, resource_name="1", configs=logger),
            ]
            await client.call(
                ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=resources)
            )
            entity = [EntityData(entity_type="user", entity_name=None)]
            entry = EntryData(entity=entity, ops=[OpData(key="request_percentage", value=12.5)])
            await client.call(
                ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest(entries=[entry], validate_only=True)
            )
            await client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest(entries=[entry]))
            await client.call(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["none"]))
            told = [
                (each["operation"], each["resource_type"], each["resource_name"], each["details"])
                for each in changes(broker, client_id="test")
            ]
            settings = {"cleanup.policy": "+compact", "retention.ms": "1000", "segment.ms": None}
            assert told[0][:3] == ("CREATE", "TOPIC", "orders")
            assert ("ALTER_CONFIGS", "TOPIC", "orders", {"configs": settings}) in told
            levels = {"configs": {"ottla.broker": "INFO"}}
            assert [each for each in told if each[1] == "BROKER_LOGGER"] == [
                ("ALTER_CONFIGS", "BROKER_LOGGER", "1", levels)
            ]
            limits = {"limits": {"request_percentage": "12.5"}}
            assert [each for each in told if each[1] == "CLIENT_QUOTA"] == [
                ("ALTER_QUOTA", "CLIENT_QUOTA", "user=<default>", limits)
            ]
            assert "very-secret" not in str(records_of(broker))
            client.close()

    asyncio.run(main())


def test_the_log_of_a_cluster_has_a_chain_of_each_node(tmp_path: Path) -> None:
    """Nodes that log in to each other; the partition's leader, and with it the active controller, changes."""
    settings = {
        **AUDIT_ON,
        REPLICAS: "3",
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": LOGIN,
        "listener.name.controller.plain.sasl.jaas.config": LOGIN,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node",
    }

    async def main() -> None:
        async with nodes(tmp_path, {1: BOTH, 2: BOTH, 3: BOTH}, settings) as cluster:
            await cluster.start(1, 2, 3)
            await create_at_each(cluster.running, "first")
            await cluster.until(lambda: len(verified(cluster.running[1]).chains) == 3)
            leader = cluster.running[1].image.topics[AUDIT_TOPIC].partitions[0].leader
            await cluster.stop(leader)
            await cluster.until(lambda: cluster.active is not None)
            await create_at_each(cluster.running, "second")
            await cluster.start(leader)
            await create_at_each(cluster.running, "third")
            await cluster.until(lambda: in_step(cluster.running))
            broker = cluster.running[leader]
            names = [
                each["resource_name"] for each in changes(broker, principal="User:node", client_id="test")
            ]
            assert sorted(names) == sorted(
                [f"{word}-{number}" for word in ("first", "third") for number in (1, 2, 3)]
                + [f"second-{number}" for number in {1, 2, 3} - {leader}]
            )
            found = verified(broker)
            assert found.broken.first == []
            # A node that reconnects while the leader stops may log in after the leader wrote its last
            # events: the leader's next run tells that as a gap, and no other node has one.
            assert {gap.node for gap in found.gaps.first} <= {leader}
            assert sorted(found.chains) == [1, 2, 3]

    asyncio.run(asyncio.wait_for(main(), 90))


def in_step(running: dict[int, Broker]) -> bool:
    return len({len(values_of(broker)) for broker in running.values()}) == 1


async def create_at_each(running: dict[int, Broker], word: str) -> None:
    for node_id, broker in running.items():
        client = await connect_with_sasl(broker, "PLAINTEXT")
        await handshake(client)
        assert (await token(client, b"\0node\0secret")).error_code == 0
        assert await create(client, f"{word}-{node_id}") == [0]
        client.close()


def test_a_controller_alone_writes_to_the_brokers(tmp_path: Path) -> None:
    roles = {1: CONTROLLER, 2: BROKER, 3: BROKER}

    async def main() -> None:
        async with nodes(tmp_path, roles, {**AUDIT_ON, REPLICAS: "2"}) as cluster:
            await cluster.start(1, 2, 3)
            await cluster.until(lambda: len(verified(cluster.running[2]).chains) == 3)
            client = await connect(cluster.running[2])
            assert await create(client, "orders") == [0]
            leader = cluster.running[2].image.topics[AUDIT_TOPIC].partitions[0].leader
            (found,) = changes(cluster.running[leader], resource_name="orders")
            assert (found["node"], found["client_id"], found["host"]) == (1, "test", "127.0.0.1")
            client.close()
            assert verified(cluster.running[leader]).broken.first == []
            await cluster.stop(2, 3)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_without_a_leader_changes_are_made_and_recorded_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Fail-open: the one broker with the partition is away."""

    async def main() -> None:
        async with nodes(tmp_path, {1: BOTH, 2: BROKER}, {**AUDIT_ON, REPLICAS: "1"}) as cluster:
            await cluster.start(1, 2)
            leader = cluster.running[1].image.topics[AUDIT_TOPIC].partitions[0].leader
            if leader != 2:
                await move_to_two(cluster.running[1])
                await cluster.until(
                    lambda: cluster.running[1].image.topics[AUDIT_TOPIC].partitions[0].leader == 2
                )
            await cluster.stop(2)
            client = await connect(cluster.running[1])
            for number in range(3):
                assert await create(client, f"orders-{number}") == [0]
            await cluster.start(2)
            await cluster.until(lambda: len(changes(cluster.running[2], client_id="test")) >= 3)
            names = [each["resource_name"] for each in changes(cluster.running[2], client_id="test")]
            assert names[-3:] == ["orders-0", "orders-1", "orders-2"]
            assert verified(cluster.running[2]).broken.first == []
            client.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(main(), 60))
    assert "the audit log can't be written now" in caplog.text


async def move_to_two(broker: Broker) -> None:
    from ottla.protocol.messages.alter_partition_reassignments_request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    client = await connect(broker)
    partition = ReassignablePartition(partition_index=0, replicas=[2])
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=AUDIT_TOPIC, partitions=[partition])]
    )
    await client.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, request)
    client.close()


def test_events_that_come_too_late_to_be_written_are_told_by_the_next_run(tmp_path: Path) -> None:
    """While the only broker stops, its partitions have no leader any more."""

    async def main() -> None:
        async with running_broker(tmp_path, AUDIT_ON) as broker:
            client = await connect(broker)
            await create(client, "orders")
            audit, session, shut_down = broker.audit, session_of(broker), broker.lifecycle.shut_down
            assert audit is not None

            async def shut_down_with_two_logins() -> None:
                await shut_down()
                for _ in range(2):
                    audit.authentication_failed(session, "PLAIN", "no")

            broker.lifecycle.shut_down = shut_down_with_two_logins  # type: ignore[method-assign]
        async with running_broker(tmp_path, AUDIT_ON) as broker:
            await until(lambda: "events-lost" in [each["event"] for each in records_of(broker)])
            (lost,) = [each for each in records_of(broker) if each["event"] == "events-lost"]
            assert lost["count"] == 2
            gaps = verified(broker).gaps.first
            assert [each.text for each in gaps] == ["2 events were not recorded, says the node"]
        async with running_broker(tmp_path, AUDIT_ON) as broker:  # and only by that one
            await until(lambda: [each["event"] for each in records_of(broker)].count("chain-resumed") == 2)
            assert verified(broker).gaps.count == 1

    asyncio.run(main())


def session_of(broker: Broker) -> Any:
    return next(iter(broker.server._clients.connections)).session


@pytest.mark.parametrize("content", [None, b"short", b" " * 50])
def test_a_key_that_can_not_be_used_stops_the_start(tmp_path: Path, content: bytes | None) -> None:
    key = tmp_path / "key"
    if content is not None:
        key.write_bytes(content)

    async def main() -> None:
        with pytest.raises(StartError, match=r"ottla\.audit\.log\.key\.file"):
            async with running_broker(tmp_path / "data", {**AUDIT_ON, "ottla.audit.log.key.file": str(key)}):
                pass

    asyncio.run(main())
    assert not (tmp_path / "data" / "meta.properties").exists()


def test_a_controller_names_the_brokers_listener_by_its_settings(tmp_path: Path) -> None:
    values = {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "log.dirs": str(tmp_path),
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.inside.plain.sasl.jaas.config": LOGIN,
    }
    assert BrokerConfig.from_mapping(values).inter_broker_protocol == "PLAINTEXT"
    config = BrokerConfig.from_mapping({**values, **AUDIT_ON})
    assert (config.inter_broker_listener_name, config.inter_broker_protocol) == ("INSIDE", "SASL_PLAINTEXT")


def test_the_topic_has_one_name() -> None:
    assert topic_names.AUDIT_TOPIC == audit_chain.AUDIT_TOPIC


def test_logins_by_certificate_are_recorded(tmp_path: Path) -> None:
    """One that is taken, one of a foreign authority, and none."""
    trial = Trial.create(tmp_path / "certs")
    stranger = Trial.create(tmp_path / "stranger", "other CA").client("mallory")
    settings = {
        **AUDIT_ON,
        "listeners": "SSL://127.0.0.1:0",
        **trial.settings(),
        "ssl.client.auth": "required",
    }

    async def main() -> None:
        async with running_broker(tmp_path / "data", settings) as broker:
            for shown, refused in ((stranger, True), (None, True), (trial.client("alice"), False)):
                assert await is_refused(broker, trial.context(shown)) is refused
            await until(lambda: len(tls_logins(broker)) == 3)
            assert [(each["outcome"], each["principal"]) for each in tls_logins(broker)] == [
                ("failure", None),
                ("failure", None),
                ("success", "User:CN=alice"),
            ]
            assert {each["details"]["mechanism"] for each in tls_logins(broker)} == {"TLS"}

    asyncio.run(main())


def tls_logins(broker: Broker) -> list[dict[str, Any]]:
    return [each for each in records_of(broker) if each["event"] == "authentication"]


async def is_refused(broker: Broker, context: ssl.SSLContext) -> bool:
    try:
        opened = asyncio.open_connection("127.0.0.1", broker.ports["SSL"], ssl=context)
        client = RawClient(*await opened)
        await client.call(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        client.close()
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return True
    return False
