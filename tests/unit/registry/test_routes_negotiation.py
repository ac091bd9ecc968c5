"""Media types of requests and answers, and refusals of unknown paths and methods."""

from __future__ import annotations

import pytest

from ottla.registry.app import registry_application
from ottla.registry.routes.operation import MEDIA_TYPE, negotiate
from support.registry.registry_core import InMemoryRegistry
from support.registry.registry_http import RegistryHttp, refused

OTHER, JSON = "application/vnd.schemaregistry+json", "application/json"
SCHEMA = {"schema": '"string"'}


@pytest.fixture
def http() -> RegistryHttp:
    return RegistryHttp(registry_application(InMemoryRegistry()))


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("*/*", MEDIA_TYPE),
        ("application/*", MEDIA_TYPE),
        (f"{MEDIA_TYPE}, {OTHER}, {JSON}", MEDIA_TYPE),
        (f"{JSON}, {OTHER}", OTHER),
        (JSON, JSON),
        (f"{JSON}, */*;q=0.5", JSON),
        (f"{JSON};q=0.2, {OTHER};q=0.3", OTHER),
        (f"*/*, {MEDIA_TYPE};q=0", OTHER),
        ("APPLICATION/JSON; charset=utf-8", JSON),
        ("text/html, */*;q=0.1", MEDIA_TYPE),
        ("text/html", None),
        (f"{JSON};q=0", None),
        (f"{JSON};q=much", None),
        ("", MEDIA_TYPE),
        ("*", MEDIA_TYPE),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", MEDIA_TYPE),
        (";;,,//", None),
    ],
)
def test_the_answer_is_of_the_type_that_is_liked_best(accept: str, expected: str | None) -> None:
    assert negotiate(accept) == expected


@pytest.mark.parametrize("accept", ["*/*", OTHER, JSON])
@pytest.mark.parametrize("path", ["/subjects", "/schemas/ids/1", "/schemas/ids/2", "/schemas/ids/1/schema"])
def test_errors_and_the_short_way_to_an_id_are_of_that_type_too(
    http: RegistryHttp, accept: str, path: str
) -> None:
    http.post("/subjects/s/versions", SCHEMA)
    answer = http.ask("GET", path, headers={"accept": accept})
    assert answer.headers["content-type"] == negotiate(accept)
    assert answer.status_code == (404 if path == "/schemas/ids/2" else 200)


@pytest.mark.parametrize("path", ["/subjects", "/schemas/ids/1", "/schemas/ids/2"])
def test_a_client_that_accepts_none_of_them_gets_406(http: RegistryHttp, path: str) -> None:
    http.post("/subjects/s/versions", SCHEMA)
    answer = http.ask("GET", path, headers={"accept": "text/html"})
    assert refused(answer) == {"error_code": 406, "message": "HTTP 406 Not Acceptable"}
    assert answer.headers["content-type"] == MEDIA_TYPE


@pytest.mark.parametrize(
    "named", [MEDIA_TYPE, OTHER, f"{JSON}; charset=UTF-8", "application/octet-stream", ""]
)
def test_bodies_name_one_of_its_types_or_nothing(http: RegistryHttp, named: str) -> None:
    answer = http.ask("POST", "/subjects/s/versions", SCHEMA, {"content-type": named})
    assert answer.status_code == 200


@pytest.mark.parametrize("named", ["application/x-www-form-urlencoded", "text/plain", "nothing"])
def test_bodies_of_other_types_get_415(http: RegistryHttp, named: str) -> None:
    answer = http.ask("POST", "/subjects/s/versions", SCHEMA, {"content-type": named})
    assert refused(answer) == {"error_code": 415, "message": "HTTP 415 Unsupported Media Type"}
    assert http.get("/subjects") == []


def test_unknown_paths_and_methods(http: RegistryHttp) -> None:
    assert refused(http.ask("GET", "/nothing")) == {"error_code": 404, "message": "HTTP 404 Not Found"}
    answer = http.ask("PUT", "/subjects/s/versions", SCHEMA)
    assert refused(answer) == {"error_code": 405, "message": "HTTP 405 Method Not Allowed"}
    assert set(answer.headers["allow"].replace(",", " ").split()) == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_schema_by_its_id_is_only_read(http: RegistryHttp, method: str) -> None:
    http.post("/subjects/s/versions", SCHEMA)
    assert http.refusal(method, "/schemas/ids/1") == (405, 405)


def test_head_is_get_without_a_body(http: RegistryHttp) -> None:
    answer = http.ask("HEAD", "/subjects")
    assert (answer.status_code, answer.headers["content-type"]) == (200, MEDIA_TYPE)


def test_a_slash_at_the_end_means_nothing(http: RegistryHttp) -> None:
    assert http.get("/subjects/") == []
