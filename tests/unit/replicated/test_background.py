"""Background tasks that all have to run for as long as their instance does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.replicated.background import BackgroundTasks
from ottla.replicated.errors import StateError


def run(story: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(10):
            await story

    asyncio.run(within())


async def for_ever() -> None:
    await asyncio.Event().wait()


async def fails() -> None:
    raise RuntimeError("no more")


def test_the_start_ends_with_the_task_that_has_ended() -> None:
    async def story() -> None:
        tasks = BackgroundTasks()
        tasks.start("runs", for_ever())
        tasks.start("reads", fails())
        with pytest.raises(StateError, match=r"^reads: no more$"):
            await tasks.unless_ended(for_ever())
        await tasks.stop()

    run(story())


def test_a_start_that_is_done_is_told_while_the_tasks_run_on() -> None:
    async def story() -> None:
        tasks = BackgroundTasks()
        tasks.start("runs", for_ever())
        assert await tasks.unless_ended(asyncio.sleep(0, "done")) == "done"
        ended = asyncio.create_task(tasks.ended())
        await asyncio.sleep(0)
        assert not ended.done()
        await tasks.stop()
        assert await ended == "runs: ended"

    run(story())


def test_without_tasks_there_is_nothing_to_stop() -> None:
    run(BackgroundTasks().stop())
