"""Several instances of the registry on one topic: one writes, the others forward, and kills lose nothing."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from support.clients.confluent import create_topic, eventually
from support.servers.cluster import ServerError
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

QUICK = {"kafkagroup.session.timeout.ms": "2000", "kafkagroup.heartbeat.interval.ms": "300"}
WRITERS = 8

Start = Callable[..., ServiceProcess]


@pytest.fixture
def start(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> Iterator[Start]:
    """Starts an instance of a registry of the test's own."""
    own = {"kafkastore.topic": f"_{unique_name}", "schema.registry.group.id": unique_name, **QUICK}
    with ExitStack() as stack:

        def one(**settings: str) -> ServiceProcess:
            given = {**own, **{name.replace("_", "."): value for name, value in settings.items()}}
            return stack.enter_context(
                ServiceProcess.start("registry", broker.bootstrap, tmp_path / "log", given)
            )

        yield one


def schema(name: str) -> dict[str, Any]:
    return {"schema": json.dumps({"type": "record", "name": name, "fields": [{"name": "a", "type": "int"}]})}


def register(instance: ServiceProcess, subject: str, name: str) -> int:
    answer = httpx.post(f"{instance.url}/subjects/{subject}/versions", json=schema(name), timeout=30)
    assert answer.status_code == 200, answer.text
    found: int = answer.json()["id"]
    return found


def is_registered(instance: ServiceProcess, subject: str, name: str) -> bool:
    answer = httpx.post(f"{instance.url}/subjects/{subject}/versions", json=schema(name), timeout=30)
    return answer.status_code == 200


def test_a_write_through_any_instance_is_read_there_and_soon_everywhere(start: Start) -> None:
    # given
    instances = [start() for _ in range(3)]
    # when
    ids = [register(one, f"s-{number}", f"R{number}") for number, one in enumerate(instances * 5)]
    # then
    assert ids == list(range(1, 16))
    for number, one in enumerate(instances * 5):
        # read at once where it was written
        again = register(one, f"s-{number}", f"R{number}")
        assert again == ids[number]
    for one in instances:
        eventually(lambda one=one: len(httpx.get(f"{one.url}/subjects").json()) == 15, "all subjects")


def test_errors_of_the_primary_come_through(start: Start) -> None:
    instances = [start() for _ in range(2)]
    for one in instances:
        answer = httpx.post(f"{one.url}/subjects/s/versions", json={"schema": "{"})
        assert (answer.status_code, answer.json()["error_code"]) == (422, 42201)
        assert answer.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
        missing = httpx.delete(f"{one.url}/subjects/none")
        assert (missing.status_code, missing.json()["error_code"]) == (404, 40401)


def test_names_that_need_escaping_are_forwarded_as_they_are(start: Start) -> None:
    instances = [start() for _ in range(2)]
    for number, one in enumerate(instances):
        subject = f"a%2Fb%20c%3Fd%25-{number}"
        register(one, subject, "R")
        assert httpx.get(f"{one.url}/subjects/{subject}/versions/1").json()["subject"] == f"a/b c?d%-{number}"


def test_an_instance_that_is_not_eligible_waits_for_one_that_is(start: Start) -> None:
    # given
    reader = start(leader_eligibility="false", kafkastore_timeout_ms="1000")
    # then: it answers reads, and says that there is no primary
    assert httpx.get(f"{reader.url}/subjects").json() == []
    answer = httpx.post(f"{reader.url}/subjects/s/versions", json=schema("R"), timeout=30)
    assert (answer.status_code, answer.json()["error_code"]) == (500, 50004)
    # when
    start()
    # then
    eventually(
        lambda: httpx.post(f"{reader.url}/subjects/s/versions", json=schema("R")).status_code == 200,
        "the reader forwards",
    )


def test_a_successor_takes_over_from_a_killed_primary_and_gives_no_id_twice(start: Start) -> None:
    # given
    first, *others = [start() for _ in range(3)]
    numbers = itertools.count()
    given: dict[int, set[str]] = {}
    unexpected: list[str] = []
    lock, stop = threading.Lock(), threading.Event()

    def write(writer: int) -> None:
        client = httpx.Client(timeout=30)
        while not stop.is_set():
            with lock:
                number = next(numbers)
            url = others[number % 2].url
            name = f"R{number}"
            try:
                answer = client.post(f"{url}/subjects/s-{number}/versions", json=schema(name))
            except httpx.HTTPError as problem:
                unexpected.append(repr(problem))
                return
            with lock:
                if answer.status_code == 200:
                    given.setdefault(answer.json()["id"], set()).add(name)
                elif answer.json()["error_code"] not in (50001, 50002, 50003, 50004):
                    unexpected.append(answer.text)

    def written() -> int:
        with lock:
            return len(given)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    try:
        for writer in writers:
            writer.start()
        eventually(lambda: written() > 100, "the first primary writes")
        # when
        first.kill()
        before = written()
        # then
        eventually(lambda: written() > before + 100, "a successor writes", timeout_s=30)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert not unexpected
    assert all(len(names) == 1 for names in given.values())
    require_stored(others, given)


def require_stored(instances: Iterable[ServiceProcess], given: Mapping[int, set[str]]) -> None:
    """Every schema that was registered is there at every instance, under the id of the answer."""
    for one in instances:
        with httpx.Client() as client:
            for schema_id, names in given.items():
                found = client.get(f"{one.url}/schemas/ids/{schema_id}").json()
                assert {json.loads(found["schema"])["name"]} == names


def test_a_primary_that_was_asleep_is_fenced(start: Start) -> None:
    # given: a primary that stands still, with writes that wait for it
    first, *others = [start() for _ in range(3)]
    given = {register(first, "s", "R"): {"R"}}
    os.kill(first.server.process.pid, signal.SIGSTOP)
    answers: list[httpx.Response] = []

    def write_late(number: int) -> None:
        answers.append(
            httpx.post(
                f"{first.url}/subjects/late-{number}/versions", json=schema(f"Late{number}"), timeout=60
            )
        )

    late = [threading.Thread(target=write_late, args=(number,)) for number in range(WRITERS)]
    try:
        for each in late:
            each.start()
        # when: another has become the primary and has written
        eventually(lambda: is_registered(others[0], "other", "Other"), "a successor", timeout_s=30)
        for number in range(20):
            given[register(others[0], f"new-{number}", f"New{number}")] = {f"New{number}"}
    finally:
        os.kill(first.server.process.pid, signal.SIGCONT)
        for each in late:
            each.join()
    # then: the sleeper's decisions are made anew, or refused
    for answer in answers:
        if answer.status_code == 200:
            assert answer.json()["id"] not in given
            given[answer.json()["id"]] = {json.loads(answer.json()["schema"])["name"]}
        else:
            assert answer.json()["error_code"] in (50001, 50002, 50003, 50004), answer.text
    require_stored([first, *others], given)


def test_a_topic_of_several_partitions_stops_the_start(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    create_topic(broker.bootstrap, f"_{unique_name}", 2, {"cleanup.policy": "compact"})
    with (
        pytest.raises(ServerError, match=r"2 partitions.* --delete"),
        ServiceProcess.start("registry", broker.bootstrap, tmp_path, {"kafkastore.topic": f"_{unique_name}"}),
    ):
        pass


def test_the_records_of_the_topic_are_confluents(start: Start, broker: OttlaBroker, unique_name: str) -> None:
    # given
    instance = start()
    register(instance, "s", "R")
    httpx.put(f"{instance.url}/config/s", json={"compatibility": "FULL"})
    # when
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "look", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(f"_{unique_name}", 0, 0)])
    found: list[tuple[Any, Any]] = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        value = message.value()
        found.append((json.loads(message.key() or b"null"), None if value is None else json.loads(value)))
    consumer.close()
    # then
    assert found[0] == ({"keytype": "NOOP", "magic": 0}, None)
    key, value = found[1]
    assert key == {"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1}
    assert (value["id"], value["version"], value["deleted"]) == (1, 1, False)
    assert found[2][0] == {"keytype": "CONFIG", "subject": "s", "magic": 0}


def test_a_cluster_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    with (
        OttlaBroker.start(tmp_path / "own") as broker,
        ServiceProcess.start(
            "registry", broker.bootstrap, tmp_path, {**QUICK, "kafkastore.timeout.ms": "2000"}
        ) as registry,
    ):
        register(registry, "s", "R1")
        # when the cluster is away
        broker.kill()
        # then reads go on, and writes end in time
        assert httpx.get(f"{registry.url}/subjects/s/versions").json() == [1]
        answer = httpx.post(f"{registry.url}/subjects/t/versions", json=schema("R2"), timeout=30)
        assert (answer.status_code, answer.json()["error_code"] // 10) == (500, 5000)
        # and when it is back
        broker.restart()
        eventually(lambda: is_registered(registry, "u", "R3"), "writes again", timeout_s=30)
        eventually(lambda: "u" in httpx.get(f"{registry.url}/subjects").json(), "what was written")
        # and it can be stopped without a cluster
        broker.kill()
        assert registry.server.stop() == 0
        log = (tmp_path / f"registry-{registry.port}.log").read_text()
        assert len(log.splitlines()) < 20, log
