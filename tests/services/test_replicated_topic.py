"""A topic as state on a cluster: made, checked, written and replayed, over one partition and over several."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.errors import NoSuchTopic
from ottla.replicated.errors import Fenced, StateError, TooLarge, Unstored
from ottla.replicated.preparing import TopicSpec
from ottla.replicated.records import Record, ReplayedRecord
from ottla.replicated.topic import ReplicatedTopic
from ottla.replicated.writer import Writer
from support.clients.confluent import admin_client, create_topic, eventually, topic_exists
from support.servers.ottla_broker import OttlaBroker

TIMEOUT_MS = 5_000
END_MARK = Record(b"end", None)


class Instance:
    """One instance's topic and image: the last value of each key."""

    def __init__(self, broker: OttlaBroker, spec: TopicSpec, writers_id: str | None = None) -> None:
        self.image: dict[bytes, bytes] = {}
        self.partitions: dict[bytes, set[int]] = {}
        access = ClusterAccess(broker.bootstrap)
        writers_id = writers_id or f"{spec.name}-primary"
        self.topic = ReplicatedTopic(access, spec, self._replay, writers_id, TIMEOUT_MS)

    def _replay(self, record: ReplayedRecord) -> None:
        self.partitions.setdefault(record.key, set()).add(record.partition)
        if record.value is None:
            self.image.pop(record.key, None)
        else:
            self.image[record.key] = record.value

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.topic.prepare()
        reading = asyncio.create_task(self.topic.read())
        try:
            yield
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            await self.topic.close()


def run(story: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(60):
            await story

    asyncio.run(within())


def spec_of(name: str, partitions: int = 1, end_mark: Record | None = None, **others: Any) -> TopicSpec:
    return TopicSpec(name, "values", str, partitions, end_mark=end_mark, **others)


@pytest.fixture
def dice() -> random.Random:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.mark.parametrize(("partitions", "end_mark"), [(1, END_MARK), (1, None), (5, None)])
def test_writers_that_take_over_from_each_other_decide_from_all_that_was_written(
    broker: OttlaBroker, unique_name: str, dice: random.Random, partitions: int, end_mark: Record | None
) -> None:
    spec = spec_of(unique_name, partitions, end_mark)
    one, other, reader = (Instance(broker, spec) for _ in range(3))

    async def story() -> None:
        written: dict[bytes, bytes] = {}
        async with one.running(), other.running(), reader.running():
            for turn in range(4):
                writer, fenced = dice.sample([one, other], 2)
                await writer.topic.take_over()
                assert writer.image == written
                for number in range(dice.randint(1, 3)):
                    keys = dice.sample(range(20), dice.randint(1, 10))
                    records = [
                        Record(b"key-%d" % key, dice.choice([b"%d-%d" % (turn, number), None]))
                        for key in keys
                    ]
                    await writer.topic.append(records)
                    for record in records:
                        if record.value is None:
                            written.pop(record.key, None)
                        else:
                            written[record.key] = record.value
                    assert writer.image == written
                if fenced.topic.writable:
                    with pytest.raises(Fenced):
                        await fenced.topic.append([Record(b"key-0", b"fenced")] * dice.randint(1, 3))
                    assert not fenced.topic.writable
            await reader.topic.wait_until_at(writer.topic.place)
            assert reader.image == written
            await fenced.topic.read_to_end()
            assert fenced.image == written

    run(story())
    # a key is in one partition, or compaction would keep several values of it
    assert all(len(found) == 1 for found in reader.partitions.values())
    if partitions > 1:
        assert len(set.union(*reader.partitions.values())) > 1


def test_a_fenced_writer_says_so_for_any_number_of_records(broker: OttlaBroker, unique_name: str) -> None:
    create_topic(broker.bootstrap, unique_name, 3)
    access = ClusterAccess(broker.bootstrap)
    for count in (1, 2, 7):
        first = Writer(access, unique_name, unique_name, TIMEOUT_MS)
        first.write([Record(b"a", b"b")], TIMEOUT_MS)
        first.commit(TIMEOUT_MS)
        Writer(access, unique_name, unique_name, TIMEOUT_MS)
        with pytest.raises(Fenced):
            first.write([Record(b"%d" % number, b"c") for number in range(count)], TIMEOUT_MS)


def test_a_writer_that_is_fenced_before_its_commit_does_not_say_that_nothing_was_stored(
    broker: OttlaBroker, unique_name: str
) -> None:
    create_topic(broker.bootstrap, unique_name)
    access = ClusterAccess(broker.bootstrap)
    first = Writer(access, unique_name, unique_name, TIMEOUT_MS)
    first.write([Record(b"a", b"b")], TIMEOUT_MS)
    Writer(access, unique_name, unique_name, TIMEOUT_MS)
    with pytest.raises(Unstored):
        first.commit(TIMEOUT_MS)
    assert list(KafkaCluster(broker.bootstrap).read(unique_name)) == []


def test_a_record_that_is_too_large_is_refused_and_the_next_write_takes_over(
    broker: OttlaBroker, unique_name: str
) -> None:
    one = Instance(broker, spec_of(unique_name, config={"max.message.bytes": "1000"}))

    async def story() -> None:
        async with one.running():
            await one.topic.take_over()
            with pytest.raises(TooLarge):
                await one.topic.append([Record(b"a", b"x"), Record(b"b", b"x" * 2_000)])
            await one.topic.take_over()
            await one.topic.append([Record(b"a", b"y")])
            assert one.image == {b"a": b"y"}

    run(story())


def test_any_instance_adds_records_that_no_primary_decides(broker: OttlaBroker, unique_name: str) -> None:
    spec = spec_of(unique_name, 3)
    one, other = Instance(broker, spec), Instance(broker, spec)

    async def story() -> None:
        async with one.running(), other.running():
            await one.topic.add([Record(b"%d" % number, b"one") for number in range(9)])
            await other.topic.add([Record(b"%d" % number, b"other") for number in range(3)])
            await one.topic.wait_until_at(other.topic.place)
            assert one.image == other.image
            assert [one.image[b"%d" % number] for number in (0, 2, 3)] == [b"other", b"other", b"one"]

    run(story())


def test_three_topics_of_one_service_are_one_image_that_stands_still_as_a_whole(
    broker: OttlaBroker, unique_name: str, dice: random.Random
) -> None:
    """As Connect's: one that its leader writes, and two of many partitions that every worker adds to."""
    image: dict[bytes, bytes] = {}
    standstill: list[asyncio.Lock] = []

    def topic(name: str, partitions: int, writers_id: str | None) -> ReplicatedTopic:
        spec = spec_of(f"{unique_name}-{name}", partitions, any_partitions=partitions > 1)
        access = ClusterAccess(broker.bootstrap)
        return ReplicatedTopic(access, spec, replay, writers_id, TIMEOUT_MS, standstill[0])

    def replay(record: ReplayedRecord) -> None:
        assert record.value is not None
        image[record.key] = record.value

    async def story() -> None:
        standstill.append(asyncio.Lock())
        configs = topic("configs", 1, unique_name)
        status, offsets = topic("status", 5, None), topic("offsets", 25, None)
        topics = (configs, status, offsets)
        for each in topics:
            await each.prepare()
        reading = [asyncio.create_task(each.read()) for each in topics]
        await configs.take_over()
        await configs.append([Record(b"connector-a", b"{}"), Record(b"task-a-0", b"{}")])
        counted = configs.consider(lambda: (len(image), time.sleep(0.3), len(image)))
        before, _, after = (await asyncio.gather(counted, add_many(status, b"s"), add_many(offsets, b"o")))[0]
        assert before == after
        keys = {b"%c-%d" % (letter, number) for letter in b"so" for number in range(30)}
        assert image.keys() == {b"connector-a", b"task-a-0"} | keys
        for each in topics:
            await each.read_to_end()
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)
        for each in topics:
            await each.close()

    run(story())


async def add_many(topic: ReplicatedTopic, letter: bytes) -> None:
    await topic.add([Record(b"%b-%d" % (letter, number), b"{}") for number in range(30)])


def test_a_topic_that_gets_more_partitions_is_not_written_to(broker: OttlaBroker, unique_name: str) -> None:
    one = Instance(broker, spec_of(unique_name, 1))

    async def story() -> None:
        async with one.running():
            await one.topic.take_over()
            await asyncio.to_thread(add_partitions, broker, unique_name, 8)
            with pytest.raises(Unstored, match="more partitions"):
                for _ in range(100):
                    if not one.topic.writable:
                        await one.topic.take_over()
                    await one.topic.append([Record(b"%d" % number, b"") for number in range(20)])
            assert one.topic.loss is None

    run(story())


def add_partitions(broker: OttlaBroker, topic: str, total: int) -> None:
    admin = admin_client(broker.bootstrap)
    admin.create_partitions([NewPartitions(topic, total)])[topic].result()
    cluster = KafkaCluster(broker.bootstrap)
    eventually(lambda: len(cluster.partitions(topic)) == total, "the partitions are there")


def test_a_topic_is_made_with_its_settings_and_taken_as_it_is(broker: OttlaBroker, unique_name: str) -> None:
    spec = spec_of(unique_name, 4, config={"segment.ms": "1234567"})

    async def prepared(spec: TopicSpec) -> int:
        one = Instance(broker, spec)
        try:
            assert await one.topic.prepare() == KafkaCluster(broker.bootstrap).cluster_id()
            return len(one.topic.place.offsets)
        finally:
            await one.topic.close()

    assert asyncio.run(prepared(spec)) == 4
    settings = KafkaCluster(broker.bootstrap).topic_settings(unique_name)
    assert (settings["cleanup.policy"], settings["segment.ms"]) == ("compact", "1234567")
    assert asyncio.run(prepared(spec_of(unique_name, 25, any_partitions=True))) == 4
    with pytest.raises(StateError, match=r"4 partitions: values need exactly 5\. .*--delete --topic"):
        asyncio.run(prepared(spec_of(unique_name, 5)))
    with pytest.raises(StateError, match=r"4 partitions: values need the order of a single one"):
        asyncio.run(prepared(spec_of(unique_name)))


def test_asking_for_the_settings_of_a_topic_makes_none(broker: OttlaBroker, unique_name: str) -> None:
    cluster = KafkaCluster(broker.bootstrap)
    calls: list[Callable[[], object]] = [
        lambda: cluster.topic_settings(unique_name),
        lambda: cluster.set_topic_settings(unique_name, {"cleanup.policy": "compact"}),
        lambda: cluster.partitions(unique_name),
    ]
    for call in calls:
        with pytest.raises(NoSuchTopic, match=unique_name):
            call()
    assert not topic_exists(broker.bootstrap, unique_name)
