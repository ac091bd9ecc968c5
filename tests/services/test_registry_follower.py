"""An instance that may not become the primary answers like the primary: it forwards whole requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

ONE = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
UNFIT = '{"type":"record","name":"R","fields":[{"name":"b","type":"int"}]}'
OWN = {"kafkastore.topic": "_schemas_of_two", "schema.registry.group.id": "registry-of-two"}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two instances of one registry."""

    primary: ServiceProcess
    follower: ServiceProcess

    def asked(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """The follower's answer."""
        return httpx.request(method, f"{self.follower.url}{path}", json=body, headers=headers, timeout=30)

    def done(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of the follower's answer, which must be a success."""
        answer = self.asked(method, path, body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def both(self, path: str) -> Any:
        """The JSON that both instances answer, which must be the same."""
        answers = [httpx.get(f"{one.url}{path}", timeout=30) for one in (self.primary, self.follower)]
        assert answers[0].status_code == answers[1].status_code == 200, [each.text for each in answers]
        assert answers[0].json() == answers[1].json()
        return answers[0].json()


@pytest.fixture(scope="module")
def pair(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    place = tmp_path_factory.mktemp("two")
    follower = {**OWN, "leader.eligibility": "false"}
    with (
        ServiceProcess.start("registry", broker.bootstrap, place, OWN) as primary,
        ServiceProcess.start("registry", broker.bootstrap, place, follower) as other,
    ):
        yield Pair(primary, other)


def test_every_kind_of_write_goes_through_and_is_read_at_once(pair: Pair, unique_name: str) -> None:
    name = unique_name
    schema_id = pair.done("POST", f"/subjects/{name}/versions", {"schema": ONE})["id"]
    assert pair.both(f"/subjects/{name}/versions/1")["id"] == schema_id
    assert pair.both(f"/schemas/ids/{schema_id}")["schema"] == ONE
    pair.done("PUT", f"/config/{name}", {"compatibility": "FULL"})
    assert pair.both(f"/config/{name}") == {"compatibilityLevel": "FULL", "compatibility": "FULL"}
    pair.done("DELETE", f"/config/{name}")
    pair.done("PUT", f"/mode/{name}", {"mode": "READONLY"})
    assert pair.both(f"/mode/{name}") == {"mode": "READONLY"}
    pair.done("DELETE", f"/mode/{name}")
    tagged = {"schemaEntity": {"entityPath": "R", "entityType": "SR_RECORD"}, "tags": ["PII"]}
    pair.done("POST", f"/subjects/{name}/versions/1/tags", {"tagsToAdd": [tagged]})
    assert pair.both(f"/subjects/{name}/versions") == [1, 2]
    assert pair.done("DELETE", f"/subjects/{name}/versions/1") == 1
    assert pair.done("DELETE", f"/subjects/{name}/versions/1?permanent=true") == 1
    assert pair.both(f"/subjects/{name}/versions?deleted=true") == [2]
    assert pair.done("DELETE", f"/subjects/{name}") == [2]
    assert pair.both(f"/subjects?subjectPrefix={name}") == []


def test_paths_of_any_kind_are_forwarded_as_they_are(pair: Pair, unique_name: str) -> None:
    odd = f"{unique_name}%2Fb%20%C3%A9%25"
    pair.done("POST", f"/subjects/{odd}/versions?normalize=true", {"schema": ONE})
    assert pair.both(f"/subjects/{odd}/versions/latest")["subject"] == f"{unique_name}/b é%"
    context = f".{unique_name}"
    assert pair.done("POST", f"/contexts/{context}/subjects/s/versions", {"schema": ONE})["id"] == 1
    assert pair.both(f"/contexts/{context}/subjects") == [f":{context}:s"]
    pair.done("DELETE", f"/contexts/{context}/subjects/s")
    pair.done("DELETE", f"/contexts/{context}/subjects/s?permanent=true")
    assert pair.done("DELETE", f"/contexts/{context}") is None
    assert context not in pair.both("/contexts")


def test_refusals_come_through(pair: Pair, unique_name: str) -> None:
    path = f"/subjects/{unique_name}/versions"
    pair.done("POST", path, {"schema": ONE})
    refusals = [
        (409, pair.asked("POST", path, {"schema": UNFIT})),
        (42201, pair.asked("POST", path, {"schema": "nothing"})),
        (422, pair.asked("POST", path, {"unheard": 1})),
        (400, pair.asked("POST", path, [])),
        (413, pair.asked("POST", path, {"schema": "x" * (2 << 20)})),
        (42202, pair.asked("DELETE", f"{path}/none")),
        (40405, pair.asked("DELETE", f"/subjects/{unique_name}?permanent=true")),
        (42203, pair.asked("PUT", "/config", {"compatibility": "SOMEWHAT"})),
        (42204, pair.asked("PUT", "/mode", {"mode": "SLEEPING"})),
        (415, pair.asked("POST", path, {"schema": ONE}, {"content-type": "text/plain"})),
        (406, pair.asked("POST", path, {"schema": ONE}, {"accept": "text/plain"})),
    ]
    codes = [(wanted, answer.json()["error_code"]) for wanted, answer in refusals]
    # an incompatible schema has the code 409 or 40901, by the version of the API
    assert [found for _, found in codes][1:] == [wanted for wanted, _ in codes][1:]
    assert refusals[0][1].status_code == 409


def test_the_type_that_is_asked_for_comes_back(pair: Pair, unique_name: str) -> None:
    path = f"/subjects/{unique_name}/versions"
    for body, status in (({"schema": ONE}, 200), ({"schema": UNFIT}, 409)):
        answer = pair.asked("POST", path, body, {"accept": "application/json"})
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")


def test_a_client_goes_on_with_the_other_when_one_is_gone(pair: Pair, unique_name: str) -> None:
    gone = "http://127.0.0.1:9"
    with SchemaRegistryClient({"url": f"{gone},{pair.follower.url}", "max.retries": 0}) as client:
        schema_id = client.register_schema(unique_name, Schema(ONE, "AVRO"))
    with SchemaRegistryClient({"url": f"{gone},{pair.primary.url}", "max.retries": 0}) as client:
        assert client.get_schema(schema_id).schema_str == ONE


def test_without_a_primary_producers_still_register_known_schemas(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    own = {"kafkastore.topic": f"_{unique_name}", "schema.registry.group.id": unique_name}
    follower = {**own, "leader.eligibility": "false", "kafkastore.timeout.ms": "1000"}
    with (
        ServiceProcess.start("registry", broker.bootstrap, tmp_path, own) as primary,
        ServiceProcess.start("registry", broker.bootstrap, tmp_path, follower) as other,
    ):
        path = f"{other.url}/subjects/s/versions"
        first = httpx.post(path, json={"schema": ONE}, timeout=30)
        primary.kill()
        again = httpx.post(path, json={"schema": ONE}, timeout=30)
        assert (again.status_code, again.json()) == (200, first.json())
        refused = httpx.post(path, json={"schema": UNFIT}, timeout=30)
        assert refused.status_code == 500 and refused.json()["error_code"] in (50003, 50004)
        assert httpx.get(path).json() == [1]
