"""MirrorSource between two brokers: the same records in the same order, whatever the source's log has."""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.connect.host.messages import Ended, Figures
from support.mirror.mirrors import (
    TIMEOUT_S,
    Mirror,
    assert_same,
    content,
    delete_topic,
    fill,
    grow_topic,
    make_topic,
    topic_config,
    until,
    wait_for_same,
)
from support.servers.ottla_broker import OttlaBroker

pytestmark = pytest.mark.slow


class Pair(NamedTuple):
    """Two clusters, and a directory."""

    source: str
    target: str
    directory: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("mirror")
    quick = {"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "200"}
    with ExitStack() as stack:
        source = stack.enter_context(OttlaBroker.start(directory / "source", settings=quick))
        target = stack.enter_context(OttlaBroker.start(directory / "target"))
        yield Pair(source.bootstrap, target.bootstrap, directory)


@pytest.fixture
def name() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    seed = random.randrange(1 << 32)
    request.node.user_properties.append(("seed", seed))
    print("seed", seed)  # shown with a failure
    return random.Random(seed)


def produce(bootstrap: str, topic: str, count: int, partition: int = 0, prefix: str = "") -> None:
    """Numbered records of one partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, f"{prefix}{number}".encode(), partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def mirror_of(pair: Pair, name: str, config: dict[str, str] | None = None, **more: object) -> Mirror:
    given = {"topics": f"{name}.*", **(config or {})}
    return Mirror(pair.source, pair.target, pair.directory, given, name=f"m-{name}", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("exactly_once", [True, pytest.param(False, marks=pytest.mark.long)])
def test_records_of_all_kinds_are_copied_with_their_partitions_times_and_headers(
    pair: Pair, name: str, rng: random.Random, exactly_once: bool
) -> None:
    make_topic(pair.source, name, 3)
    fill(pair.source, name, rng, 800)
    with mirror_of(pair, name, exactly_once=exactly_once).running() as mirror:
        wait_for_same(pair.source, name, pair.target, f"a.{name}")
        fill(pair.source, name, rng, 200)
        wait_for_same(pair.source, name, pair.target, f"a.{name}")
        mirror.stop_task()
        fill(pair.source, name, rng, 200)
        mirror.follow()  # goes on where the one before has ended
        wait_for_same(pair.source, name, pair.target, f"a.{name}")
        mirror.stop_task()
        told = mirror.figures()
        assert told.figures["exactly-once"] == exactly_once
        assert told.figures["lag-records"] == 0
        assert set(told.of_partitions) == {f"{name}-{index}" for index in range(3)}
        assert told.figures["batches-copied"] > 0
        assert told.figures["batches-encoded"] == 0


def test_log_append_time_becomes_the_records_own_time(pair: Pair, name: str, rng: random.Random) -> None:
    make_topic(pair.source, name, 2, {"message.timestamp.type": "LogAppendTime"})
    fill(pair.source, name, rng, 800)
    with mirror_of(pair, name).running():
        until(lambda: len(content(pair.target, f"a.{name}")) >= len(content(pair.source, name)), "copied")
        source, target = content(pair.source, name), content(pair.target, f"a.{name}")
    assert {each.timestamp[0] for each in source} == {2}
    # CreateTime on the target, where message.timestamp.type is not followed; with the same times
    assert_same([each._replace(timestamp=(1, each.timestamp[1])) for each in source], target)


@pytest.mark.long
def test_a_target_of_log_append_time_is_written(pair: Pair, name: str, rng: random.Random) -> None:
    make_topic(pair.source, name)
    make_topic(pair.target, f"a.{name}", 1, {"message.timestamp.type": "LogAppendTime"})
    fill(pair.source, name, rng, 500)
    with mirror_of(pair, name, {"sync.topic.configs.enabled": "false"}).running():
        until(lambda: len(content(pair.target, f"a.{name}")) >= len(content(pair.source, name)), "copied")
        source, target = content(pair.source, name), content(pair.target, f"a.{name}")
    assert {each.timestamp[0] for each in target} == {2}
    assert [each._replace(timestamp=(0, 0)) for each in source] == [
        each._replace(timestamp=(0, 0)) for each in target
    ]


def test_compacted_logs_are_copied_without_their_holes(pair: Pair, name: str, rng: random.Random) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "50",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "86400000",
    }
    make_topic(pair.source, name, 1, config)
    producer = Producer({"bootstrap.servers": pair.source, "linger.ms": 5, "compression.type": "zstd"})
    for number in range(3_000):
        value = None if rng.random() < 0.1 else rng.randbytes(50)
        # a segment for each 300 records: by their timestamps
        timestamp_ms = 1_700_000_000_000 + number // 300 * 60_000
        key = str(rng.randint(0, 300)).encode()
        producer.produce(name, value, key, headers=[("n", str(number))], timestamp=timestamp_ms)
        if number % 300 == 299:
            producer.flush(TIMEOUT_S)
    until(lambda: len(content(pair.source, name)) < 2_000, "the log is compacted")
    with mirror_of(pair, name, {"sync.topic.configs.enabled": "false"}).running() as mirror:
        until(
            lambda: (content(pair.target, f"a.{name}") or [None])[-1] == content(pair.source, name)[-1],
            "copied to its end",
        )
        mirror.stop_task()
        assert mirror.figures().figures["batches-encoded"] > 0
    latest = {each.key: each for each in content(pair.source, name)}
    copied = {each.key: each for each in content(pair.target, f"a.{name}")}
    assert latest == copied
    assert topic_config(pair.target, f"a.{name}")["cleanup.policy"] == "compact"


@pytest.mark.long
def test_new_topics_partitions_and_settings_are_followed(pair: Pair, name: str, rng: random.Random) -> None:
    make_topic(pair.source, name, 1, {"retention.ms": "123456789", "min.insync.replicas": "1"})
    with mirror_of(pair, name).running() as mirror:
        fill(pair.source, name, rng, 100)
        wait_for_same(pair.source, name, pair.target, f"a.{name}")
        assert topic_config(pair.target, f"a.{name}") == {"retention.ms": "123456789"}
        grow_topic(pair.source, name, 3)
        make_topic(pair.source, f"{name}-more", 2)
        mirror.wait_for_partitions(5)
        fill(pair.source, name, rng, 200)
        fill(pair.source, f"{name}-more", rng, 200)
        wait_for_same(pair.source, name, pair.target, f"a.{name}")
        wait_for_same(pair.source, f"{name}-more", pair.target, f"a.{name}-more")
        admin = AdminClient({"bootstrap.servers": pair.source})
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        changed = ConfigResource(
            ConfigResource.Type.TOPIC,
            name,
            incremental_configs=[
                ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
                ConfigEntry("max.message.bytes", "77777", incremental_operation=AlterConfigOpType.SET),
            ],
        )
        for done in admin.incremental_alter_configs([changed]).values():
            done.result(TIMEOUT_S)
        until(
            lambda: topic_config(pair.target, f"a.{name}") == {"max.message.bytes": "77777"},
            "settings follow",
        )


@pytest.mark.long
def test_two_mirrors_that_face_each_other_make_no_loop(pair: Pair, name: str) -> None:
    for bootstrap in (pair.source, pair.target):
        make_topic(bootstrap, name)
        produce(bootstrap, name, 50, prefix=bootstrap)
    there = mirror_of(pair, name, {"topics": f".*{name}"})
    back = Mirror(
        pair.target,
        pair.source,
        pair.directory,
        {
            "topics": f".*{name}",
            "source.cluster.alias": "b",
            "target.cluster.alias": "a",
        },
        name=f"back-{name}",
    )
    with there.running(), back.running():
        wait_for_same(pair.source, name, pair.target, f"a.{name}")
        wait_for_same(pair.target, name, pair.source, f"b.{name}")
        produce(pair.source, name, 20)
        wait_for_same(pair.source, name, pair.target, f"a.{name}")
        topics = {
            each
            for bootstrap in (pair.source, pair.target)
            for each in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
            if name in each and "offsets" not in each
        }
    assert topics == {name, f"a.{name}", f"b.{name}"}
    assert len(content(pair.target, f"a.{name}")) == 70


@pytest.mark.long
def test_the_identity_policy_keeps_names(pair: Pair, name: str, rng: random.Random) -> None:
    make_topic(pair.source, name)
    fill(pair.source, name, rng, 100)
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    with mirror_of(pair, name, {"replication.policy.class": policy}).running():
        wait_for_same(pair.source, name, pair.target, name)


def test_records_that_retention_took_first_are_told_as_a_gap(pair: Pair, name: str) -> None:
    make_topic(pair.source, name)
    produce(pair.source, name, 100)
    with mirror_of(pair, name).running() as mirror:
        wait_for_same(pair.source, name, pair.target, f"a.{name}")
        mirror.stop_task()
        produce(pair.source, name, 100, prefix="gone")
        admin = AdminClient({"bootstrap.servers": pair.source})
        for done in admin.delete_records([TopicPartition(name, 0, 170)]).values():
            done.result(TIMEOUT_S)
        mirror.follow()
        until(lambda: len(content(pair.target, f"a.{name}")) == 130, "the rest is copied")
        mirror.stop_task()
        told = mirror.figures()
        assert told.figures["lost-offsets"] == 70
        assert told.of_partitions[f"{name}-0"]["breaks"] == 1
    text = mirror.log.read_text()
    assert f"{name}-0: the source has deleted offsets 100 to 169 (70) before they were copied" in text
    values = [each.value for each in content(pair.target, f"a.{name}")]
    assert values == [f"{n}".encode() for n in range(100)] + [f"gone{n}".encode() for n in range(70, 100)]


@pytest.mark.parametrize("meanwhile", [pytest.param("running", marks=pytest.mark.long), "stopped"])
def test_a_topic_that_is_made_again_is_told_and_copied_from_its_start(
    pair: Pair, name: str, meanwhile: str
) -> None:
    make_topic(pair.source, name)
    produce(pair.source, name, 100, prefix="old")
    with mirror_of(pair, name).running() as mirror:
        wait_for_same(pair.source, name, pair.target, f"a.{name}")
        if meanwhile == "stopped":
            mirror.stop_task()
        delete_topic(pair.source, name)
        make_topic(pair.source, name)
        # more records than before: the old offset is in the new log too
        produce(pair.source, name, 150, prefix="new")
        if meanwhile == "stopped":
            mirror.follow()
        until(lambda: len(content(pair.target, f"a.{name}")) >= 250, "both are copied")
        mirror.stop_task()
    values = [each.value for each in content(pair.target, f"a.{name}")]
    assert values == [f"old{n}".encode() for n in range(100)] + [f"new{n}".encode() for n in range(150)]
    assert "was deleted and made again; offsets 0 to 99 (100) of the one before" in mirror.log.read_text()


def test_records_that_the_target_does_not_take_are_dead_letters(pair: Pair, name: str) -> None:
    make_topic(pair.source, name, 1, {"max.message.bytes": "3000000"})
    make_topic(pair.target, f"a.{name}", 1, {"max.message.bytes": "20000"})
    dead = f"{name}-dead-letters"
    config = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead,
        "sync.topic.configs.enabled": "false",
        "topics.exclude": ".*dead-letters",
    }
    producer = Producer({"bootstrap.servers": pair.source, "message.max.bytes": 3_000_000, "linger.ms": 50})
    large = {17: 50_000, 44: 2_500_000}
    for number in range(60):
        value = f"{number}:".encode() + b"x" * large.get(number, 900)
        producer.produce(name, value, b"k", headers=[("h", b"v")])
    assert producer.flush(TIMEOUT_S) == 0
    with mirror_of(pair, name, config).running() as mirror:
        until(lambda: len(content(pair.target, f"a.{name}")) >= 58, "the others are copied")
        until(lambda: len(content(pair.target, dead)) >= 2, "the letters are there")
        mirror.stop_task()
    source = content(pair.source, name)
    assert content(pair.target, f"a.{name}") == [
        each for number, each in enumerate(source) if number not in large
    ]
    for letter, number in zip(content(pair.target, dead), large, strict=True):
        assert (letter.key, letter.value) == (source[number].key, source[number].value)
        headers = dict(letter.headers)
        assert headers["h"] == b"v"
        assert headers["__connect.errors.topic"] == name.encode()
        assert headers["__connect.errors.offset"] == str(number).encode()
        assert b"MESSAGE_TOO_LARGE" in (headers["__connect.errors.exception.message"] or b"")


def test_without_tolerance_such_a_record_ends_the_task_and_names_it(pair: Pair, name: str) -> None:
    make_topic(pair.source, name)
    make_topic(pair.target, f"a.{name}", 1, {"max.message.bytes": "20000"})
    producer = Producer({"bootstrap.servers": pair.source})
    for number in range(5):
        producer.produce(name, b"x" * (100 if number != 3 else 50_000))
    producer.flush(TIMEOUT_S)
    mirror = mirror_of(pair, name, {"sync.topic.configs.enabled": "false"})
    with mirror.running():
        assert mirror.host is not None and mirror.task is not None
        ended: Ended = mirror.host.wait(mirror.task.run, Ended)
    assert ended.trace is not None
    assert f"the record at offset 3 of {name}-0 can't be written" in ended.trace


@pytest.mark.long
def test_transforms_take_the_ordinary_way_of_records(pair: Pair, name: str, rng: random.Random) -> None:
    make_topic(pair.source, name, 2)
    fill(pair.source, name, rng, 300)
    config = {
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": f"a\\.{name}",
        "transforms.route.replacement": f"routed-{name}",
    }
    make_topic(pair.target, f"routed-{name}", 2)
    with mirror_of(pair, name, config).running():
        wait_for_same(pair.source, name, pair.target, f"routed-{name}")


def test_a_task_whose_place_was_taken_writes_no_more(pair: Pair, name: str, rng: random.Random) -> None:
    make_topic(pair.source, name)
    fill(pair.source, name, rng, 100)
    with mirror_of(pair, name).running() as mirror:
        wait_for_same(pair.source, name, pair.target, f"a.{name}")
        assert mirror.host is not None and mirror.task is not None
        other = Producer(
            {"bootstrap.servers": pair.target, "transactional.id": f"{mirror.name}-group-{mirror.name}-0"}
        )
        other.init_transactions(TIMEOUT_S)
        before = len(content(pair.target, f"a.{name}"))
        produce(pair.source, name, 10)
        ended: Ended = mirror.host.wait(mirror.task.run, Ended)
        assert ended.trace is not None and "is lost" in ended.trace
        assert len(content(pair.target, f"a.{name}")) == before
        mirror.follow()
        wait_for_same(pair.source, name, pair.target, f"a.{name}")
        with pytest.raises(KafkaException):
            other.begin_transaction()
            other.produce(f"a.{name}", b"late")
            other.commit_transaction(TIMEOUT_S)


@pytest.mark.long
def test_a_source_that_lost_records_is_told_and_copied_on(tmp_path: Path, name: str) -> None:
    with ExitStack() as stack:
        source = stack.enter_context(OttlaBroker.start(tmp_path / "source"))
        target = stack.enter_context(OttlaBroker.start(tmp_path / "target"))
        make_topic(source.bootstrap, name)
        produce(source.bootstrap, name, 100)
        source.stop()
        shutil.copytree(source.data_dir, tmp_path / "before")
        source.restart()
        produce(source.bootstrap, name, 60, prefix="lost")
        mirror = Mirror(source.bootstrap, target.bootstrap, tmp_path, {"topics": name})
        with mirror.running():
            wait_for_same(source.bootstrap, name, target.bootstrap, f"a.{name}")
            source.kill()
            shutil.rmtree(source.data_dir)
            shutil.copytree(tmp_path / "before", source.data_dir)
            source.restart()
            # no more than before: then the log's end says that records are missing
            until(lambda: "has lost offsets 100 to 159 (60)" in mirror.log.read_text(), "the loss is told")
            produce(source.bootstrap, name, 30, prefix="new")
            until(lambda: len(content(target.bootstrap, f"a.{name}")) >= 190, "the new ones are copied")
            mirror.stop_task()
            assert mirror.figures().figures["breaks"] == 1
        values = [each.value for each in content(target.bootstrap, f"a.{name}")]
        parts = (("", 100), ("lost", 60), ("new", 30))
        assert values == [f"{prefix}{n}".encode() for prefix, count in parts for n in range(count)]


@pytest.mark.long
def test_a_new_mirror_may_begin_at_the_latest_records(pair: Pair, name: str) -> None:
    make_topic(pair.source, name)
    produce(pair.source, name, 100, prefix="old")
    with mirror_of(pair, name, {"consumer.auto.offset.reset": "latest"}).running() as mirror:
        until(lambda: "are copied exactly once" in mirror.log.read_text(), "it runs")
        assert mirror.host is not None and mirror.task is not None
        mirror.host.wait(mirror.task.run, Figures)
        produce(pair.source, name, 20, prefix="new")
        until(lambda: len(content(pair.target, f"a.{name}")) >= 20, "the new ones are copied")
    values = [each.value for each in content(pair.target, f"a.{name}")]
    assert values == [f"new{n}".encode() for n in range(20)]
