"""The network between a link's source and its target parts: the link waits, says so, and copies on.

The load and the test reach the source past the proxy that cuts the link off.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.clients.confluent import create_topic, produce
from support.clients.ottla_command import done, ottla
from support.links.load import Load
from support.links.mirrors import (
    assert_same_batches,
    batches_of,
    describe,
    ends_of,
    wait_for,
    wait_until_copied,
)
from support.servers.far_listener import FarBroker, far_broker
from support.servers.ottla_broker import OttlaBroker

PARTITIONS = 2
FETCH, METADATA = 1, 3


class Sides(NamedTuple):
    """A source and a target, the link between them, the load at the source, and dice."""

    source: FarBroker
    target: OttlaBroker
    topic: str
    link: str
    load: Load
    dice: random.Random

    def written_on(self) -> None:
        """Wait until the load has written more."""
        before = len(self.load.acknowledged)
        wait_for(lambda: len(self.load.acknowledged) > before + 50, "the load goes on")

    def told(self) -> None:
        """Wait until the link says that its source is away."""
        wait_for(lambda: self.state() == "problem" and "source" in self.problems(), "the problem is told")

    def state(self) -> str:
        return str(describe(self.target.bootstrap, self.link)["state"])

    def problems(self) -> dict[str, str]:
        return dict(describe(self.target.bootstrap, self.link)["problems"])

    def copied_on(self) -> None:
        """Wait until the target has what the source has now, and more."""
        for key, end in ends_of(self.source.near, self.topic, PARTITIONS).items():
            wait_for(
                lambda key=key, end=end: ends_of(self.target.bootstrap, self.topic, PARTITIONS)[key] >= end,
                f"{key} is copied up to {end}",
            )

    def the_same(self) -> None:
        """End the load; the target gets the same batches."""
        self.load.stop()
        wait_until_copied(self.target.bootstrap, self.link, ends_of(self.source.near, self.topic, PARTITIONS))
        count = assert_same_batches(self.source.near, self.target.bootstrap, self.topic, range(PARTITIONS))
        assert count > PARTITIONS  # more than what was there before the load
        assert self.state() == "active"
        assert self.problems() == {}


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[Sides]:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    with far_broker(tmp_path / "source") as source, OttlaBroker.start(tmp_path / "target") as target:
        topic = create_topic(source.near, f"t{uuid.uuid4().hex[:8]}", PARTITIONS)
        first = [{"value": b"first", "partition": each} for each in range(PARTITIONS)]
        produce(source.near, topic, first)
        link = f"lk{uuid.uuid4().hex[:8]}"
        words = ("--source", source.far, "--topic", topic, "--interval-ms", "200")
        done(target.bootstrap, "link", "create", link, *words)
        wait_until_copied(target.bootstrap, link, {(topic, each): 1 for each in range(PARTITIONS)})
        load = Load(source.near, topic, PARTITIONS, seed)
        load.start()
        yield Sides(source, target, topic, link, load, random.Random(seed))


def test_a_link_that_is_cut_off_waits_and_can_be_failed_over(sides: Sides) -> None:
    source, target = sides.source, sides.target.bootstrap
    source.refuse()
    sides.written_on()
    sides.told()
    source.mend()
    sides.copied_on()
    sides.the_same()
    stood = ends_of(target, sides.topic, PARTITIONS)

    source.refuse()
    produce(source.near, sides.topic, [{"value": b"unseen", "partition": each} for each in range(PARTITIONS)])
    sides.told()
    # nobody knows whether the lag is 0
    assert ottla(target, "link", "promote", sides.link, "--timeout", "1", sides.topic).code == 1
    (over,) = done(target, "link", "fail-over", sides.link, "--yes", sides.topic)
    assert over["state"] == "failed-over"
    source.mend()
    produce(target, sides.topic, [{"value": b"mine", "partition": each} for each in range(PARTITIONS)])
    wait_for(lambda: sides.state() == "active", "the source is reached again")
    for each in over["partitions"]:
        index = each["partition"]
        assert each["mirrored_end_offset"] == stood[sides.topic, index]
        end = stood[sides.topic, index]
        copied = batches_of(target, sides.topic, index, 0, end)
        assert copied == batches_of(source.near, sides.topic, index, 0, end)
        after = b"".join(batches_of(target, sides.topic, index, end))
        assert b"mine" in after
        assert b"unseen" not in after


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_link_is_cut_off_again_and_again(sides: Sides) -> None:
    for _ in range(25):
        way = sides.source.cut(sides.dice, FETCH, METADATA)
        print(way)
        for _ in range(sides.dice.randrange(1, 4)):
            sides.written_on()
        if way in ("refusing", "silent") and sides.dice.random() < 0.3:
            sides.told()
        sides.source.mend(reset=sides.dice.random() < 0.5)
        sides.copied_on()
    sides.the_same()
