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
