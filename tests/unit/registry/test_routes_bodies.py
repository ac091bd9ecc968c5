"""Malformed bodies: each gets the right code, and a message that says why."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.registry.app import registry_application
from support.registry.registry_core import InMemoryRegistry
from support.registry.registry_http import RegistryHttp, refused

AVRO = '"string"'
WITH_SCHEMAS = ["/subjects/s/versions", "/subjects/s", "/compatibility/subjects/s/versions"]


@pytest.fixture
def http() -> RegistryHttp:
    http = RegistryHttp(registry_application(InMemoryRegistry()))
    http.post("/subjects/s/versions", {"schema": AVRO})
    return http


@pytest.mark.parametrize("path", [*WITH_SCHEMAS, "/compatibility/subjects/s/versions/latest"])
@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b"", 422, "must not be empty"),
        (b" \n", 422, "must not be empty"),
        (b"null", 422, "must not be null"),
        (b"{", 400, "not JSON"),
        (b"\xff\xfe", 400, "not JSON"),
        (b'{"schema": "\xff"}', 400, "not JSON"),
        (b'{"schema": "\\ud800"}', 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        (b"[]", 400, "must be an object"),
        (b'"text"', 400, "must be an object"),
        (b"7", 400, "must be an object"),
        (b'{"type": "string"}', 422, "Unrecognized field: type"),
    ],
)
def test_a_body_that_is_no_request_is_refused(
    http: RegistryHttp, path: str, content: bytes, code: int, message: str
) -> None:
    answer = http.ask("POST", path, content=content)
    assert (answer.status_code, refused(answer)["error_code"]) == (code, code)
    assert message in answer.json()["message"]


@pytest.mark.parametrize(
    ("path", "body"), [("/config/s", {"x": 1}), ("/config", []), ("/mode", {"Mode": "A"})]
)
def test_a_malformed_configuration_or_mode_is_refused(http: RegistryHttp, path: str, body: Any) -> None:
    assert http.refusal("PUT", path, body) in ((400, 400), (422, 422))
    assert refused(http.ask("PUT", path, content=b""))["error_code"] == 422
    assert refused(http.ask("PUT", path, content=b"}"))["error_code"] == 400


@pytest.mark.parametrize("path", WITH_SCHEMAS)
@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"schema": {"type": "string"}}, 400, 400),
        ({"schema": 7}, 400, 400),
        ({"schemaType": 7}, 400, 400),
        ({"schemaType": []}, 400, 400),
        ({"schemaType": "XML"}, 422, 42201),
        ({"references": {}}, 400, 400),
        ({"references": [7]}, 400, 400),
        ({"references": [{"name": "a"}]}, 400, 400),
        ({"references": [{"name": "a", "subject": "s", "version": "one"}]}, 400, 400),
        ({"references": [{"name": "a", "subject": "missing", "version": 1}]}, 422, 42201),
        ({"metadata": []}, 400, 400),
        ({"metadata": {"properties": [1]}}, 400, 400),
        ({"metadata": {"tags": {"a": "b"}}}, 400, 400),
        ({"ruleSet": "none"}, 400, 400),
        ({"ruleSet": {"domainRules": [{"doc": "no name"}]}}, 400, 400),
        ({"id": "seven"}, 400, 400),
        ({"version": 2**31}, 400, 400),
        ({"version": True}, 400, 400),
        ({"schemaTagsToAdd": ["x"]}, 400, 400),
        ({"schema": "no schema"}, 422, 42201),
        ({"schema": '{"type":"nothing"}'}, 422, 42201),
        ({"schema": "["}, 422, 42201),
        ({"schema": "", "schemaType": "JSON"}, 422, 42201),
        ({"schema": "{", "schemaType": "JSON"}, 422, 42201),
        ({"schema": "message", "schemaType": "PROTOBUF"}, 422, 42201),
    ],
)
def test_fields_of_wrong_kinds(
    http: RegistryHttp, path: str, fields: dict[str, Any], status: int, code: int
) -> None:
    assert http.refusal("POST", path, {"schema": AVRO, **fields}) == (status, code)
    assert http.get("/schemas/ids/1")["schema"] == AVRO
    assert http.get("/subjects/s/versions") == [1]


def test_a_client_may_say_that_it_knows_more(http: RegistryHttp) -> None:
    body = {"schema": AVRO, "unheard": {"of": 1}}
    config = {"compatibility": "FULL", "unheard": 1}
    for said, status in (("true", 200), ("True", 200), ("false", 422), ("", 422)):
        headers = {"Confluent-Accept-Unknown-Properties": said}
        assert http.ask("POST", "/subjects/s/versions", body, headers).status_code == status
        assert http.ask("PUT", "/config/s", config, headers).status_code == status


def test_a_body_that_is_too_large_is_not_read(http: RegistryHttp) -> None:
    answer = http.ask("POST", "/subjects/s/versions", {"schema": " " * (1 << 20)})
    assert refused(answer)["error_code"] == 413


def test_an_answer_can_be_sent_back(http: RegistryHttp) -> None:
    told = http.get("/subjects/s/versions/1")
    assert http.post("/subjects/s", told) == told
    assert http.post("/subjects/s/versions", told)["id"] == told["id"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/subjects/s/versions", {"schema": AVRO, "ruleSet": {"domainRule": []}}, "ruleSet.domainRule"),
        (
            "/subjects/s/versions",
            {"schema": AVRO, "ruleSet": {"domainRules": [{"name": "a"}, {"name": "b", "expression": "x"}]}},
            "ruleSet.domainRules.expression",
        ),
        ("/subjects/s/versions", {"schema": AVRO, "metadata": {"property": {}}}, "metadata.property"),
        (
            "/subjects/s/versions",
            {"schema": AVRO, "references": [{"name": "a", "subject": "b", "versions": 1}]},
            "references.versions",
        ),
        ("/subjects/s", {"schema": AVRO, "ruleSet": {"rules": []}}, "ruleSet.rules"),
        ("/subjects/s/versions/1/tags", {"rulesToMerge": {"domain": []}}, "rulesToMerge.domain"),
        ("/subjects/s/versions/1/tags", {"schemaTagsToAdd": []}, "schemaTagsToAdd"),
    ],
)
def test_a_field_that_no_rule_or_metadata_has_is_refused(
    http: RegistryHttp, path: str, body: dict[str, Any], field: str
) -> None:
    refused = http.ask("POST", path, body)
    assert (refused.status_code, refused.json()["message"]) == (422, f"Unrecognized field: {field}")
    answered = http.ask("POST", path, body, headers={"confluent-accept-unknown-properties": "true"})
    assert "Unrecognized" not in answered.text


def test_the_keys_of_properties_tags_and_parameters_are_free(http: RegistryHttp) -> None:
    rule = {"name": "a", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "params": {"any thing": "1"}}
    body = {
        "schema": AVRO,
        "metadata": {"properties": {"any": "thing"}, "tags": {"**.ssn": ["PII"]}, "sensitive": ["any"]},
        "ruleSet": {"domainRules": [rule], "enableAt": "CLIENT_SIDE"},
    }
    assert http.post("/subjects/s/versions", body)["ruleSet"]["domainRules"][0]["params"] == {
        "any thing": "1"
    }
