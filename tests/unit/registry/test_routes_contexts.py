"""Contexts, and the registry's identity and state, over HTTP."""

from __future__ import annotations

import pytest

from ottla import __version__
from ottla.registry.app import registry_application
from support.registry.registry_core import InMemoryRegistry
from support.registry.registry_http import RegistryHttp

STRING, INT = '"string"', '"int"'


@pytest.fixture
def http() -> RegistryHttp:
    return RegistryHttp(registry_application(InMemoryRegistry()))


def test_a_context_has_subjects_and_ids_of_its_own(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": STRING})
    http.post("/subjects/t/versions", {"schema": INT})
    assert http.post("/contexts/.c/subjects/s/versions", {"schema": INT})["id"] == 1
    assert http.get("/contexts") == [".", ".c"]
    assert http.get("/contexts?contextPrefix=.c") == [".c"]
    assert http.get("/contexts?offset=1&limit=1") == [".c"]
    assert http.get("/contexts/.c/subjects") == [":.c:s"]
    assert http.get("/contexts/%3A.%3A/subjects") == ["s", "t"]
    assert http.get("/contexts/.c/schemas/ids/1")["schema"] == INT
    assert http.get("/schemas/ids/1")["schema"] == STRING
    assert http.get("/schemas/ids/1?subject=%3A.c%3A")["schema"] == INT
    assert http.get("/subjects/%3A.c%3As/versions/1") == http.get("/contexts/:.c:/subjects/s/versions/1")
    assert [one["subject"] for one in http.get("/contexts/.c/schemas")] == [":.c:s"]


def test_a_context_has_a_config_and_a_mode_of_its_own(http: RegistryHttp) -> None:
    http.put("/contexts/.c/config", {"compatibility": "FULL"})
    http.put("/contexts/.c/mode", {"mode": "READONLY"})
    assert http.get("/config") == {"compatibilityLevel": "BACKWARD", "compatibility": "BACKWARD"}
    assert http.get("/config/%3A.c%3A") == {"compatibilityLevel": "FULL", "compatibility": "FULL"}
    assert http.get("/config/%3A.c%3As?defaultToGlobal=true") == {
        "compatibilityLevel": "FULL",
        "compatibility": "FULL",
    }
    assert http.refusal("POST", "/contexts/.c/subjects/s/versions", {"schema": INT}) == (422, 42205)
    assert http.post("/subjects/s/versions", {"schema": INT})["id"] == 1


def test_an_empty_context_can_be_deleted(http: RegistryHttp) -> None:
    http.post("/contexts/.c/subjects/s/versions", {"schema": STRING})
    assert http.refusal("DELETE", "/contexts/.c") == (422, 42211)
    http.delete("/contexts/.c/subjects/s")
    http.delete("/contexts/.c/subjects/s?permanent=true")
    answer = http.ask("DELETE", "/contexts/.c")
    assert (answer.status_code, answer.content) == (204, b"")
    assert http.get("/contexts") == ["."]
    http.put("/contexts/.d/config", {"compatibility": "FULL"})
    statuses = [http.ask("DELETE", f"/contexts/{name}").status_code for name in ("%3A.d%3A", ".d")]
    assert statuses == [204, 404]


def test_the_default_context_has_two_names(http: RegistryHttp) -> None:
    http.post("/subjects/%3A.%3As/versions", {"schema": STRING})
    assert http.get("/subjects") == ["s"]
    assert http.get("/subjects/%3A.%3As/versions") == http.get("/subjects/s/versions") == [1]


def test_which_registry_this_is(http: RegistryHttp) -> None:
    assert http.get("/") == {}
    scope = http.get("/v1/metadata/id")["scope"]
    assert scope["path"] == [] and scope["clusters"]["schema-registry-cluster"] == "schema-registry"
    assert scope["clusters"]["kafka-cluster"]
    assert http.get("/v1/metadata/version") == {"version": "8.0.0", "commitId": f"ottla {__version__}"}
