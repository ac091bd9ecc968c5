"""Request time: what counts of a request, and what becomes of clients that have taken too much."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

import pytest

from ottla.broker.network.connection import ClientConnection, Reply
from ottla.broker.network.context import Session
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.request_time import MeasuredDispatch
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ProtocolError
from ottla.protocol.headers import encode_request
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from ottla.protocol.schema import Message


class Recorded:
    """Quotas that only note what they are told."""

    def __init__(self) -> None:
        self.looked: list[str] = []
        self.seconds: list[float] = []

    def throttle_for_request_time(self, session: Session, client_id: str) -> None:
        self.looked.append(client_id)

    def record_request_time(self, user: str, client_id: str, seconds: float) -> None:
        assert (user, client_id) == ("alice", "app")
        self.seconds.append(seconds)


class OneClient:
    def __init__(self) -> None:
        self.session = Session("127.0.0.1", "PLAINTEXT", "User:alice")


class Clock:
    """Moves on when the code under test says that it works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds


def frame(key: ApiKey, version: int, request: Message) -> memoryview:
    return memoryview(encode_request(key, version, 1, "app", request))


PING = frame(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())


def measured(handler: Any) -> tuple[Any, Recorded, Clock]:
    quotas, clock = Recorded(), Clock()
    dispatch = MeasuredDispatch(
        lambda _, __: cast(Reply, handler(clock)), cast(ClientQuotas, quotas), now=clock
    )
    client = cast(ClientConnection, OneClient())
    return (lambda data=PING: dispatch(client, data)), quotas, clock


def test_the_time_of_a_request_that_is_answered_at_once_counts() -> None:
    def handler(clock: Clock) -> Reply:
        clock.work(0.25)
        return (b"done",)

    ask, quotas, _ = measured(handler)
    assert ask() == (b"done",)
    assert quotas.seconds == [0.25] and quotas.looked == ["app"]


def test_the_time_of_a_request_that_fails_counts() -> None:
    def handler(clock: Clock) -> Reply:
        clock.work(0.25)
        raise ProtocolError("no")

    ask, quotas, _ = measured(handler)
    with pytest.raises(ProtocolError):
        ask()
    assert quotas.seconds == [0.25]


def test_the_steps_of_a_request_count_and_not_its_waiting() -> None:
    async def scenario() -> None:
        waiting = asyncio.get_running_loop().create_future()

        async def steps(clock: Clock) -> Reply:
            clock.work(1)
            await waiting
            clock.work(2)
            await asyncio.sleep(0)
            clock.work(4)
            return (b"done",)

        ask, quotas, clock = measured(steps)
        answer = asyncio.ensure_future(cast(Awaitable[Reply], ask()))
        await asyncio.sleep(0)
        clock.work(100)  # others are served meanwhile
        waiting.set_result(None)
        assert await answer == (b"done",)
        assert sum(quotas.seconds) == 7

    asyncio.run(scenario())


def test_a_cancelled_request_is_told_and_may_still_finish() -> None:
    async def scenario() -> None:
        async def steps(clock: Clock) -> Reply:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                clock.work(3)
            return (b"saved",)

        ask, quotas, _ = measured(steps)
        answer = asyncio.ensure_future(cast(Awaitable[Reply], ask()))
        await asyncio.sleep(0)
        answer.cancel()
        assert await answer == (b"saved",)
        assert sum(quotas.seconds) == 3

    asyncio.run(scenario())


def test_requests_that_brokers_ask_each_other_do_not_count() -> None:
    ask, quotas, _ = measured(lambda clock: (clock.work(1), (b"done",))[1])
    ask(frame(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest()))
    assert quotas.seconds == [] and quotas.looked == []


def test_bytes_that_are_no_request_are_left_to_the_dispatcher() -> None:
    """SASL tokens of the oldest handshake are such bytes."""
    ask, quotas, _ = measured(lambda clock: (b"token taken",))
    assert ask(memoryview(b"\0")) == (b"token taken",)
    assert quotas.seconds == []
