"""Long work on schemas is done between turns: it delays no other request, and ends with its client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from ottla.client.access import ClusterAccess
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.registry.instance import RegistryInstance
from ottla.registry.membership import Identity
from ottla.registry.settings import TABLE
from ottla.registry.workbench import TURN_STEPS, PutOff, Workbench
from ottla.replicated.decision import Decision
from ottla.replicated.primary import Primary
from ottla.schemas.effort import Abandoned, Effort
from ottla.schemas.format import InvalidSchema
from ottla.web.errors import ApiError
from support.replicated.written_topic import WrittenTopic

WAIT_SECONDS = 30


class Endless:
    """Work that only ends when it is abandoned."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.ended = threading.Event()

    def __call__(self, effort: Effort) -> str:
        effort.spend(TURN_STEPS + 1)
        self.started.set()
        try:
            while True:
                effort.spend(0)
                time.sleep(0.001)
        finally:
            self.ended.set()


def instance(**given: str) -> RegistryInstance:
    """One that has not been started: it has an image and turns, and no cluster."""
    settings = Settings(TABLE, from_mapping({name.replace("_", "."): value for name, value in given.items()}))
    return RegistryInstance(settings, ClusterAccess("127.0.0.1:9", {}), Identity("h", 1, False))


def make_primary(registry: RegistryInstance) -> None:
    """Have it take writes, which a topic without a cluster stores."""
    registry._leadership.learn("http://h:1", is_here=True)
    registry._primary = Primary(WrittenTopic(), registry._leadership)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110  # threads can set no asyncio.Event
            await asyncio.sleep(0.005)


def test_others_are_answered_while_long_work_is_done_and_it_ends_with_its_client() -> None:
    async def story() -> None:
        registry, work, left = instance(), Endless(), asyncio.Event()

        async def gone() -> None:
            await left.wait()

        asking = asyncio.create_task(registry.consider(lambda: registry.workbench.done("k", work), gone))
        await until(work.started.is_set)
        assert not work.ended.is_set()
        # when others come
        assert await registry.consider(lambda: registry.workbench.done("small", lambda _: 7)) == 7
        assert not asking.done()
        # when the client hangs up
        left.set()
        with pytest.raises(ApiError, match="went away"):
            await asking
        await until(work.ended.is_set)
        registry._ahead.shutdown()

    asyncio.run(story())


def test_work_ends_when_the_time_of_a_question_or_a_write_is_over() -> None:
    async def story() -> None:
        registry = instance(kafkastore_timeout_ms="200")
        works = [Endless(), Endless()]

        def decide() -> Decision[str]:
            return Decision((), registry.workbench.done("write", works[1]))

        make_primary(registry)
        for asking in (
            registry.consider(lambda: registry.workbench.done("read", works[0])),
            registry.write(decide),
        ):
            with pytest.raises(ApiError) as refused:
                await asking
            assert refused.value.error_code == 50002
        await until(lambda: all(each.ended.is_set() for each in works))
        registry._ahead.shutdown()

    asyncio.run(story())


def test_the_writers_turn_is_free_while_work_is_done_ahead() -> None:
    async def story() -> None:
        registry, work = instance(), Endless()
        make_primary(registry)

        def decide_slowly() -> Decision[str]:
            return Decision((), registry.workbench.done("k", work))

        writing = asyncio.create_task(registry.write(decide_slowly))
        await until(work.started.is_set)
        async with asyncio.timeout(WAIT_SECONDS):
            assert await registry.write(lambda: Decision((), "another")) == "another"
        assert not writing.done()
        writing.cancel()
        await until(work.ended.is_set)
        registry._ahead.shutdown()

    asyncio.run(story())


def test_a_turn_is_taken_again_until_nothing_is_put_off() -> None:
    async def story() -> None:
        registry = instance()
        turns: list[int] = []

        def query() -> list[int]:
            turns.append(len(turns))
            return [
                registry.workbench.done(number, lambda effort, number=number: _spent(effort, number))
                for number in range(7)
            ]

        assert await registry.consider(query) == list(range(7))
        assert len(turns) == 3, "two works fit a turn, the third is put off and done before the next"
        registry._ahead.shutdown()

    asyncio.run(story())


def _spent(effort: Effort, number: int) -> int:
    effort.spend(TURN_STEPS * 2 // 5)
    return number


def test_an_invalid_schema_is_an_outcome_and_abandoned_work_is_none() -> None:
    bench = Workbench(10)

    def refuse(effort: Effort) -> None:
        effort.spend(11)
        raise InvalidSchema("no schema")

    bench.begin_turn()
    with pytest.raises(PutOff) as put_off:
        bench.done("k", refuse)
    abandoned = threading.Event()
    abandoned.set()
    with pytest.raises(Abandoned):
        put_off.value.work(abandoned)
    assert bench.kept("k") is None
    put_off.value.work(threading.Event())
    with pytest.raises(InvalidSchema, match="no schema"):
        bench.done("k", refuse)
