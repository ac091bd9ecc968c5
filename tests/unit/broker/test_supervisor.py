"""Background tasks have an owner that sees them die."""

import asyncio

import pytest

from ottla.broker.supervisor import Supervisor


async def fail() -> None:
    raise RuntimeError("disk on fire")


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


def test_a_task_that_dies_is_reported_once_by_name() -> None:
    async def scenario() -> list[tuple[str, str]]:
        deaths: list[tuple[str, str]] = []
        seen = asyncio.Event()

        def died(name: str, failure: BaseException) -> None:
            deaths.append((name, str(failure)))
            seen.set()

        supervisor = Supervisor(died)
        supervisor.spawn("flush", fail())
        async with asyncio.timeout(5):
            await seen.wait()
        await supervisor.stop()
        return deaths

    assert asyncio.run(scenario()) == [("flush", "disk on fire")]


def test_stopping_ends_every_task_and_is_no_death() -> None:
    async def scenario() -> None:
        def died(name: str, failure: BaseException) -> None:
            pytest.fail(f"{name} was reported as dead: {failure}")

        supervisor = Supervisor(died)
        task = supervisor.spawn("sleep", wait_for_ever())
        await supervisor.stop()
        assert task.cancelled()
        with pytest.raises(RuntimeError, match="stopping"):
            supervisor.spawn("late", wait_for_ever())

    asyncio.run(scenario())


def test_repeated_work_is_repeated() -> None:
    async def scenario() -> None:
        rounds = asyncio.Semaphore(0)

        async def work() -> None:
            rounds.release()

        supervisor = Supervisor(lambda *_: None)
        supervisor.every("work", lambda: 1, work)
        async with asyncio.timeout(5):
            for _ in range(3):
                await rounds.acquire()
        await supervisor.stop()

    asyncio.run(scenario())


def test_the_first_run_of_repeated_work_has_a_time_of_its_own() -> None:
    async def scenario() -> None:
        names: asyncio.Queue[str] = asyncio.Queue()
        supervisor = Supervisor(lambda *_: None)
        day_ms = 86_400_000
        for name, first_ms, interval_ms in (("late", day_ms, 0), ("once", 0, day_ms), ("often", 0, 1)):
            supervisor.every(
                name, lambda each=interval_ms: each, lambda each=name: names.put(each), first_ms=first_ms
            )
        async with asyncio.timeout(5):
            found = [await names.get() for _ in range(20)]
        await supervisor.stop()
        assert found.count("once") == 1
        assert found.count("often") == 19

    asyncio.run(scenario())
