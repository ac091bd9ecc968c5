"""Administration over HTTP: topics from creation to deletion, configs, brokers, access rules, API v2."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from support.rest.rest_api import RestApi
from support.servers.cluster import Cluster

NOT_FOUND = "This server does not host this topic-partition."


@pytest.fixture(scope="module")
def api(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestApi]:
    with RestApi.start(cluster.bootstrap, tmp_path_factory.mktemp("rest-admin")) as running:
        yield running


def produce(cluster: Cluster, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(count):
        producer.produce(topic, str(number), partition=partition)
    assert producer.flush(30) == 0


def test_the_cluster_is_the_one_behind_the_proxy(api: RestApi, cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    known = admin.describe_cluster().result(30)

    (found,) = api.http.get("/v3/clusters").json()["data"]

    assert found == api.get("")
    assert found["cluster_id"] == known.cluster_id
    assert found["controller"]["related"].endswith(f"/brokers/{known.controller.id}")
    (broker,) = api.data("/brokers")
    assert (broker["broker_id"], f"{broker['host']}:{broker['port']}") == (
        known.controller.id,
        cluster.bootstrap,
    )
    status, code, message = _other_cluster(api)
    assert (status, code, message) == (404, 404, "Cluster nope cannot be found.")


def _other_cluster(api: RestApi) -> tuple[int, int, str]:
    answer = api.http.get("/v3/clusters/nope/topics")
    return answer.status_code, answer.json()["error_code"], answer.json()["message"]


def test_a_topic_from_its_making_to_its_end(api: RestApi, unique_name: str) -> None:
    asked = {
        "topic_name": unique_name,
        "partitions_count": 2,
        "replication_factor": 1,
        "configs": [{"name": "cleanup.policy", "value": "compact"}],
    }

    tried = api.call("POST", "/topics", {**asked, "validate_only": True})
    assert (tried.status_code, tried.json()["partitions_count"]) == (200, 2)
    assert api.refused("GET", f"/topics/{unique_name}") == (404, 40403, NOT_FOUND)

    created = api.call("POST", "/topics", asked)
    assert created.status_code == 201
    assert created.headers["location"] == created.json()["metadata"]["self"]
    assert api.http.get(created.headers["location"]).json() == created.json()
    assert created.json() in api.data("/topics")
    allowed = api.get(f"/topics/{unique_name}?include_authorized_operations=true")["authorized_operations"]
    assert {"READ", "WRITE", "DESCRIBE", "DELETE"} <= set(allowed)
    assert not {"UNKNOWN", "ANY"} & set(allowed)
    assert api.get(f"/topics/{unique_name}/configs/cleanup.policy")["value"] == "compact"

    status, code, message = api.refused("POST", "/topics", asked)
    assert (status, code) == (400, 40002)
    assert message == f"Topic '{unique_name}' already exists."

    grown = api.call("PATCH", f"/topics/{unique_name}", {"partitions_count": 3})
    assert (grown.status_code, grown.json()["partitions_count"]) == (200, 3)
    assert [one["partition_id"] for one in api.data(f"/topics/{unique_name}/partitions")] == [0, 1, 2]
    assert api.refused("PATCH", f"/topics/{unique_name}", {"partitions_count": 1})[:2] == (400, 40002)

    assert api.call("DELETE", f"/topics/{unique_name}").status_code == 204
    assert api.refused("DELETE", f"/topics/{unique_name}") == (404, 40403, NOT_FOUND)


@pytest.mark.parametrize(
    "assignments",
    [
        [{"partition_id": 0, "broker_ids": [1]}, {"partition_id": 1, "broker_ids": [1]}],
        {"0": [1], "1": [1]},
    ],
)
def test_a_topic_is_created_with_replicas_on_given_brokers(
    api: RestApi, unique_name: str, assignments: object
) -> None:
    created = api.create_topic(unique_name, replicas_assignments=assignments)

    assert (created["partitions_count"], created["replication_factor"]) == (2, 1)
    (replica,) = api.data(f"/topics/{unique_name}/partitions/1/replicas")
    assert (replica["broker_id"], replica["is_leader"], replica["is_in_sync"]) == (1, True, True)
    assert api.get(f"/topics/{unique_name}/partitions/1/replicas/1") == replica
    assert replica in api.data("/brokers/1/partition-replicas")


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"topic_name": "a/b"}, 400, 40002),
        ({"topic_name": ""}, 400, 40002),
        ({"topic_name": "x" * 250}, 400, 40002),
        ({"topic_name": "t", "partitions_count": 0}, 400, 40002),
        ({"topic_name": "t", "replication_factor": 9}, 400, 40002),
        ({"topic_name": "t", "configs": [{"name": "nope", "value": "1"}]}, 400, 40002),
        ({"topic_name": "t", "configs": [{"name": "retention.ms", "value": "x"}]}, 400, 40002),
        ({"topic_name": "t", "replicas_assignments": [{"partition_id": 0, "broker_ids": [77]}]}, 400, 40002),
        ({"topic_name": "t", "replicas_assignments": [{"partition_id": 5, "broker_ids": [1]}]}, 400, 40002),
        ({"topic_name": "t", "partitions_count": "2"}, 400, 400),
        ({"topic_name": "t", "partitions_count": 2**40}, 400, 400),
        ({"topic_name": 7}, 400, 400),
        ({}, 400, 400),
        ({"topic_name": "t", "partition_count": 2}, 400, 400),
        ([], 400, 400),
    ],
)
def test_impossible_topics_are_refused(api: RestApi, fields: object, status: int, code: int) -> None:
    refusal = api.refused("POST", "/topics", fields)
    assert refusal[:2] == (status, code)
    assert refusal[2]


def test_bodies_that_are_not_json_of_the_right_type(api: RestApi) -> None:
    json = {"content-type": "application/json"}
    assert api.refused("POST", "/topics", content=b"{", headers=json)[:2] == (400, 400)
    assert api.refused("POST", "/topics", content=b"", headers=json)[:2] == (422, 422)
    text = api.refused("POST", "/topics", content=b"{}", headers={"content-type": "text/plain"})
    assert text == (415, 415, "HTTP 415 Unsupported Media Type")
    wrong = api.call("PUT", "/topics")
    assert (wrong.status_code, wrong.json()["error_code"]) == (405, 405)
    assert set(wrong.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


def test_configs_of_a_topic_are_set_reset_and_changed_together(api: RestApi, unique_name: str) -> None:
    api.create_topic(unique_name)
    retention = f"/topics/{unique_name}/configs/retention.ms"
    default = api.get(retention)
    assert (default["is_default"], default["source"]) == (True, "DEFAULT_CONFIG")

    assert api.call("PUT", retention, {"value": "60000"}).status_code == 204
    changed = api.get(retention)
    assert (changed["value"], changed["source"]) == ("60000", "DYNAMIC_TOPIC_CONFIG")
    assert changed["synonyms"][0] == {
        "name": "retention.ms",
        "value": "60000",
        "source": "DYNAMIC_TOPIC_CONFIG",
    }
    assert changed in api.data(f"/topics/{unique_name}/configs")
    assert changed in api.data("/topics/-/configs")
    defaults = {one["name"]: one["value"] for one in api.data(f"/topics/{unique_name}/default-configs")}
    assert defaults["retention.ms"] == default["value"]

    alter = f"/topics/{unique_name}/configs:alter"
    batch = {
        "data": [
            {"name": "retention.ms", "operation": "DELETE"},
            {"name": "compression.type", "value": "gzip"},
        ]
    }
    assert api.call("POST", alter, {**batch, "validate_only": True}).status_code == 204
    assert api.get(retention) == changed
    assert api.call("POST", alter, batch).status_code == 204
    assert api.get(retention) == default
    assert api.get(f"/topics/{unique_name}/configs/compression.type")["value"] == "gzip"

    half = {"data": [{"name": "retention.ms", "value": "5"}, {"name": "compression.type", "value": "nope"}]}
    assert api.refused("POST", alter, half)[:2] == (400, 40002)
    assert api.get(retention) == default, "all or none"
    assert api.refused("PUT", retention, {"value": "soon"})[:2] == (400, 40002)
    assert api.refused("PUT", f"/topics/{unique_name}/configs/nope", {"value": "1"})[:2] == (400, 40002)
    assert api.refused("GET", f"/topics/{unique_name}/configs/nope")[:2] == (404, 404)
    assert api.refused("GET", f"/topics/{unique_name}-nope/configs") == (404, 40403, NOT_FOUND)
    assert api.call("DELETE", f"/topics/{unique_name}/configs/compression.type").status_code == 204


def test_the_configs_that_a_new_topic_would_have(api: RestApi, unique_name: str) -> None:
    configs = {one["name"]: one for one in api.data(f"/topics/{unique_name}/default-configs")}

    assert configs["cleanup.policy"]["value"] == "delete"
    assert api.refused("GET", f"/topics/{unique_name}")[:2] == (404, 40403)


def test_configs_of_brokers_and_of_all_brokers(api: RestApi) -> None:
    one, everywhere = "/brokers/1/configs/log.cleaner.threads", "/broker-configs/log.cleaner.threads"
    assert api.get(one)["source"] == "DEFAULT_CONFIG"
    assert api.refused("GET", everywhere)[:2] == (404, 404)

    assert api.call("PUT", everywhere, {"value": "2"}).status_code == 204
    wait_for(api, everywhere, ("2", "DYNAMIC_DEFAULT_BROKER_CONFIG"))
    assert api.get(everywhere) in api.data("/broker-configs")
    wait_for(api, one, ("2", "DYNAMIC_DEFAULT_BROKER_CONFIG"))
    change = {"data": [{"name": "log.cleaner.threads", "value": "1"}]}
    assert api.call("POST", "/brokers/1/configs:alter", change).status_code == 204
    wait_for(api, one, ("1", "DYNAMIC_BROKER_CONFIG"))
    assert api.get(one) in api.data("/brokers/-/configs")
    assert api.call("DELETE", one).status_code == 204
    wait_for(api, one, ("2", "DYNAMIC_DEFAULT_BROKER_CONFIG"))
    reset = {"data": [{"name": "log.cleaner.threads", "operation": "DELETE"}]}
    assert api.call("POST", "/broker-configs:alter", reset).status_code == 204
    wait_for(api, one, ("1", "DEFAULT_CONFIG"))
    assert api.refused("GET", everywhere)[:2] == (404, 404)

    assert api.refused("GET", "/brokers/99/configs")[:2] == (404, 404)
    assert api.refused("GET", "/brokers/99")[:2] == (404, 404)
    assert api.refused("GET", "/brokers/one")[:2] == (404, 404)
    assert api.refused("PUT", "/brokers/1/configs/log.dirs", {"value": "/x"})[:2] == (400, 40002)


def wait_for(api: RestApi, path: str, expected: tuple[str, str]) -> None:
    """Wait until a config has this value and source: brokers hear of changes after they are made."""
    deadline = time.monotonic() + 30
    while True:
        answer = api.call("GET", path).json()
        found = answer.get("value"), answer.get("source")
        if found == expected:
            return
        assert time.monotonic() < deadline, (found, expected)


def test_offsets_of_a_partition(api: RestApi, cluster: Cluster, unique_name: str) -> None:
    api.create_topic(unique_name, partitions_count=2)
    produce(cluster, unique_name, 1, 7)

    offsets = api.get(f"/topics/{unique_name}/partitions/1/offset")

    assert offsets["kind"] == "KafkaPartitionWithOffsets"
    assert (offsets["earliest_offset"], offsets["latest_offset"]) == (0, 7)
    assert "latest_offset" not in api.get(f"/topics/{unique_name}/partitions/1/offset?offset_type=earliest")
    assert api.refused("GET", f"/topics/{unique_name}/partitions/2/offset") == (404, 40403, NOT_FOUND)
    assert api.refused("GET", f"/topics/{unique_name}/partitions/1/offset?offset_type=x")[:2] == (400, 400)


def test_nothing_is_reassigned(api: RestApi, unique_name: str) -> None:
    api.create_topic(unique_name)

    assert api.data("/topics/-/partitions/-/reassignment") == []
    assert api.data(f"/topics/{unique_name}/partitions/-/reassignment") == []
    assert api.refused("GET", f"/topics/{unique_name}/partitions/0/reassignment")[:2] == (404, 404)
    assert api.refused("GET", f"/topics/{unique_name}-nope/partitions/-/reassignment")[:2] == (404, 40403)


def test_access_rules_where_the_cluster_has_none(api: RestApi) -> None:
    rule = {
        "resource_type": "TOPIC",
        "resource_name": "t",
        "pattern_type": "LITERAL",
        "principal": "User:alice",
        "host": "*",
        "operation": "READ",
        "permission": "ALLOW",
    }
    code = 40002  # SECURITY_DISABLED

    assert api.refused("GET", "/acls")[:2] == (400, code)
    assert api.refused("POST", "/acls", rule)[:2] == (400, code)
    assert api.refused("POST", "/acls:batch", {"data": [rule]})[:2] == (400, code)
    query = "resource_type=ANY&pattern_type=ANY&operation=ANY&permission=ANY"
    assert api.refused("DELETE", f"/acls?{query}")[:2] == (400, code)
    unspecified = api.refused("DELETE", "/acls")
    assert unspecified == (400, 400, "resource_type cannot be unspecified or UNKNOWN")
    assert api.refused("POST", "/acls", {**rule, "operation": "ANY"})[:2] == (400, 400)


def test_version_2_lists_topics_partitions_and_brokers(
    api: RestApi, cluster: Cluster, unique_name: str
) -> None:
    api.create_topic(unique_name, partitions_count=2, configs=[{"name": "retention.ms", "value": "-1"}])
    produce(cluster, unique_name, 0, 3)
    http = api.http

    listed = http.get("/topics")
    assert listed.headers["content-type"] == "application/vnd.kafka.v2+json"
    assert unique_name in listed.json()
    partition = {"partition": 1, "leader": 1, "replicas": [{"broker": 1, "leader": True, "in_sync": True}]}
    topic = http.get(f"/topics/{unique_name}").json()
    assert topic["name"] == unique_name
    assert topic["configs"]["retention.ms"] == "-1"
    assert topic["partitions"] == [{**partition, "partition": 0}, partition]
    assert http.get(f"/topics/{unique_name}/partitions").json() == topic["partitions"]
    assert http.get(f"/topics/{unique_name}/partitions/1").json() == partition
    offsets = http.get(f"/topics/{unique_name}/partitions/0/offsets").json()
    assert offsets == {"beginning_offset": 0, "end_offset": 3}
    assert http.get("/brokers").json() == {"brokers": [1]}
    assert http.get("/topics", headers={"accept": "application/json"}).headers["content-type"] == (
        "application/json"
    )

    for path, code in [
        (f"/topics/{unique_name}-nope", 40401),
        (f"/topics/{unique_name}-nope/partitions", 40401),
        (f"/topics/{unique_name}/partitions/9", 40402),
        (f"/topics/{unique_name}/partitions/9/offsets", 40402),
        (f"/topics/{unique_name}/partitions/x", 404),
    ]:
        answer = http.get(path)
        assert (answer.status_code, answer.json()["error_code"]) == (404, code), path
    assert http.get("/topics", headers={"accept": "text/html"}).status_code == 406


def test_impossible_names_are_refused(api: RestApi) -> None:
    for name in ("a%00b", "%00", "a%2Fb", "%F0%9F%98%80", "a%20b", "a" * 250):
        for method, below in (("GET", ""), ("DELETE", ""), ("GET", "/partitions"), ("GET", "/configs")):
            status, code, _ = api.refused(method, f"/topics/{name}{below}")
            assert (status, code) in ((400, 40002), (404, 40403)), (name, method, below)
        assert api.refused("PATCH", f"/topics/{name}", {"partitions_count": 2})[0] in (400, 404)
    for name in ("a%00b", "%00", "a%2Fb", "%F0%9F%98%80"):
        for below in ("", "/lags", "/consumers/%00"):
            assert api.refused("GET", f"/consumer-groups/{name}{below}")[:2] == (404, 40403)
    assert api.refused("GET", f"/topics/{'a' * 20_000}")[:2] == (414, 414)
