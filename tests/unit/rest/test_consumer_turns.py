"""Requests of one instance take turns, reads share threads, and answers that nobody takes come again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.rest.consumers import consumer_instance, consumer_instances
from ottla.rest.v2 import consumers
from ottla.web.errors import ApiError
from support.rest.rest_consumers import FakeConsumer, Proxy, error_of, use_fake_consumers

LOGS = {("t", 0): [b"1", b"2", b"3"]}
WAIT_S = 20


class Held:
    """Holds the polls of a consumer until it is let go."""

    def __init__(self, kafka: FakeConsumer) -> None:
        self._begun = threading.Event()
        self._go_on = threading.Event()
        kafka.before_poll = self._poll

    def _poll(self, _: FakeConsumer) -> None:
        self._begun.set()
        assert self._go_on.wait(WAIT_S)

    async def begun(self) -> None:
        assert await asyncio.to_thread(self._begun.wait, WAIT_S)

    def let_go(self) -> None:
        self._go_on.set()


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> list[FakeConsumer]:
    return use_fake_consumers(monkeypatch, LOGS)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 60))


async def values(proxy: Proxy, path: str) -> list[int]:
    return [record["value"] for record in (await proxy.client.get(f"{path}/records")).json()]


async def unknown(proxy: Proxy, name: str) -> None:
    """Wait until there is no such instance any more."""
    for _ in range(10_000):
        try:
            proxy.instances.find("g", name)
        except ApiError:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{name} is still there")


def test_a_request_waits_for_the_read_before_it_and_not_for_ever(
    kafka: list[FakeConsumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.subscribed("t", format="json")
            held = Held(kafka[-1])
            reading = asyncio.create_task(values(proxy, path))
            await held.begun()
            monkeypatch.setattr(consumer_instance, "TURN_SECONDS", 0.01)
            assert error_of(await proxy.client.get(f"{path}/subscription")) == (503, 503)
            monkeypatch.setattr(consumer_instance, "TURN_SECONDS", WAIT_S)
            waiting = asyncio.create_task(proxy.client.post(f"{path}/offsets"))
            held.let_go()
            assert await reading == [1, 2, 3]
            assert (await waiting).status_code == 204
            assert kafka[-1].offsets == {("t", 0): 3}

    run(story())


def test_reads_wait_for_a_thread_within_their_time(
    kafka: list[FakeConsumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_instances, "READS", 1)

    async def story() -> None:
        async with Proxy() as proxy:
            first = await proxy.subscribed("t", format="json", name="first")
            second = await proxy.subscribed("t", format="json", name="second")
            held = Held(kafka[-2])
            reading = asyncio.create_task(values(proxy, first))
            await held.begun()
            assert error_of(await proxy.client.get(f"{second}/records?timeout=1")) == (503, 503)
            held.let_go()
            assert await reading == [1, 2, 3]
            assert await values(proxy, second) == [1, 2, 3]

    run(story())


def test_a_read_that_is_cancelled_gives_everything_back(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.subscribed("t", format="json")
            held = Held(kafka[-1])
            reading = asyncio.create_task(values(proxy, path))
            await held.begun()
            reading.cancel()
            held.let_go()
            await asyncio.wait([reading])
            assert reading.cancelled()
            assert await values(proxy, path) == [1, 2, 3]
            assert proxy.instances.room.taken_bytes == 0

    run(story())


def test_an_instance_that_is_deleted_ends_its_read(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy({"consumer.request.timeout.ms": "300000"}) as proxy:
            path = await proxy.subscribed("t", format="json")
            held = Held(kafka[-1])
            reading = asyncio.create_task(proxy.client.get(f"{path}/records"))
            await held.begun()
            deleting = asyncio.create_task(proxy.client.delete(path))
            await unknown(proxy, "i")
            held.let_go()
            assert (await reading).status_code == 200  # long before its five minutes
            assert (await deleting).status_code == 204
            assert kafka[-1].closed

    run(story())


def test_an_instance_that_has_ended_is_tended_no_more(kafka: list[FakeConsumer]) -> None:
    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.subscribed("t")
            instance = proxy.instances.find("g", "i")
            assert (await proxy.client.delete(path)).status_code == 204
            proxy.clock.now = 10
            await instance.tend()
            assert kafka[-1].closed

    run(story())


async def ask(proxy: Proxy, path: str, receive: Any, send: Any) -> None:
    """One request to the application itself: how it sends, and sees a client leave, are the test's."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"{path}/records",
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "scheme": "http",
        "server": ("proxy", 80),
        "http_version": "1.1",
        "root_path": "",
    }
    await proxy.app(scope, receive, send)


@pytest.mark.parametrize("leaves_after", [0, 1, 2])
def test_a_client_that_leaves_while_pieces_are_sent_gets_all_of_it_again(
    kafka: list[FakeConsumer], monkeypatch: pytest.MonkeyPatch, leaves_after: int
) -> None:
    monkeypatch.setattr(consumers, "SEND_BYTES", 10)

    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.subscribed("t", format="json")
            left = asyncio.Event()
            sent = 0

            async def receive() -> Any:
                await left.wait()
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                nonlocal sent
                if message["type"] == "http.response.body":
                    sent += 1
                if sent == leaves_after:
                    left.set()

            await ask(proxy, path, receive, send)
            assert await values(proxy, path) == [1, 2, 3]
            assert proxy.instances.room.taken_bytes == 0

    run(story())


def test_a_client_that_takes_nothing_does_not_keep_its_instance(
    kafka: list[FakeConsumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "SEND_SECONDS", 0.01)

    async def story() -> None:
        async with Proxy() as proxy:
            path = await proxy.subscribed("t", format="json")
            for_ever = asyncio.Event()

            async def receive() -> Any:
                await for_ever.wait()

            async def send(message: Any) -> None:
                if message["type"] == "http.response.body":
                    await for_ever.wait()

            await ask(proxy, path, receive, send)
            assert await values(proxy, path) == [1, 2, 3]

    run(story())
