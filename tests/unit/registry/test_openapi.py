"""The registry's OpenAPI document: valid, and of exactly the requests that are answered."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from ottla.registry.app import key_operations_of, operations_of, registry_application
from ottla.registry.openapi import openapi_document
from support.registry.registry_core import InMemoryRegistry
from support.registry.registry_http import RegistryHttp

DOCUMENT = openapi_document()
SCHEMA = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
RULES = {"domainRules": [{"name": "a", "kind": "CONDITION", "mode": "WRITE", "type": "CEL"}]}


@pytest.fixture
def http() -> RegistryHttp:
    http = RegistryHttp(registry_application(InMemoryRegistry({"ottla.local.kms.secret": "a"})))
    http.post("/dek-registry/v1/keks", KEK)
    http.post("/dek-registry/v1/keks/k/deks/s", {})
    http.post(
        "/subjects/s/versions", {"schema": SCHEMA, "ruleSet": RULES, "metadata": {"properties": {"a": "b"}}}
    )
    reference = {"name": "R", "subject": "s", "version": 1}
    http.post("/subjects/t/versions", {"schema": '{"type":"array","items":"R"}', "references": [reference]})
    http.put("/config/s", {"compatibility": "FULL", "compatibilityPolicy": "LENIENT", "alias": "t"})
    http.put("/config/s", {"alias": None})
    http.put("/mode/s", {"mode": "READWRITE"})
    http.post("/associations", {**RESOURCE, "associations": [WEAK]})
    return http


def test_the_document_is_valid() -> None:
    validate(DOCUMENT)


def test_every_route_is_in_the_document_and_the_other_way_round() -> None:
    registry = InMemoryRegistry()
    operations = (*operations_of(registry), *key_operations_of(registry))
    routed = {(each.method, each.path) for each in operations}
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == routed | {("GET", "/openapi.json"), ("GET", "/docs")}


def test_every_schema_that_is_spoken_of_is_there_and_the_other_way_round() -> None:
    spoken = set(re.findall(r"'#/components/schemas/(\w+)'", str(DOCUMENT)))
    assert spoken == set(DOCUMENT["components"]["schemas"])


def holds(method: str, path: str, answer: Any) -> None:
    """Whether the answer is as the document says, closed against further fields."""
    assert answer.status_code in (200, 207), answer.text
    content = DOCUMENT["paths"][path][method]["responses"][str(answer.status_code)]["content"]
    assert answer.headers["content-type"] in content
    if path.endswith("/schema"):
        return
    components = _closed(DOCUMENT["components"])
    schema = content[answer.headers["content-type"]]["schema"]
    OAS31Validator({**_closed(schema), "components": components}).validate(answer.json())


def _closed(value: Any) -> Any:
    """The schemas without fields that they do not name, so that a test finds those that are missing."""
    if isinstance(value, list):
        return [_closed(one) for one in value]
    if not isinstance(value, dict):
        return value
    closed = {name: _closed(one) for name, one in value.items()}
    if value.get("type") == "object" and isinstance(value.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed


KEK = {
    "name": "k",
    "kmsType": "local-kms",
    "kmsKeyId": "id",
    "shared": True,
    "doc": "a",
    "kmsProps": {"a": "b"},
}
NAMES = {
    "kek": "k",
    "subject": "s",
    "version": "1",
    "id": "1",
    "namespace": "ns",
    "name": "orders",
    "resource_id": "id-1",
}
WEAK = {"associationType": "key", "lifecycle": "WEAK", "subject": "s"}
STRONG = {"associationType": "value", "lifecycle": "STRONG", "schema": {"schema": '"int"'}}
RESOURCE = {"resourceName": "orders", "resourceNamespace": "ns", "resourceId": "id-1"}
OTHER = {"resourceName": "other", "resourceNamespace": "ns", "resourceId": "id-2", "associations": [STRONG]}
CREATE = {**OTHER, "associations": [{"opType": "CREATE", **STRONG}]}


@pytest.mark.parametrize(
    "path", sorted(p for p, m in DOCUMENT["paths"].items() if "get" in m and p != "/docs")
)
def test_answers_to_reads_are_as_the_document_says(http: RegistryHttp, path: str) -> None:
    guid = http.get("/schemas/ids/1")["guid"]
    query = "" if "{id}" not in path else "?subject=s&fetchMaxId=true&findTags=*"
    holds("get", path, http.ask("GET", path.format(**NAMES, guid=guid) + query))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/subjects/{subject}", {"schema": SCHEMA}),
        ("POST", "/subjects/{subject}/versions", {"schema": SCHEMA}),
        ("POST", "/subjects/{subject}/versions/{version}/tags", {"newVersion": 2, "rulesToRemove": ["a"]}),
        ("POST", "/compatibility/subjects/{subject}/versions", {"schema": '"int"'}),
        ("POST", "/compatibility/subjects/{subject}/versions/{version}", {"schema": '"int"'}),
        ("POST", "/associations", OTHER),
        ("PUT", "/associations/resources/{resource_id}", {**RESOURCE, "associations": [WEAK]}),
        ("POST", "/associations:batchGet", {"requests": [{"resourceId": "id-1"}]}),
        ("POST", "/associations:batchMutate", {"requests": [CREATE, {**CREATE, "resourceId": "id-3"}]}),
        ("POST", "/dek-registry/v1/keks", {**KEK, "name": "l"}),
        ("PUT", "/dek-registry/v1/keks/{kek}", {"doc": "b"}),
        ("POST", "/dek-registry/v1/keks/{kek}/test", None),
        ("POST", "/dek-registry/v1/keks/{kek}/deks", {"subject": "t", "algorithm": "AES256_SIV"}),
        ("POST", "/dek-registry/v1/keks/{kek}/deks/{subject}", {"version": 2}),
        ("PUT", "/config", {"compatibility": "NONE"}),
        ("PUT", "/config/{subject}", {"normalize": True, "defaultRuleSet": RULES}),
        ("DELETE", "/config/{subject}", None),
        ("PUT", "/mode", {"mode": "READONLY"}),
        ("DELETE", "/mode/{subject}", None),
        ("DELETE", "/subjects/{subject}/versions/{version}", None),
    ],
)
def test_answers_to_writes_are_as_the_document_says(
    http: RegistryHttp, method: str, path: str, body: dict[str, Any] | None
) -> None:
    names = {**NAMES, "subject": "t"} if method == "DELETE" and "versions" in path else NAMES
    query = "?verbose=true" if path.startswith("/compat") else ""
    if body is not None:
        content = DOCUMENT["paths"][path][method.lower()]["requestBody"]["content"]
        OAS31Validator(
            {**content["application/json"]["schema"], "components": _closed(DOCUMENT["components"])}
        ).validate(body)
    holds(method.lower(), path, http.ask(method, path.format(**names) + query, body))


def test_the_page_is_there_for_a_browser(http: RegistryHttp) -> None:
    answer = http.ask("GET", "/docs", headers={"accept": "text/html"})
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            assert f'id="{operation["operationId"]}"' in answer.text
