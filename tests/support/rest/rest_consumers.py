"""Stand-ins for the base of the REST proxy's consumer instances: Kafka's consumer, records, time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition
from starlette.applications import Starlette

from ottla.client.access import ClusterAccess
from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.wire import RegistryAccess
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.rest.app import rest_application
from ottla.rest.consumers import group_consumer
from ottla.rest.consumers.consumer_instances import ConsumerInstances
from ottla.rest.settings import TABLE
from ottla.rest.v2.consumers import routes


@dataclass(frozen=True, slots=True)
class FakeRecord:
    """A confluent_kafka.Message, whose fields are methods."""

    topic_name: str = "t"
    partition_number: int = 0
    at: int = 0
    key_bytes: bytes | None = None
    value_bytes: bytes | None = None
    problem: KafkaError | None = None
    header_list: list[tuple[str, bytes | None]] | None = None
    timestamp_ms: int | None = 1_700_000_000_000

    def topic(self) -> str:
        return self.topic_name

    def partition(self) -> int:
        return self.partition_number

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.key_bytes

    def value(self) -> bytes | None:
        return self.value_bytes

    def timestamp(self) -> tuple[int, int]:
        return (0, -1) if self.timestamp_ms is None else (1, self.timestamp_ms)

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.header_list

    def error(self) -> KafkaError | None:
        return self.problem


@dataclass(slots=True)
class FakeConsumer:
    """A confluent_kafka.Consumer over logs in memory, that never waits.

    `logs` has the values of each partition, `headers` the headers of the records at these offsets. The group
    gives all partitions of the topics subscribed to at the first poll. `seeks_refused` seeks come too early,
    as librdkafka's first ones may. `before_poll` is called before each poll and may rebalance.
    """

    properties: Mapping[str, Any] = field(default_factory=dict)
    logger: Any = None
    logs: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    paused: set[tuple[str, int]] = field(default_factory=set)
    stored: dict[tuple[str, int], int] = field(default_factory=dict)
    errors: list[KafkaError] = field(default_factory=list)
    headers: dict[int, list[tuple[str, bytes | None]]] = field(default_factory=dict)
    without_timestamp: set[int] = field(default_factory=set)
    seeks_refused: int = 0
    before_poll: Callable[[FakeConsumer], None] = lambda _: None
    closed: bool = False
    _wanted: list[str] = field(default_factory=list)
    _callbacks: dict[str, Any] = field(default_factory=dict)

    def subscribe(self, topics: Sequence[str], **callbacks: Any) -> None:
        self._wanted = list(topics)
        self._callbacks = callbacks

    def unsubscribe(self) -> None:
        self.rebalance([])
        self._wanted = []

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.positions = {
            (each.topic, each.partition): 0 if each.offset == OFFSET_INVALID else each.offset
            for each in partitions
        }

    def unassign(self) -> None:
        self.positions = {}

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(*each) for each in self.positions]

    def rebalance(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Take all partitions away, and give these."""
        if self.positions:
            self._callbacks["on_revoke"](self, self.assignment())
        given = [TopicPartition(*each) for each in partitions]
        if given:
            self._callbacks["on_assign"](self, given)
        self.assign([TopicPartition(each.topic, each.partition, self._start(each)) for each in given])

    def _start(self, partition: TopicPartition) -> int:
        return self.offsets.get((partition.topic, partition.partition), 0)

    def consume(self, count: int, timeout: float) -> list[FakeRecord]:
        assert not self.closed
        self.before_poll(self)
        if self._wanted and not self.positions:
            self.rebalance(each for each in self.logs if each[0] in self._wanted)
        if self.errors:
            return [FakeRecord(problem=self.errors.pop(0))]
        found: list[FakeRecord] = []
        for (topic, partition), at in self.positions.items():
            if (topic, partition) in self.paused:
                continue
            values = self.logs.get((topic, partition), [])[at : at + count - len(found)]
            found += [self._record(topic, partition, at + n, value) for n, value in enumerate(values)]
            self.positions[topic, partition] += len(values)
        return found

    def _record(self, topic: str, partition: int, at: int, value: bytes) -> FakeRecord:
        time_ms = None if at in self.without_timestamp else 1_700_000_000_000 + at
        return FakeRecord(topic, partition, at, None, value, None, self.headers.get(at), time_ms)

    def seek(self, partition: TopicPartition) -> None:
        if self.seeks_refused > 0:
            self.seeks_refused -= 1
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.positions[partition.topic, partition.partition] = partition.offset

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused |= {(each.topic, each.partition) for each in partitions}

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused -= {(each.topic, each.partition) for each in partitions}

    def store_offsets(self, offsets: Iterable[TopicPartition]) -> None:
        self.stored.update({(each.topic, each.partition): each.offset for each in offsets})

    def commit(self, offsets: Iterable[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        assert not asynchronous
        self.offsets.update({(each.topic, each.partition): each.offset for each in offsets})
        return []

    def committed(self, partitions: Iterable[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [
            TopicPartition(
                each.topic, each.partition, self.offsets.get((each.topic, each.partition), OFFSET_INVALID)
            )
            for each in partitions
        ]

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, len(self.logs.get((partition.topic, partition.partition), []))

    def offsets_for_times(self, times: Iterable[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(each.topic, each.partition, -1) for each in times]

    def close(self) -> None:
        self.closed = True


def use_fake_consumers(
    monkeypatch: Any, logs: Mapping[tuple[str, int], Sequence[bytes]] | None = None
) -> list[FakeConsumer]:
    """Instances get FakeConsumers with these logs; the list has all that were made."""
    made: list[FakeConsumer] = []

    def make(properties: Mapping[str, Any], logger: Any) -> FakeConsumer:
        copied = {partition: list(values) for partition, values in (logs or {}).items()}
        made.append(FakeConsumer(properties, logger, copied))
        return made[-1]

    monkeypatch.setattr(group_consumer, "Consumer", make)
    return made


@dataclass(slots=True)
class ManualClock:
    """Time that passes when a test says so, in seconds."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class Proxy:
    """The consumer part of a REST proxy in this process: a context, with an HTTP client to it."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        settings = Settings(TABLE, from_mapping({"consumer.request.timeout.ms": "20", **(given or {})}))
        self.clock = ManualClock()
        self.registry = RegistryClient(RegistryAccess("http://127.0.0.1:1", attempts=1))
        self.instances = ConsumerInstances(settings, ClusterAccess("127.0.0.1:1"), self.registry, self.clock)
        self.app: Starlette = rest_application(routes(self.instances))
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app, raise_app_exceptions=False), base_url="http://proxy:8082"
        )

    async def __aenter__(self) -> Proxy:
        await self.instances.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()
        await self.instances.stop()
        await self.registry.close()

    async def make(self, **settings: Any) -> str:
        """A new instance of group g, named i unless told otherwise; its path."""
        made = await self.client.post("/consumers/g", json={"name": "i", **settings})
        assert made.status_code == 200, made.text
        return f"/consumers/g/instances/{made.json()['instance_id']}"

    async def subscribed(self, *topics: str, **settings: Any) -> str:
        """A new instance that reads these topics; its path."""
        path = await self.make(**settings)
        answer = await self.client.post(f"{path}/subscription", json={"topics": topics})
        assert answer.status_code == 204, answer.text
        return path


def error_of(answer: httpx.Response) -> tuple[int, int]:
    """Status and error_code."""
    found = answer.json()
    assert isinstance(found["message"], str) and found["message"]
    return answer.status_code, found["error_code"]


async def in_line(function: Callable[..., Any], *arguments: Any) -> Any:
    """Runs a function where another would use a thread."""
    await asyncio.sleep(0)
    return function(*arguments)
