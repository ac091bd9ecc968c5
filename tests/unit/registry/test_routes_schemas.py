"""Schemas by id and guid over HTTP, and their listing."""

from __future__ import annotations

import pytest

from ottla.registry.app import registry_application
from support.registry.registry_core import InMemoryRegistry
from support.registry.registry_http import RegistryHttp

STRING, INT, LONG = '"string"', '"int"', '"long"'


@pytest.fixture
def http() -> RegistryHttp:
    return RegistryHttp(registry_application(InMemoryRegistry()))


def test_a_schema_by_its_id(http: RegistryHttp) -> None:
    guid = http.post("/subjects/s/versions", {"schema": STRING})["guid"]
    told = http.get("/schemas/ids/1")
    assert isinstance(told.pop("ts"), int)
    assert told == {"guid": guid, "schemaType": "AVRO", "schema": STRING, "deleted": False}
    in_subject = {**http.get("/schemas/ids/1"), "subject": "s", "version": 1, "id": 1}
    assert http.get("/schemas/ids/1?subject=s") == in_subject
    assert http.get("/schemas/ids/1?fetchMaxId=true")["maxId"] == 1
    assert http.ask("GET", "/schemas/ids/1/schema").text == STRING


def test_the_short_way_and_the_long_way_say_the_same(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": STRING})
    assert http.ask("GET", "/schemas/ids/1").content == http.ask("GET", "/schemas/ids/1?x=y").content


def test_a_deleted_schema_still_has_its_id(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": STRING})
    http.delete("/subjects/s")
    assert http.get("/schemas/ids/1")["deleted"] is True
    http.delete("/subjects/s?permanent=true")
    assert http.refusal("GET", "/schemas/ids/1") == (404, 40403)


@pytest.mark.parametrize("path", ["", "/schema", "/subjects", "/versions"])
def test_ids_that_are_not_there(http: RegistryHttp, path: str) -> None:
    for schema_id in ("0", "2", "-1", "2147483647"):
        assert http.refusal("GET", f"/schemas/ids/{schema_id}{path}") == (404, 40403)
    for text in ("one", "1.0", "2147483648", "9" * 5_000, "%20", "%D9%A3"):
        assert http.refusal("GET", f"/schemas/ids/{text}{path}") == (404, 404)


def test_the_uses_of_an_id_are_told(http: RegistryHttp) -> None:
    for subject in ("b", "a", "c"):
        http.post(f"/subjects/{subject}/versions", {"schema": STRING})
    http.delete("/subjects/c")
    assert http.get("/schemas/ids/1/subjects") == ["a", "b"]
    assert http.get("/schemas/ids/1/subjects?deleted=true") == ["a", "b", "c"]
    assert http.get("/schemas/ids/1/subjects?subject=b") == ["b"]
    assert http.get("/schemas/ids/1/versions?offset=1&limit=1") == [{"subject": "b", "version": 1}]


def test_a_subject_that_uses_an_id_twice_is_named_once(http: RegistryHttp) -> None:
    http.put("/mode/s", {"mode": "IMPORT"})
    for version in (1, 3):
        http.post("/subjects/s/versions", {"schema": STRING, "id": 5, "version": version})
    assert [one["version"] for one in http.get("/schemas/ids/5/versions")] == [1, 3]
    assert http.get("/schemas/ids/5/subjects") == ["s"]


def test_guids_are_the_same_in_all_contexts(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": INT})
    guid = http.post("/subjects/s2/versions", {"schema": STRING})["guid"]
    assert http.post("/contexts/.c/subjects/s/versions", {"schema": STRING})["guid"] == guid
    assert http.get(f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": 2}, {"context": ".c", "id": 1}]
    assert http.get(f"/schemas/guids/{guid}")["schema"] == STRING
    for other in ("none", "00000000-0000-0000-0000-000000000000"):
        assert http.refusal("GET", f"/schemas/guids/{other}") == (404, 40403)
        assert http.refusal("GET", f"/schemas/guids/{other}/ids") == (404, 40403)


def test_all_schemas_are_listed(http: RegistryHttp) -> None:
    http.put("/config", {"compatibility": "NONE"})
    for subject, schema in (("a", STRING), ("a", INT), ("b", LONG)):
        http.post(f"/subjects/{subject}/versions", {"schema": schema})
    http.delete("/subjects/b")
    http.put("/config/other", {"alias": "a"})
    assert [(one["subject"], one["version"]) for one in http.get("/schemas")] == [("a", 1), ("a", 2)]
    assert http.get("/schemas")[0] == http.get("/subjects/a/versions/1")
    assert [one["version"] for one in http.get("/schemas?latestOnly=true")] == [2]
    assert [one["subject"] for one in http.get("/schemas?deleted=true&offset=1")] == ["a", "b"]
    assert [one["subject"] for one in http.get("/schemas?subjectPrefix=b&deleted=true")] == ["b"]
    assert [one["aliases"] for one in http.get("/schemas?aliases=true")] == [["other"], ["other"]]
    assert http.get("/schemas?ruleType=CEL") == []


def test_a_listing_is_never_longer_than_the_limit() -> None:
    settings = {"schema.search.default.limit": "2", "schema.search.max.limit": "3"}
    http = RegistryHttp(registry_application(InMemoryRegistry(settings)))
    for number in range(5):
        http.post(f"/subjects/s{number}/versions", {"schema": STRING})
    lengths = {path: len(http.get(f"/schemas{path}")) for path in ("", "?limit=1", "?limit=9", "?limit=-1")}
    assert lengths == {"": 2, "?limit=1": 1, "?limit=9": 3, "?limit=-1": 3}


def test_the_formats(http: RegistryHttp) -> None:
    assert http.get("/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
