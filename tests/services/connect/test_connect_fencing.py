"""Exactly-once sources on a cluster of workers: what former tasks left behind writes no more (KIP-618)."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from support.clients.confluent import create_topic, read_all
from support.connect.workers import ConnectWorker, until
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

pytestmark = pytest.mark.slow

CONNECTORS = 3


def left_behind(bootstrap: str, transactional_id: str, topic: str) -> Producer:
    """A producer of a task that is there no more, in the middle of a transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"of a task that was left behind")
    producer.flush(30)
    return producer


def test_producers_of_tasks_that_are_gone_are_fenced_before_others_begin(
    broker: OttlaBroker | ApacheKafka, tmp_path: Path
) -> None:
    group = f"fencing-{uuid.uuid4().hex[:8]}"
    settings = {
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "status.storage.topic": f"{group}-status",
        "offset.storage.topic": f"{group}-offsets",
        "exactly.once.source.support": "enabled",
        "key.converter": "test.TextConverter",
        "value.converter": "test.TextConverter",
        "ottla.task.restart.max": "0",
    }
    names = [f"{group}-{number}" for number in range(CONNECTORS)]
    source = {"connector.class": "test.NumbersSource", "source.partitions": "2"}
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                ConnectWorker.start(
                    broker.bootstrap, tmp_path, settings, host="fake", plugins="support.connect.fake_plugins"
                )
            )
            for _ in range(2)
        ]
        for name in names:
            create_topic(broker.bootstrap, name)
            workers[0].put(name, **source, **{"topic": name, "tasks.max": "2", "count": "200"})
        for name in names:
            workers[1].wait_for(name, "RUNNING", 2)
            read_all(broker.bootstrap, name, 400, isolation_level="read_committed")
            assert workers[1].ask("PUT", f"/connectors/{name}/stop").status == 204
        for name in names:
            workers[1].wait_for(name, "STOPPED", 0)
        # Of the second tasks, which do not come back: no task takes these transactional ids again.
        zombies = [left_behind(broker.bootstrap, f"{group}-{name}-1", name) for name in names]
        for name in names:
            workers[0].put(name, **source, **{"topic": name, "tasks.max": "1", "count": "400"})
            assert workers[0].ask("PUT", f"/connectors/{name}/resume").status == 202
        for name in names:
            workers[1].wait_for(name, "RUNNING", 1)
        # The round is the leader's; the other worker asks for it.
        statuses = [workers[0].ask("GET", f"/connectors/{name}/status").body for name in names]
        assert len({each["tasks"][0]["worker_id"] for each in statuses}) == 2
        for zombie in zombies:
            with pytest.raises(KafkaException) as fenced:
                zombie.commit_transaction(30)
            assert fenced.value.args[0].fatal()
        for name in names:
            messages = read_all(broker.bootstrap, name, 800, isolation_level="read_committed")
            numbers = sorted((message.value() or b"").decode() for message in messages)
            assert numbers == sorted(f"{part}:{number}" for part in (0, 1) for number in range(400))
        until(lambda: [each.states(names[0]) for each in workers], lambda found: found[0] == found[1])
