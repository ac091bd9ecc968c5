"""Checks of compatibility over HTTP, for each level."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.registry.app import registry_application
from support.registry.registry_core import InMemoryRegistry
from support.registry.registry_http import RegistryHttp


def record(**fields: Any) -> str:
    """A record with these fields; one of a value has it as its default."""
    told = [
        {"name": name, "type": "int", **({} if default is None else {"default": default})}
        for name, default in fields.items()
    ]
    return json.dumps({"type": "record", "name": "R", "fields": told}, separators=(",", ":"))


A, AB, AB_DEFAULT = record(a=None), record(a=None, b=None), record(a=None, b=0)
PATH = "/compatibility/subjects/s/versions"


@pytest.fixture
def http() -> RegistryHttp:
    return RegistryHttp(registry_application(InMemoryRegistry()))


@pytest.mark.parametrize(
    ("level", "kept", "checked", "fits"),
    [
        ("NONE", [A], '"int"', True),
        ("BACKWARD", [A], AB_DEFAULT, True),
        ("BACKWARD", [A], AB, False),
        ("BACKWARD", [A, AB_DEFAULT], AB, True),
        ("BACKWARD_TRANSITIVE", [A, AB_DEFAULT], AB, False),
        ("BACKWARD_TRANSITIVE", [A, AB_DEFAULT], A, True),
        ("FORWARD", [A], AB, True),
        ("FORWARD", [AB], A, False),
        ("FORWARD", [AB, AB_DEFAULT], A, True),
        ("FORWARD_TRANSITIVE", [AB, AB_DEFAULT], A, False),
        ("FORWARD_TRANSITIVE", [A], AB, True),
        ("FULL", [A], AB_DEFAULT, True),
        ("FULL", [A], AB, False),
        ("FULL", [AB], A, False),
        ("FULL", [AB, AB_DEFAULT], A, True),
        ("FULL_TRANSITIVE", [AB, AB_DEFAULT], A, False),
        ("FULL_TRANSITIVE", [A, AB_DEFAULT], A, True),
    ],
)
def test_by_the_level(http: RegistryHttp, level: str, kept: list[str], checked: str, fits: bool) -> None:
    http.put("/config/s", {"compatibility": "NONE"})
    for schema in kept:
        http.post("/subjects/s/versions", {"schema": schema})
    http.put("/config/s", {"compatibility": level})
    assert http.post(PATH, {"schema": checked}) == {"is_compatible": fits}
    verbose = http.post(f"{PATH}?verbose=true", {"schema": checked})
    assert verbose["is_compatible"] is fits and (verbose["messages"] == []) is fits
    registered = http.ask("POST", "/subjects/s/versions", {"schema": checked})
    assert (registered.status_code == 200) is fits
    assert http.get("/subjects/s/versions") == list(range(1, len(kept) + 1 + (fits and checked not in kept)))


def test_against_one_version(http: RegistryHttp) -> None:
    for schema in (A, AB_DEFAULT):
        http.post("/subjects/s/versions", {"schema": schema})
    fits = {version: http.post(f"{PATH}/{version}", {"schema": AB}) for version in ("1", "2", "latest")}
    assert [found["is_compatible"] for found in fits.values()] == [False, True, True]
    assert http.refusal("POST", f"{PATH}/3", {"schema": AB}) == (404, 40402)


def test_any_schema_fits_a_subject_without_versions(http: RegistryHttp) -> None:
    assert http.post(PATH, {"schema": A}) == {"is_compatible": True}
    assert http.post(f"{PATH}/latest", {"schema": A}) == {"is_compatible": True}
    assert http.refusal("POST", f"{PATH}/1", {"schema": A}) == (404, 40402)


def test_verbose_answers_have_reasons(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": A})
    messages = http.post(f"{PATH}/latest?verbose=true", {"schema": AB})["messages"]
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in messages[0]
    assert messages[-2:] == [f"{{oldSchema: '{A}'}}", "{validateFields: 'false', compatibility: 'BACKWARD'}"]


def test_an_invalid_schema_is_a_reason_if_reasons_are_asked_for(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": A})
    for path in (PATH, f"{PATH}/latest"):
        assert http.refusal("POST", path, {"schema": "nothing"}) == (422, 42201)
        told = http.post(f"{path}?verbose=true", {"schema": "nothing"})
        assert told["is_compatible"] is False and len(told["messages"]) == 1


def test_another_format_does_not_fit(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": A})
    assert http.post(PATH, {"schema": "{}", "schemaType": "JSON"}) == {"is_compatible": False}
