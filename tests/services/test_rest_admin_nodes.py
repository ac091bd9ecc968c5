"""Administration of a cluster of three nodes: replicas, configs of each broker, replicas that move."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from support.rest.rest_api import RestApi
from support.servers.clusters import NodeCluster

THROTTLES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


@pytest.fixture
def api(three_nodes: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestApi]:
    with RestApi.start(three_nodes.bootstrap, tmp_path_factory.mktemp("rest-nodes")) as running:
        yield running


def test_brokers_replicas_and_a_node_that_goes(
    three_nodes: NodeCluster, api: RestApi, unique_name: str
) -> None:
    assignments = {"0": [1, 2], "1": [2, 3], "2": [3, 1]}
    created = api.create_topic(unique_name, replicas_assignments=assignments)
    three_nodes.wait_for_leaders(unique_name, 3)

    assert (created["partitions_count"], created["replication_factor"]) == (3, 2)
    brokers = api.data("/brokers")
    assert [(one["broker_id"], one["rack"]) for one in brokers] == [
        (1, "rack-1"),
        (2, "rack-2"),
        (3, "rack-3"),
    ]
    replicas = api.data(f"/topics/{unique_name}/partitions/1/replicas")
    assert [(one["broker_id"], one["is_leader"], one["is_in_sync"]) for one in replicas] == [
        (2, True, True),
        (3, False, True),
    ]
    held = [one for one in api.data("/brokers/3/partition-replicas") if one["topic_name"] == unique_name]
    assert [(one["partition_id"], one["is_leader"]) for one in held] == [(1, False), (2, True)]
    for node in (1, 2, 3):
        assert api.get(f"/brokers/{node}/configs/node.id")["value"] == str(node)

    three_nodes.kill(3)
    three_nodes.wait_until_fenced(3)

    assert [one["broker_id"] for one in api.data("/brokers")] == [1, 2]
    replicas = api.data(f"/topics/{unique_name}/partitions/2/replicas")
    assert [(one["broker_id"], one["is_leader"], one["is_in_sync"]) for one in replicas] == [
        (3, False, False),
        (1, True, True),
    ]
    assert api.refused("GET", "/brokers/3/configs")[:2] == (404, 404)
    assert api.create_topic(f"{unique_name}-2", replication_factor=2)["replication_factor"] == 2
    assert api.call("DELETE", f"/topics/{unique_name}-2").status_code == 204
    too_many = api.refused("POST", "/topics", {"topic_name": f"{unique_name}-3", "replication_factor": 4})
    assert too_many[:2] == (400, 40002)


def test_a_reassignment_is_seen_while_it_is_under_way(
    three_nodes: NodeCluster, api: RestApi, unique_name: str
) -> None:
    throttled = [
        {"name": "leader.replication.throttled.replicas", "value": "*"},
        {"name": "follower.replication.throttled.replicas", "value": "*"},
    ]
    api.create_topic(unique_name, replicas_assignments={"0": [1, 2]}, configs=throttled)
    three_nodes.wait_for_leaders(unique_name, 1)
    producer = Producer({"bootstrap.servers": three_nodes.bootstrap})
    for _ in range(200):
        producer.produce(unique_name, b"x" * 50_000)
    assert producer.flush(60) == 0
    slow = {"data": [{"name": name, "value": "100000"} for name in THROTTLES]}
    for node in (1, 2, 3):
        assert api.call("POST", f"/brokers/{node}/configs:alter", slow).status_code == 204

    moved = ReassignablePartition(partition_index=0, replicas=[2, 3])
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=unique_name, partitions=[moved])]
    )
    with three_nodes.wire() as client:
        assert client.call(request).error_code == ErrorCode.NONE

    one = api.get(f"/topics/{unique_name}/partitions/0/reassignment")
    assert (one["adding_replicas"], one["removing_replicas"]) == ([3], [1])
    assert api.data(f"/topics/{unique_name}/partitions/-/reassignment") == [one]
    assert one in api.data("/topics/-/partitions/-/reassignment")
    newcomer = api.get(f"/topics/{unique_name}/partitions/0/replicas/3")
    assert newcomer["is_in_sync"] is False

    free = {"data": [{"name": name, "operation": "DELETE"} for name in THROTTLES]}
    for node in (1, 2, 3):
        assert api.call("POST", f"/brokers/{node}/configs:alter", free).status_code == 204
    path = f"/topics/{unique_name}/partitions/-/reassignment"
    three_nodes.eventually(lambda: api.data(path) == [], "the reassignment is done")
    assert api.refused("GET", f"/topics/{unique_name}/partitions/0/reassignment")[:2] == (404, 404)
    path = f"/topics/{unique_name}/partitions/0/replicas"
    three_nodes.eventually(
        lambda: [one["broker_id"] for one in api.data(path)] == [2, 3], "all brokers know of it"
    )


def test_the_lag_of_a_group_whose_coordinator_is_gone(
    three_nodes: NodeCluster, api: RestApi, unique_name: str
) -> None:
    api.create_topic(unique_name, partitions_count=1, replication_factor=3)
    three_nodes.wait_for_leaders(unique_name, 1)
    client = {"bootstrap.servers": three_nodes.bootstrap}
    producer = Producer(client)
    for number in range(5):
        producer.produce(unique_name, str(number))
    assert producer.flush(60) == 0
    consumer = Consumer({**client, "group.id": unique_name})
    consumer.commit(offsets=[TopicPartition(unique_name, 0, 2)], asynchronous=False)
    consumer.close()
    before = api.get(f"/consumer-groups/{unique_name}")
    assert before in api.data("/consumer-groups")
    coordinator = int(before["coordinator"]["related"].rpartition("/")[2])

    three_nodes.kill(coordinator)
    three_nodes.wait_until_fenced(coordinator)

    # Apache Kafka knows nothing of a group until it has loaded it
    path = f"/consumer-groups/{unique_name}"
    three_nodes.eventually(lambda: api.call("GET", path).status_code == 200, "the group is there")
    after = api.get(path)
    assert after["coordinator"] != before["coordinator"]
    assert after in api.data("/consumer-groups")
    (lag,) = api.data(f"/consumer-groups/{unique_name}/lags")
    assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (2, 5, 3)


@pytest.mark.parametrize("frozen", [1, 2])
def test_a_frozen_node_delays_no_request_for_long(
    three_nodes: NodeCluster, api: RestApi, unique_name: str, frozen: int
) -> None:
    api.create_topic(unique_name, replicas_assignments={"0": [3]})
    three_nodes.wait_for_leaders(unique_name, 1)

    three_nodes.pause(frozen)

    for path in ("/brokers", "/topics", f"/topics/{unique_name}/partitions", "/brokers/3/configs"):
        answer = api.call("GET", path, timeout=20)
        assert answer.status_code == 200, (path, answer.text)
