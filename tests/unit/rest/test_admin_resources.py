"""API v3's administration: the seeds' examples, field by field, and the shapes that have none there."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from ottla.rest.admin.model import Group, Topic
from ottla.rest.operations import LISTINGS_AT_A_TIME
from support.rest.fake_cluster_admin import CLUSTER_ID, FakeClusterAdmin, api_client

CLUSTER = f"http://web.poc.local:8082/v3/clusters/{CLUSTER_ID}"


def call(method: str, path: str, body: Any = None, admin: FakeClusterAdmin | None = None) -> tuple[int, Any]:
    """Status and JSON of a request to the cluster."""

    async def ask() -> tuple[int, Any]:
        async with api_client(admin or FakeClusterAdmin()) as client:
            answer = await client.request(method, path, json=body)
            return answer.status_code, answer.json() if answer.content else None

    return asyncio.run(ask())


def get(path: str, admin: FakeClusterAdmin | None = None) -> Any:
    status, answer = call("GET", f"/v3/clusters/{CLUSTER_ID}{path}", None, admin)
    assert status == 200, answer
    return answer


def test_the_seeds_list_of_clusters_is_met_field_by_field() -> None:
    status, answer = call("GET", "/v3/clusters/")

    assert status == 200
    assert answer == {
        "kind": "KafkaClusterList",
        "metadata": {"self": "http://web.poc.local:8082/v3/clusters", "next": None},
        "data": [
            {
                "kind": "KafkaCluster",
                "metadata": {"self": CLUSTER, "resource_name": "crn:///kafka=ntcqkZ0dR2SmRmMV7Ayjgw"},
                "cluster_id": "ntcqkZ0dR2SmRmMV7Ayjgw",
                "controller": {"related": f"{CLUSTER}/brokers/2"},
                "acls": {"related": f"{CLUSTER}/acls"},
                "brokers": {"related": f"{CLUSTER}/brokers"},
                "broker_configs": {"related": f"{CLUSTER}/broker-configs"},
                "consumer_groups": {"related": f"{CLUSTER}/consumer-groups"},
                "topics": {"related": f"{CLUSTER}/topics"},
                "partition_reassignments": {"related": f"{CLUSTER}/topics/-/partitions/-/reassignment"},
            }
        ],
    }


def test_the_seeds_list_of_topics_is_met_field_by_field() -> None:
    answer = get("/topics")

    assert {name: answer[name] for name in ("kind", "metadata")} == {
        "kind": "KafkaTopicList",
        "metadata": {"self": f"{CLUSTER}/topics", "next": None},
    }
    (topic,) = answer["data"]
    assert topic.pop("partitions_count") == 2, "newer than the seed"
    assert topic == {
        "kind": "KafkaTopic",
        "metadata": {
            "self": f"{CLUSTER}/topics/tasks",
            "resource_name": "crn:///kafka=ntcqkZ0dR2SmRmMV7Ayjgw/topic=tasks",
        },
        "cluster_id": "ntcqkZ0dR2SmRmMV7Ayjgw",
        "topic_name": "tasks",
        "is_internal": False,
        "replication_factor": 2,
        "partitions": {"related": f"{CLUSTER}/topics/tasks/partitions"},
        "configs": {"related": f"{CLUSTER}/topics/tasks/configs"},
        "partition_reassignments": {"related": f"{CLUSTER}/topics/tasks/partitions/-/reassignment"},
    }


def test_a_broker() -> None:
    assert get("/brokers/1") == {
        "kind": "KafkaBroker",
        "metadata": {"self": f"{CLUSTER}/brokers/1", "resource_name": f"crn:///kafka={CLUSTER_ID}/broker=1"},
        "cluster_id": CLUSTER_ID,
        "broker_id": 1,
        "host": "one",
        "port": 9092,
        "rack": "rack-1",
        "configs": {"related": f"{CLUSTER}/brokers/1/configs"},
        "partition_replicas": {"related": f"{CLUSTER}/brokers/1/partition-replicas"},
    }


def test_a_partition_without_a_leader_has_no_link_to_one() -> None:
    first, second = get("/topics/tasks/partitions")["data"]

    assert first == {
        "kind": "KafkaPartition",
        "metadata": {
            "self": f"{CLUSTER}/topics/tasks/partitions/0",
            "resource_name": f"crn:///kafka={CLUSTER_ID}/topic=tasks/partition=0",
        },
        "cluster_id": CLUSTER_ID,
        "topic_name": "tasks",
        "partition_id": 0,
        "leader": {"related": f"{CLUSTER}/topics/tasks/partitions/0/replicas/2"},
        "replicas": {"related": f"{CLUSTER}/topics/tasks/partitions/0/replicas"},
        "reassignment": {"related": f"{CLUSTER}/topics/tasks/partitions/0/reassignment"},
    }
    assert "leader" not in second


def test_replicas_of_a_partition_and_of_a_broker() -> None:
    leader, follower = get("/topics/tasks/partitions/0/replicas")["data"]

    assert leader == {
        "kind": "KafkaReplica",
        "metadata": {
            "self": f"{CLUSTER}/topics/tasks/partitions/0/replicas/2",
            "resource_name": f"crn:///kafka={CLUSTER_ID}/topic=tasks/partition=0/replica=2",
        },
        "cluster_id": CLUSTER_ID,
        "topic_name": "tasks",
        "partition_id": 0,
        "broker_id": 2,
        "is_leader": True,
        "is_in_sync": True,
        "broker": {"related": f"{CLUSTER}/brokers/2"},
    }
    assert (follower["broker_id"], follower["is_leader"], follower["is_in_sync"]) == (1, False, False)
    held = get("/brokers/1/partition-replicas")["data"]
    assert [(replica["partition_id"], replica["broker_id"]) for replica in held] == [(0, 1), (1, 1)]
    assert get("/topics/tasks/partitions/0/replicas/1") == follower


@pytest.mark.parametrize(
    "path",
    [
        "/topics/-/partitions/-/reassignment",
        "/topics/tasks/partitions/-/reassignment",
    ],
)
def test_reassignments_are_listed(path: str) -> None:
    answer = get(path)

    assert answer["kind"] == "KafkaReassignmentList"
    assert answer["metadata"] == {"self": f"{CLUSTER}{path}", "next": None}
    assert answer["data"] == [get("/topics/tasks/partitions/0/reassignment")]
    assert answer["data"] == [
        {
            "kind": "KafkaReassignment",
            "metadata": {
                "self": f"{CLUSTER}/topics/tasks/partitions/0/reassignment",
                "resource_name": f"crn:///kafka={CLUSTER_ID}/topic=tasks/partition=0/reassignment",
            },
            "cluster_id": CLUSTER_ID,
            "topic_name": "tasks",
            "partition_id": 0,
            "adding_replicas": [3],
            "removing_replicas": [1],
            "replicas": {"related": f"{CLUSTER}/topics/tasks/partitions/0/replicas"},
        }
    ]


def test_the_offsets_of_a_partition() -> None:
    answer = get("/topics/tasks/partitions/1/offset")

    assert answer["kind"] == "KafkaPartitionWithOffsets"
    assert answer["metadata"]["resource_name"] == f"crn:///kafka={CLUSTER_ID}/topic=tasks/partition=1/offset"
    assert (answer["earliest_offset"], answer["latest_offset"]) == (7, 101)
    assert "earliest_offset" not in get("/topics/tasks/partitions/1/offset?offset_type=latest")


@pytest.mark.parametrize(
    ("path", "kind", "name", "more"),
    [
        (
            "/topics/tasks/configs",
            "KafkaTopicConfig",
            "/topic=tasks/config=retention.ms",
            {"topic_name": "tasks"},
        ),
        ("/brokers/1/configs", "KafkaBrokerConfig", "/broker=1/config=retention.ms", {"broker_id": 1}),
        ("/broker-configs", "KafkaClusterConfig", "/broker-config=retention.ms", {"config_type": "BROKER"}),
    ],
)
def test_configs(path: str, kind: str, name: str, more: dict[str, Any]) -> None:
    answer = get(path)

    assert (answer["kind"], answer["metadata"]["self"]) == (f"{kind}List", f"{CLUSTER}{path}")
    retention, password = answer["data"]
    assert retention == {
        "kind": kind,
        "metadata": {
            "self": f"{CLUSTER}{path}/retention.ms",
            "resource_name": f"crn:///kafka={CLUSTER_ID}{name}",
        },
        "cluster_id": CLUSTER_ID,
        **more,
        "name": "retention.ms",
        "value": "1000",
        "is_default": False,
        "is_read_only": False,
        "is_sensitive": False,
        "source": "DYNAMIC_TOPIC_CONFIG",
        "synonyms": [
            {"name": "retention.ms", "value": "1000", "source": "DYNAMIC_TOPIC_CONFIG"},
            {"name": "log.retention.ms", "value": "604800000", "source": "DEFAULT_CONFIG"},
        ],
    }
    assert (password["value"], password["is_sensitive"]) == (None, True)
    assert get(f"{path}/retention.ms") == retention
    status, refused = call("GET", f"/v3/clusters/{CLUSTER_ID}{path}/nope")
    assert (status, refused["error_code"]) == (404, 404)


def test_the_default_configs_of_a_topic_are_asked_for_with_a_topic_that_is_not_made() -> None:
    admin = FakeClusterAdmin()

    (retention,) = get("/topics/tasks/default-configs", admin)["data"]

    assert retention["metadata"]["self"] == f"{CLUSTER}/topics/tasks/configs/retention.ms"
    assert (retention["value"], retention["is_default"], retention["synonyms"]) == ("604800000", True, [])
    ((request, _),) = admin.asked
    assert request.validate_only  # type: ignore[attr-defined]
    assert request.topics[0].name != "tasks"  # type: ignore[attr-defined]


def test_changes_of_configs_are_told_to_the_broker_that_has_them() -> None:
    admin = FakeClusterAdmin()
    body = {
        "data": [{"name": "a", "value": "1"}, {"name": "b", "operation": "delete"}],
        "validate_only": True,
    }

    for path in ("/topics/tasks/configs:alter", "/brokers/2/configs:alter", "/broker-configs:alter"):
        assert call("POST", f"/v3/clusters/{CLUSTER_ID}{path}", body, admin) == (204, None)

    asked = [
        (request.resources[0].resource_type, request.resources[0].resource_name, node, request.validate_only)
        for request, node in admin.asked  # type: ignore[attr-defined]
    ]
    assert asked == [(2, "tasks", None, True), (4, "2", 2, True), (4, "", None, True)]
    changes = admin.asked[0][0].resources[0].configs  # type: ignore[attr-defined]
    assert [(one.name, one.config_operation, one.value) for one in changes] == [("a", 0, "1"), ("b", 1, None)]


def test_a_config_that_is_put_is_set_and_one_of_null_is_reset() -> None:
    admin = FakeClusterAdmin()
    path = f"/v3/clusters/{CLUSTER_ID}/topics/tasks/configs/retention.ms"

    assert call("PUT", path, {"value": "5"}, admin) == (204, None)
    assert call("PUT", path, {"value": None}, admin) == (204, None)
    assert call("DELETE", path, None, admin) == (204, None)

    changes = [request.resources[0].configs[0] for request, _ in admin.asked]  # type: ignore[attr-defined]
    assert [(one.config_operation, one.value) for one in changes] == [(0, "5"), (1, None), (1, None)]


def test_a_group_with_its_consumers_and_their_assignments() -> None:
    group = get("/consumer-groups/readers")
    assert group == {
        "kind": "KafkaConsumerGroup",
        "metadata": {
            "self": f"{CLUSTER}/consumer-groups/readers",
            "resource_name": f"crn:///kafka={CLUSTER_ID}/consumer-group=readers",
        },
        "cluster_id": CLUSTER_ID,
        "consumer_group_id": "readers",
        "is_simple": False,
        "partition_assignor": "range",
        "state": "STABLE",
        "type": "CLASSIC",
        "coordinator": {"related": f"{CLUSTER}/brokers/1"},
        "consumers": {"related": f"{CLUSTER}/consumer-groups/readers/consumers"},
        "lag_summary": {"related": f"{CLUSTER}/consumer-groups/readers/lag-summary"},
    }
    assert get("/consumer-groups")["data"] == [group]
    (consumer,) = get("/consumer-groups/readers/consumers")["data"]
    assert consumer["metadata"]["resource_name"].endswith("/consumer-group=readers/consumer=member-1")
    assert (consumer["instance_id"], consumer["client_id"]) == ("static-1", "client-1")
    assert get("/consumer-groups/readers/consumers/member-1") == consumer
    (assignment,) = get("/consumer-groups/readers/consumers/member-1/assignments")["data"]
    assert assignment["partition"] == {"related": f"{CLUSTER}/topics/tasks/partitions/0"}
    assert assignment["lag"] == {"related": f"{CLUSTER}/consumer-groups/readers/lags/tasks/partitions/0"}
    path = "/consumer-groups/readers/consumers/member-1/assignments/tasks/partitions/0"
    assert get(path) == assignment
    assert assignment["metadata"]["self"] == f"{CLUSTER}{path}"


def test_lags_and_their_summary() -> None:
    owned, orphan = get("/consumer-groups/readers/lags")["data"]

    assert (owned["current_offset"], owned["log_end_offset"], owned["lag"]) == (40, 100, 60)
    assert (owned["consumer_id"], owned["instance_id"], owned["client_id"]) == (
        "member-1",
        "static-1",
        "client-1",
    )
    assert (orphan["lag"], orphan["consumer_id"], orphan["instance_id"]) == (1, "", None)
    assert owned["metadata"]["resource_name"].endswith("/consumer-group=readers/lag=tasks/partition=0")
    assert get("/consumer-groups/readers/lags/tasks/partitions/0") == owned
    summary = get("/consumer-groups/readers/lag-summary")
    assert summary["metadata"]["resource_name"].endswith("/consumer-group=readers/lag-summary")
    assert {name: value for name, value in summary.items() if name not in ("kind", "metadata")} == {
        "cluster_id": CLUSTER_ID,
        "consumer_group_id": "readers",
        "max_lag_consumer_id": "member-1",
        "max_lag_instance_id": "static-1",
        "max_lag_client_id": "client-1",
        "max_lag_topic_name": "tasks",
        "max_lag_partition_id": 0,
        "max_lag": 60,
        "total_lag": 61,
        "max_lag_consumer": {"related": f"{CLUSTER}/consumer-groups/readers/consumers/member-1"},
        "max_lag_partition": {"related": f"{CLUSTER}/topics/tasks/partitions/0"},
    }


def test_access_rules_have_the_filter_that_finds_them_as_url() -> None:
    answer = get("/acls?principal=User%3Aalice")

    assert answer["metadata"]["self"] == f"{CLUSTER}/acls?principal=User:alice"
    assert answer["data"] == [
        {
            "kind": "KafkaAcl",
            "metadata": {
                "self": f"{CLUSTER}/acls?resource_type=TOPIC&resource_name=topic-&pattern_type=PREFIXED"
                "&principal=User:alice&host=*&operation=READ&permission=ALLOW"
            },
            "cluster_id": CLUSTER_ID,
            "resource_type": "TOPIC",
            "resource_name": "topic-",
            "pattern_type": "PREFIXED",
            "principal": "User:alice",
            "host": "*",
            "operation": "READ",
            "permission": "ALLOW",
        }
    ]


@pytest.mark.parametrize(
    ("name", "escaped"),
    [("a b?c", "a%20b%3Fc"), ("a/b", "a%2Fb"), ("/", "%2F"), ("ä%2F", "%C3%A4%252F"), ("a:b*", "a:b*")],
)
def test_a_name_is_escaped_in_urls_and_not_in_names_of_resources(name: str, escaped: str) -> None:
    admin = FakeClusterAdmin(group_list=[Group(name, True, "", "EMPTY", "CLASSIC", None, ())])

    (group,) = get("/consumer-groups", admin)["data"]

    assert group["metadata"]["self"] == f"{CLUSTER}/consumer-groups/{escaped}"
    assert group["metadata"]["resource_name"].endswith(f"/consumer-group={name}")
    assert get(f"/consumer-groups/{escaped}", admin) == group
    assert get(f"/consumer-groups/{escaped}/consumers/", admin)["data"] == []


@pytest.mark.parametrize(
    ("host_name", "header", "base"),
    [
        (None, "proxy.example:80", "http://proxy.example:80"),
        (None, "[::1]:8082", "http://[::1]:8082"),
        (None, "[::1", "http://web.poc.local:8082"),
        (None, "a/../b?", "http://web.poc.local:8082"),
        ("rest.internal", "proxy.example:80", "http://rest.internal"),
        ("fd00::1", "proxy.example:80", "http://[fd00::1]"),
    ],
)
def test_urls_are_of_the_host_that_was_asked_unless_the_settings_name_one(
    host_name: str | None, header: str, base: str
) -> None:
    async def ask() -> Any:
        async with api_client(FakeClusterAdmin(), host_name) as client:
            return (await client.get("/v3/clusters", headers={"host": header})).json()

    assert asyncio.run(ask())["metadata"]["self"] == f"{base}/v3/clusters"


def test_no_more_than_a_few_listings_of_everything_are_made_at_a_time() -> None:
    admin = _Counting()

    async def ask() -> list[int]:
        async with api_client(admin) as client:
            path = f"/v3/clusters/{CLUSTER_ID}/topics"
            answers = await asyncio.gather(*(client.get(path) for _ in range(12)))
            return [answer.status_code for answer in answers]

    assert asyncio.run(ask()) == [200] * 12
    assert admin.most == LISTINGS_AT_A_TIME


class _Counting(FakeClusterAdmin):
    """Knows how many listings of topics there were at the same time."""

    under_way = 0
    most = 0

    async def topics(self, names: Collection[str] | None = None) -> list[Topic]:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(20):
            await asyncio.sleep(0)
        self.under_way -= 1
        return []
