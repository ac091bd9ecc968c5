"""Consumer instances as members of their groups, beside other instances and confluent-kafka's consumers."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from support.clients.confluent import (
    assigned_partitions,
    consumer,
    create_topic,
    eventually,
    poll_messages,
    poll_until,
    produce,
)
from support.rest.rest_instances import Instance
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess


@pytest.fixture(scope="module")
def proxy(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A proxy that removes instances that are unused for a second."""
    directory = tmp_path_factory.mktemp("rest-groups")
    settings = {"consumer.instance.timeout.ms": "1000"}
    with ServiceProcess.start("rest", broker.bootstrap, directory, settings) as running:
        yield running


def numbers(instance: Instance, count: int) -> list[int]:
    return [int(base64.b64decode(value)) for value in instance.read_values(count)]


def test_two_instances_share_partitions_until_one_is_deleted(
    broker: OttlaBroker, rest: ServiceProcess
) -> None:
    topic = create_topic(broker.bootstrap, "shared", partitions=4)
    with (
        Instance.make(rest.url, "sharers") as one,
        Instance.make(rest.url, "sharers") as two,
    ):
        one.subscribe(topic)
        eventually(lambda: one.partitions() == [0, 1, 2, 3], "the first has all")
        # without reads both take part in the group all the same
        two.subscribe(topic)
        eventually(lambda: len(one.partitions()) == len(two.partitions()) == 2, "both have two")
        assert sorted(one.partitions() + two.partitions()) == [0, 1, 2, 3]
        produce(broker.bootstrap, topic, [{"value": b"%d" % n, "partition": n} for n in range(4)])
        assert sorted(numbers(one, 2)) == one.partitions()
        assert sorted(numbers(two, 2)) == two.partitions()
        one.post("offsets")
        two.post("offsets")
        assert one.http.delete(one.base).status_code == 204
        eventually(lambda: two.partitions() == [0, 1, 2, 3], "the second has all")
        produce(broker.bootstrap, topic, [{"value": b"%d" % n, "partition": n % 4} for n in range(4, 8)])
        assert sorted(numbers(two, 4)) == [4, 5, 6, 7]


def test_an_instance_that_expires_leaves_its_partitions_to_the_others(
    broker: OttlaBroker, proxy: ServiceProcess
) -> None:
    topic = create_topic(broker.bootstrap, "expiring", partitions=2)
    with Instance.make(proxy.url, "expirers") as instance:
        instance.subscribe(topic)
        eventually(lambda: instance.partitions() == [0, 1], "the instance has both")
        with consumer(broker.bootstrap, "expirers") as other:
            other.subscribe([topic])
            poll_until([other], lambda: assigned_partitions(other) == {0, 1}, "the instance is gone")
        assert instance.http.get(f"{instance.base}/assignments").json()["error_code"] == 40403


def test_a_read_keeps_its_instance_alive(broker: OttlaBroker, proxy: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "long-read")
    with Instance.make(proxy.url, "long-readers", fetch_min_bytes=-1) as instance:
        instance.assign(topic, 0)
        assert instance.read(timeout=2_500) == []  # longer than an unused instance lives
        assert instance.partitions() == [0]


def test_commits_agree_with_a_consumer_of_the_group(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "agreed", partitions=2)
    produce(broker.bootstrap, topic, [{"value": b"%d" % n, "partition": 0} for n in range(10)])
    parts = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with Instance.make(rest.url, "agreeing") as instance:
        instance.assign(topic, 0, 1)
        assert instance.committed(topic, 0, 1) == {}
        assert numbers(instance, 10) == list(range(10))
        instance.post("offsets", {"offsets": [{"topic": topic, "partition": 0, "offset": 2}]})
        with consumer(broker.bootstrap, "agreeing") as other:
            assert other.committed(parts[:1], timeout=20)[0].offset == 3
            other.assign(parts[:1])
            assert [int(message.value() or b"") for message in poll_messages(other, 7)] == list(range(3, 10))
            other.commit(offsets=[TopicPartition(topic, 1, 5)], asynchronous=False)
        assert instance.committed(topic, 0, 1) == {0: 3, 1: 5}
        instance.post("offsets")
        assert instance.committed(topic, 0) == {0: 10}
    with Instance.make(rest.url, "agreeing") as later:
        later.assign(topic, 0)
        assert later.read(timeout=300) == []


def test_automatic_commits_are_of_answered_records(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "automatic")
    produce(broker.bootstrap, topic, [{"value": b"%d" % n} for n in range(10)])
    with Instance.make(rest.url, "automatics", auto_commit_enable="true") as instance:
        instance.subscribe(topic)
        assert len(instance.read(max_bytes=4)) == 4
    with Instance.make(rest.url, "automatics") as later:  # the first committed when it left
        later.subscribe(topic)
        assert numbers(later, 6) == [4, 5, 6, 7, 8, 9]


def test_positions_move_by_offset_time_and_end(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "moved")
    start = 1_700_000_000_000
    records = [{"value": b"%d" % n, "timestamp": start + 1_000 * n} for n in range(10)]
    produce(broker.bootstrap, topic, records)
    part = {"topic": topic, "partition": 0}
    with Instance.make(rest.url, "movers") as instance:
        instance.subscribe(topic)
        instance.post("positions", {"offsets": [{**part, "offset": 7}]})  # before it has its partitions
        assert numbers(instance, 3) == [7, 8, 9]
        instance.post("positions/beginning", {"partitions": [part]})
        assert numbers(instance, 10) == list(range(10))
        instance.post("positions", {"timestamps": [{**part, "timestamp": "2023-11-14T22:13:24.500Z"}]})
        assert numbers(instance, 5) == [5, 6, 7, 8, 9]
        instance.post("positions", {"timestamps": [{**part, "timestamp": start + 8_000}]})
        assert numbers(instance, 2) == [8, 9]
        instance.post("positions/beginning", {"partitions": []})
        instance.post("positions/end", {"partitions": [part]})
        produce(broker.bootstrap, topic, [{"value": b"10"}])
        assert numbers(instance, 1) == [10]
        instance.post("positions", {"timestamps": [{**part, "timestamp": start * 2}]})  # none is so young
        assert instance.read(timeout=300) == []
        elsewhere = {"offsets": [{"topic": topic, "partition": 1, "offset": 0}]}
        refused = instance.http.post(f"{instance.base}/positions", json=elsewhere)
        assert (refused.status_code, refused.json()["error_code"]) == (409, 40903)


def test_a_topic_that_comes_later_is_read(broker: OttlaBroker, rest: ServiceProcess) -> None:
    with Instance.make(rest.url, "early-birds") as instance:
        instance.subscribe("comes-later")
        assert instance.read(timeout=200) == []
        create_topic(broker.bootstrap, "comes-later")
        instance.subscribe("comes-later")
        produce(broker.bootstrap, "comes-later", [{"value": b"0"}])
        assert numbers(instance, 1) == [0]


def test_unknown_partitions_have_no_offsets_to_commit(broker: OttlaBroker, rest: ServiceProcess) -> None:
    with Instance.make(rest.url, "wanderers") as instance:
        body = {"offsets": [{"topic": "nowhere-at-all", "partition": 0, "offset": 3}]}
        refused = instance.http.post(f"{instance.base}/offsets", json=body)
        assert (refused.status_code, refused.json()["error_code"]) == (404, 40401)
