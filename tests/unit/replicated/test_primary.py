"""Writes are decided on the primary, one at a time, from an image that has every record."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.replicated.decision import Decision
from ottla.replicated.errors import Fenced, NotPrimary, Unstored
from ottla.replicated.figures import WriteOutcome
from ottla.replicated.leadership import Leadership
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.primary import Primary
from ottla.replicated.records import Record
from support.replicated.written_topic import WrittenTopic

RECORD = Record(b"key", b"value")


class Story:
    def __init__(self, is_here: bool = True) -> None:
        self.topic, self.leadership = WrittenTopic(), Leadership("group")
        self.leadership.learn("http://primary", is_here)
        self.primary = Primary(self.topic, self.leadership)
        self.decisions = 0

    def decide(self) -> Decision[int]:
        self.decisions += 1
        return Decision((RECORD, RECORD), self.decisions)


def run(story: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(10):
            await story

    asyncio.run(within())


def test_the_first_write_takes_over_and_the_next_one_does_not() -> None:
    async def story() -> None:
        one = Story()
        assert [await one.primary.write(one.decide) for _ in range(2)] == [1, 2]
        assert one.topic.done == ["take over", "append 2", "append 2"]

    run(story())


def test_a_decision_without_records_stores_nothing() -> None:
    async def story() -> None:
        one = Story()
        assert await one.primary.write(lambda: Decision((), "as it is")) == "as it is"
        assert one.topic.done == ["take over"]

    run(story())


def test_a_fenced_write_is_decided_anew_from_all_that_was_written() -> None:
    async def story() -> None:
        one = Story()
        await one.primary.write(one.decide)
        one.topic.failures = [Fenced()]
        assert await one.primary.write(one.decide) == 3
        assert one.topic.done[-3:] == ["append 2", "take over", "append 2"]
        one.topic.failures = [Fenced(), Fenced()]
        with pytest.raises(Fenced):
            await one.primary.write(one.decide)

    run(story())


def test_a_fenced_instance_that_is_not_the_primary_any_more_writes_nothing() -> None:
    async def story() -> None:
        one = Story()
        one.topic.failures = [Fenced()]
        one.leadership.learn("http://other", is_here=True)

        def decide() -> Decision[int]:
            one.leadership.learn("http://other", is_here=False)
            return one.decide()

        one.topic.writable = True
        with pytest.raises(NotPrimary):
            await one.primary.write(decide)
        assert one.decisions == 1

    run(story())


def test_an_instance_that_is_not_the_primary_decides_nothing() -> None:
    async def story() -> None:
        one = Story(is_here=False)
        with pytest.raises(NotPrimary):
            await one.primary.write(one.decide)
        assert (one.decisions, one.topic.done) == (0, [])

    run(story())


def test_without_its_topic_a_primary_decides_nothing() -> None:
    async def story() -> None:
        one = Story()
        one.topic.writable, one.topic.loss = True, Loss.REPLACED
        with pytest.raises(TopicLost):
            await one.primary.write(one.decide)
        assert (one.decisions, one.topic.done) == (0, [])

    run(story())


def test_a_refusal_of_the_decision_comes_out_and_stores_nothing() -> None:
    async def story() -> None:
        one = Story()

        def refuse() -> Decision[int]:
            raise LookupError("no such key")

        with pytest.raises(LookupError):
            await one.primary.write(refuse)
        assert one.topic.done == ["take over"]
        assert await one.primary.write(one.decide) == 1

    run(story())


def test_a_write_whose_end_is_not_known_is_followed_by_a_take_over() -> None:
    async def story() -> None:
        one = Story()
        await one.primary.write(one.decide)
        one.topic.failures = [Unstored()]
        with pytest.raises(Unstored):
            await one.primary.write(one.decide)
        await one.primary.write(one.decide)
        assert one.topic.done[-2:] == ["take over", "append 2"]

    run(story())


def test_writes_are_decided_one_at_a_time() -> None:
    async def story() -> None:
        one = Story()
        deciding = threading.Lock()

        def decide() -> Decision[int]:
            assert deciding.acquire(blocking=False)
            try:
                return one.decide()
            finally:
                deciding.release()

        answers = await asyncio.gather(*(one.primary.write(decide) for _ in range(20)))
        assert answers == list(range(1, 21))
        assert one.topic.done == ["take over", *["append 2"] * 20]

    run(story())


@pytest.mark.parametrize(
    ("is_here", "failures", "done"),
    [
        (True, [], ["take over"]),
        (False, [], ["read"]),
        (True, [Fenced()], ["take over", "read"]),
    ],
)
def test_an_instance_catches_up_as_its_role_is(
    is_here: bool, failures: list[Exception], done: list[str]
) -> None:
    async def story() -> None:
        one = Story(is_here)
        one.topic.failures = failures
        await one.primary.catch_up()
        assert one.topic.done == done

    run(story())


def test_writes_are_counted_by_their_outcome() -> None:
    async def story() -> None:
        one = Story()
        await one.primary.write(one.decide)
        one.topic.failures.append(Fenced())
        await one.primary.write(one.decide)
        one.topic.failures.append(Unstored("no answer"))
        with pytest.raises(Unstored):
            await one.primary.write(one.decide)
        await one.primary.write(lambda: Decision((), "nothing to store"))
        one.leadership.learn("http://other", False)
        with pytest.raises(NotPrimary):
            await one.primary.write(one.decide)
        figures = one.primary.figures
        assert dict(figures.outcomes) == {
            WriteOutcome.STORED: 2,
            WriteOutcome.FENCED: 1,
            WriteOutcome.UNKNOWN: 1,
            WriteOutcome.NOT_PRIMARY: 1,
        }
        assert figures.written == 4 and figures.times.count == 2

    run(story())
