"""Three nodes with TLS on every listener, certificates shown everywhere: one is killed under load."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from support.servers.cluster import ServerProcess, free_port
from support.servers.tls_trial import Trial

pytestmark = pytest.mark.long

TIMEOUT_S = 60
NODES, RECORDS, TOPIC = (1, 2, 3), 3_000, "orders"
PROPERTIES = """
node.id={node_id}
process.roles=broker,controller
listeners=CLIENTS://localhost:{clients},BROKERS://localhost:{brokers},CONTROLLER://localhost:{controller}
listener.security.protocol.map=CLIENTS:SSL,BROKERS:SSL,CONTROLLER:SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=BROKERS
controller.quorum.voters={voters}
log.dirs={directory}/data-{node_id}
ssl.keystore.location={directory}/node-{node_id}.pem
ssl.truststore.location={directory}/ca.pem
ssl.client.auth=required
broker.heartbeat.interval.ms=200
broker.session.timeout.ms=2000
replica.lag.time.max.ms=2000
controller.quorum.fetch.timeout.ms=1000
controller.quorum.election.timeout.ms=500
default.replication.factor=3
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
"""


def cluster(directory: Path, trial: Trial) -> tuple[list[ServerProcess], str]:
    """The nodes, which have their own certificates, and the clients' addresses."""
    ports = {each: (free_port(), free_port(), free_port()) for each in NODES}
    voters = ",".join(f"{each}@localhost:{ports[each][2]}" for each in NODES)
    nodes: list[ServerProcess] = []
    for node_id, (clients, brokers, controller) in ports.items():
        trial.write(f"node-{node_id}", trial.node(f"node-{node_id}"))
        config = directory / f"{node_id}.properties"
        config.write_text(
            PROPERTIES.format(
                node_id=node_id,
                clients=clients,
                brokers=brokers,
                controller=controller,
                voters=voters,
                directory=directory,
            )
        )
        command = [sys.executable, "-m", "ottla", "broker", "--config", str(config)]
        nodes.append(ServerProcess(command, "ottla broker ready", directory / f"{node_id}.log"))
    return nodes, ",".join(f"localhost:{ports[each][0]}" for each in NODES)


def test_nothing_acknowledged_is_lost_when_a_node_is_killed(tmp_path: Path) -> None:
    trial = Trial.create(tmp_path)
    nodes, bootstrap = cluster(tmp_path, trial)
    certificate = str(trial.write("client", trial.client("alice")))
    access = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(trial.ca),
        "ssl.certificate.location": certificate,
        "ssl.key.location": certificate,
    }
    try:
        for node in nodes:
            node.launch()
        for node in nodes:
            node.wait_until_ready()
        admin = AdminClient(access)
        (created,) = admin.create_topics([NewTopic(TOPIC, 3, 3)]).values()
        created.result(TIMEOUT_S)
        acknowledged: list[bytes] = []

        def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            assert error is None, error
            acknowledged.append(message.value() or b"")

        producer = confluent_kafka.Producer({**access, "enable.idempotence": True, "linger.ms": 5})
        for number in range(RECORDS):
            if number == RECORDS // 3:
                producer.flush(TIMEOUT_S)
                nodes[0].kill()
            if number == 2 * RECORDS // 3:
                producer.flush(TIMEOUT_S)
                nodes[0].launch()
                nodes[0].wait_until_ready()
            producer.produce(TOPIC, b"%d" % number, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(TIMEOUT_S) == 0
        assert len(acknowledged) == RECORDS
        assert sorted(read_all(access, RECORDS)) == sorted(acknowledged)
    finally:
        for node in nodes:
            if node.running:
                node.stop()


def read_all(access: dict[str, str], count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer({**access, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: list[bytes] = []
    end = time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < end:
        found += [each.value() or b"" for each in consumer.consume(1000, 1) if each.error() is None]
    consumer.close()
    return found
