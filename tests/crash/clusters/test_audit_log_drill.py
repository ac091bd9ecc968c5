"""Nodes are killed while clients log in, are refused and change the cluster: the audit log tells all of it.

Every acknowledged change is in the log, unless the log tells a gap of the run that may have lost it. The
chains are whole, as `ottla audit-log verify` sees them from the cluster and from each node's directory.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from support.servers.cluster import free_port
from support.servers.clusters import ClusterPlan, NodeCluster, combined, end_cluster, prepare_cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

KILLS = 8
PATIENCE_S = 15
LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_admin="admin-secret" user_eve="eve-secret";'
)
SETTINGS = {
    "ottla.audit.log.enable": "true",
    "ottla.audit.log.topic.replication.factor": "3",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": LOGIN,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "connection.failed.authentication.delay.ms": "0",
}


class Administrator(threading.Thread):
    """Changes topics, their settings and ACLs, one after the other, and remembers what was acknowledged."""

    def __init__(self, bootstrap: str, name: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._client = AdminClient(client_options(bootstrap, "admin", "admin-secret"))
        self._name = name
        self._random = random.Random(seed)
        self._stopped = threading.Event()
        self.acknowledged: list[tuple[str, str]] = []
        self.uncertain = 0

    def run(self) -> None:
        topics: list[str] = []
        number = 0
        while not self._stopped.is_set():
            number += 1
            choice = self._random.random()
            if choice < 0.4 or not topics:
                topic = f"{self._name}-{number}"
                made = self._client.create_topics([NewTopic(topic, 1, 3)], request_timeout=10)[topic]
                if self._took(("CREATE", topic), made):
                    topics.append(topic)
            elif choice < 0.6:
                topic = topics.pop()
                self._took(("DELETE", topic), self._client.delete_topics([topic], request_timeout=10)[topic])
            elif choice < 0.8:
                entry = ConfigEntry(
                    "retention.ms", str(1_000 + number), incremental_operation=AlterConfigOpType.SET
                )
                resource = ConfigResource("topic", topics[-1], incremental_configs=[entry])
                altered = self._client.incremental_alter_configs([resource], request_timeout=10)[resource]
                self._took(("ALTER_CONFIGS", f"{topics[-1]}={1_000 + number}"), altered)
            else:
                name = f"{self._name}-acl-{number}"
                acl = AclBinding(
                    ResourceType.TOPIC,
                    name,
                    ResourcePatternType.LITERAL,
                    "User:nobody",
                    "*",
                    AclOperation.READ,
                    AclPermissionType.ALLOW,
                )
                self._took(("CREATE_ACL", name), self._client.create_acls([acl], request_timeout=10)[acl])

    def _took(self, change: tuple[str, str], future: object) -> bool:
        try:
            future.result(timeout=30)  # type: ignore[attr-defined]
        except (KafkaException, TimeoutError):
            self.uncertain += 1
            return False
        self.acknowledged.append(change)
        return True

    def stop(self) -> None:
        self._stopped.set()
        self.join(60)


class Intruder(threading.Thread):
    """Logs in with wrong passwords, and asks with the right one for what it may not do."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._addresses = bootstrap
        self._random = random.Random(seed)
        self._stopped = threading.Event()
        self.refused: set[str] = set()

    def run(self) -> None:
        number = 0
        eve = AdminClient(client_options(self._addresses, "eve", "eve-secret"))
        while not self._stopped.is_set():
            number += 1
            if self._random.random() < 0.3:
                wrong = AdminClient(client_options(self._addresses, "admin", "wrong"))
                with pytest.raises(KafkaException):
                    wrong.list_topics(timeout=0.3)
                continue
            name = f"forbidden-{number}"
            try:
                eve.create_topics([NewTopic(name, 1, 3)], request_timeout=5)[name].result(timeout=30)
            except KafkaException as refusal:
                if refusal.args[0].name() == "TOPIC_AUTHORIZATION_FAILED":
                    self.refused.add(name)
            except TimeoutError:
                continue

    def stop(self) -> None:
        self._stopped.set()
        self.join(60)


def client_options(bootstrap: str, user: str, password: str) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
        "socket.timeout.ms": 5_000,
    }


def prepared(directory: Path) -> tuple[NodeCluster, str]:
    """Three nodes with a listener for clients that log in, and that listener's addresses."""
    cluster = prepare_cluster("ottla", directory, ClusterPlan(combined(3), SETTINGS))
    addresses = []
    for node in cluster.nodes.values():
        address = f"127.0.0.1:{free_port()}"
        addresses.append(address)
        text = node.properties.read_text().replace(
            "listeners=PLAINTEXT", f"listeners=CLIENTS://{address},PLAINTEXT", 1
        )
        node.properties.write_text(text)
    return cluster, ",".join(addresses)


def verify(*source: str) -> tuple[int, list[dict[str, object]]]:
    """The exit code and the lines of `ottla audit-log verify`."""
    command = [sys.executable, "-m", "ottla", "audit-log", "verify", "--json", *source]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.stderr == ""
    return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()]


def records(bootstrap: str) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "ottla", "audit-log", "list", "--json", "--bootstrap", bootstrap]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def records_with(bootstrap: str, changes: set[tuple[str, str]]) -> list[dict[str, object]]:
    """The records once these changes are among them, or do not come for a while."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = records(bootstrap)
        if changes <= {told(each) for each in found} or time.monotonic() > deadline:
            return found


def told(record: dict[str, object]) -> tuple[str, str]:
    operation, name = str(record["operation"]), str(record["resource_name"])
    if operation == "ALTER_CONFIGS":
        details = record["details"]
        assert isinstance(details, dict)
        return operation, f"{name}={details['configs'].get('retention.ms')}"
    return operation, name


def test_no_acknowledged_change_is_missing_when_nodes_are_killed(tmp_path: Path) -> None:
    seed = time.time_ns() % 100_000
    print(json.dumps({"drill": "audit log", "seed": seed}))
    draw = random.Random(seed)
    cluster, addresses = prepared(tmp_path)
    try:
        cluster.start(1, 2, 3)
        cluster.eventually(lambda: verify("--bootstrap", cluster.bootstrap)[0] == 0, "the log is there")
        administrators = [Administrator(addresses, name, seed) for name in ("a", "b")]
        intruder = Intruder(addresses, seed)
        for thread in (*administrators, intruder):
            thread.start()
        killed = []
        for _ in range(KILLS):
            time.sleep(draw.uniform(0.5, 3.0))
            active = cluster.active_controller()
            leader = cluster.partition("__ottla_audit_log").leader_id
            victim = draw.choice([active, leader, draw.choice([1, 2, 3])])
            killed.append(victim)
            cluster.kill(victim)
            time.sleep(draw.uniform(0.0, 2.0))
            cluster.heal()
        for thread in (*administrators, intruder):
            thread.stop()
        acknowledged = {each for one in administrators for each in one.acknowledged}
        found = records_with(cluster.bootstrap, acknowledged)
        code, lines = verify("--bootstrap", cluster.bootstrap)
        gaps = [each for each in lines if each["kind"] == "gap"]
        missing = acknowledged - {told(each) for each in found}
        refused = {str(each["resource_name"]) for each in found if each["outcome"] == "denied"}
        print(
            json.dumps(
                {
                    "killed": killed,
                    "acknowledged": len(acknowledged),
                    "uncertain": sum(each.uncertain for each in administrators),
                    "missing": len(missing),
                    "refused": len(intruder.refused),
                    "refused_missing": len(intruder.refused - refused),
                    "failed_logins": sum(
                        int(str(each["count"])) for each in found if each["outcome"] == "failure"
                    ),
                    "records": len(found),
                    "gaps": len(gaps),
                }
            )
        )
        assert [each for each in lines if each["kind"] == "broken"] == []
        assert code == 0
        assert len(acknowledged) > 20
        assert not missing or gaps
        assert len(gaps) >= 1
        chains = [each for each in lines if each["kind"] == "chain"]
        assert sorted(int(str(each["node"])) for each in chains) == [1, 2, 3]
    finally:
        end_cluster(cluster)
    for node in cluster.nodes.values():
        assert verify("--data", str(node.log_directory))[0] == 0
