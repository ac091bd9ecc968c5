"""Of several services in a process each ends alone; alone in a process it ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from starlette.routing import Route

from ottla.web import running
from ottla.web.application import json_answer, json_application
from ottla.web.errors import ServiceError
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.running import Kept, Place, run_alone, run_together
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed

TIMEOUT_S = 20
ANYWHERE = HttpAddress("127.0.0.1", 0)


class Plain:
    """A service that refuses to start for as many `refusals` as are left, or falls over."""

    def __init__(self, name: str, refusals: list[Exception], begun: list[Plain]) -> None:
        async def here(_request: Any) -> Any:
            return json_answer({})

        self.name = name
        self.app = json_application([Route("/", here)])
        self.front = FrontOptions()
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.stopped = False
        self._refusals = refusals
        begun.append(self)

    async def start(self, _address: HttpAddress) -> None:
        if self._refusals:
            raise self._refusals.pop(0)

    def observed(self, figures: RequestFigures) -> Observed:
        return Observed()

    def end_requests(self) -> None:
        pass

    async def failed(self) -> str:
        return await asyncio.shield(self.end)

    async def stop(self) -> None:
        self.stopped = True


class Platform:
    """Two services that run together, `a` and `b`."""

    def __init__(self, refusals: list[Exception]) -> None:
        self.places = {name: Place.take(name, [ANYWHERE]) for name in "ab"}
        self.begun: dict[str, list[Plain]] = {"a": [], "b": []}
        self.lines: list[str] = []
        self.needed_end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        refused = {"a": refusals, "b": []}

        def kept(name: str) -> Kept:
            return Kept(self.places[name], lambda: Plain(name, refused[name], self.begun[name]))

        async def needed() -> str:
            return await self.needed_end

        self.running = asyncio.create_task(
            run_together([kept("a"), kept("b")], self.lines.append, needed), name="platform"
        )

    async def ready(self, name: str, times: int = 1) -> None:
        while len([line for line in self.lines if line.startswith(f"ottla {name} ready")]) < times:
            assert not self.running.done()
            await asyncio.sleep(0.001)

    async def answers(self, name: str) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.places[name].address.port)
        except ConnectionRefusedError:
            return False
        writer.close()
        return True


def with_platform(
    story: Callable[[Platform], Coroutine[Any, Any, None]], refusals: list[Exception] | None = None
) -> int:
    async def run() -> int:
        async with asyncio.timeout(TIMEOUT_S):
            platform = Platform(refusals or [])
            await story(platform)
            code = await platform.running
            for one in [*platform.begun["a"], *platform.begun["b"]]:
                assert one.stopped
            assert not await platform.answers("a") and not await platform.answers("b")
            return code

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """A process that was told to end takes no further signal; this one goes on."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "FIRST_PAUSE_SECONDS", 0.001)


def test_a_service_that_cant_start_is_told_once_and_started_until_it_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(platform: Platform) -> None:
        await platform.ready("b")
        await platform.ready("a")
        assert platform.lines[0].startswith("ottla b ready")
        assert await platform.answers("a") and await platform.answers("b")
        assert len(platform.begun["a"]) == 4 and len(platform.begun["b"]) == 1
        os.kill(os.getpid(), signal.SIGTERM)

    refusals: list[Exception] = [ServiceError("no topic") for _ in range(2)] + [RuntimeError("a fault")]
    assert with_platform(story, refusals) == 0
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len([line for line in told if "ottla a can't start: no topic" in line]) == 1
    assert any("a fault" in line for line in told)


def test_a_service_that_dies_takes_nobody_along_and_is_started_again() -> None:
    async def story(platform: Platform) -> None:
        await platform.ready("a")
        await platform.ready("b")
        for times in range(3):
            platform.begun["a"][-1].end.set_result("its reader ended")
            await platform.ready("a", times + 2)
            assert await platform.answers("b")
        assert len(platform.begun["b"]) == 1 and not platform.begun["b"][0].stopped
        os.kill(os.getpid(), signal.SIGINT)

    assert with_platform(story) == 0


def test_the_end_of_what_they_need_ends_all(caplog: pytest.LogCaptureFixture) -> None:
    async def story(platform: Platform) -> None:
        await platform.ready("a")
        platform.needed_end.set_result("the broker ended")

    assert with_platform(story) == 1
    assert "the broker ended" in caplog.text


def test_a_service_alone_ends_with_its_process(caplog: pytest.LogCaptureFixture) -> None:
    async def run(refusals: list[Exception], signalled: bool) -> int:
        async with asyncio.timeout(TIMEOUT_S):
            begun: list[Plain] = []
            service = Plain("a", refusals, begun)
            is_ready = asyncio.Event()
            alone = asyncio.create_task(run_alone(service, [ANYWHERE], lambda _: is_ready.set()))
            if not refusals:
                await is_ready.wait()
            if signalled:
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                service.end.set_result("its reader ended")
            try:
                return await alone
            finally:
                assert service.stopped

    assert asyncio.run(run([], signalled=True)) == 0
    assert asyncio.run(run([], signalled=False)) == 1
    assert "its reader ended" in caplog.text
    with pytest.raises(ServiceError, match="no topic"):
        asyncio.run(run([ServiceError("no topic")], signalled=False))


def test_a_service_answers_at_each_of_its_listeners() -> None:
    async def scenario() -> None:
        line: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        wanted = [ANYWHERE, HttpAddress("127.0.0.1", 0)]
        alone = asyncio.create_task(run_alone(Plain("a", [], []), wanted, line.set_result))
        async with asyncio.timeout(TIMEOUT_S):
            urls = (await line).removeprefix("ottla a ready at ").split(", ")
        assert len(urls) == len(set(urls)) == 2
        for url in urls:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()
        os.kill(os.getpid(), signal.SIGTERM)
        assert await alone == 0

    asyncio.run(scenario())


def test_one_address_that_is_taken_gives_up_the_others() -> None:
    taken = Place.take("a", [ANYWHERE])
    taken.bound[0].listen()
    with pytest.raises(ServiceError, match="can't listen on"):
        Place.take("b", [ANYWHERE, taken.address])
    taken.close()
