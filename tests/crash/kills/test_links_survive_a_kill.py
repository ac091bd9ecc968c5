"""kill -9 of brokers on both sides of a link, while producers write and while topics are promoted.

What the source has acknowledged and the mirror has copied is the same bytes at the same offsets, whichever
broker was killed at whatever moment; a promotion that was cut short ends after the restart.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.record_batch import decode_records, parse_batch_header
from support.clients.confluent import create_topic, produce
from support.clients.ottla_command import done, ottla
from support.links.load import Load
from support.links.mirrors import assert_same_batches, batches_of, ends_of, wait_for, wait_until_copied
from support.servers.clusters import OTTLA, ClusterPlan, NodeCluster, combined, start_cluster
from support.servers.ottla_broker import OttlaBroker

PARTITIONS = 2
ATTEMPTS_S = 60


@pytest.fixture
def seed() -> int:
    drawn = random.randrange(2**32)
    print(f"seed {drawn}")
    return drawn


@pytest.fixture
def two_brokers(tmp_path: Path) -> Iterator[tuple[OttlaBroker, OttlaBroker]]:
    with OttlaBroker.start(tmp_path / "source") as source, OttlaBroker.start(tmp_path / "target") as target:
        yield source, target


def make_link(target: str, source: str, topic: str) -> str:
    link = f"lk{uuid.uuid4().hex[:8]}"
    words = ("--source", source, "--topic", topic, "--interval-ms", "200")
    done(target, "link", "create", link, *words)
    return link


def values_of(bootstrap: str, topic: str) -> set[bytes]:
    """The values of all records, those of aborted transactions among them."""
    return {
        bytes(record.value or b"")
        for index in range(PARTITIONS)
        for batch in batches_of(bootstrap, topic, index)
        if not parse_batch_header(batch).is_control
        for record in decode_records(batch)
    }


def ask_for_promotion(bootstrap: str, link: str, topic: str) -> subprocess.Popen[bytes]:
    words = ["link", "promote", "--bootstrap", bootstrap, link, topic]
    command = [sys.executable, "-m", "ottla", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def promoted(bootstrap: str, link: str, topic: str) -> Any:
    """The answer of a promotion, asked for again and again while brokers are away."""

    def asked() -> Any:
        run = ottla(bootstrap, "link", "promote", "--json", link, topic, "--timeout", "10")
        return run.rows[0] if run.code == 0 else None

    return wait_for(asked, "the topic is promoted", ATTEMPTS_S)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_both_brokers_are_killed_under_load_and_during_the_promotion(
    two_brokers: tuple[OttlaBroker, OttlaBroker], seed: int, kills: int
) -> None:
    source, target = two_brokers
    dice = random.Random(seed)
    topic = create_topic(source.bootstrap, f"t{uuid.uuid4().hex[:8]}", PARTITIONS)
    produce(source.bootstrap, topic, [{"value": b"first", "partition": each} for each in range(PARTITIONS)])
    link = make_link(target.bootstrap, source.bootstrap, topic)
    load = Load(source.bootstrap, topic, PARTITIONS, seed)
    load.start()
    for kill in range(kills):
        broker = dice.choice((source, target, target)) if kill > 1 else two_brokers[kill]
        before = len(load.acknowledged)
        wait_for(lambda seen=before: len(load.acknowledged) > seen + 50, "the load goes on")
        broker.server.kill()
        broker.server.start()
    wait_for(lambda: len(load.acknowledged) > 300, "the load has written")
    load.stop()
    ends = ends_of(source.bootstrap, topic, PARTITIONS)
    wait_until_copied(target.bootstrap, link, ends)
    assert assert_same_batches(source.bootstrap, target.bootstrap, topic, range(PARTITIONS)) > 10

    asking = ask_for_promotion(target.bootstrap, link, topic)
    with contextlib.suppress(subprocess.TimeoutExpired):
        asking.wait(0.3 + dice.random())  # somewhere in the promotion, or right after it
    target.server.kill()
    target.server.start()
    asking.kill()
    asking.wait()
    ended = promoted(target.bootstrap, link, topic)
    assert ended["state"] == "promoted"
    for each in ended["partitions"]:
        end = ends[topic, each["partition"]]
        assert (each["mirrored_end_offset"], each["left_behind"]) == (end, 0)
        ours = batches_of(target.bootstrap, topic, each["partition"], 0, end)
        assert ours == batches_of(source.bootstrap, topic, each["partition"], 0, end)
    assert values_of(target.bootstrap, topic) >= load.acknowledged
    produce(target.bootstrap, topic, [{"value": b"mine"}], enable_idempotence=True)
    target.server.kill()
    target.server.start()
    produce(target.bootstrap, topic, [{"value": b"still mine"}], enable_idempotence=True)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [OTTLA, pytest.param("apache-kafka", marks=pytest.mark.java)])
def test_clusters_of_three_on_both_sides(tmp_path: Path, seed: int, kind: str) -> None:
    dice = random.Random(seed)
    with (
        start_cluster(kind, tmp_path / "source", ClusterPlan(combined(3))) as source,
        start_cluster(OTTLA, tmp_path / "target", ClusterPlan(combined(3))) as target,
    ):
        topic = f"t{uuid.uuid4().hex[:8]}"
        source.create_topic(topic, PARTITIONS)
        link = make_link(target.bootstrap, source.bootstrap, topic)
        load = Load(source.bootstrap, topic, PARTITIONS, seed)
        load.start()
        for _ in range(10):
            cluster = dice.choice((source, target))
            kill_one(cluster, dice, load)
        load.stop()
        leaders = {index: source.wait_for_leader(topic, index) for index in range(PARTITIONS)}
        boot = {index: node_bootstrap(source, leader) for index, leader in leaders.items()}
        ends: dict[tuple[str, int], int] = {}
        for index in range(PARTITIONS):
            last = batches_of(boot[index], topic, index)[-1]
            ends[topic, index] = int.from_bytes(last[:8], "big") + int.from_bytes(last[23:27], "big") + 1
        wait_until_copied(target.bootstrap, link, ends)
        for index in range(PARTITIONS):
            ours = node_bootstrap(target, target.wait_for_leader(topic, index))
            assert batches_of(ours, topic, index) == batches_of(boot[index], topic, index)
        asking = ask_for_promotion(target.bootstrap, link, topic)
        node = dice.choice(list(target.nodes))
        target.kill(node)
        target.restart(node)
        asking.kill()
        asking.wait()
        ended = promoted(target.bootstrap, link, topic)
        for each in ended["partitions"]:
            assert each["mirrored_end_offset"] == ends[topic, each["partition"]]
        produce(target.bootstrap, topic, [{"value": b"mine"}] * 20, enable_idempotence=True)


def kill_one(cluster: NodeCluster, dice: random.Random, load: Load) -> None:
    node = dice.choice(list(cluster.nodes))
    before = len(load.acknowledged)
    wait_for(lambda: len(load.acknowledged) > before + 30, "the load goes on")
    cluster.kill(node)
    cluster.restart(node)
    cluster.wait_until_unfenced(node)


def node_bootstrap(cluster: NodeCluster, node: int) -> str:
    return cluster.nodes[node].bootstrap
