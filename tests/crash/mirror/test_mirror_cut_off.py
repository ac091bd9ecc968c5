"""The network between a mirror and its clusters parts: it waits, goes on, and copies each record once.

The writer and the test reach both brokers past the proxies that cut the mirror off.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.connect.host.messages import Ended
from support.mirror.mirrors import TIMEOUT_S, Mirror, content, make_topic, until, wait_for_same
from support.mirror.writer import Writer
from support.servers.far_listener import FarBroker, far_broker

PARTITIONS = 3
PRODUCE, FETCH, END_TXN = 0, 1, 26


class Sides(NamedTuple):
    """Two brokers, a writer at the source, dice, and a directory."""

    source: FarBroker
    target: FarBroker
    writer: Writer
    dice: random.Random
    directory: Path

    def mirror(self, *, far: bool) -> Mirror:
        """The mirror, behind the proxies or past them; there is one of its name and offsets."""
        source, target = (self.source.far, self.target.far) if far else (self.source.near, self.target.near)
        return Mirror(source, target, self.directory, {"topics": "orders"})

    def written_on(self) -> None:
        """Wait until the writer has written more."""
        before = len(self.writer.acknowledged)
        until(lambda: len(self.writer.acknowledged) > before + 50, "the writer goes on")

    def copied(self) -> int:
        """How many offsets the copy has by now."""
        client = Consumer({"bootstrap.servers": self.target.near, "group.id": "ends"})
        try:
            if "a.orders" not in client.list_topics(timeout=TIMEOUT_S).topics:
                return 0
            places = [TopicPartition("a.orders", each) for each in range(PARTITIONS)]
            return sum(client.get_watermark_offsets(each, timeout=TIMEOUT_S)[1] for each in places)
        finally:
            client.close()

    def copied_on(self) -> None:
        """Wait until more is copied."""
        before = self.copied()
        until(lambda: self.copied() > before, "the mirror goes on")

    def same_once(self) -> None:
        """End the writer; wait until all that it wrote is copied, each record once, in its order."""
        self.writer.end()
        assert {each.value for each in content(self.source.near, "orders")} >= self.writer.acknowledged
        wait_for_same(self.source.near, "orders", self.target.near, "a.orders")


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[Sides]:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    with ExitStack() as stack:
        source = stack.enter_context(far_broker(tmp_path / "source"))
        target = stack.enter_context(far_broker(tmp_path / "target"))
        make_topic(source.near, "orders", PARTITIONS)
        writer = Writer(source.near, "orders", PARTITIONS, seed)
        writer.start()
        yield Sides(source, target, writer, random.Random(seed), tmp_path)


def lose_an_answer(sides: Sides, broker: FarBroker, api_key: int) -> None:
    before = broker.proxy.lost_answers
    broker.lose_answers(api_key)
    until(lambda: broker.proxy.lost_answers > before, f"an answer of API {api_key} is lost")


@pytest.mark.slow
def test_a_mirror_that_is_cut_off_waits_and_goes_on(sides: Sides) -> None:
    with sides.mirror(far=True).running() as mirror:
        sides.copied_on()
        for broker in (sides.source, sides.target):
            broker.refuse()
            sides.written_on()
            broker.mend()
            sides.copied_on()
        # the transaction is committed, and the mirror does not know it
        lose_an_answer(sides, sides.target, END_TXN)
        sides.target.mend()
        sides.copied_on()
        assert not has_ended(mirror)
        sides.same_once()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_mirror_is_cut_off_again_and_again(sides: Sides) -> None:
    with sides.mirror(far=True).running() as mirror:
        sides.copied_on()
        for _ in range(30):
            source, target = sides.source, sides.target
            match sides.dice.randrange(4):
                case 0:
                    print("source", source.cut(sides.dice, FETCH))
                case 1:
                    print("target", target.cut(sides.dice, PRODUCE, END_TXN))
                case 2:
                    print("both", source.cut(sides.dice), target.cut(sides.dice))
                case _:
                    key = sides.dice.choice((PRODUCE, END_TXN))
                    print("target loses an answer of", key)
                    lose_an_answer(sides, target, key)
            for _ in range(sides.dice.randrange(1, 4)):
                sides.written_on()
            for broker in sides.dice.sample((source, target), 2):
                broker.mend(reset=sides.dice.random() < 0.5)
            sides.copied_on()
            assert not has_ended(mirror)
        sides.same_once()


@pytest.mark.long
def test_a_task_that_was_cut_off_is_fenced_when_another_has_gone_on(sides: Sides) -> None:
    with sides.mirror(far=True).running() as cut_off:
        sides.copied_on()
        sides.target.be_silent()  # what it wrote last gets there later
        with sides.mirror(far=False).running():
            sides.copied_on()
            sides.target.mend()
            until(lambda: has_ended(cut_off), "the task that was cut off has ended")
            sides.copied_on()
            sides.same_once()


def has_ended(mirror: Mirror) -> bool:
    assert mirror.host is not None and mirror.task is not None
    return bool(mirror.host.of(mirror.task.run, Ended))
