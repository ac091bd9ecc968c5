"""Links with real clients: Apache Kafka or ottla as the source, ottla as the target, batch by batch the same.

The source's topic gets all kinds of batches (plain, idempotent, transactional, aborted, compressed, one with
an open transaction) before and during the link, with names, keys, sizes and orders drawn anew in each run.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from support.clients.confluent import TIMEOUT_S, admin_client, create_topic, eventually, produce
from support.clients.ottla_command import done, ottla, refused
from support.clients.whole_topics import read_everything
from support.links.mirrors import (
    assert_same_batches,
    batches_of,
    describe,
    partitions_of,
    wait_for,
    wait_until_copied,
)
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import Cluster
from support.servers.ottla_broker import OttlaBroker

PARTITIONS = 3
Records = list[tuple[int, bytes | None, bytes | None]]


def sources(*on_kafka: pytest.MarkDecorator) -> pytest.MarkDecorator:
    """Both kinds of sources; marks of the one with Apache Kafka, of which `make test` has one test."""
    kafka = pytest.param("apache-kafka", marks=[pytest.mark.java, *on_kafka])
    return pytest.mark.parametrize("source", ["ottla", kafka], indirect=True, scope="module")


@pytest.fixture(scope="module")
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    start = {"ottla": OttlaBroker.start, "apache-kafka": ApacheKafka.start}[request.param]
    with start(tmp_path_factory.mktemp("source") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaBroker]:
    with OttlaBroker.start(tmp_path_factory.mktemp("target") / "data") as running:
        yield running


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


def name() -> str:
    return f"orders.{uuid.uuid4().hex[:10]}"


def make_link(target: str, source: str, topic: str, *options: str) -> str:
    link = f"lk{uuid.uuid4().hex[:8]}"
    (status,) = done(
        target, "link", "create", link, "--source", source, "--topic", topic, "--interval-ms", "200", *options
    )
    assert status["link"] == link
    return link


def drawn_records(dice: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "key": dice.choice([None, dice.randbytes(dice.randrange(1, 20))]),
            "value": dice.choice([None, dice.randbytes(dice.randrange(400))]),
            "partition": dice.randrange(PARTITIONS),
            "headers": [(f"h{number}", dice.randbytes(3)) for number in range(dice.randrange(3))],
        }
        for number in range(count)
    ]


def transaction(bootstrap: str, topic: str, dice: random.Random, *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for record in drawn_records(dice, 30):
        producer.produce(topic, **record)
    producer.flush(TIMEOUT_S)
    if commit:
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)


def all_kinds(bootstrap: str, topic: str, dice: random.Random) -> None:
    steps = [
        lambda: produce(bootstrap, topic, drawn_records(dice, 80)),
        lambda: produce(bootstrap, topic, drawn_records(dice, 80), enable_idempotence=True),
        lambda: produce(
            bootstrap, topic, drawn_records(dice, 60), compression_type=dice.choice(["lz4", "gzip", "zstd"])
        ),
        lambda: transaction(bootstrap, topic, dice, commit=True),
        lambda: transaction(bootstrap, topic, dice, commit=False),
    ]
    dice.shuffle(steps)
    for step in steps:
        step()


def ends_of(bootstrap: str, topic: str) -> dict[tuple[str, int], int]:
    client = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "ends", "isolation.level": "read_uncommitted"}
    )
    try:
        return {
            (topic, index): client.get_watermark_offsets(TopicPartition(topic, index), timeout=TIMEOUT_S)[1]
            for index in range(PARTITIONS)
        }
    finally:
        client.close()


def committed_records(bootstrap: str, topic: str) -> Records:
    """What a read_committed consumer sees up to the last stable offsets now."""
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "committed",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found: Records = []
    try:
        client.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        at_end: set[int] = set()
        while len(at_end) < PARTITIONS:
            message = client.poll(TIMEOUT_S)
            assert message is not None
            if message.error() is not None:
                at_end.add(message.partition())
                continue
            found.append((message.partition(), message.key(), message.value()))
    finally:
        client.close()
    return sorted(found, key=lambda each: each[0])


def commit_offsets(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        wanted = [
            TopicPartition(topic, index, offset, metadata=f"mark {index}")
            for index, offset in offsets.items()
        ]
        eventually(lambda: _commits(client, wanted), "offsets are committed")
    finally:
        client.close()


def _commits(client: Consumer, wanted: list[TopicPartition]) -> bool:
    try:
        client.commit(offsets=wanted, asynchronous=False)
    except KafkaException:
        return False
    return True


def committed_offsets(bootstrap: str, group: str, topic: str) -> dict[int, tuple[int, str | None]]:
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        found = client.committed(
            [TopicPartition(topic, each) for each in range(PARTITIONS)], timeout=TIMEOUT_S
        )
        return {each.partition: (each.offset, each.metadata) for each in found if each.offset >= 0}
    finally:
        client.close()


@sources()
def test_a_topic_moves_with_its_offsets_and_everything_around_it(
    source: Cluster, target: OttlaBroker, dice: random.Random
) -> None:
    topic, group = name(), f"readers-{uuid.uuid4().hex[:8]}"
    create_topic(source.bootstrap, topic, PARTITIONS, {"retention.ms": "-1", "max.message.bytes": "2000000"})
    all_kinds(source.bootstrap, topic, dice)
    link = make_link(target.bootstrap, source.bootstrap, topic)
    all_kinds(source.bootstrap, topic, dice)
    open_producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": uuid.uuid4().hex})
    open_producer.init_transactions(TIMEOUT_S)
    open_producer.begin_transaction()
    for index in range(PARTITIONS):
        open_producer.produce(topic, b"open", partition=index)
    open_producer.flush(TIMEOUT_S)
    produce(source.bootstrap, topic, drawn_records(dice, 50))
    ends = ends_of(source.bootstrap, topic)
    marks = {index: dice.randrange(1, ends[topic, index]) for index in range(PARTITIONS)}
    commit_offsets(source.bootstrap, group, topic, marks)

    wait_until_copied(target.bootstrap, link, ends)
    assert assert_same_batches(source.bootstrap, target.bootstrap, topic, range(PARTITIONS)) > 10
    stable = committed_records(source.bootstrap, topic)
    assert committed_records(target.bootstrap, topic) == stable
    with pytest.raises(KafkaException) as refusal:
        produce(target.bootstrap, topic, [{"value": b"mine"}])
    assert refusal.value.args[0].name() == "POLICY_VIOLATION"
    expected = {index: (offset, f"mark {index}") for index, offset in marks.items()}
    eventually(
        lambda: committed_offsets(target.bootstrap, group, topic) == expected, "the group's offsets are there"
    )

    (ended,) = done(target.bootstrap, "link", "promote", link, topic)
    assert ended["state"] == "promoted"
    stood = {each["partition"]: each for each in ended["partitions"]}
    for index in range(PARTITIONS):
        assert stood[index]["mirrored_end_offset"] == ends[topic, index]
        assert stood[index]["left_behind"] == 0
        assert stood[index]["aborted_transactions"] == 1
        assert stood[index]["end_offset"] > ends[topic, index]
    # The bytes below are still the source's; above are this cluster's markers, in a newer epoch.
    for index in range(PARTITIONS):
        end = ends[topic, index]
        assert batches_of(target.bootstrap, topic, index, 0, end) == batches_of(
            source.bootstrap, topic, index, 0, end
        )
    # Nothing is held back by the transaction that was open: what came after it can be read.
    after = committed_records(target.bootstrap, topic)
    assert len(after) > len(stable)
    assert b"open" not in [value for _, _, value in after]
    mine = produce(target.bootstrap, topic, drawn_records(dice, 40), enable_idempotence=True)
    assert len(mine) == 40
    transaction(target.bootstrap, topic, dice, commit=True)
    assert len(committed_records(target.bootstrap, topic)) == len(after) + 70
    assert committed_offsets(target.bootstrap, group, topic) == expected
    done(target.bootstrap, "link", "delete", link, "--yes")
    assert link not in [each["link"] for each in done(target.bootstrap, "link", "list")]


@sources(pytest.mark.long)
def test_settings_partitions_and_new_topics_follow(
    source: Cluster, target: OttlaBroker, dice: random.Random
) -> None:
    prefix = f"p{uuid.uuid4().hex[:8]}"
    first = create_topic(source.bootstrap, f"{prefix}.a", 1, {"retention.ms": "777000"})
    link = f"lk{uuid.uuid4().hex[:8]}"
    words = ("--pattern", rf"{prefix}\..*", "--exclude", rf"{prefix}\.no.*", "--interval-ms", "200")
    done(target.bootstrap, "link", "create", link, "--source", source.bootstrap, *words)

    second = create_topic(source.bootstrap, f"{prefix}.b", 2)
    create_topic(source.bootstrap, f"{prefix}.not", 1)
    admin = admin_client(source.bootstrap)
    resource = ConfigResource(
        ResourceType.TOPIC,
        first,
        incremental_configs=[
            ConfigEntry("retention.ms", "888000", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET),
        ],
    )
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    grown = admin.create_partitions([NewPartitions(second, 4)])[second]
    grown.result(TIMEOUT_S)

    def seen() -> bool:
        found = admin_client(target.bootstrap).list_topics(timeout=TIMEOUT_S).topics
        return (
            first in found
            and second in found
            and len(found[second].partitions) == 4
            and f"{prefix}.not" not in found
        )

    eventually(seen, "the topics are there")

    def followed() -> bool:
        wanted = ConfigResource(ResourceType.TOPIC, first)
        entries = admin_client(target.bootstrap).describe_configs([wanted])[wanted].result(TIMEOUT_S)
        return entries["retention.ms"].value == "888000" and entries["cleanup.policy"].value == "compact"

    eventually(followed, "the settings are there")
    run = ottla(target.bootstrap, "link", "delete", link, "--yes")
    assert run.code == 1 and "fills" in run.err, run
    assert "fail" in refused(target.bootstrap, "link", "delete", link, "--yes")


@sources(pytest.mark.long)
def test_a_source_topic_made_again_ends_the_mirror_and_is_told(
    source: Cluster, target: OttlaBroker, dice: random.Random
) -> None:
    topic = create_topic(source.bootstrap, name(), PARTITIONS)
    produce(source.bootstrap, topic, drawn_records(dice, 60))
    ends = ends_of(source.bootstrap, topic)
    link = make_link(target.bootstrap, source.bootstrap, topic)
    wait_until_copied(target.bootstrap, link, ends)
    admin = admin_client(source.bootstrap)
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    eventually(
        lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics, "the topic is gone from the source"
    )
    create_topic(source.bootstrap, topic, PARTITIONS)
    produce(source.bootstrap, topic, [{"value": b"another life"}] * 200)

    def failed() -> bool:
        found = partitions_of(target.bootstrap, link)
        return all(each["state"] == "failed" for each in found.values())

    wait_for(failed, "the mirror has failed")
    told = partitions_of(target.bootstrap, link)[topic, 0]
    assert "another one made" in told["reason"], told
    assert told["told"][-1]["from_offset"] == ends[topic, 0]
    # What was copied stays, and nothing of the other topic is among it.
    assert all(message.value() != b"another life" for message in read_everything(target.bootstrap, topic))
    assert ends_of(target.bootstrap, topic) == ends
    run = ottla(target.bootstrap, "link", "promote", link, "--timeout", "2", topic)
    assert run.code == 1, run
    (over,) = done(target.bootstrap, "link", "fail-over", link, "--yes", topic)
    assert over["state"] == "failed-over"
    produce(target.bootstrap, topic, [{"value": b"mine"}])


@pytest.mark.long  # restarts; tests/unit/links and the simulation have gaps, too
@sources()
def test_retention_that_overtakes_the_mirror_is_told_as_a_gap(
    source: Cluster, tmp_path: Path, dice: random.Random
) -> None:
    topic = create_topic(source.bootstrap, name(), PARTITIONS)
    produce(source.bootstrap, topic, drawn_records(dice, 90))
    before = ends_of(source.bootstrap, topic)
    with OttlaBroker.start(tmp_path / "own") as own:
        link = make_link(own.bootstrap, source.bootstrap, topic)
        wait_until_copied(own.bootstrap, link, before)
        own.stop()
        produce(source.bootstrap, topic, drawn_records(dice, 300))
        cuts = {index: before[topic, index] + 5 for index in range(PARTITIONS)}
        admin = admin_client(source.bootstrap)
        wanted = [TopicPartition(topic, index, offset) for index, offset in cuts.items()]
        for each in admin.delete_records(wanted).values():
            each.result(TIMEOUT_S)
        own.server.start()
        wait_until_copied(own.bootstrap, link, ends_of(source.bootstrap, topic))
        for (_, index), each in partitions_of(own.bootstrap, link).items():
            (gap,) = each["told"]
            assert (gap["kind"], gap["from_offset"], gap["to_offset"]) == (
                "gap", before[topic, index], cuts[index],
            )  # fmt: skip
            assert batches_of(own.bootstrap, topic, index, cuts[index]) == batches_of(
                source.bootstrap, topic, index, cuts[index]
            )
        assert describe(own.bootstrap, link)["state"] == "active"


@sources(pytest.mark.long)
def test_a_link_copies_no_more_bytes_a_second_than_it_may(
    source: Cluster, target: OttlaBroker, dice: random.Random
) -> None:
    topic = create_topic(source.bootstrap, f"slow{uuid.uuid4().hex[:8]}", PARTITIONS)
    # One record a batch, without compression: the log's bytes are those of the records, and some more.
    producer = Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 0, "batch.num.messages": 1})
    written = 0
    while written < 600_000:
        size = dice.randint(1, 20_000)
        producer.produce(topic, dice.randbytes(size))
        written += size
    assert producer.flush(TIMEOUT_S) == 0
    link = f"lk{uuid.uuid4().hex[:8]}"
    begun = time.monotonic()
    words = ("--topic", topic, "--bytes-per-second", "200000", "--interval-ms", "200")
    done(target.bootstrap, "link", "create", link, "--source", source.bootstrap, *words)
    wait_until_copied(target.bootstrap, link, ends_of(source.bootstrap, topic))
    # Less than this is impossible; the last answer of a quarter second is paid for afterwards.
    assert time.monotonic() - begun >= (written - 50_000 - 20_000) / 200_000
    assert_same_batches(source.bootstrap, target.bootstrap, topic, range(PARTITIONS))
