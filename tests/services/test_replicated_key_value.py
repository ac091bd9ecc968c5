"""A second service on ottla.replicated: lists in a topic of three partitions, its own group protocol.

Every write is decided from the writes before it, so one that a second primary decides from an older image
shows as an index that was given twice or as a token that is missing.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from ottla.client.cluster import KafkaCluster
from support.clients.confluent import admin_client, create_topic, eventually, produce, topic_exists
from support.replicated import key_value
from support.servers.cluster import ServerProcess, free_port
from support.servers.ottla_broker import OttlaBroker

KEYS = "abcdef"
WRITERS = 4

Start = Callable[[int], "list[Instance]"]


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of the toy service."""

    client: httpx.Client
    server: ServerProcess

    def append(self, keys: Sequence[str], token: str) -> httpx.Response:
        return self.client.post("/append", json={"keys": keys, "token": token})

    def lists(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = self.client.get("/lists").json()
        return found

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get("/state").json()
        return found


@pytest.fixture
def topic(unique_name: str) -> str:
    return unique_name


@pytest.fixture
def start(broker: OttlaBroker, tmp_path: Path, topic: str) -> Iterator[Start]:
    """Starts some instances, at the same time, of a toy service of the test's own."""
    with ExitStack() as stack:

        def launched() -> Instance:
            port = free_port()
            command = [sys.executable, str(Path(key_value.__file__)), broker.bootstrap]
            command += [f"127.0.0.1:{port}", topic]
            server = ServerProcess(command, "ottla lists ready", tmp_path / f"{port}.log")
            stack.callback(lambda: server.stop() if server.running else None)
            server.launch()
            client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
            return Instance(stack.enter_context(client), server)

        def started(count: int) -> list[Instance]:
            found = [launched() for _ in range(count)]
            for one in found:
                one.server.wait_until_ready()
            return found

        yield started


@dataclass(slots=True)
class History:
    """The appends that were tried, and the indexes that were answered."""

    tried: dict[str, list[str]] = field(default_factory=dict)
    answered: dict[str, dict[str, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def append(self, instance: Instance, dice: random.Random, token: str) -> None:
        """Append to keys that are drawn; sometimes see that the write is read at the same instance."""
        keys = dice.sample(KEYS, dice.randint(1, 3))
        self.tried[token] = keys
        answer = instance.append(keys, token)
        if answer.status_code == 200:
            self.answered[token] = answer.json()
            if dice.random() < 0.3:
                lists = instance.lists()
                self.faults += [
                    f"{token} is not read where it was written" for key in keys if token not in lists[key]
                ]
        elif answer.status_code != 503:
            self.faults.append(answer.text)

    def require_kept(self, instances: Sequence[Instance]) -> None:
        """Every instance comes to the same lists, which have each answered token where it was said to be."""
        lists = instances[0].lists()
        for other in instances[1:]:
            eventually(lambda other=other: other.lists() == lists, "the same lists")
        assert not self.faults
        for token, indexes in self.answered.items():
            assert {key: lists[key].index(token) for key in indexes} == indexes
        for tokens in lists.values():
            assert len(set(tokens)) == len(tokens)
        for token, keys in self.tried.items():
            found = {key for key, tokens in lists.items() if token in tokens}
            assert found in (set(), set(keys)), "all of its records or none"


def primary_of(instances: Sequence[Instance]) -> Instance:
    (found,) = [one for one in instances if one.state()["is_primary"]]
    return found


@pytest.fixture
def dice() -> random.Random:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return random.Random(seed)


def test_no_write_is_lost_or_decided_twice_over_kills_of_primaries(start: Start, dice: random.Random) -> None:
    # given
    instances = start(2)
    history = History()
    stop = threading.Event()

    def write(writer: int, own: random.Random) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                history.append(own.choice(instances), own, f"{writer}-{number}")
            except httpx.HTTPError:
                continue  # the instance that was asked is the one that was killed

    def written(more: int) -> None:
        before = len(history.answered)
        eventually(lambda: len(history.answered) > before + more, f"{more} writes", timeout_s=30)

    seeds = [random.Random(dice.random()) for _ in range(WRITERS)]
    writers = [threading.Thread(target=write, args=pair) for pair in enumerate(seeds)]
    try:
        for writer in writers:
            writer.start()
        # when the primary is killed under the writers, and another instance comes
        written(50)
        killed = primary_of(instances)
        instances.remove(killed)
        killed.server.kill()
        written(50)
        instances += start(1)
        written(20)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    # then
    history.require_kept(instances)


def test_the_writes_of_a_primary_that_was_frozen_are_fenced(start: Start, dice: random.Random) -> None:
    # given
    instances = start(2)
    history = History()
    for number in range(5):
        history.append(dice.choice(instances), dice, f"before-{number}")
    frozen = primary_of(instances)
    (other,) = [one for one in instances if one is not frozen]
    late = [
        threading.Thread(target=history.append, args=(frozen, random.Random(dice.random()), f"late-{number}"))
        for number in range(WRITERS)
    ]
    os.kill(frozen.server.process.pid, signal.SIGSTOP)
    try:
        # when writes wait for it, and another has become the primary and has written
        for each in late:
            each.start()
        # (a request that was passed on to the frozen one may be stored later)
        tries = itertools.count()
        eventually(
            lambda: other.append(["a"], f"try-{next(tries)}").status_code == 200, "a successor", timeout_s=20
        )
        for number in range(5):
            history.append(other, dice, f"after-{number}")
    finally:
        os.kill(frozen.server.process.pid, signal.SIGCONT)
        for each in late:
            each.join()
    # then
    assert {f"after-{number}" for number in range(5)} <= history.answered.keys()
    history.require_kept([other, frozen])


def test_a_topic_that_is_deleted_and_made_again_leaves_an_image_that_is_read_only(
    start: Start, broker: OttlaBroker, topic: str, dice: random.Random
) -> None:
    # given
    instances = start(2)
    history = History()
    for number in range(5):
        history.append(dice.choice(instances), dice, f"old-{number}")
    lists = instances[0].lists()
    # when
    admin_client(broker.bootstrap).delete_topics([topic])[topic].result()
    eventually(lambda: not topic_exists(broker.bootstrap, topic), "it is gone")
    create_topic(broker.bootstrap, topic, key_value.PARTITIONS, {"cleanup.policy": "compact"})
    produce(broker.bootstrap, topic, [{"key": key, "value": '["new"]'} for key in KEYS])
    # then
    for one in instances:
        eventually(lambda one=one: one.state()["loss"] == "REPLACED", "the loss is told")
        refused = one.append(["a"], "refused")
        assert refused.status_code == 503 and "another topic of this name" in refused.json()["message"]
        assert one.lists() == lists
    values = {message.value() for message in KafkaCluster(broker.bootstrap).read(topic)}
    assert values == {b'["new"]'}
