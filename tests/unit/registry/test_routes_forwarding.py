"""Requests that an instance which is not the primary answers itself, and those that it passes on."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from starlette.requests import Request
from starlette.responses import Response

from ottla.registry.app import registry_application
from ottla.web.errors import ApiError
from support.registry.registry_core import InMemoryRegistry
from support.registry.registry_http import RegistryHttp

ONE, TWO = '"string"', '"int"'
VERSIONS = "/subjects/s/versions"


class Follower(InMemoryRegistry):
    """Not the primary, and there is none; `forwarded`: paths and bodies of passed-on requests."""

    def __init__(self) -> None:
        super().__init__()
        self.is_primary = False
        self.forwarded: list[tuple[str, bytes]] = []

    async def forward(self, request: Request) -> Response:
        self.forwarded.append(
            (f"{request.method} {request.scope['raw_path'].decode()}", await request.body())
        )
        raise ApiError(500, 50004, "No instance is the primary at the moment")


@pytest.fixture
def follower() -> Follower:
    found = Follower()
    found.register("s", ONE)
    return found


@pytest.fixture
def http(follower: Follower) -> RegistryHttp:
    return RegistryHttp(registry_application(follower))


def test_a_registered_schema_needs_no_primary(follower: Follower, http: RegistryHttp) -> None:
    told = http.post(VERSIONS, {"schema": ONE})
    assert (told["id"], told["version"], told["schema"]) == (1, 1, ONE)
    assert http.post(VERSIONS, {"schema": ' "string" ', "schemaType": "AVRO"}) == told
    assert follower.forwarded == []


@pytest.mark.parametrize(
    "body",
    [
        {"schema": TWO},
        {"schema": ONE, "id": 7},
        {"schema": ONE, "version": 2},
        {"schema": ONE, "metadata": {"properties": {"a": "b"}}},
        {"schema": "nothing"},
        {"schema": ""},
        {"unheard": 1},
        [],
    ],
)
def test_every_other_registration_is_passed_on_with_its_body(
    follower: Follower, http: RegistryHttp, body: Any
) -> None:
    answer = http.ask("POST", VERSIONS, body)
    assert (answer.status_code, answer.json()["error_code"]) == (500, 50004)
    [(asked, content)] = follower.forwarded
    assert asked == f"POST {VERSIONS}"
    assert content == orjson.dumps(body)


def test_a_schema_of_another_context_is_not_registered_here(follower: Follower, http: RegistryHttp) -> None:
    follower.register(":.c:t", ONE)
    assert http.ask("POST", "/subjects/t/versions", {"schema": ONE}).status_code == 500
    assert http.ask("POST", "/contexts/.c/subjects/t/versions", {"schema": ONE}).status_code == 200
    assert [asked for asked, _ in follower.forwarded] == ["POST /subjects/t/versions"]


def test_a_body_that_is_too_large_is_refused_at_once(follower: Follower, http: RegistryHttp) -> None:
    assert http.refusal("POST", VERSIONS, {"schema": " " * (1 << 20)}) == (413, 413)
    assert follower.forwarded == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/subjects/s"),
        ("DELETE", "/subjects/s/versions/1"),
        ("POST", "/subjects/s/versions/1/tags"),
        ("PUT", "/config"),
        ("PUT", "/config/s"),
        ("DELETE", "/config/s"),
        ("PUT", "/mode/s"),
        ("DELETE", "/mode"),
        ("DELETE", "/contexts/.c"),
    ],
)
def test_other_writes_are_always_passed_on(
    follower: Follower, http: RegistryHttp, method: str, path: str
) -> None:
    assert http.ask(method, path).status_code == 500
    assert follower.forwarded == [(f"{method} {path}", b"")]


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/subjects/s"), ("POST", "/compatibility/subjects/s/versions"), ("GET", "/schemas/ids/1")],
)
def test_reads_are_never_passed_on(follower: Follower, http: RegistryHttp, method: str, path: str) -> None:
    assert http.ask(method, path, {"schema": ONE} if method == "POST" else None).status_code == 200
    assert follower.forwarded == []


def test_without_its_topic_any_instance_serves_its_image_and_passes_nothing_on(
    follower: Follower, http: RegistryHttp
) -> None:
    for is_primary in (False, True):
        follower.is_primary, follower.problem = is_primary, "the topic was deleted"
        writes = [
            ("POST", VERSIONS, {"schema": TWO}),
            ("DELETE", "/subjects/s", None),
            ("DELETE", f"{VERSIONS}/1", None),
            ("POST", f"{VERSIONS}/1/tags", {}),
            ("PUT", "/config", {"compatibility": "FULL"}),
            ("DELETE", "/config/s", None),
            ("PUT", "/mode", {"mode": "READONLY"}),
            ("DELETE", "/contexts/.c", None),
        ]
        for method, path, body in writes:
            answer = http.ask(method, path, body)
            assert (answer.status_code, answer.json()["error_code"]) == (500, 50001), path
            assert "the topic was deleted" in answer.json()["message"]
        assert http.post(VERSIONS, {"schema": ONE})["id"] == 1
        assert http.get("/schemas/ids/1")["schema"] == ONE
        state = http.get("/v1/metadata/state")
        assert (state["state"], state["problem"]) == ("READ_ONLY", "the topic was deleted")
    assert follower.forwarded == []
    follower.problem = None
    assert http.get("/v1/metadata/state")["state"] == "READY"
