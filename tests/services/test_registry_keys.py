"""Keys of encrypted fields on several instances of the registry, over kills, and in Confluent's records."""

from __future__ import annotations

import functools
import itertools
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.clients.confluent import admin_client, create_topic, eventually, produce, topic_exists
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

QUICK = {"kafkagroup.session.timeout.ms": "2000", "kafkagroup.heartbeat.interval.ms": "300"}
KEKS = "/dek-registry/v1/keks"
WRITERS = 4
TIMEOUT_S = 30

Start = Callable[[], ServiceProcess]


@pytest.fixture
def start(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> Iterator[Start]:
    """Starts an instance of a registry of the test's own."""
    own = {
        "kafkastore.topic": f"_{unique_name}",
        "dek.registry.topic": f"_{unique_name}-keys",
        "schema.registry.group.id": unique_name,
        "ottla.local.kms.secret": "a",
        **QUICK,
    }
    with ExitStack() as stack:
        yield lambda: stack.enter_context(
            ServiceProcess.start("registry", broker.bootstrap, tmp_path / "log", own)
        )


@functools.cache
def client() -> httpx.Client:
    return httpx.Client(timeout=TIMEOUT_S)


def ask(instance: ServiceProcess, method: str, path: str, body: Any = None) -> httpx.Response:
    return client().request(method, f"{instance.url}{KEKS}{path}", json=body)


def kek(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "kmsType": "local-kms", "kmsKeyId": "any", **fields}


@pytest.mark.slow
def test_keys_are_written_anywhere_and_no_kill_loses_one(
    broker: OttlaBroker, start: Start, unique_name: str
) -> None:
    # given: the first instance is the primary; the first request about keys makes their topic
    first, second = start(), start()
    assert not topic_exists(broker.bootstrap, f"_{unique_name}-keys")
    assert ask(second, "POST", "", kek("shared", shared=True)).status_code == 200
    assert ask(second, "GET", "/shared").json()["name"] == "shared", "its own write is read at once"
    drawn = random.Random(second.port)
    subjects = (f"s-{number}-{drawn.randrange(1_000)}" for number in itertools.count())
    acknowledged: dict[str, dict[str, Any]] = {}
    enough, stop = threading.Semaphore(0), threading.Event()

    def write(instances: list[ServiceProcess]) -> None:
        for turn in itertools.cycle(instances):
            if stop.is_set():
                return
            subject = next_subject()
            try:
                answer = ask(turn, "POST", f"/shared/deks/{subject}", {})
            except httpx.HTTPError:
                continue  # it was killed
            if answer.status_code == 200:
                acknowledged[subject] = answer.json()
                enough.release()

    lock = threading.Lock()

    def next_subject() -> str:
        with lock:
            return next(subjects)

    # when: the primary is killed under writers
    threads = [threading.Thread(target=write, args=([first, second],)) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            assert enough.acquire(timeout=TIMEOUT_S)
        first.kill()
        before = len(acknowledged)
        eventually(lambda: len(acknowledged) > before + 10, "the successor writes", TIMEOUT_S)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    # then: every key that was told is there, at the successor and at an instance that reads from the start
    for instance in (second, start()):
        assert set(acknowledged) <= set(ask(instance, "GET", "/shared/deks").json())
        for subject, told in acknowledged.items():
            assert ask(instance, "GET", f"/shared/deks/{subject}").json() == told


def test_records_of_confluent_s_registry_are_read(
    broker: OttlaBroker, start: Start, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, f"_{unique_name}-keys", config={"cleanup.policy": "compact"})
    name = {"tenant": "default", "name": "k", "type": "KEK"}
    value = {
        **kek("k", kmsProps={}, shared=False, deleted=False),
        "type": "KEK",
    }
    produce(broker.bootstrap, topic, [{"key": json.dumps(name), "value": json.dumps(value)}])
    instance = start()
    told = ask(instance, "GET", "/k").json()
    assert told.pop("ts") > 0
    assert told == kek("k", kmsProps={}, shared=False)
    # the key was spelt with spaces, which compaction takes for another one: both are deleted
    for query in ("", "?permanent=true"):
        assert ask(instance, "DELETE", f"/k{query}").status_code == 204
    assert ask(start(), "GET", "/k?deleted=true").status_code == 404


def test_a_topic_that_deletes_old_records_is_refused_until_it_is_mended(
    broker: OttlaBroker, start: Start, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, f"_{unique_name}-keys", partitions=2)
    instance = start()
    answer = ask(instance, "GET", "")
    assert (answer.status_code, answer.json()["error_code"]) == (500, 50001)
    assert topic in answer.json()["message"] and "partitions" in answer.json()["message"]
    assert httpx.get(f"{instance.url}/subjects").json() == []
    # a later request tries again
    admin_client(broker.bootstrap).delete_topics([topic])[topic].result(TIMEOUT_S)
    eventually(lambda: ask(instance, "GET", "").status_code == 200, "the keys are there")
