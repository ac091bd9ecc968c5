"""kill -9 of hosts at random moments: sources lose nothing, or write each record once; so do sinks."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.reading import read
from ottla.connect.host.messages import Ended, Role, Run, Running
from ottla.connect.host.offset_store import read_offsets
from ottla.connect.worker.fencing import fence_task
from support.clients.confluent import create_topic, eventually, produce
from support.connect import runs
from support.connect.runs import OFFSETS_TOPIC, HostProcess, host_process
from support.servers.ottla_broker import OttlaBroker

COUNT = 700
PARTS = [{"part": 0}, {"part": 1}]
LONGEST_LIFE_S = 0.6


def _kinds(unsafe: str, safe: str) -> list[Any]:
    """The kinds of a task with numbers of kills; `make test` runs the stricter kind."""
    long = pytest.mark.long
    return [
        pytest.param(safe, 4),
        pytest.param(unsafe, 4, marks=long),
        pytest.param(safe, 50, marks=long),
        pytest.param(unsafe, 50, marks=long),
    ]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OttlaBroker.start(tmp_path_factory.mktemp("killed-hosts") / "broker") as broker:
        create_topic(broker.bootstrap, OFFSETS_TOPIC, 3, {"cleanup.policy": "compact"})
        yield broker.bootstrap


def _live(host: HostProcess, run: Run, rng: random.Random) -> None:
    """Let a run work for a random time, which may be less than its start takes."""
    if rng.random() < 0.8:
        host.wait(run, Running)
    time.sleep(rng.random() * LONGEST_LIFE_S)


@pytest.mark.parametrize(("support", "kills"), _kinds("disabled", "enabled"))
def test_a_killed_source_loses_nothing_and_exactly_once_doubles_nothing(
    bootstrap: str, tmp_path: Path, support: str, kills: int
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    name = f"source-{support}-{kills}"
    create_topic(bootstrap, name, 2)
    count = COUNT * kills
    config = {
        "connector.class": "NumbersSource",
        "topic": name,
        "count": str(count),
        "batch": "7",
        "columns": rng.choice(("true", "false")),
        "transaction.boundary": rng.choice(("poll", "interval")),
        "transaction.boundary.interval.ms": "50",
        # slow enough that the kills find it at work
        "producer.override.linger.ms": "20",
    }
    worker = {"exactly.once.source.support": support, "offset.flush.interval.ms": "30"}

    def start(ends: bool) -> runs.Start:
        order = runs.start(
            bootstrap,
            name,
            Role.SOURCE_TASK,
            {**config, "ends": "true" if ends else "false"},
            worker=worker,
            partitions=PARTS,
        )
        # as a worker does: the former run's transaction ends, then what is committed is read
        if support == "enabled":
            asyncio.run(fence_task(name, 0, order.config, order.worker))
        return runs.with_offsets(order, read_offsets(order))

    for _ in range(kills):
        with host_process(tmp_path / "log") as host:
            order = start(ends=False)
            host.give(order)
            _live(host, order.run, rng)
            host.kill()
    with host_process(tmp_path / "log") as host:
        order = start(ends=True)
        host.give(order)
        ended: Ended = host.wait(order.run, Ended, timeout_s=120)
        assert ended.trace is None
    ends = KafkaCluster(bootstrap).end_positions(name)
    values = Counter(_committed_values(bootstrap, name, ends))
    wanted = {f"{part}:{number}" for part in (0, 1) for number in range(count)}
    assert set(values) == wanted, f"seed {seed}"
    if support == "enabled":
        assert max(values.values()) == 1, f"seed {seed}"


def _committed_values(bootstrap: str, topic: str, ends: dict[int, int]) -> list[str]:
    begin = dict.fromkeys(ends, 0)
    return [(each.value() or b"").decode() for each in read(ClusterAccess(bootstrap), topic, begin, ends)]


@pytest.mark.parametrize(("sink", "kills"), _kinds("LinesSink", "LedgerSink"))
def test_a_killed_sink_loses_nothing_and_with_a_ledger_doubles_nothing(
    bootstrap: str, tmp_path: Path, sink: str, kills: int
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    name = f"{sink.lower()}-{kills}"
    create_topic(bootstrap, name, 2)
    config = {
        "connector.class": sink,
        "topics": name,
        "path": str(tmp_path / "out"),
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "consumer.override.session.timeout.ms": "6000",
        # a killed member's partitions are its successor's at once
        "consumer.override.group.instance.id": f"{name}-0",
        "consumer.override.max.poll.records": "40",
    }
    worker = {"offset.flush.interval.ms": "30"}
    wanted: list[tuple[int, str]] = []

    def more(count: int) -> None:
        records = [(rng.randrange(2), str(len(wanted) + number)) for number in range(count)]
        # some can't be read: they belong to the dead letters, each at least once
        records = [(part, f"poison {text}" if rng.random() < 0.01 else text) for part, text in records]
        produce(bootstrap, name, [{"value": text, "partition": part} for part, text in records])
        wanted.extend(records)

    for _ in range(kills):
        more(400)
        with host_process(tmp_path / "log") as host:
            order = runs.start(bootstrap, name, Role.SINK_TASK, config, worker=worker)
            host.give(order)
            _live(host, order.run, rng)
            host.kill()
    more(100)
    group = f"connect-{name}"
    ends = KafkaCluster(bootstrap).end_positions(name)
    with host_process(tmp_path / "log") as host:
        order = runs.start(bootstrap, name, Role.SINK_TASK, config, worker=worker)
        host.give(order)
        host.wait(order.run, Running)
        eventually(lambda: KafkaCluster(bootstrap).committed(group, name) == ends, "all is committed", 60)
        assert host.stop(order.run) is None
    good = {text for _, text in wanted if "poison" not in text}
    bad = {text for _, text in wanted if "poison" in text}
    if sink == "LedgerSink":
        with sqlite3.connect(tmp_path / "out") as base:
            values = Counter(row[0] for row in base.execute("SELECT value FROM lines"))
        assert max(values.values()) == 1, f"seed {seed}"
    else:
        values = Counter(_lines(tmp_path))
    assert set(values) == good, f"seed {seed}"
    dead = KafkaCluster(bootstrap).end_positions(f"{name}-dead")
    letters = _committed_values(bootstrap, f"{name}-dead", dead)
    assert set(letters) == bad, f"seed {seed}"


def _lines(path: Path) -> list[str]:
    found = []
    for each in path.glob("out.*"):
        if each.suffix != ".notes":
            # a kill may cut the last line
            lines = each.read_text().split("\n")[:-1]
            found += [json.loads(line)[3] for line in lines]
    return found


def test_the_end_of_the_worker_is_the_end_of_the_host(bootstrap: str, tmp_path: Path) -> None:
    name = "orphan"
    create_topic(bootstrap, name)
    produce(bootstrap, name, [{"value": "1"}])
    with host_process(tmp_path / "log") as host:
        config = {"connector.class": "LinesSink", "topics": name, "path": str(tmp_path / "out")}
        order = runs.start(bootstrap, name, Role.SINK_TASK, config)
        host.give(order)
        host.wait(order.run, Running)
        eventually(lambda: "[orphan|task-0] " in (tmp_path / "log").read_text(), "a line of the task")
        assert host.close() == 0
        assert host.of(order.run, Ended) == []
    lines = (tmp_path / "log").read_text().splitlines()
    assert all(line.startswith(("[orphan|task-0] ", "[host] ")) for line in lines)


def test_a_line_that_is_no_order_ends_the_host(tmp_path: Path) -> None:
    with host_process(tmp_path / "log") as host:
        assert host.process.stdin is not None
        host.process.stdin.write(b'{"type":"stop"}\n')
        host.process.stdin.flush()
        assert host.process.wait(20) == 2
    assert "'run' is missing" in (tmp_path / "log").read_text()
