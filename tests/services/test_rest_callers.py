"""The REST Proxy acts as its callers towards an Apache Kafka that authenticates and authorizes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.servers.secured_kafka import PASSWORD, USER, SecuredKafka, secured_kafka
from support.servers.services import ServiceProcess

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(300)]

TIMEOUT_S = 60
OTHER_PASSWORD = "another: password"
JSON_V2 = {"content-type": "application/vnd.kafka.json.v2+json"}
V2 = {"content-type": "application/vnd.kafka.v2+json"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:broker;User:ANONYMOUS;User:{USER}",
    }
    with secured_kafka(tmp_path_factory.mktemp("kafka"), settings, {"other": OTHER_PASSWORD}) as running:
        yield running


@pytest.fixture(scope="module")
def rest(kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    options = kafka.client_options
    settings = {
        "authentication.method": "BASIC",
        "confluent.rest.auth.propagate.method": "JETTY_AUTH",
        "client.security.protocol": options["security.protocol"],
        "client.sasl.mechanism": options["sasl.mechanism"],
        "client.ssl.ca.location": options["ssl.ca.location"],
    }
    directory = tmp_path_factory.mktemp("rest")
    with ServiceProcess.start("rest", kafka.bootstrap, directory, settings) as running:
        yield running
    log = Path(running.server.log_path).read_text()
    assert PASSWORD not in log and OTHER_PASSWORD not in log


def client(rest: ServiceProcess, user: str, password: str) -> httpx.Client:
    return httpx.Client(base_url=rest.url, auth=(user, password), timeout=TIMEOUT_S, trust_env=False)


def test_each_caller_has_the_rights_that_the_cluster_gives_it(rest: ServiceProcess) -> None:
    record = {"records": [{"value": {"id": 1}}]}
    with (
        client(rest, USER, PASSWORD) as admin,
        client(rest, "other", OTHER_PASSWORD) as other,
        client(rest, USER, OTHER_PASSWORD) as impostor,
        httpx.Client(base_url=rest.url, timeout=TIMEOUT_S) as nobody,
    ):
        for stranger in (impostor, nobody):
            refused = stranger.get("/topics")
            assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith("Basic")
        cluster = admin.get("/v3/clusters").json()["data"][0]["cluster_id"]
        made = admin.post(f"/v3/clusters/{cluster}/topics", json={"topic_name": "mine"})
        assert made.status_code == 201, made.text
        assert admin.get("/topics").json() == ["mine"]
        assert other.get("/topics").json() == []
        assert admin.post("/topics/mine", json=record, headers=JSON_V2).json()["offsets"][0]["offset"] == 0
        told = other.post("/topics/mine", json=record, headers=JSON_V2)
        assert told.status_code != 200 or (
            "error" in told.json()["offsets"][0] and told.json()["offsets"][0]["error"]
        )
        assert other.post(f"/v3/clusters/{cluster}/topics", json={"topic_name": "theirs"}).status_code == 403
        acl = {
            "resource_type": "TOPIC",
            "resource_name": "mine",
            "pattern_type": "LITERAL",
            "principal": "User:other",
            "host": "*",
            "operation": "READ",
            "permission": "ALLOW",
        }
        group = {**acl, "resource_type": "GROUP", "resource_name": "g"}
        for each in (acl, group):
            assert admin.post(f"/v3/clusters/{cluster}/acls", json=each).status_code == 201
        instance = {"name": "i", "format": "json", "auto.offset.reset": "earliest"}
        base = other.post("/consumers/g", json=instance, headers=V2).json()["base_uri"]
        assert admin.get(f"{base}/records").status_code == 404
        assigned = {"partitions": [{"topic": "mine", "partition": 0}]}
        assert other.post(f"{base}/assignments", json=assigned, headers=V2).status_code == 204
        read: list[Any] = []
        accepted = {"accept": "application/vnd.kafka.json.v2+json"}
        while not read:
            answer = other.get(f"{base}/records", headers=accepted)
            assert answer.status_code == 200, answer.text
            read = answer.json()
        assert read[0]["value"] == {"id": 1}
        assert other.delete(base).status_code == 204
        assert impostor.get("/topics").status_code == 401
