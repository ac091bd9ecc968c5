"""Configs and modes over HTTP, of subjects, contexts and the whole registry."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.registry.app import registry_application
from ottla.registry.core.records import Mode
from ottla.schemas.model import CompatibilityLevel
from support.registry.registry_core import InMemoryRegistry
from support.registry.registry_http import RegistryHttp


@pytest.fixture
def http() -> RegistryHttp:
    return RegistryHttp(registry_application(InMemoryRegistry()))


@pytest.mark.parametrize("path", ["/config", "/config/s", "/config/%3A.c%3A"])
@pytest.mark.parametrize("level", CompatibilityLevel)
def test_a_level_is_put_under_one_name_and_got_under_another(
    http: RegistryHttp, path: str, level: CompatibilityLevel
) -> None:
    assert http.put(path, {"compatibility": level}) == {"compatibility": level}
    assert http.get(path) == {"compatibilityLevel": level, "compatibility": level}
    assert http.delete(path) == {"compatibilityLevel": level, "compatibility": level}


def test_a_subject_without_a_config(http: RegistryHttp) -> None:
    assert http.get("/config") == {"compatibilityLevel": "BACKWARD", "compatibility": "BACKWARD"}
    assert http.refusal("GET", "/config/s") == (404, 40408)
    assert http.get("/config/s?defaultToGlobal=true") == {
        "compatibilityLevel": "BACKWARD",
        "compatibility": "BACKWARD",
    }
    assert http.refusal("DELETE", "/config/s") == (404, 40401)


def test_put_settings_are_merged(http: RegistryHttp) -> None:
    rule = {
        "name": "r",
        "kind": "CONDITION",
        "mode": "WRITE",
        "type": "CEL",
        "expr": "true",
        "disabled": False,
    }
    fields: dict[str, Any] = {
        "alias": "t",
        "normalize": True,
        "compatibilityGroup": "major",
        "defaultMetadata": {"properties": {"owner": "me"}},
        "overrideRuleSet": {"domainRules": [rule]},
    }
    assert http.put("/config/s", {"compatibility": "FULL"}) == {"compatibility": "FULL"}
    assert http.put("/config/s", fields) == fields
    assert http.get("/config/s") == {**fields, "compatibilityLevel": "FULL", "compatibility": "FULL"}
    http.put("/config/s", {"compatibilityLevel": "NONE", "alias": None})
    assert http.get("/config/s")["compatibilityLevel"] == "NONE"
    assert "alias" not in http.get("/config/s")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"compatibility": "SOMEWHAT"}, 42203),
        ({"compatibilityPolicy": "HARSH"}, 42203),
        ({"normalize": "perhaps"}, 42203),
        ({"alias": 7}, 42203),
        ({"defaultMetadata": 7}, 42203),
    ],
)
def test_a_body_that_is_no_config_is_refused(http: RegistryHttp, body: dict[str, Any], code: int) -> None:
    assert http.refusal("PUT", "/config/s", body) == (422, code)
    assert http.refusal("GET", "/config/s") == (404, 40408)


@pytest.mark.parametrize("field", ["compatibility", "compatibilityLevel", "compatibilityPolicy"])
@pytest.mark.parametrize("value", [7, [], {}, True])
def test_a_field_that_is_no_text_is_refused(http: RegistryHttp, field: str, value: Any) -> None:
    assert http.refusal("PUT", "/config/s", {field: value}) == (400, 400)


@pytest.mark.parametrize("path", ["/mode", "/mode/s", "/mode/%3A.c%3A"])
@pytest.mark.parametrize("mode", ["READONLY", "READWRITE", "IMPORT"])
def test_a_mode(http: RegistryHttp, path: str, mode: str) -> None:
    assert http.put(path, {"mode": mode}) == {"mode": mode}
    assert http.get(path) == {"mode": mode}
    assert http.delete(path) == {"mode": mode}


def test_a_subject_without_a_mode(http: RegistryHttp) -> None:
    assert http.get("/mode") == {"mode": "READWRITE"}
    assert http.refusal("GET", "/mode/s") == (404, 40409)
    assert http.get("/mode/s?defaultToGlobal=true") == {"mode": "READWRITE"}


@pytest.mark.parametrize("body", [{}, {"mode": None}, {"mode": "read write"}, {"mode": "SLEEPING"}])
def test_a_body_that_is_no_mode_is_refused(http: RegistryHttp, body: dict[str, Any]) -> None:
    assert http.refusal("PUT", "/mode/s", body) == (422, 42204)


def test_nothing_is_registered_in_a_registry_that_is_read_only(http: RegistryHttp) -> None:
    http.put("/mode", {"mode": "READONLY"})
    assert http.refusal("POST", "/subjects/s/versions", {"schema": '"int"'}) == (422, 42205)
    assert http.get("/subjects") == []


def test_an_import_keeps_ids(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": '"int"'})
    assert http.refusal("PUT", "/mode/s", {"mode": "IMPORT"}) == (422, 42205)
    assert http.put("/mode/s?force=true", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    http.put("/mode/t", {"mode": "IMPORT"})
    told = http.post("/subjects/t/versions", {"schema": '"long"', "id": 70, "version": 7})
    assert (told["id"], told["version"]) == (70, 7)
    assert http.get("/schemas/ids/70")["schema"] == '"long"'


@pytest.mark.parametrize("level", CompatibilityLevel)
def test_a_level_may_be_in_lower_case(http: RegistryHttp, level: CompatibilityLevel) -> None:
    for name in ("compatibility", "compatibilityLevel"):
        assert http.put("/config/s", {name: level.lower()}) == {"compatibility": level}
    assert http.get("/config/s")["compatibilityLevel"] == level
    assert http.put("/config/s", {"compatibilityPolicy": "lenient"}) == {"compatibilityPolicy": "LENIENT"}


@pytest.mark.parametrize("mode", Mode)
def test_a_mode_may_be_in_lower_case(http: RegistryHttp, mode: Mode) -> None:
    assert http.put("/mode/s", {"mode": mode.lower()}) == {"mode": mode}
    assert http.get("/mode/s") == {"mode": mode}
