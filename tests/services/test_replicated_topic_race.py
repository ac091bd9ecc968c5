"""A write meets the very moment in which the topic is deleted and made again.

No record that was decided from one topic is ever in another, and no record of another comes into the image;
on clusters with fetches by id, and on those without.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.client import kafka_requests
from ottla.client.access import ClusterAccess
from ottla.protocol.apis import ApiKey
from ottla.replicated import reader
from ottla.replicated.errors import Unstored
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.preparing import TopicSpec
from ottla.replicated.records import Record
from ottla.replicated.topic import ReplicatedTopic
from ottla.replicated.topic_log import UNKNOWN_ID, Fetched
from support.clients.confluent import create_topic, eventually
from support.servers.ottla_broker import OttlaBroker

TIMEOUT_S = 60
CAPS = {
    "fetches by id": {},
    "fetches by name": {ApiKey.FETCH: 12},
}


@pytest.fixture(params=CAPS.values(), ids=CAPS.keys(), autouse=True)
def versions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest versions that a cluster speaks."""
    for key, version in request.param.items():
        monkeypatch.setitem(kafka_requests.NEWEST, key, version)


class Topic:
    """One instance's topic, read and written; `values` are those that came into the image."""

    def __init__(self, broker: OttlaBroker, name: str) -> None:
        self.name = name
        self.bootstrap = broker.bootstrap
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        self.access = ClusterAccess(broker.bootstrap)
        self.values: list[bytes | None] = []
        spec = TopicSpec(name, "values", str, replication_factor=1, end_mark=Record(b"end", None))
        self.topic = ReplicatedTopic(
            self.access, spec, lambda record: self.values.append(record.value), f"{name}-primary", 5_000
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.topic.prepare()
        reading = asyncio.create_task(self.topic.read())
        try:
            await self.topic.take_over()
            yield
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            await self.topic.close()

    async def replace(self) -> None:
        """Delete the topic, and make another one of its name."""
        await asyncio.wrap_future(self.admin.delete_topics([self.name])[self.name])
        await asyncio.to_thread(
            eventually, lambda: self.name not in self.admin.list_topics(timeout=10).topics, "it is gone"
        )
        await asyncio.to_thread(create_topic, self.bootstrap, self.name, 1, {"cleanup.policy": "compact"})

    def stored(self) -> list[bytes | None]:
        """The values that readers of committed records find in the topic of this name."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "look", "enable.partition.eof": True}
        )
        consumer.assign([TopicPartition(self.name, 0, 0)])
        found: list[bytes | None] = []
        while (message := consumer.poll(20)) is not None and message.error() is None:
            found.append(message.value())
        consumer.close()
        return found


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def run(story: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await story

    asyncio.run(within())


def test_a_write_that_went_into_another_topic_is_taken_back(
    broker: OttlaBroker, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Topic(broker, f"_{unique_name}")
    # the reader is not yet sure while this goes on
    monkeypatch.setattr(reader, "CONFIRMED_SECONDS", TIMEOUT_S)

    async def story() -> None:
        async with one.running():
            await one.topic.append([Record(b"a", b"first"), Record(b"b", b"second")])
            assert one.values == [None, b"first", b"second"]
            await one.replace()
            with pytest.raises(Unstored):
                await one.topic.append([Record(b"a", b"third"), Record(b"b", b"fourth")])
            assert not one.topic.writable and one.topic.loss is None
            with pytest.raises(Unstored):
                await one.topic.take_over()
        assert one.values == [None, b"first", b"second"]

    run(story())
    assert one.stored() == []


def test_a_replaced_topic_is_told_and_its_records_stay_out(
    broker: OttlaBroker, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Topic(broker, f"_{unique_name}"), Topic(broker, f"_{unique_name}")
    fetch = one.topic._log.fetch
    under_way = 0
    awake = asyncio.Event()
    awake.set()

    async def fetch_awake(*arguments: Any, **options: Any) -> Fetched:
        nonlocal under_way
        await awake.wait()
        under_way += 1
        try:
            return await fetch(*arguments, **options)
        finally:
            under_way -= 1

    monkeypatch.setattr(one.topic._log, "fetch", fetch_awake)

    async def story() -> None:
        async with one.running():
            await one.topic.append([Record(b"a", b"old")])
            # given: it sleeps while the topic is replaced, and another registry writes beyond its position
            awake.clear()
            await until(lambda: under_way == 0)
            await one.replace()
            async with other.running():
                for number in range(5):
                    await other.topic.append([Record(b"a", b"new-%d" % number)])
                # when
                awake.set()
                # then
                with pytest.raises(TopicLost):
                    await one.topic._reader.wait_until_applied({0: 1_000})
            await until(lambda: one.topic.loss is Loss.REPLACED)
            with pytest.raises(TopicLost):
                await one.topic.take_over()
            assert one.topic.place.topic_id != other.topic.place.topic_id != UNKNOWN_ID

    run(story())
    assert one.values == [None, b"old"]
    assert other.values == [None, *(b"new-%d" % number for number in range(5))]


def test_a_topic_that_was_only_out_of_sight_is_written_again(
    broker: OttlaBroker, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has just started may not know the topic yet."""
    one = Topic(broker, f"_{unique_name}")

    async def story() -> None:
        async with one.running():
            await one.topic.append([Record(b"a", b"first")])
            log = one.topic._log
            with monkeypatch.context() as patch:

                async def gone(*_: Any, **__: Any) -> Any:
                    raise TopicLost(Loss.DELETED)

                patch.setattr(log, "fetch", gone)
                await until(lambda: one.topic.loss is not None)
            await until(lambda: one.topic.loss is None)
            await one.topic.take_over()
            await one.topic.append([Record(b"a", b"second")])
        assert one.values == [None, b"first", None, b"second"]

    run(story())
