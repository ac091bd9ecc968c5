"""Every record is replayed once, in order, whatever leaders and partitions do; a lost topic is told."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from ottla.replicated import reader
from ottla.replicated.errors import StateError
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.place import Place
from ottla.replicated.reader import REPLAYED_AT_ONCE, TopicReader
from ottla.replicated.records import ReplayedRecord
from ottla.replicated.topic_log import Unreadable
from support.replicated.scripted_log import NODES, TOPIC_ID, ScriptedLog

HISTORIES = 60


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETRY_SECONDS", "LOST_SECONDS", "CONFIRMED_SECONDS"):
        monkeypatch.setattr(reader, name, 0.0)


class Reading:
    """A reader of `log`; `replayed`: the records that it gave."""

    def __init__(self, log: ScriptedLog) -> None:
        self.log = log
        self.replayed: list[ReplayedRecord] = []
        self.standstill = asyncio.Lock()
        self.reader = TopicReader(log, self.replayed.append, "{.value}: restart".format, self.standstill)
        self.task = asyncio.create_task(self.reader.run())

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self.task.done():  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert condition()

    async def end(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.replayed]


def run(story: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(30):
            await story

    asyncio.run(within())


@pytest.mark.parametrize("seed", [random.randrange(1 << 32) for _ in range(3)], ids=["one", "two", "three"])
def test_every_record_is_replayed_once_and_in_order_in_any_history(seed: int) -> None:
    print(f"seed {seed}")

    async def history(dice: random.Random) -> None:
        log = ScriptedLog(dice.randint(1, 6), dice)
        reading = Reading(log)
        numbers = itertools.count()
        for _ in range(dice.randint(1, 60)):
            partition = dice.randrange(len(log.records))
            match dice.randrange(6):
                case 0 | 1:
                    for _ in range(dice.randint(1, 5)):
                        log.append(partition, b"%d" % next(numbers), dice.choice([0, 0, 1, 3]))
                case 2:
                    log.leading[partition] = dice.choice([*NODES, None])
                case 3:
                    log.problems[partition] = Unreadable("not now")
                case 4:
                    log.problems.pop(partition, None)
                case 5:
                    for _ in range(dice.randint(1, 30)):
                        await asyncio.sleep(0)
        log.problems.clear()
        log.leading = [leader or NODES[0] for leader in log.leading]
        ends = {partition: end - 1 for partition, end in enumerate(log.ends)}
        await reading.reader.wait_until_applied(ends)
        for partition, records in enumerate(log.records):
            assert [one for one in reading.replayed if one.partition == partition] == records
        offsets = tuple(records[-1].offset if records else -1 for records in log.records)
        assert reading.reader.place == Place(TOPIC_ID, offsets)
        await reading.end()

    async def histories() -> None:
        dice = random.Random(seed)
        for _ in range(HISTORIES):
            await history(random.Random(dice.random()))

    run(histories())


def test_a_partition_that_cant_be_read_does_not_hold_up_the_others() -> None:
    async def story() -> None:
        log = ScriptedLog(3)
        log.problems[0] = Unreadable("not now")
        log.leading[1] = None
        for partition in range(3):
            log.append(partition, b"%d" % partition)
        reading = Reading(log)
        await reading.reader.wait_until_applied({2: 0})
        assert reading.values() == [b"2"]
        log.problems.clear()
        log.leading[1] = NODES[1]
        await reading.reader.wait_until_applied({0: 0, 1: 0})
        await reading.end()

    run(story())


def test_nothing_is_replayed_while_the_image_stands_still() -> None:
    async def story() -> None:
        log = ScriptedLog(2)
        reading = Reading(log)
        async with reading.standstill:
            log.append(0, b"a")
            log.append(1, b"b")
            fetches = log.fetches
            for _ in range(100):
                await asyncio.sleep(0)
            assert reading.replayed == [] and log.fetches <= fetches + 2
        await reading.until(lambda: len(reading.replayed) == 2)
        await reading.end()

    run(story())


def test_other_tasks_run_between_the_steps_of_a_long_replay() -> None:
    async def story() -> None:
        log = ScriptedLog(1)
        for number in range(10 * REPLAYED_AT_ONCE):
            log.append(0, b"%d" % number)
        reading = Reading(log)
        seen = [0]
        while seen[-1] < 10 * REPLAYED_AT_ONCE:
            await asyncio.sleep(0)
            seen.append(len(reading.replayed))
        assert max(after - before for before, after in itertools.pairwise(seen)) == REPLAYED_AT_ONCE
        await reading.end()

    run(story())


@pytest.mark.parametrize("loss", [Loss.DELETED, Loss.REPLACED])
def test_a_loss_is_told_once_and_ends_when_the_same_topic_is_back(
    loss: Loss, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def story() -> None:
        log = ScriptedLog(2)
        log.append(0, b"a")
        reading = Reading(log)
        await reading.reader.wait_until_applied({0: 0})
        waiting = asyncio.create_task(reading.reader.wait_until_applied({0: 1}))
        working = asyncio.create_task(reading.reader.unless_lost(asyncio.Event().wait()))
        log.topic_problem = TopicLost(loss)
        for waiter in (waiting, working):
            with pytest.raises(TopicLost) as told:
                await waiter
            assert told.value.loss is loss
        for _ in range(50):
            await asyncio.sleep(0)
        assert reading.reader.loss is loss
        # records that were replayed before still count
        await reading.reader.wait_until_applied({0: 0})
        log.topic_problem = None
        log.append(0, b"b")
        await reading.reader.wait_until_applied({1: -1})
        await reading.until(lambda: reading.reader.loss is None)
        await reading.reader.wait_until_applied({0: 1})
        await reading.end()

    run(story())
    assert caplog.messages == [
        f"{loss.value}: restart",
        "topic topic is there again, the same as before: it is written again",
    ]


def test_a_deletion_is_a_loss_only_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "CONFIRMED_SECONDS", 3_600)

    async def story() -> None:
        log = ScriptedLog(1)
        reading = Reading(log)
        await reading.until(lambda: log.fetches > 1)
        log.topic_problem = TopicLost(Loss.DELETED)
        for _ in range(200):
            await asyncio.sleep(0)
        assert reading.reader.loss is None
        await reading.end()

    run(story())


def test_records_that_were_cut_off_are_a_loss_at_once_and_for_good() -> None:
    async def story() -> None:
        log = ScriptedLog(2)
        log.append(0, b"a")
        reading = Reading(log)
        await reading.reader.wait_until_applied({0: 0})
        log.problems[0] = TopicLost(Loss.CUT)
        await reading.until(lambda: reading.reader.loss is Loss.CUT)
        log.problems.clear()
        for partition in range(2):
            log.append(partition, b"later")
        for _ in range(200):
            await asyncio.sleep(0)
        assert reading.values() == [b"a"] and reading.reader.loss is Loss.CUT
        await reading.end()

    run(story())


def test_records_that_were_cut_off_before_the_first_one_was_read_are_not_missed() -> None:
    async def story() -> None:
        log = ScriptedLog(1)
        log.append(0, b"a")
        log.append(0, b"b")
        log.problems[0] = TopicLost(Loss.CUT)
        reading = Reading(log)
        await reading.until(lambda: log.fetches > 2)
        log.starts[0] = 1
        log.problems.clear()
        await reading.reader.wait_until_applied({0: 1})
        assert reading.values()[-1] == b"b" and reading.reader.loss is None
        await reading.end()

    run(story())


def test_an_instance_that_may_not_read_does_not_start() -> None:
    async def story() -> None:
        log = ScriptedLog(1)
        log.problems[0] = Unreadable("TOPIC_AUTHORIZATION_FAILED", denied=True)
        with pytest.raises(StateError, match="AUTHORIZATION"):
            await Reading(log).task

    run(story())


def test_an_instance_that_may_not_read_any_more_says_so_once_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        log = ScriptedLog(1)
        log.append(0, b"a")
        reading = Reading(log)
        await reading.reader.wait_until_applied({0: 0})
        log.problems[0] = Unreadable("TOPIC_AUTHORIZATION_FAILED", denied=True)
        fetches = log.fetches
        await reading.until(lambda: log.fetches > fetches + 5)
        log.problems.clear()
        log.append(0, b"b")
        await reading.reader.wait_until_applied({0: 1})
        await reading.end()

    run(story())
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_lag_is_the_committed_offsets_that_were_not_replayed() -> None:
    async def story() -> None:
        log = ScriptedLog(2)
        log.append(0, b"a", gap=2)
        log.append(1, b"b")
        reading = Reading(log)
        await reading.reader.wait_until_applied({0: 0, 1: 0})
        await reading.until(lambda: reading.reader.figures.ends == {0: 3, 1: 1})
        await reading.until(lambda: reading.reader.lag == 0)
        assert reading.reader.offsets == {0: 3, 1: 1}
        async with reading.standstill:
            log.append(0, b"c")
            await reading.until(lambda: reading.reader.figures.ends[0] == 4)
            assert reading.reader.lag == 1, "read, and not replayed while a query looks at the image"
        await reading.until(lambda: reading.reader.lag == 0)
        assert reading.reader.figures.replayed == 3 and reading.reader.figures.failures == 0
        log.problems[0] = Unreadable("away")
        await reading.until(lambda: reading.reader.figures.failures > 0)
        await reading.end()

    run(story())
