"""Who may do what at the proxy's paths, and that no path is without an answer to it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ottla.config.settings import Settings
from ottla.rest.access import Extent, Need, need_of
from ottla.rest.app import rest_application
from ottla.rest.service import RestService
from ottla.rest.settings import TABLE
from ottla.web.access_rules import AccessRules, Action, parse_rules
from ottla.web.callers import Caller, with_caller

CLUSTER = "/v3/clusters/c"


@pytest.fixture(scope="module")
def routes() -> list[Route]:
    proxy = RestService(Settings(TABLE, {})).proxy
    assert proxy is not None
    return [route for route in proxy.routes if isinstance(route, Route)]


def stubbed(routes: list[Route]) -> Any:
    """The application with handlers that only say that they were reached."""

    async def reached(request: Request) -> Response:
        return Response(status_code=299)

    return rest_application([Route(one.path, reached, methods=list(one.methods or ())) for one in routes])


def asked(app: Any, rules: list[str], method: str, path: str) -> httpx.Response:
    made = AccessRules(parse_rules(rules, "test"))
    caller = Caller("User:a", frozenset(("dev",)))

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        await app(with_caller(scope, caller, made.grants(caller.principal, caller.roles)), receive, send)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(called)) as http:
            return await http.request(method, f"http://rest{path}")

    return asyncio.run(ask())


ALLOWED: list[tuple[str, str, str, list[str]]] = [
    # method, path, the least rule that is enough, rules that are not
    ("GET", "/topics", "* read x", []),
    ("GET", "/topics/orders", "* read orders", ["* admin order", "* admin orders-*"]),
    ("GET", "/topics/orders/partitions/0/offsets", "* read ord*", ["* admin x"]),
    ("POST", "/topics/orders", "* write orders", ["* read *", "* admin x"]),
    ("POST", "/topics/orders/partitions/0", "Role:dev write *", ["Role:ops admin *"]),
    ("POST", f"{CLUSTER}/topics/orders/records", "* write orders", ["* read *"]),
    ("POST", f"{CLUSTER}/topics/orders/records:batch", "* write orders", ["* read *"]),
    ("GET", f"{CLUSTER}/topics", "* read x", []),
    ("POST", f"{CLUSTER}/topics", "* admin x", ["* write *"]),
    ("GET", f"{CLUSTER}/topics/orders", "* read orders", ["* read x"]),
    ("PATCH", f"{CLUSTER}/topics/orders", "* admin orders", ["* write *", "* admin x"]),
    ("DELETE", f"{CLUSTER}/topics/orders", "* admin orders", ["* write orders"]),
    ("GET", f"{CLUSTER}/topics/orders/configs", "* read orders", ["* read x"]),
    ("PUT", f"{CLUSTER}/topics/orders/configs/a", "* admin orders", ["* write *"]),
    ("POST", f"{CLUSTER}/topics/orders/configs:alter", "* admin orders", ["* write *"]),
    ("GET", f"{CLUSTER}/topics/orders/partitions/0/replicas", "* read orders", ["* read x"]),
    ("GET", f"{CLUSTER}/topics/-/configs", "* read *", ["* admin orders"]),
    ("GET", f"{CLUSTER}/brokers", "* read *", ["* admin orders-*"]),
    ("PUT", f"{CLUSTER}/broker-configs/x", "* admin *", ["* write *", "* admin orders"]),
    ("GET", f"{CLUSTER}/acls", "* read *", ["* admin o*"]),
    ("POST", f"{CLUSTER}/acls", "* admin *", ["* write *"]),
    ("DELETE", f"{CLUSTER}/acls", "* admin *", ["* write *"]),
    ("GET", f"{CLUSTER}/consumer-groups", "* read *", ["* admin o*"]),
    ("GET", f"{CLUSTER}/consumer-groups/g/lags/orders/partitions/0", "* read *", ["* admin orders"]),
    ("POST", "/consumers/g", "* read x", ["Role:ops read *"]),
    ("GET", "/consumers/g/instances/i/records", "* read x", ["Role:ops read *"]),
    ("GET", "/v3/clusters", "Role:ops read x", []),
    ("GET", "/", "Role:ops read x", []),
]


@pytest.mark.parametrize(("method", "path", "enough", "too_little"), ALLOWED)
def test_an_operation_takes_its_action(
    method: str, path: str, enough: str, too_little: list[str], routes: list[Route]
) -> None:
    app = stubbed(routes)
    assert asked(app, [enough], method, path).status_code == 299
    for rule in too_little:
        refused = asked(app, [rule], method, path)
        assert (refused.status_code, refused.json()["error_code"]) == (403, 40301)
        assert "User:a is denied" in refused.json()["message"]


def test_every_change_of_the_proxy_takes_more_than_reading(routes: list[Route]) -> None:
    seen = 0
    for route in routes:
        for method in (route.methods or set()) - {"HEAD"}:
            need = need_of(method, route.path)
            seen += 1
            if method != "GET" and not route.path.startswith("/consumers/"):
                assert need.action > Action.READ, (method, route.path)
            topic = "{topic" in route.path and "consumer-groups" not in route.path
            assert (need.extent is Extent.TOPIC) == topic, (method, route.path)
    assert seen > 60


def test_an_unknown_path_takes_everything() -> None:
    """So a path that is added and forgotten here is closed, not open."""
    assert need_of("GET", "/v4/anything") == Need(Action.READ, Extent.ALL)
    assert need_of("POST", "/v4/anything") == Need(Action.ADMIN, Extent.ALL)


def test_an_escaped_slash_is_part_of_the_topic(routes: list[Route]) -> None:
    app = stubbed(routes)
    refused = asked(app, ["* read orders"], "GET", "/topics/secret%2Forders")
    assert refused.status_code == 403 and "topic secret/orders" in refused.json()["message"]
