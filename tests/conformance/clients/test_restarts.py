"""A broker that stops, or is killed, and comes back under clients at work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from confluent_kafka import Message, Producer, TopicPartition

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from support.clients.confluent import (
    assigned_partitions,
    consumer,
    create_topic,
    eventually,
    poll_messages,
    poll_until,
    produce,
    read_all,
)
from support.clients.wire import WireClient
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

StartOwn = Callable[..., AbstractContextManager[OttlaBroker | ApacheKafka]]


def come_back(broker: OttlaBroker | ApacheKafka, how: str) -> None:
    if how == "kill":
        broker.kill()
    broker.restart()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_idempotent_producer_writes_each_record_once(start_own: StartOwn, unique_name: str, how: str) -> None:
    # given
    with start_own() as broker:
        topic = create_topic(broker.bootstrap, unique_name, partitions=2)
        settings = {"enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 20}
        quick = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50}
        producer = Producer({"bootstrap.servers": broker.bootstrap, **settings, **quick})
        errors: list[Any] = []

        def on_delivery(error: Any, _: Message) -> None:
            if error is not None:
                errors.append(error)

        # when: the broker goes away in the middle, twice
        for number in range(3000):
            producer.produce(topic, b"%d" % number, partition=number % 2, on_delivery=on_delivery)
            producer.poll(0)
            if number in (1000, 2000):
                come_back(broker, how)
        assert producer.flush(60) == 0
        # then
        assert errors == []
        messages = read_all(broker.bootstrap, topic, 3000, partitions=(0, 1))
        for partition in (0, 1):
            values = [int(m.value()) for m in messages if m.partition() == partition]
            assert values == list(range(partition, 3000, 2))


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_group_goes_on_without_a_rebalance(start_own: StartOwn, unique_name: str, how: str) -> None:
    with start_own() as broker:
        topic = create_topic(broker.bootstrap, unique_name, partitions=2)
        produce(broker.bootstrap, topic, ({"value": b"%d" % n, "partition": n % 2} for n in range(10)))
        assignments: list[int] = []
        settings = {"session_timeout_ms": 45_000, "reconnect_backoff_max_ms": 200}
        with consumer(broker.bootstrap, unique_name, **settings) as client:
            client.subscribe([topic], on_assign=lambda _, partitions: assignments.append(len(partitions)))
            poll_messages(client, 10)
            client.commit(asynchronous=False)
            # when
            come_back(broker, how)
            # then: the coordinator still knows the member and its generation
            produce(
                broker.bootstrap, topic, ({"value": b"%d" % n, "partition": n % 2} for n in range(10, 20))
            )
            messages = poll_messages(client, 10, timeout_s=40)
            assert sorted(int(m.value()) for m in messages) == list(range(10, 20))
            client.commit(asynchronous=False)
            assert assignments == [2]
            committed = client.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], 20)
            assert [p.offset for p in committed] == [10, 10]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_topics_records_and_offsets_outlive_a_restart(
    start_own: StartOwn, unique_name: str, how: str
) -> None:
    with start_own() as broker:
        # given
        topic = create_topic(broker.bootstrap, unique_name, config={"retention.ms": "-1"})
        produce(broker.bootstrap, topic, [{"key": b"k", "value": b"v", "headers": [("h", b"x")]}])
        with consumer(broker.bootstrap, unique_name) as client:
            client.commit(offsets=[TopicPartition(topic, 0, 1, metadata="m")], asynchronous=False)
        with WireClient.connect(broker.bootstrap) as wire:
            topic_id = wire.topic_id(topic)
        # when
        come_back(broker, how)
        # then
        with WireClient.connect(broker.bootstrap) as wire:
            assert wire.topic_id(topic) == topic_id
        (message,) = read_all(broker.bootstrap, topic, 1)
        assert (message.key(), message.value(), message.headers()) == (b"k", b"v", [("h", b"x")])
        with consumer(broker.bootstrap, unique_name) as client:
            (committed,) = client.committed([TopicPartition(topic, 0)], 20)
            assert (committed.offset, committed.metadata) == (1, "m")
        # and the next record is appended behind it
        (delivered,) = produce(broker.bootstrap, topic, [{"value": b"next"}])
        assert delivered.offset() == 1


def test_fetch_sessions_end_with_the_broker(start_own: StartOwn, unique_name: str) -> None:
    def fetch(wire: WireClient, session_id: int, epoch: int) -> Any:
        partition = FetchPartition(partition=0, partition_max_bytes=1000)
        topics = [FetchTopic(topic=unique_name, partitions=[partition])] if epoch == 0 else []
        return wire.call(FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics), 12)

    with start_own() as broker:
        with WireClient.connect(broker.bootstrap) as wire:
            wire.create_topic(unique_name)
            session_id = fetch(wire, 0, 0).session_id
            assert session_id != 0
        come_back(broker, "stop")
        with WireClient.connect(broker.bootstrap) as wire:
            eventually(lambda: fetch(wire, session_id, 1).error_code != ErrorCode.NONE, "an answer")
            assert fetch(wire, session_id, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_sessions_end_where_there_is_no_room(start_own: StartOwn, unique_name: str) -> None:
    """Only a session that has not been used for two minutes gives its place to a new one."""
    slots = {"max.incremental.fetch.session.cache.slots": "8"}
    with start_own(settings=slots) as broker, WireClient.connect(broker.bootstrap) as wire:
        wire.create_topic(unique_name)
        partition = FetchPartition(partition=0, partition_max_bytes=1000)
        topics = [FetchTopic(topic=unique_name, partitions=[partition])]
        full = FetchRequest(session_epoch=0, topics=topics)
        kept = {wire.call(full, 12).session_id for _ in range(300)} - {0}
        assert 1 <= len(kept) <= 8
        # the ones that were kept work
        for session_id in kept:
            assert wire.call(FetchRequest(session_id=session_id, session_epoch=1), 12).error_code == 0


def test_port_is_free_at_once_for_a_consumer_in_waiting(start_own: StartOwn, unique_name: str) -> None:
    with start_own() as broker:
        topic = create_topic(broker.bootstrap, unique_name)
        with consumer(broker.bootstrap, unique_name, reconnect_backoff_max_ms=200) as client:
            client.subscribe([topic])
            poll_until([client], lambda: assigned_partitions(client) == {0}, "the partition")
            # when: the broker stops cleanly while a fetch waits
            assert broker.stop() in (0, 143)
            broker.restart()
            produce(broker.bootstrap, topic, [{"value": b"after"}])
            assert poll_messages(client, 1, timeout_s=40)[0].value() == b"after"
