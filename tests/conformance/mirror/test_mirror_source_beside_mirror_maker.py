"""MirrorSource and MirrorMaker 2's own, on the same topics: between Apache Kafka and ottla both ways."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from support.mirror.mirrors import (
    TIMEOUT_S,
    Mirror,
    assert_same,
    content,
    fill,
    make_topic,
    topic_config,
    until,
    wait_for_same,
)
from support.mirror.processes import mirror_maker_2, mm2_file
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.java, pytest.mark.long]

PARTITIONS = 3


class Pair(NamedTuple):
    source: str
    target: str
    directory: Path


@pytest.fixture(scope="module", params=["from-kafka", "to-kafka"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("beside")
    with ExitStack() as stack:
        kafka = stack.enter_context(ApacheKafka.start(directory / "kafka")).bootstrap
        ottla = stack.enter_context(OttlaBroker.start(directory / "ottla")).bootstrap
        source, target = (kafka, ottla) if request.param == "from-kafka" else (ottla, kafka)
        yield Pair(source, target, directory)


def compact(bootstrap: str, topic: str, rng: random.Random) -> None:
    """A log with holes in its offsets, from the brokers' own cleaner."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4"})
    for number in range(2_000):
        value = None if rng.random() < 0.1 else rng.randbytes(40)
        timestamp_ms = 1_700_000_000_000 + number // 200 * 60_000
        producer.produce(topic, value, str(rng.randint(0, 150)).encode(), timestamp=timestamp_ms)
        if number % 200 == 199:
            producer.flush(TIMEOUT_S)
    until(lambda: len(content(bootstrap, topic)) < 1_500, "the log is compacted", 120)


def test_topics_are_the_same_as_by_mirrormaker(pair: Pair) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    own = {"retention.ms": "87654321987", "max.message.bytes": "2000000"}
    make_topic(pair.source, "orders", PARTITIONS, own)
    make_topic(pair.source, "times", 2, {"message.timestamp.type": "LogAppendTime"})
    compaction = {"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01"}
    make_topic(pair.source, "keys", 1, compaction)
    fill(pair.source, "orders", rng, 1_500)
    fill(pair.source, "times", rng, 300)
    compact(pair.source, "keys", rng)
    topics = {"topics": "orders|times|keys", "sync.topic.configs.enabled": "false"}
    flow = {
        "J->b.enabled": "true",
        "emit.heartbeats.enabled": "false",
        "J.consumer.isolation.level": "read_committed",  # its default copies aborted transactions
        **topics,
    }
    file = mm2_file(pair.directory / "java" / "mm2.properties", {"J": pair.source, "b": pair.target}, flow)
    ours = Mirror(pair.source, pair.target, pair.directory, topics, name="ours")
    with mirror_maker_2(file), ours.running():
        for topic in ("orders", "times"):
            wanted = content(pair.source, topic)
            for remote in (f"a.{topic}", f"J.{topic}"):
                until(lambda: has(pair.target, remote, len(wanted)), remote, 180)  # noqa: B023
            assert_same(content(pair.target, f"J.{topic}"), content(pair.target, f"a.{topic}"))
            assert topic_config(pair.target, f"J.{topic}") == topic_config(pair.target, f"a.{topic}")
        for alias in ("a", "J"):
            until(lambda: ends_like(pair, "keys", f"{alias}.keys"), "keys", 180)  # noqa: B023
        latest = {each.key: each for each in content(pair.source, "keys")}
        for alias in ("a", "J"):
            assert {each.key: each for each in content(pair.target, f"{alias}.keys")} == latest
        assert topic_config(pair.target, "J.keys") == topic_config(pair.target, "a.keys")


def test_mirrormaker_goes_on_where_ours_has_ended_and_the_other_way(pair: Pair) -> None:
    """The offsets are in its own form: nothing is copied twice, nothing is left out."""
    rng = random.Random(random.randrange(1 << 32))
    make_topic(pair.source, "handed", 2)
    fill(pair.source, "handed", rng, 400)
    topics = {"topics": "handed"}
    # MirrorMaker 2's connector, its offsets' topic, and its name in the keys of that topic
    ours = Mirror(
        pair.source,
        pair.target,
        pair.directory,
        {**topics, "source.cluster.alias": "H"},
        name="MirrorSourceConnector",
        worker={"offset.storage.topic": "mm2-offsets.H.internal"},
    )
    with ours.running():
        wait_for_same(pair.source, "handed", pair.target, "H.handed")
        ours.stop_task()
    fill(pair.source, "handed", rng, 400)
    flow = {
        "H->b.enabled": "true",
        "emit.heartbeats.enabled": "false",
        "H.consumer.isolation.level": "read_committed",
        **topics,
    }
    file = mm2_file(pair.directory / "handed" / "mm2.properties", {"H": pair.source, "b": pair.target}, flow)
    with mirror_maker_2(file) as java:
        wait_for_same(pair.source, "handed", pair.target, "H.handed", 180)
        java.stop()  # it writes its offsets at its end
    fill(pair.source, "handed", rng, 400)
    with ours.running():
        wait_for_same(pair.source, "handed", pair.target, "H.handed")


def test_mirrormaker_one_way_and_ours_the_other_make_no_loop(pair: Pair) -> None:
    rng = random.Random(random.randrange(1 << 32))
    for bootstrap in (pair.source, pair.target):
        make_topic(bootstrap, "rounds")
        fill(bootstrap, "rounds", rng, 200)
    flow = {
        "b->L.enabled": "true",
        "emit.heartbeats.enabled": "false",
        "topics": ".*rounds",
        "b.consumer.isolation.level": "read_committed",
    }
    file = mm2_file(pair.directory / "loops" / "mm2.properties", {"b": pair.target, "L": pair.source}, flow)
    config = {"topics": ".*rounds", "source.cluster.alias": "L"}
    ours = Mirror(pair.source, pair.target, pair.directory, config, name="loops")
    with mirror_maker_2(file), ours.running():
        wait_for_same(pair.source, "rounds", pair.target, "L.rounds")
        until(lambda: "b.rounds" in names(pair.source), "MirrorMaker has made its topic", 180)
        wait_for_same(pair.target, "rounds", pair.source, "b.rounds", 120)
        fill(pair.source, "rounds", rng, 100)
        wait_for_same(pair.source, "rounds", pair.target, "L.rounds")
        found = {each for bootstrap in pair[:2] for each in names(bootstrap) if "rounds" in each}
    assert found == {"rounds", "L.rounds", "b.rounds"}


def names(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=TIMEOUT_S).topics)


def has(bootstrap: str, topic: str, count: int) -> bool:
    return topic in names(bootstrap) and len(content(bootstrap, topic)) >= count


def ends_like(pair: Pair, topic: str, remote: str) -> bool:
    if remote not in names(pair.target):
        return False
    found = content(pair.target, remote)
    return bool(found) and found[-1] == content(pair.source, topic)[-1]
