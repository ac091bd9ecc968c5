"""confluent-kafka in a few words: producers, consumers and an admin client with the tests' bounded waits."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_S = 20.0


@functools.lru_cache(maxsize=4)
def admin_client(bootstrap: str) -> AdminClient:
    """One client an address: a client that is garbage-collected fails its own futures.

    It outlives its broker, and says nothing of that.
    """
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


def create_topic(
    bootstrap: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> str:
    """Create a topic and return its name once the broker knows it, which may be after the answer."""
    new_topic = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
    admin_client(bootstrap).create_topics([new_topic])[topic].result(TIMEOUT_S)
    eventually(lambda: topic_exists(bootstrap, topic), f"{topic} is there")
    return topic


def eventually(condition: Callable[[], bool], described: str, timeout_s: float = TIMEOUT_S) -> None:
    """Ask again and again until `condition` holds; fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {described}"
        time.sleep(0.02)


def topic_exists(bootstrap: str, topic: str) -> bool:
    """Whether the cluster has the topic; asks for all topics, which creates none."""
    return topic in admin_client(bootstrap).list_topics(timeout=TIMEOUT_S).topics


def produce(
    bootstrap: str, topic: str, records: Iterable[Mapping[str, Any]], **settings: Any
) -> list[Message]:
    """Produce records (keyword arguments of `Producer.produce` each) and wait for all deliveries.

    `settings` have underscores in place of dots. Returns the delivered messages in order of delivery. Raises
    KafkaException with the error of the first record that failed.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **dotted(settings)})
    delivered: list[Message] = []
    errors: list[Any] = []

    def on_delivery(error: Any, message: Message) -> None:
        if error is not None:
            errors.append(error)
        else:
            delivered.append(message)

    for record in records:
        producer.produce(topic, on_delivery=on_delivery, **record)
    left = producer.flush(TIMEOUT_S)
    if errors:
        raise KafkaException(errors[0])
    assert left == 0, f"{left} records were not delivered within {TIMEOUT_S} s"
    return delivered


@contextmanager
def consumer(bootstrap: str, group: str, **settings: Any) -> Iterator[Consumer]:
    """A consumer that reads from the earliest offset and is closed at the end of the block."""
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 100,
            **dotted(settings),
        }
    )
    try:
        yield client
    finally:
        client.close()


def poll_messages(client: Consumer, count: int, timeout_s: float = TIMEOUT_S) -> list[Message]:
    """Poll until `count` messages have come; fails if they do not come in time or one is an error."""
    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(messages) < count and time.monotonic() < deadline:
        message = client.poll(0.5)
        if message is None:
            continue
        if message.error() is not None:
            raise KafkaException(message.error())
        messages.append(message)
    assert len(messages) == count, f"got {len(messages)} of {count} messages in {timeout_s} s"
    return messages


def read_all(
    bootstrap: str, topic: str, count: int, partitions: Sequence[int] = (0,), **settings: Any
) -> list[Message]:
    """The first `count` messages of the partitions, read with assign(), in no group."""
    with consumer(bootstrap, f"reader-of-{topic}", **settings) as client:
        client.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        return poll_messages(client, count)


def poll_until(
    clients: Sequence[Consumer], condition: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S
) -> list[Message]:
    """Poll all consumers in turn (their rebalance callbacks run in it) until `condition` holds."""
    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        for client in clients:
            message = client.poll(0.05)
            if message is not None and message.error() is None:
                messages.append(message)
    return messages


def assigned_partitions(client: Consumer) -> set[int]:
    return {partition.partition for partition in client.assignment()}


def dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "."): value for key, value in settings.items()}
