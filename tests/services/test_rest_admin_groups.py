"""Consumer groups over HTTP: members, assignments and lag, compared with the answers of Kafka's clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from support.clients.wire import WireClient
from support.rest.rest_api import RestApi
from support.servers.cluster import Cluster

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def api(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestApi]:
    with RestApi.start(cluster.bootstrap, tmp_path_factory.mktemp("rest-groups")) as running:
        yield running


@contextmanager
def consumer(cluster: Cluster, group: str, topic: str, protocol: str, **more: object) -> Iterator[Consumer]:
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": group,
        "client.id": "reader",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "group.protocol": protocol,
        **more,
    }
    running = Consumer(settings)
    running.subscribe([topic])
    try:
        yield running
    finally:
        running.close()


def poll_until(running: Consumer, done: Callable[[], bool]) -> None:
    """Poll until `done`, within TIMEOUT_S."""
    deadline = time.monotonic() + TIMEOUT_S
    while not done():
        assert time.monotonic() < deadline, "not in time"
        running.poll(0.1)


def produce(cluster: Cluster, topic: str, counts: list[int]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for partition, count in enumerate(counts):
        for number in range(count):
            producer.produce(topic, str(number), partition=partition)
    assert producer.flush(30) == 0


def lag_by_the_tools_way(cluster: Cluster, group: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Committed offset and end of each partition, as kafka-consumer-groups finds them."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    committed = {(one.topic, one.partition): one.offset for one in asked.result(30).topic_partitions}
    ends = admin.list_offsets({TopicPartition(*key): OffsetSpec.latest() for key in committed})
    return {
        (one.topic, one.partition): (committed[one.topic, one.partition], end.result(30).offset)
        for one, end in ends.items()
    }


@pytest.mark.parametrize(
    ("protocol", "more"),
    [
        ("classic", {"partition.assignment.strategy": "range", "group.instance.id": "reader-1"}),
        ("consumer", {}),
    ],
)
def test_a_group_while_it_reads(
    api: RestApi, cluster: Cluster, unique_name: str, protocol: str, more: dict[str, str]
) -> None:
    topic, group = f"{unique_name}-topic", unique_name
    api.create_topic(topic, partitions_count=2)
    produce(cluster, topic, [5, 9])

    with consumer(cluster, group, topic, protocol, **more) as reading:
        poll_until(reading, lambda: len(reading.assignment()) == 2)
        reading.commit(offsets=[TopicPartition(topic, 0, 2), TopicPartition(topic, 1, 9)], asynchronous=False)
        poll_until(reading, lambda: len(api.data(f"/consumer-groups/{group}/consumers")) == 1)

        found = api.get(f"/consumer-groups/{group}")
        assert (found["state"], found["type"]) == ("STABLE", protocol.upper())
        assert found["is_simple"] is False
        assert found["partition_assignor"] == ("range" if protocol == "classic" else "uniform")
        assert found["coordinator"]["related"].endswith("/brokers/1")
        assert found in api.data("/consumer-groups")

        (member,) = api.data(f"/consumer-groups/{group}/consumers")
        assert (member["client_id"], member["instance_id"]) == ("reader", more.get("group.instance.id"))
        path = f"/consumer-groups/{group}/consumers/{quote(member['consumer_id'], safe='')}"
        assert api.get(path) == member
        assignments = api.data(f"{path}/assignments")
        assert [(one["topic_name"], one["partition_id"]) for one in assignments] == [(topic, 0), (topic, 1)]
        assert api.get(f"{path}/assignments/{topic}/partitions/1") == assignments[1]
        assert api.refused("GET", f"{path}/assignments/{topic}/partitions/2")[:2] == (404, 404)

        lags = api.data(f"/consumer-groups/{group}/lags")
        told = {
            (lag["topic_name"], lag["partition_id"]): (lag["current_offset"], lag["log_end_offset"])
            for lag in lags
        }
        assert told == lag_by_the_tools_way(cluster, group)
        assert [(lag["lag"], lag["consumer_id"]) for lag in lags] == [
            (3, member["consumer_id"]),
            (0, member["consumer_id"]),
        ]
        assert api.get(f"/consumer-groups/{group}/lags/{topic}/partitions/0") == lags[0]
        summary = api.get(f"/consumer-groups/{group}/lag-summary")
        assert (summary["max_lag"], summary["total_lag"], summary["max_lag_partition_id"]) == (3, 3, 0)
        assert summary["max_lag_client_id"] == "reader"


def test_a_group_without_members(api: RestApi, cluster: Cluster, unique_name: str) -> None:
    topic, group = f"{unique_name}-topic", unique_name
    api.create_topic(topic)
    produce(cluster, topic, [4])
    with consumer(cluster, group, topic, "classic") as reading:
        poll_until(reading, lambda: bool(reading.assignment()))
        reading.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)

    assert api.get(f"/consumer-groups/{group}")["state"] == "EMPTY"
    assert api.data(f"/consumer-groups/{group}/consumers") == []
    (lag,) = api.data(f"/consumer-groups/{group}/lags")
    assert (lag["lag"], lag["consumer_id"], lag["client_id"], lag["instance_id"]) == (3, "", "", None)

    assert api.call("DELETE", f"/topics/{topic}").status_code == 204
    assert api.data(f"/consumer-groups/{group}/lags") == [], "a topic that is gone has no lag"


def test_groups_and_members_that_are_not_there(api: RestApi, cluster: Cluster, unique_name: str) -> None:
    for below in (
        "",
        "/consumers",
        "/consumers/x/assignments",
        "/lags",
        "/lag-summary",
        "/lags/t/partitions/0",
    ):
        status, code, message = api.refused("GET", f"/consumer-groups/{unique_name}{below}")
        assert (status, code) == (404, 40403), below
        assert message == f"Consumer group {unique_name} cannot be found."

    topic = f"{unique_name}-topic"
    api.create_topic(topic)
    with consumer(cluster, unique_name, topic, "classic") as reading:
        poll_until(reading, lambda: bool(reading.assignment()))
        assert api.refused("GET", f"/consumer-groups/{unique_name}/consumers/nobody")[:2] == (404, 404)
        assert api.data(f"/consumer-groups/{unique_name}/lags") == [], "nothing was committed"
        assert api.refused("GET", f"/consumer-groups/{unique_name}/lag-summary")[:2] == (404, 404)
        path = f"/consumer-groups/{unique_name}/lags/{topic}/partitions/0"
        assert api.refused("GET", path)[:2] == (404, 404)


@pytest.mark.parametrize("assignment", [b"", b"\x00", b"mine", b"\x00\x01\xff\xff\xff\x7f", b"\xff" * 40])
def test_a_member_with_any_assignment_is_described(
    api: RestApi, cluster: Cluster, unique_name: str, assignment: bytes
) -> None:
    """librdkafka ends the process when such a group is described."""
    with WireClient.connect(cluster.bootstrap) as wire:
        join = JoinGroupRequest(
            group_id=unique_name,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=20_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=assignment)],
        )
        joined = wire.call(join, 3)
        assert joined.error_code == 0
        given = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)]
        sync = SyncGroupRequest(
            group_id=unique_name,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=given,
        )
        assert wire.call(sync, 2).error_code == 0
        found = api.get(f"/consumer-groups/{unique_name}")
        assert (found["state"], found["partition_assignor"]) == ("STABLE", "range")
        assert found in api.data("/consumer-groups")
        (member,) = api.data(f"/consumer-groups/{unique_name}/consumers")
        assert member["consumer_id"] == joined.member_id
