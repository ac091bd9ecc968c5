"""A Java worker that dies, hangs or never gets ready is started again; calls wait for it, or are told why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.config.errors import UserError
from ottla.connect.java.errors import JavaConnectError
from ottla.connect.java.supervisor import Pauses, Supervisor

QUICK = Pauses(first=0.01, longest=0.04, steady=10, look=0.01, silent=0.05, poll=0.005)


class FakeWorker:
    """A worker that ends when it is told to."""

    def __init__(self, number: int, problem: str | None = None) -> None:
        self.pid = number
        self.problem = problem
        self.over = asyncio.Event()
        self.stopped: list[float] = []
        if problem is not None:
            self.over.set()

    async def address(self) -> str:
        if self.problem is not None:
            raise JavaConnectError(self.problem)
        return f"http://worker{self.pid}"

    async def ended(self) -> int:
        await self.over.wait()
        return 1

    async def failure(self) -> str:
        await self.over.wait()
        return self.problem or f"worker {self.pid} died"

    async def stop(self, seconds: float = 20) -> None:
        self.stopped.append(seconds)
        self.over.set()


class World:
    """Starts workers as a list says: None for one that gets ready, else the problem it ends with."""

    def __init__(self, *problems: str | None) -> None:
        self.problems = list(problems)
        self.workers: list[FakeWorker] = []
        self.answers: bool | None = True

    async def start(self) -> FakeWorker:
        problem = self.problems.pop(0) if self.problems else None
        if problem == "no Java":
            raise UserError(problem)
        self.workers.append(FakeWorker(len(self.workers) + 1, problem))
        return self.workers[-1]

    async def look(self, address: str) -> bool | None:
        return self.answers


async def until_started(world: World, workers: int) -> None:
    await until(lambda: len(world.workers) == workers)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - in the test's own loop nothing else tells it
        await asyncio.sleep(0.001)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await test()

    asyncio.run(bounded())


def test_the_first_call_starts_the_worker_and_others_wait_for_the_same_one() -> None:
    async def test() -> None:
        world = World()
        supervisor = Supervisor(world.start, world.look, 5, QUICK)
        assert not supervisor.is_running and supervisor.pid is None
        found = await asyncio.gather(*(supervisor.ready() for _ in range(5)))
        assert found == ["http://worker1"] * 5
        assert supervisor.starts == 1 and supervisor.pid == 1
        await supervisor.stop()
        assert world.workers[0].stopped == [20]  # in order
        assert not supervisor.is_running and supervisor.pid is None

    run(test)


def test_a_worker_that_dies_is_started_again() -> None:
    async def test() -> None:
        world = World()
        supervisor = Supervisor(world.start, world.look, 5, QUICK)
        await supervisor.ready()
        for number in range(1, 5):
            world.workers[-1].over.set()
            await until_started(world, number + 1)
            assert await supervisor.ready() == f"http://worker{number + 1}"
        await supervisor.stop()
        assert supervisor.starts == 5

    run(test)


@pytest.mark.parametrize("problem", ["no Java", "ended with 1: no such converter"])
def test_a_call_is_told_why_the_start_failed_and_a_later_one_succeeds(problem: str) -> None:
    async def test() -> None:
        world = World(problem, problem)
        supervisor = Supervisor(world.start, world.look, 5, QUICK)
        with pytest.raises(JavaConnectError, match=problem):
            await supervisor.ready()
        while True:
            try:
                assert (await supervisor.ready()).startswith("http://worker")
                break
            except JavaConnectError as again:
                assert str(again) == problem
                await asyncio.sleep(0.001)
        assert supervisor.starts == 3
        await supervisor.stop()

    run(test)


def test_a_worker_that_never_gets_ready_is_ended() -> None:
    async def test() -> None:
        world = World()
        world.answers = False
        supervisor = Supervisor(world.start, world.look, 0.03, QUICK)
        with pytest.raises(JavaConnectError, match="was not ready after"):
            await supervisor.ready()
        assert world.workers[0].stopped == [0]  # at once
        await supervisor.stop()

    run(test)


def test_a_worker_that_gives_no_answer_any_more_is_ended_and_started_again() -> None:
    async def test() -> None:
        world = World()
        supervisor = Supervisor(world.start, world.look, 5, QUICK)
        await supervisor.ready()
        world.answers = None
        await until(lambda: supervisor.starts == 2)
        assert world.workers[0].stopped == [0]
        world.answers = True
        assert await supervisor.ready() == "http://worker2"
        await supervisor.stop()

    run(test)


def test_a_call_that_waits_is_told_when_supervision_is_stopped() -> None:
    async def test() -> None:
        world = World()
        world.answers = False
        supervisor = Supervisor(world.start, world.look, 5, QUICK)
        waiting = asyncio.create_task(supervisor.ready())
        await until_started(world, 1)
        await supervisor.stop()
        with pytest.raises(JavaConnectError, match="was stopped"):
            await waiting
        assert world.workers[0].stopped

    run(test)
