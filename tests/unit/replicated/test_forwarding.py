"""Requests on their way to the primary, over a primary in this process."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from ottla.replicated.figures import ForwardOutcome
from ottla.replicated.forwarding import (
    ClientGone,
    Forwarder,
    ForwardingHeaders,
    HttpAnswer,
    HttpRequest,
    NoPrimary,
    PrimaryUnreachable,
)
from ottla.replicated.leadership import Leadership
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.place import Place
from ottla.replicated.topic import OtherTopic

HEADERS = ForwardingHeaders("x-forwarded", "x-place")
TOPIC_ID = uuid.UUID(int=7)
REQUEST = HttpRequest(
    "PUT", b"/a%2Fb?c=d%20e", {"accept": "text/plain", "host": "here", "content-length": "4"}, b"body"
)
TIMEOUT_MS = 300


class FollowedTopic:
    """Satisfies the protocol: a topic that has replayed as far as `replayed` lets it."""

    def __init__(self) -> None:
        self.place = Place(TOPIC_ID, (0,))
        self.loss: Loss | None = None
        self.waited_for: list[Place] = []
        self.replayed = asyncio.Event()

    def require(self) -> None:
        if self.loss is not None:
            raise TopicLost(self.loss)

    async def wait_until_at(self, place: Place) -> None:
        if place.topic_id != TOPIC_ID:
            raise OtherTopic
        self.waited_for.append(place)
        await self.replayed.wait()


class Follower:
    """An instance that is not the primary. `asked`: the requests that came to the primary."""

    def __init__(self, answer: Callable[[httpx.Request], Coroutine[Any, Any, httpx.Response]]) -> None:
        self.topic = FollowedTopic()
        self.leadership = Leadership("group")
        self.asked: list[httpx.Request] = []

        async def handle(request: httpx.Request) -> httpx.Response:
            self.asked.append(request)
            return await answer(request)

        self.forwarder = Forwarder(self.topic, self.leadership, HEADERS, TIMEOUT_MS)
        self.forwarder._clients[None] = httpx.AsyncClient(transport=httpx.MockTransport(handle))

    async def forward(self, request: HttpRequest = REQUEST) -> HttpAnswer:
        return await self.forwarder.forward(request, stays)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


async def stays() -> None:
    await asyncio.Event().wait()


async def answers(_request: httpx.Request) -> httpx.Response:
    place = Place(TOPIC_ID, (5,)).encode()
    headers = {"x-place": place, "date": "today", "x-own": "1", "connection": "close"}
    return httpx.Response(201, content=b"done", headers=headers)


async def refuses_connections(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


async def never(_request: httpx.Request) -> httpx.Response:
    await asyncio.Event().wait()
    raise AssertionError


def run(story: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(10):
            await story

    asyncio.run(within())


def test_a_request_goes_on_as_it_came_and_its_answer_waits_for_the_replay() -> None:
    async def story() -> None:
        follower = Follower(answers)
        follower.leadership.learn("http://primary:1", is_here=False)
        forwarding = asyncio.create_task(follower.forward())
        await until(lambda: bool(follower.topic.waited_for))
        assert not forwarding.done()
        follower.topic.replayed.set()
        assert await forwarding == HttpAnswer(201, {"x-own": "1"}, b"done")
        assert follower.topic.waited_for == [Place(TOPIC_ID, (5,))]
        (asked,) = follower.asked
        assert (asked.method, asked.url.raw_path, asked.content) == ("PUT", REQUEST.target, b"body")
        assert asked.url.netloc == b"primary:1"
        assert asked.headers["x-forwarded"] == "true" and asked.headers["accept"] == "text/plain"
        assert asked.headers["host"] == "primary:1"

    run(story())


def test_an_instance_that_replays_late_answers_after_a_while() -> None:
    async def story() -> None:
        follower = Follower(answers)
        follower.leadership.learn("http://primary:1", is_here=False)
        assert (await follower.forward()).status == 201

    run(story())


def test_a_write_that_was_stored_in_another_topic_is_no_success() -> None:
    async def story() -> None:
        async def elsewhere(_request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, headers={"x-place": Place(uuid.UUID(int=8), (5,)).encode()})

        follower = Follower(elsewhere)
        follower.leadership.learn("http://primary:1", is_here=False)
        with pytest.raises(OtherTopic):
            await follower.forward()

    run(story())


def test_a_successor_is_waited_for() -> None:
    async def story() -> None:
        async def only_the_successor(request: httpx.Request) -> httpx.Response:
            if request.url.host == "gone":
                follower.leadership.learn("http://successor:1", is_here=False)
                raise httpx.ConnectError("refused", request=request)
            return await answers(request)

        follower = Follower(only_the_successor)
        follower.topic.replayed.set()
        follower.leadership.learn("http://gone:1", is_here=False)
        assert (await follower.forward()).status == 201
        assert [one.url.host for one in follower.asked] == ["gone", "successor"]

    run(story())


@pytest.mark.parametrize("url", [None, "http://primary:1"])
def test_a_primary_that_does_not_come_is_told(url: str | None) -> None:
    async def story() -> None:
        follower = Follower(refuses_connections)
        follower.leadership.learn(url, is_here=False)
        with pytest.raises(NoPrimary if url is None else PrimaryUnreachable):
            await follower.forward()

    run(story())


def test_a_primary_that_does_not_answer_and_is_replaced_may_have_stored_the_write() -> None:
    async def story() -> None:
        follower = Follower(never)
        follower.leadership.learn("http://primary:1", is_here=False)
        forwarding = asyncio.create_task(follower.forward())
        await until(lambda: bool(follower.asked))
        follower.leadership.learn("http://other:1", is_here=False)
        with pytest.raises(PrimaryUnreachable, match="may have been stored"):
            await forwarding

    run(story())


def test_an_instance_that_becomes_the_primary_does_not_ask_itself() -> None:
    async def story() -> None:
        follower = Follower(answers)
        follower.leadership.learn("http://here:1", is_here=True)
        with pytest.raises(NoPrimary, match="try again"):
            await follower.forward()
        assert not follower.asked

    run(story())


def test_a_request_is_passed_on_once() -> None:
    async def story() -> None:
        follower = Follower(answers)
        follower.leadership.learn("http://primary:1", is_here=False)
        again = HttpRequest("PUT", b"/", {"x-forwarded": "true"}, b"")
        with pytest.raises(NoPrimary, match="A forwarded request"):
            await follower.forward(again)
        assert not follower.asked

    run(story())


def test_a_client_that_hangs_up_ends_the_asking() -> None:
    async def story() -> None:
        follower = Follower(never)
        follower.leadership.learn("http://primary:1", is_here=False)

        async def gone() -> None:
            await until(lambda: bool(follower.asked))

        with pytest.raises(ClientGone):
            await follower.forwarder.forward(REQUEST, gone)

    run(story())


def test_without_its_topic_an_instance_passes_nothing_on() -> None:
    async def story() -> None:
        follower = Follower(answers)
        follower.leadership.learn("http://primary:1", is_here=False)
        follower.topic.loss = Loss.DELETED
        with pytest.raises(TopicLost):
            await follower.forward()
        assert not follower.asked

    run(story())


def test_the_primary_tells_its_place_to_an_instance_that_passed_the_request_on() -> None:
    place = Place(TOPIC_ID, (1, 2))
    assert HEADERS.answered({"x-forwarded": "true"}, place) == {"x-place": f"{TOPIC_ID}:1,2"}
    assert HEADERS.answered({"accept": "*/*"}, place) == {}


def test_forwarded_requests_are_counted_by_their_outcome() -> None:
    async def story() -> None:
        follower = Follower(answers)
        follower.topic.replayed.set()
        with pytest.raises(NoPrimary):
            await follower.forward()
        follower.leadership.learn("http://primary:1", is_here=False)
        await follower.forward()
        follower.topic.loss = Loss.DELETED
        with pytest.raises(TopicLost):
            await follower.forward()
        assert dict(follower.forwarder.outcomes) == {
            ForwardOutcome.NO_PRIMARY: 1,
            ForwardOutcome.ANSWERED: 1,
            ForwardOutcome.LOST: 1,
        }
        unreachable = Follower(refuses_connections)
        unreachable.leadership.learn("http://primary:1", is_here=False)
        with pytest.raises(PrimaryUnreachable):
            await unreachable.forward()
        assert dict(unreachable.forwarder.outcomes) == {ForwardOutcome.UNREACHABLE: 1}

    run(story())
