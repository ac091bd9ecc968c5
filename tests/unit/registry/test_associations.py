"""Associations of topics with subjects: strong and weak ones, their schemas, and what they forbid."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.registry.app import registry_application
from ottla.registry.core.image import RegistryImage
from support.registry.registry_core import InMemoryRegistry
from support.registry.registry_http import RegistryHttp

INT, LONG = {"schema": '"int"'}, {"schema": '"long"'}
OWN = ":.ns:orders-value"


@pytest.fixture
def registry() -> InMemoryRegistry:
    return InMemoryRegistry()


@pytest.fixture
def http(registry: InMemoryRegistry) -> RegistryHttp:
    http = RegistryHttp(registry_application(registry))
    http.post("/subjects/shared/versions", INT)
    return http


def body(*associations: dict[str, Any], resource_id: str = "id-1", name: str = "orders") -> dict[str, Any]:
    named = {"resourceName": name, "resourceNamespace": "ns", "resourceId": resource_id}
    return {**named, "associations": list(associations)}


STRONG = {"associationType": "value", "lifecycle": "STRONG", "schema": INT}
WEAK = {"associationType": "value", "lifecycle": "WEAK", "subject": "shared"}


def test_a_strong_association_is_made_with_its_schema_and_is_the_same_again(http: RegistryHttp) -> None:
    told = http.post("/associations", body(STRONG, {**STRONG, "associationType": "key", "schema": LONG}))
    assert [(one["subject"], one["schema"]["version"]) for one in told["associations"]] == [
        (OWN, 1),
        (":.ns:orders-key", 1),
    ]
    assert len({one["schema"]["id"] for one in told["associations"]}) == 2
    (found,) = http.get("/associations/subjects/%3A.ns%3Aorders-value")
    assert found == {
        "subject": OWN,
        "guid": found["guid"],
        "resourceName": "orders",
        "resourceNamespace": "ns",
        "resourceId": "id-1",
        "resourceType": "topic",
        "associationType": "value",
        "lifecycle": "STRONG",
        "frozen": True,
        "createTs": found["createTs"],
        "updateTs": found["updateTs"],
    }
    http.post("/associations", body(STRONG))
    assert http.get("/associations/subjects/%3A.ns%3Aorders-value") == [found]
    assert len(http.get("/associations/resources/id-1")) == 2
    assert http.get("/associations/resources/id-1?associationType=value") == [found]
    for path in ("ns/orders", "ns/-", "-/orders", "-/-"):
        assert found in http.get(f"/associations/resources/{path}")
    assert http.get("/associations/resources/other/orders") == []
    assert http.get("/associations/resources/id-1?lifecycle=WEAK") == []


def test_a_restart_reads_the_associations_back(http: RegistryHttp, registry: InMemoryRegistry) -> None:
    http.post("/associations", body(STRONG))
    http.post("/associations", body(WEAK, resource_id="id-2", name="other"))
    assert http.ask("DELETE", "/associations/resources/id-2").status_code == 204
    image = RegistryImage()
    for record, timestamp_ms in registry.records:
        image.replay(record.key, record.value, timestamp_ms)
    assert sorted(map(repr, image.associations())) == sorted(map(repr, registry.image.associations()))
    assert [one.resource_id for one in image.associations()] == ["id-1"]


def test_a_key_is_in_the_order_of_confluent_s() -> None:
    registry = InMemoryRegistry()
    http = RegistryHttp(registry_application(registry))
    http.post("/associations", body(STRONG))
    assert registry.records[-1][0].key == (
        b'{"keytype":"ASSOC","tenant":"default","resourceName":"orders","resourceNamespace":"ns",'
        b'"resourceType":"topic","associationType":"value","subject":":.ns:orders-value","magic":0}'
    )


def test_weak_associations_share_a_subject_and_are_changed(http: RegistryHttp) -> None:
    http.post("/associations", body(WEAK))
    http.put("/associations/resources/id-2", body(WEAK, resource_id="id-2", name="other"))
    assert len(http.get("/associations/subjects/shared")) == 2
    # the last active version of its subject can't be deleted
    assert http.refusal("DELETE", "/subjects/shared") == (409, 40907)
    assert http.refusal("DELETE", "/subjects/shared/versions/1") == (409, 40907)
    for resource_id in ("id-1", "id-2"):
        assert http.ask("DELETE", f"/associations/resources/{resource_id}").status_code == 204
    assert http.delete("/subjects/shared") == [1]
    assert http.refusal("DELETE", "/associations/resources/id-1") == (404, 40410)


@pytest.mark.parametrize(
    ("association", "refusal"),
    [
        ({**WEAK, "schema": INT}, (422, 42212)),
        ({**WEAK, "subject": None}, (422, 42212)),
        ({**WEAK, "subject": "nothing"}, (409, 40907)),
        ({**WEAK, "subject": OWN}, (422, 42212)),
        ({**WEAK, "frozen": True}, (422, 42212)),
        ({**STRONG, "schema": None}, (422, 42212)),
        ({**STRONG, "subject": "shared"}, (422, 42212)),
        ({**STRONG, "frozen": False}, (422, 42212)),
        ({**STRONG, "associationType": "header"}, (422, 42212)),
        ({**STRONG, "lifecycle": "EVER"}, (422, 42212)),
        ({**STRONG, "schema": {"schema": "{"}}, (422, 42201)),
    ],
)
def test_an_association_that_can_t_be_is_refused_and_leaves_nothing(
    http: RegistryHttp, registry: InMemoryRegistry, association: dict[str, Any], refusal: tuple[int, int]
) -> None:
    before = len(registry.records)
    assert http.refusal("POST", "/associations", body(association)) == refusal
    assert len(registry.records) == before


@pytest.mark.parametrize(
    "request_body",
    [
        {},
        body(),
        body(WEAK, WEAK),
        {**body(WEAK), "resourceName": ""},
        {**body(WEAK), "resourceType": "connector"},
        {**body(WEAK), "resourceId": None},
    ],
)
def test_a_request_without_its_parts_is_refused(http: RegistryHttp, request_body: dict[str, Any]) -> None:
    assert http.refusal("POST", "/associations", request_body) == (422, 42212)


def test_a_subject_of_a_strong_association_is_its_topic_s_own(http: RegistryHttp) -> None:
    http.post("/associations", body(STRONG))
    assert http.refusal("POST", "/associations", body({**STRONG, "schema": LONG})) == (409, 40903)
    assert http.refusal(
        "PUT", "/associations/resources/id-1", body({"lifecycle": "WEAK", "subject": "shared"})
    ) == (
        422,
        42212,
    )
    other = body({**WEAK, "subject": OWN}, resource_id="id-2", name="other")
    assert http.refusal("POST", "/associations", other) == (409, 40905)
    reference = {"name": "x", "subject": OWN, "version": 1}
    array = {"schema": '{"type":"array","items":"int"}', "references": [reference]}
    assert http.refusal("POST", "/subjects/t/versions", array) == (422, 42205)
    assert http.refusal("DELETE", "/associations/resources/id-1") == (409, 40908)
    assert http.ask("DELETE", "/associations/resources/id-1?cascadeLifecycle=true").status_code == 204
    assert http.get("/subjects?deleted=true&subjectPrefix=%3A.ns%3A") == []


def test_a_dry_run_changes_nothing(http: RegistryHttp, registry: InMemoryRegistry) -> None:
    before = len(registry.records)
    assert http.post("/associations?dryRun=true", body(STRONG))["associations"] == []
    assert http.refusal("POST", "/associations?dryRun=true", body({**WEAK, "subject": "nothing"})) == (
        409,
        40907,
    )
    assert len(registry.records) == before
    http.post("/associations", body(WEAK))
    assert http.ask("DELETE", "/associations/resources/id-1?dryRun=true").status_code == 204
    assert len(http.get("/associations/resources/id-1")) == 1


def test_batches(http: RegistryHttp) -> None:
    requests = [
        body({"opType": "CREATE", **STRONG}, {"opType": "CREATE", **STRONG, "associationType": "key"}),
        body({"opType": "CREATE", **WEAK, "subject": "nothing"}, resource_id="id-2", name="other"),
        body({"opType": "UPSERT", **WEAK}, resource_id="id-3", name="third"),
    ]
    answered = http.ask("POST", "/associations:batchMutate", {"requests": requests})
    assert answered.status_code == 207
    first, second, third = answered.json()["results"]
    assert [one["associationType"] for one in first["result"]["associations"]] == ["key", "value"]
    assert second["error"]["error_code"] == 40907
    assert len(third["result"]["associations"]) == 1
    asked = [
        {"resourceId": "id-1"},
        {"resourceName": "third", "resourceNamespace": "ns"},
        {"resourceId": "no"},
    ]
    found = http.ask("POST", "/associations:batchGet?includeSchemas=true", {"requests": asked}).json()[
        "results"
    ]
    assert [len(one["result"]["associations"]) for one in found] == [2, 1, 0]
    assert found[0]["result"]["associations"][1]["schema"]["schema"] == '"int"'
    gone = body({"opType": "DELETE", "associationType": "value", "cascadeLifecycle": True})
    answered = http.ask("POST", "/associations:batchMutate", {"requests": [gone]})
    assert len(answered.json()["results"][0]["result"]["associations"]) == 1


def test_they_can_be_switched_off() -> None:
    http = RegistryHttp(registry_application(InMemoryRegistry({"associations.enable": "false"})))
    assert http.refusal("GET", "/associations/resources/x") == (404, 404)
