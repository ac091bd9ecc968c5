"""The OpenAPI document: valid, and of exactly the requests that are answered."""

from __future__ import annotations

import asyncio
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate
from starlette.routing import Route

from ottla.config.settings import Settings
from ottla.rest.app import ADMINISTRATION
from ottla.rest.openapi import openapi_document
from ottla.rest.service import RestService
from ottla.rest.settings import TABLE
from support.rest.fake_cluster_admin import CLUSTER_ID, FakeClusterAdmin, api_client

DOCUMENT = openapi_document([operation.description for operation in ADMINISTRATION])


def test_the_document_is_valid() -> None:
    validate(DOCUMENT)


def test_every_route_is_in_the_document_and_the_other_way_round() -> None:
    proxy = RestService(Settings(TABLE, {})).proxy
    assert proxy is not None
    routed = {
        (method, re.sub(r":\w+}", "}", route.path))
        for route in proxy.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }

    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}

    assert routed == described


def test_every_schema_that_is_spoken_of_is_there_and_the_other_way_round() -> None:
    spoken = set(re.findall(r"'#/components/schemas/(\w+)'", str(DOCUMENT)))
    assert spoken == set(DOCUMENT["components"]["schemas"])


ADMINISTERED = sorted(
    path
    for path, methods in DOCUMENT["paths"].items()
    if "get" in methods and path != "/docs" and not path.startswith("/consumers")
)


@pytest.mark.parametrize("path", ADMINISTERED)
def test_answers_are_as_the_document_says(path: str) -> None:
    names = {
        "cluster_id": CLUSTER_ID,
        "broker_id": "1",
        "topic": "tasks",
        "topic_name": "tasks",
        "partition": "0",
        "partition_id": "0",
        "name": "retention.ms",
        "consumer_group_id": "readers",
        "consumer_id": "member-1",
    }

    async def ask() -> Any:
        async with api_client(FakeClusterAdmin()) as client:
            return await client.get(path.format(**names))

    answer = asyncio.run(ask())

    assert answer.status_code == 200, answer.text
    (media_type, content), *_ = DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"].items()
    assert answer.headers["content-type"] == media_type
    OAS31Validator({**content["schema"], "components": DOCUMENT["components"]}).validate(answer.json())


def test_the_page_tells_of_every_operation_and_asks_nobody_for_anything() -> None:
    async def ask() -> Any:
        async with api_client(FakeClusterAdmin()) as client:
            return await client.get("/docs")

    answer = asyncio.run(ask())

    parser = _Page()
    parser.feed(answer.text)
    assert not parser.asked_for
    wanted = {
        operation["operationId"] for methods in DOCUMENT["paths"].values() for operation in methods.values()
    }
    assert wanted <= parser.ids
    assert parser.links <= parser.ids
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_root_is_an_empty_object_and_for_a_browser_the_page() -> None:
    async def ask(accept: str) -> Any:
        async with api_client(FakeClusterAdmin()) as client:
            return await client.get("/", headers={"accept": accept})

    assert asyncio.run(ask("*/*")).json() == {}
    page = asyncio.run(ask("text/html,application/xhtml+xml,*/*;q=0.8"))
    assert page.headers["content-type"].startswith("text/html")


class _Page(HTMLParser):
    """The ids, the links within, and what a browser would ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.asked_for: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if name == "href" and value and value.startswith("#"):
                self.links.add(value[1:])
            elif name == "src" or (name == "href" and tag != "a"):
                self.asked_for.append(f"{tag} {value}")
