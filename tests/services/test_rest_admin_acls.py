"""Access rules over HTTP, on a cluster that has an authorizer."""

from __future__ import annotations

import time
from pathlib import Path

from support.rest.rest_api import RestApi
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
READ = {
    "resource_type": "TOPIC",
    "resource_name": "tasks-",
    "pattern_type": "PREFIXED",
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
DENY = {
    **READ,
    "resource_type": "CLUSTER",
    "resource_name": "kafka-cluster",
    "pattern_type": "LITERAL",
    "principal": "User:bob",
    "operation": "DESCRIBE",
    "permission": "DENY",
}
ALLOW_TOKEN = {**DENY, "resource_type": "TRANSACTIONAL_ID", "resource_name": "t", "operation": "WRITE"}


def rules(data: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: rule[name] for name in READ} for rule in data]


def wait_for(api: RestApi, query: str, expected: list[dict[str, str]]) -> None:
    """Wait until a filter finds these: a broker's authorizer learns of changes after they are made."""
    deadline = time.monotonic() + 30
    while (found := rules(api.data(f"/acls{query}"))) != expected:
        assert time.monotonic() < deadline, found


def test_rules_are_added_found_and_deleted(tmp_path: Path, cluster_kind: str) -> None:
    start = {"ottla": OttlaBroker.start, "apache-kafka": ApacheKafka.start}[cluster_kind]
    with (
        start(tmp_path / "cluster", settings=AUTHORIZER) as running,
        RestApi.start(running.bootstrap, tmp_path / "rest") as api,
    ):
        assert api.data("/acls") == []

        created = api.call("POST", "/acls", READ)
        assert (created.status_code, created.content) == (201, b"")
        assert api.call("POST", "/acls:batch", {"data": [DENY, ALLOW_TOKEN, READ]}).status_code == 201
        wait_for(api, "", [READ, DENY, ALLOW_TOKEN])
        found = api.http.get(created.headers["location"]).json()
        assert rules(found["data"]) == [READ]
        assert found["data"][0]["metadata"]["self"] == created.headers["location"]
        assert rules(api.data("/acls?principal=User:bob&operation=describe")) == [DENY]
        assert rules(api.data("/acls?resource_type=TOPIC&resource_name=tasks-1&pattern_type=MATCH")) == [READ]

        wrong = api.refused("POST", "/acls", {**DENY, "resource_name": "another"})
        assert wrong[:2] == (400, 40002)
        assert "kafka-cluster" in wrong[2]
        assert api.refused("POST", "/acls", {**READ, "principal": "alice"})[0] == 400
        assert api.refused("GET", "/acls?operation=FLY")[:2] == (400, 400)

        everything = "resource_type=ANY&pattern_type=ANY&operation=ANY&permission=ANY"
        deleted = api.call("DELETE", f"/acls?{everything}&principal=User:bob")
        assert deleted.status_code == 200
        assert rules(deleted.json()["data"]) == [DENY, ALLOW_TOKEN]
        wait_for(api, "", [READ])
        assert api.call("DELETE", f"/acls?{everything}").json()["data"][0]["kind"] == "KafkaAcl"
        wait_for(api, "", [])
