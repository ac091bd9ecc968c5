"""The registry's topic is deleted, made again, emptied, or made by another client before the start."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from support.clients.confluent import create_topic, eventually
from support.servers.cluster import ServerError
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

QUICK = {"kafkagroup.session.timeout.ms": "2000", "kafkagroup.heartbeat.interval.ms": "300"}
WRITERS = 4

Start = Callable[..., ServiceProcess]


@pytest.fixture
def topic(unique_name: str) -> str:
    return f"_{unique_name}"


@pytest.fixture
def start(broker: OttlaBroker, tmp_path: Path, topic: str) -> Iterator[Start]:
    """Starts an instance of a registry of the test's own."""
    own = {"kafkastore.topic": topic, "schema.registry.group.id": topic, **QUICK}
    with ExitStack() as stack:

        def one(eligible: bool = True) -> ServiceProcess:
            given = {**own, "leader.eligibility": str(eligible).lower()}
            return stack.enter_context(
                ServiceProcess.start("registry", broker.bootstrap, tmp_path / "log", given)
            )

        yield one


@pytest.fixture
def admin(broker: OttlaBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def schema(name: str) -> dict[str, Any]:
    return {"schema": json.dumps({"type": "record", "name": name, "fields": [{"name": "a", "type": "int"}]})}


def posted(instance: ServiceProcess, subject: str, name: str) -> httpx.Response:
    return httpx.post(f"{instance.url}/subjects/{subject}/versions", json=schema(name), timeout=30)


def register(instance: ServiceProcess, subject: str, name: str) -> int:
    answer = posted(instance, subject, name)
    assert answer.status_code == 200, answer.text
    found: int = answer.json()["id"]
    return found


def state(instance: ServiceProcess) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{instance.url}/v1/metadata/state").json()
    return found


def delete(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic])[topic].result()
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic is gone")


def log_of(instance: ServiceProcess) -> str:
    return instance.server.log_path.read_text()


def require_read_only(instance: ServiceProcess, topic: str, word: str) -> None:
    """The instance says that it is read-only: in its state, in the answer to a write, and in a line."""
    eventually(lambda: word in (state(instance)["problem"] or ""), f"{word!r} is told", timeout_s=20)
    assert state(instance)["state"] == "READ_ONLY"
    refused = posted(instance, "refused", "Refused")
    assert (refused.status_code, refused.json()["error_code"]) == (500, 50001)
    assert topic in refused.json()["message"] and "restart" in refused.json()["message"]
    assert instance.server.running
    assert len([line for line in log_of(instance).splitlines() if word in line]) == 1, log_of(instance)


def test_a_topic_deleted_under_load_leaves_readers_and_is_never_made_by_asking(
    start: Start, admin: AdminClient, topic: str
) -> None:
    # given
    primary, follower = start(), start(eligible=False)
    numbers = itertools.count()
    stored: dict[str, int] = {}
    codes: set[int] = set()
    lock, stop = threading.Lock(), threading.Event()

    def write(instance: ServiceProcess) -> None:
        while not stop.is_set():
            with lock:
                name = f"R{next(numbers)}"
            answer = posted(instance, f"s-{name}", name)
            with lock:
                if answer.status_code == 200:
                    stored[name] = answer.json()["id"]
                else:
                    codes.add(answer.json()["error_code"])

    writers = [
        threading.Thread(target=write, args=(instance,))
        for instance in (primary, follower)
        for _ in range(WRITERS)
    ]
    try:
        for writer in writers:
            writer.start()
        eventually(lambda: len(stored) > 20, "writes")
        # when
        delete(admin, topic)
        eventually(lambda: 50001 in codes, "writes are refused", timeout_s=20)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    # then
    for instance in (primary, follower):
        require_read_only(instance, topic, "was deleted")
    assert codes <= {50001, 50002}
    assert len(set(stored.values())) == len(stored)
    for name, schema_id in stored.items():
        found = httpx.get(f"{primary.url}/schemas/ids/{schema_id}").json()
        assert json.loads(found["schema"])["name"] == name
        # producers that start again register known schemas
        assert register(primary, f"s-{name}", name) == schema_id
    assert topic not in admin.list_topics(timeout=10).topics
    assert primary.server.stop() == follower.server.stop() == 0


def test_another_topic_of_the_name_is_never_mixed_with_the_first(
    start: Start, admin: AdminClient, broker: OttlaBroker, topic: str
) -> None:
    # given
    primary, follower = start(), start(eligible=False)
    for number in range(3):
        register(primary, f"old-{number}", f"Old{number}")
    # when it is made again, and has more records than the first
    delete(admin, topic)
    create_topic(broker.bootstrap, topic, 1, {"cleanup.policy": "compact"})
    fill(broker, topic, 50)
    # then
    for instance in (primary, follower):
        require_read_only(instance, topic, "another topic of this name was made")
        assert httpx.get(f"{instance.url}/subjects").json() == [f"old-{number}" for number in range(3)]
    # when one is restarted, and then the other
    follower.server.stop()
    follower = start(eligible=False)
    assert httpx.get(f"{follower.url}/subjects").json() == [f"new-{number:02}" for number in range(50)]
    assert posted(follower, "s", "S").json()["error_code"] == 50001
    primary.server.stop()
    primary = start()
    eventually(lambda: posted(follower, "s", "S").status_code == 200, "writes again", timeout_s=20)
    # then
    assert register(primary, "s", "S") == 51
    assert state(primary)["state"] == state(follower)["state"] == "READY"


def fill(broker: OttlaBroker, topic: str, schemas: int) -> None:
    """Write the records that a mirror would bring: versions with ids from 1 on."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
    for number in range(schemas):
        key = {"keytype": "SCHEMA", "subject": f"new-{number:02}", "version": 1, "magic": 1}
        value = {"subject": f"new-{number:02}", "version": 1, "id": number + 1}
        value |= {**schema(f"New{number}"), "deleted": False}
        producer.produce(topic, json.dumps(value), json.dumps(key), partition=0)
    assert producer.flush(30) == 0


def test_a_topic_that_loses_records_is_not_written_to(
    start: Start, admin: AdminClient, broker: OttlaBroker, topic: str
) -> None:
    # given an instance that does not read for a while
    instance = start()
    register(instance, "s", "R")
    os.kill(instance.server.process.pid, signal.SIGSTOP)
    try:
        # when records that it has not read are deleted (the first NOOP answers the fetch that it waits for)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        for _ in range(3):
            producer.produce(topic, None, b'{"keytype":"NOOP","magic":0}', partition=0)
            assert producer.flush(10) == 0
        allow_deletion = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[allow_deletion])
        admin.incremental_alter_configs([resource])[resource].result()
        end = TopicPartition(topic, 0, OFFSET_END)
        admin.delete_records([end])[end].result()
    finally:
        os.kill(instance.server.process.pid, signal.SIGCONT)
    # then
    require_read_only(instance, topic, "has lost records")
    assert httpx.get(f"{instance.url}/subjects").json() == ["s"]


def test_a_topic_that_a_client_made_by_asking_for_it_is_put_right_while_it_is_empty(
    start: Start, admin: AdminClient, broker: OttlaBroker, topic: str
) -> None:
    # given
    create_topic(broker.bootstrap, topic, 1, {"cleanup.policy": "delete"})
    # when
    instance = start()
    # then
    assert register(instance, "s", "R") == 1
    assert "nothing was ever in it" in log_of(instance)
    instance.server.stop()
    again = start()
    assert "nothing was ever in it" not in log_of(again)
    assert httpx.get(f"{again.url}/subjects").json() == ["s"]


def test_a_topic_with_records_that_would_be_deleted_is_refused_with_the_way_out(
    start: Start, admin: AdminClient, broker: OttlaBroker, topic: str
) -> None:
    create_topic(broker.bootstrap, topic, 1, {"cleanup.policy": "delete"})
    fill(broker, topic, 1)
    with pytest.raises(ServerError, match=f"kafka-configs.sh .* --entity-name {topic} --add-config"):
        start()
    offsets = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})
    assert next(iter(offsets.values())).result().offset == 1
