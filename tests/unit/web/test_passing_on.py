"""Requests that are passed on whole to another instance, and bodies that are read a second time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request

from ottla.replicated.forwarding import HttpAnswer, HttpRequest
from ottla.web.bodies import hung_up, read_body
from ottla.web.passing_on import passed_on, with_body


def request(raw_path: bytes | None, query: bytes, headers: Mapping[str, str]) -> Request:
    """A PUT without a body, whose client hangs up after it."""
    given: list[dict[str, Any]] = [{"type": "http.request", "body": b"", "more_body": False}]
    scope = {
        "type": "http",
        "method": "PUT",
        "path": "/a b/c",
        "query_string": query,
        "headers": [(name.encode(), text.encode()) for name, text in headers.items()],
        "server": ("here", 80),
    }
    if raw_path is not None:
        scope["raw_path"] = raw_path

    async def receive() -> dict[str, Any]:
        return given.pop() if given else {"type": "http.disconnect"}

    return Request(scope, receive)


def test_a_request_goes_on_as_it_came_and_the_answer_comes_back() -> None:
    passed: list[HttpRequest] = []

    async def forward(whole: HttpRequest, gone: Callable[[], Awaitable[None]]) -> HttpAnswer:
        passed.append(whole)
        await gone()  # this client is gone when its body is read
        return HttpAnswer(201, {"location": "/x"}, b"{}")

    async def test() -> None:
        came = request(b"/a%20b%2Fc", b"q=1&r=%20", {"x-own": "1"})
        await read_body(came)
        answer = await passed_on(came, b"body", HttpRequest, forward)
        assert (answer.status_code, answer.headers["location"], answer.body) == (201, "/x", b"{}")

    asyncio.run(test())
    assert passed == [HttpRequest("PUT", b"/a%20b%2Fc?q=1&r=%20", {"x-own": "1"}, b"body")]


def test_a_body_that_was_read_is_read_again_and_a_hang_up_is_still_seen() -> None:
    async def test() -> None:
        came = request(b"/a", b"", {})
        await read_body(came)
        again = with_body(came, b"body")
        assert await read_body(again) == b"body"
        async with asyncio.timeout(10):
            await hung_up(again)

    asyncio.run(test())
