"""Messages about incidents: delivered in their order, sent again, bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from ottla.lag import notifying
from ottla.lag.core.incidents import Notice, NoticeKind
from ottla.lag.core.verdicts import Status
from ottla.lag.notifying import Notifier, Webhook

HOOK = Webhook("http://hook/open", "http://hook/close", "alice:secret")


def notice(number: int, kind: NoticeKind = NoticeKind.OPEN) -> Notice:
    return Notice(kind, f"incident {number}", "g", Status.ERR, 0, number, None)


@asynccontextmanager
async def running(notifier: Notifier):  # type: ignore[no-untyped-def]
    task = asyncio.create_task(notifier.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def deliver(
    notices: list[Notice], answer: Callable[[int], httpx.Response | Exception]
) -> tuple[Notifier, list[tuple[str, Any]]]:
    """Tell these to a webhook whose n-th answer is given; the notifier, and the requests."""
    requests: list[tuple[str, Any]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Basic YWxpY2U6c2VjcmV0"
        requests.append((request.url.path, json.loads(request.content)["events"][0]["id"]))
        found = answer(len(requests))
        if isinstance(found, Exception):
            raise found
        return found

    async def run() -> Notifier:
        notifier = Notifier("local", HOOK, httpx.MockTransport(handle))
        for one in notices:
            notifier.tell(one)
        async with running(notifier):
            await notifier.drain()
        return notifier

    return asyncio.run(run()), requests


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifying, "FIRST_PAUSE_SECONDS", 0.001)


def test_messages_go_to_their_address_in_their_order() -> None:
    notices = [notice(1), notice(1, NoticeKind.CLOSE), notice(2)]
    notifier, requests = deliver(notices, lambda _: httpx.Response(204))
    assert requests == [("/open", "incident 1"), ("/close", "incident 1"), ("/open", "incident 2")]
    assert (notifier.sent, notifier.failed, notifier.dropped) == (3, 0, 0)


def test_a_message_is_sent_again_until_it_is_taken() -> None:
    answers: list[httpx.Response | Exception] = [
        httpx.ConnectError("refused"),
        httpx.Response(500),
        httpx.Response(429),
        httpx.Response(200),
    ]
    notifier, requests = deliver([notice(1)], lambda number: answers[number - 1])
    assert [one for _, one in requests] == ["incident 1"] * 4
    assert (notifier.sent, notifier.failed) == (1, 0)


def test_a_message_that_is_wrong_is_not_sent_again() -> None:
    notifier, requests = deliver(
        [notice(1), notice(2)], lambda number: httpx.Response(400 if number == 1 else 200)
    )
    assert [one for _, one in requests] == ["incident 1", "incident 2"]
    assert (notifier.sent, notifier.failed) == (1, 1)


def test_a_message_is_given_up_after_some_attempts(caplog: pytest.LogCaptureFixture) -> None:
    notifier, requests = deliver([notice(1)], lambda _: httpx.Response(503))
    assert len(requests) == notifying.ATTEMPTS
    assert (notifier.sent, notifier.failed) == (0, 1)
    assert "is not delivered: the answer is 503" in caplog.text


def test_the_oldest_goes_when_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifying, "QUEUE", 2)
    notifier, requests = deliver([notice(number) for number in range(5)], lambda _: httpx.Response(200))
    assert [one for _, one in requests] == ["incident 3", "incident 4"]
    assert (notifier.sent, notifier.dropped) == (2, 3)


def test_without_a_webhook_incidents_are_logged_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> Notifier:
        notifier = Notifier("local", None)
        notifier.tell(notice(1))
        await notifier.drain()
        return notifier

    assert asyncio.run(run()).sent == 0
    assert "group g of cluster local is ERR (incident incident 1)" in caplog.text
