"""Subjects and versions over HTTP: paths, parameters and the shapes of answers."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import orjson
import pytest

from ottla.registry.app import registry_application
from support.registry.registry_core import InMemoryRegistry
from support.registry.registry_http import RegistryHttp

ONE = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
TWO = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":0}]}'
)
UNFIT = '{"type":"record","name":"R","fields":[{"name":"c","type":"int"}]}'


@pytest.fixture
def http() -> RegistryHttp:
    return RegistryHttp(registry_application(InMemoryRegistry()))


def test_a_registration_is_answered_with_the_fields_that_clients_of_version_8_read(
    http: RegistryHttp,
) -> None:
    told = http.post("/subjects/s/versions", {"schema": ONE})
    guid = told.pop("guid")
    assert told == {"id": 1, "version": 1, "schemaType": "AVRO", "schema": ONE}
    assert http.get(f"/schemas/guids/{guid}")["schema"] == ONE
    assert http.post("/subjects/other/versions", {"schema": ONE})["id"] == 1


def test_a_version_is_told_in_full(http: RegistryHttp) -> None:
    metadata = {"tags": {"R.a": ["PII"]}, "properties": {"owner": "me"}, "sensitive": ["owner"]}
    rule = {
        "name": "r",
        "kind": "CONDITION",
        "mode": "WRITE",
        "type": "CEL",
        "expr": "true",
        "disabled": False,
    }
    wanted = {"schema": ONE, "metadata": metadata, "ruleSet": {"domainRules": [rule]}}
    http.post("/subjects/s/versions", wanted)
    told = http.get("/subjects/s/versions/1")
    assert told["metadata"] == metadata and told["ruleSet"] == {"domainRules": [rule]}
    assert isinstance(told.pop("ts"), int) and len(told.pop("guid")) == 36
    assert told == {
        **wanted, "subject": "s", "version": 1, "id": 1, "schemaType": "AVRO", "deleted": False,
    }  # fmt: skip


def test_versions_are_named_by_number_or_latest(http: RegistryHttp) -> None:
    for schema in (ONE, TWO):
        http.post("/subjects/s/versions", {"schema": schema})
    assert http.get("/subjects/s/versions") == [1, 2]
    assert [http.get(f"/subjects/s/versions/{name}")["version"] for name in ("1", "2", "latest", "-1")] == [
        1, 2, 2, 2,
    ]  # fmt: skip
    assert http.ask("GET", "/subjects/s/versions/latest/schema").text == TWO
    assert http.refusal("GET", "/subjects/s/versions/3") == (404, 40402)
    assert http.refusal("GET", "/subjects/t/versions/1") == (404, 40401)
    assert http.refusal("GET", "/subjects/t/versions") == (404, 40401)


@pytest.mark.parametrize("version", ["0", "-2", "one", "1.0", "%20", "2147483648", "LATEST", "٣"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/subjects/s/versions/{}"),
        ("GET", "/subjects/s/versions/{}/schema"),
        ("GET", "/subjects/s/versions/{}/referencedby"),
        ("DELETE", "/subjects/s/versions/{}"),
        ("POST", "/compatibility/subjects/s/versions/{}"),
    ],
)
def test_other_versions_are_none(http: RegistryHttp, method: str, path: str, version: str) -> None:
    http.post("/subjects/s/versions", {"schema": ONE})
    body = {"schema": ONE} if method == "POST" else None
    assert http.refusal(method, path.format(quote(version, safe="%")), body) == (422, 42202)


@pytest.mark.parametrize("subject", ["a/b", "a b", "ä", "a%2Fb", "日本?&#", "..", "a:b", "+", "\\"])
def test_a_subject_may_have_any_characters(http: RegistryHttp, subject: str) -> None:
    path = f"/subjects/{quote(subject, safe='')}"
    http.post(f"{path}/versions", {"schema": ONE})
    assert http.get("/subjects") == [subject]
    assert http.get(f"{path}/versions/1")["subject"] == subject
    http.put(f"/config/{quote(subject, safe='')}", {"compatibility": "FULL"})
    assert http.delete(path) == [1]
    assert http.get("/subjects") == []


def test_a_path_that_is_no_utf_8_is_refused(http: RegistryHttp) -> None:
    assert http.refusal("GET", "/subjects/%ff/versions") == (400, 400)


def test_looking_up_finds_the_version(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": ONE})
    http.post("/subjects/s/versions", {"schema": TWO})
    assert http.post("/subjects/s", {"schema": ONE}) == http.get("/subjects/s/versions/1")
    assert http.refusal("POST", "/subjects/s", {"schema": UNFIT}) == (404, 40403)
    assert http.refusal("POST", "/subjects/t", {"schema": ONE}) == (404, 40401)


def test_an_incompatible_schema_is_refused(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": ONE})
    answer = http.ask("POST", "/subjects/s/versions", {"schema": UNFIT})
    assert answer.status_code == 409
    assert answer.json()["message"].startswith(
        'Schema being registered is incompatible with an earlier schema for subject "s", details: ['
    )


def test_subjects_are_listed_by_prefix_and_page(http: RegistryHttp) -> None:
    for subject in ("b", "a-2", "a-1", "%3A.c%3Aa-3"):
        http.post(f"/subjects/{subject}/versions", {"schema": ONE})
    assert http.get("/subjects") == [":.c:a-3", "a-1", "a-2", "b"]
    assert http.get("/subjects?subjectPrefix=a") == ["a-1", "a-2"]
    assert http.get("/subjects?subjectPrefix=%3A*%3Aa") == [":.c:a-3", "a-1", "a-2"]
    assert http.get("/subjects?subjectPrefix=%3A.c%3A") == [":.c:a-3"]
    assert http.get("/subjects?offset=1&limit=2") == ["a-1", "a-2"]
    assert http.get("/subjects?offset=3&limit=9") == ["b"]
    assert http.get("/subjects?limit=0") == []
    assert http.get("/subjects?offset=-1&limit=-9") == http.get("/subjects")
    assert http.refusal("GET", "/subjects?limit=few") == (404, 404)


def test_deleted_things_are_shown_when_asked_for(http: RegistryHttp) -> None:
    for schema in (ONE, TWO):
        http.post("/subjects/s/versions", {"schema": schema})
    http.post("/subjects/live/versions", {"schema": ONE})
    assert http.delete("/subjects/s/versions/1") == 1
    assert http.get("/subjects/s/versions") == [2]
    assert http.get("/subjects/s/versions?deleted=TRUE") == [1, 2]
    assert http.get("/subjects/s/versions?deletedOnly=true&deleted=true") == [1]
    assert http.get("/subjects/s/versions?deletedAsNegative=true&deletedOnly=true") == [-1, 2]
    assert http.refusal("GET", "/subjects/s/versions/1") == (404, 40402)
    assert http.get("/subjects/s/versions/1?deleted=true")["deleted"] is True
    assert http.delete("/subjects/s") == [2]
    assert http.get("/subjects") == ["live"]
    assert http.get("/subjects?deleted=true") == ["live", "s"]
    assert http.get("/subjects?deletedOnly=true") == ["s"]


def test_deleting_has_two_stages(http: RegistryHttp) -> None:
    for schema in (ONE, TWO):
        http.post("/subjects/s/versions", {"schema": schema})
    assert http.refusal("DELETE", "/subjects/s/versions/1?permanent=true") == (404, 40407)
    assert http.refusal("DELETE", "/subjects/s?permanent=true") == (404, 40405)
    assert http.delete("/subjects/s/versions/latest") == 2
    assert http.refusal("DELETE", "/subjects/s/versions/2") == (404, 40406)
    assert http.delete("/subjects/s/versions/2?permanent=true") == 2
    assert http.delete("/subjects/s") == [1]
    assert http.refusal("DELETE", "/subjects/s") == (404, 40404)
    assert http.delete("/subjects/s?permanent=true") == [1]
    assert http.refusal("DELETE", "/subjects/s") == (404, 40401)


def test_a_referenced_version_stays(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": ONE})
    array: dict[str, Any] = {
        "schema": '{"type":"array","items":"R"}',
        "references": [{"name": "R", "subject": "s", "version": 1}],
    }
    told = http.post("/subjects/t/versions", array)
    assert told["references"] == array["references"]
    assert http.get("/subjects/s/versions/1/referencedby") == [told["id"]]
    assert http.get("/subjects/s/versions/1/referencedby?offset=1") == []
    assert http.refusal("DELETE", "/subjects/s/versions/1") == (422, 42206)
    assert http.refusal("DELETE", "/subjects/s") == (422, 42206)


def test_the_newest_version_with_metadata(http: RegistryHttp) -> None:
    for schema, owner in ((ONE, "me"), (TWO, "you")):
        wanted = {"schema": schema, "metadata": {"properties": {"owner": owner, "a b": "c&d"}}}
        http.post("/subjects/s/versions", wanted)
    assert http.get("/subjects/s/metadata?key=owner&value=me")["version"] == 1
    assert http.get("/subjects/s/metadata?key=a%20b&value=c%26d")["version"] == 2
    assert http.get("/subjects/s/metadata?key=owner&value=you&key=a%20b&value=c%26d")["version"] == 2
    assert http.refusal("GET", "/subjects/s/metadata?key=owner&value=none") == (404, 40403)


def test_tags_are_changed_by_a_new_version(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": ONE})
    tagged = {"schemaEntity": {"entityPath": "R.a", "entityType": "sr_field"}, "tags": ["PII"]}
    told = http.post("/subjects/s/versions/1/tags", {"newVersion": 2, "tagsToAdd": [tagged]})
    assert told["version"] == 2
    assert orjson.loads(told["schema"])["fields"][0]["confluent:tags"] == ["PII"]
    assert told["metadata"] == {"properties": {"confluent:version": "2"}}
    # sent again, it is the same version
    again = http.post("/subjects/s/versions/1/tags", {"newVersion": 2, "tagsToAdd": [tagged]})
    assert again == told
    assert http.refusal("POST", "/subjects/s/versions/1/tags", {"newVersion": 7}) == (422, 42201)
    told = http.post("/subjects/s/versions/latest/tags", {"tagsToRemove": [tagged]})
    assert "confluent:tags" not in told["schema"]


@pytest.mark.parametrize("path", ["/subjects/s/versions/{version}", "/schemas/ids/{id}"])
def test_entities_with_tags_are_found(http: RegistryHttp, path: str) -> None:
    schema = {
        "type": "record",
        "name": "n.R",
        "confluent:tags": ["PUBLIC"],
        "fields": [
            {"name": "a", "type": "int", "confluent:tags": ["PII", "GDPR"]},
            {
                "name": "b",
                "type": [
                    "null",
                    {
                        "type": "array",
                        "items": {
                            "type": "record",
                            "name": "S",
                            "fields": [{"name": "c", "type": "int", "confluent:tags": ["GDPR"]}],
                        },
                    },
                ],
            },
        ],
    }
    told = http.post("/subjects/s/versions", {"schema": orjson.dumps(schema).decode()})
    path = path.format(**told)
    entities = {"n.R": "sr_record", "n.R.a": "sr_field", "n.S.c": "sr_field"}

    def found(query: str) -> list[str]:
        tags = http.get(f"{path}?{query}")["schemaTags"]
        assert all(
            entities[each["schemaEntity"]["entityPath"]] == each["schemaEntity"]["entityType"]
            for each in tags
        )
        return [each["schemaEntity"]["entityPath"] for each in tags]

    assert found("findTags=*") == ["n.R", "n.R.a", "n.S.c"]
    assert found("findTags=GDPR") == ["n.R.a", "n.S.c"]
    assert found("findTags=PII&findTags=PUBLIC") == ["n.R", "n.R.a"]
    assert found("findTags=none") == []
    assert "schemaTags" not in http.get(path)


def test_force_registers_whatever_the_compatibility(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": ONE})
    assert http.refusal("POST", "/subjects/s/versions", {"schema": '"int"'})[0] == 409
    assert http.post("/subjects/s/versions?force=true", {"schema": '"int"'})["version"] == 2


def test_formats_are_asked_for(http: RegistryHttp) -> None:
    http.post("/subjects/s/versions", {"schema": ONE})
    array = {
        "schema": '{"type":"array","items":"R"}',
        "references": [{"name": "R", "subject": "s", "version": 1}],
    }
    told = http.post("/subjects/t/versions?format=resolved", array)
    assert '"fields"' in told["schema"]
    for path in ("/subjects/t/versions/1", f"/schemas/ids/{told['id']}", f"/schemas/guids/{told['guid']}"):
        assert http.get(f"{path}?format=resolved")["schema"] == told["schema"]
        assert http.get(path)["schema"] == array["schema"]
    assert http.ask("GET", "/subjects/t/versions/1/schema?format=resolved").text == told["schema"]
    assert http.post("/subjects/t?format=resolved", array)["schema"] == told["schema"]


def test_the_same_but_for_the_order_is_the_same_when_normalized(http: RegistryHttp) -> None:
    plain = '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int"}]}'
    full = '{"name":"n.R","type":"record","fields":[{"type":"int","name":"a"}]}'
    first = http.post("/subjects/s/versions?normalize=true", {"schema": plain})
    assert http.post("/subjects/s/versions?normalize=true", {"schema": full})["id"] == first["id"]
    assert http.post("/subjects/s?normalize=true", {"schema": full})["version"] == 1


@pytest.mark.parametrize(
    ("prefix", "path"),
    [("subject", "/subjects"), ("subject.version", "/subjects/a/versions"), ("context", "/contexts")],
)
def test_listings_keep_the_limits_of_the_settings(prefix: str, path: str) -> None:
    given = {
        f"{prefix}.search.default.limit": "2",
        f"{prefix}.search.max.limit": "3",
        "mode.mutability": "true",
    }
    http = RegistryHttp(registry_application(InMemoryRegistry(given)))
    http.put("/config", {"compatibility": "NONE"})
    for name, schema in (
        ("a", "int"),
        ("a", "long"),
        ("a", "string"),
        ("a", "null"),
        ("b", "int"),
        ("c", "int"),
    ):
        http.post(f"/subjects/{name}/versions", {"schema": f'"{schema}"'})
    for name in "dxyz":
        http.post(f"/subjects/%3A.{name}%3A{name}/versions", {"schema": '"int"'})
    assert len(http.get(path)) == 2
    assert len(http.get(f"{path}?limit=1")) == 1
    assert len(http.get(f"{path}?limit=100")) == 3
