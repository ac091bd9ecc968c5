"""The test kit finds connectors that break a rule: each class here breaks one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import ClassVar

import pytest

from ottla.config.setting import Table
from ottla.connect.data.record import (
    Record,
    SinkRecord,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    TopicPartition,
)
from ottla.connect.plugins.api import RecordError, RetriableError
from ottla.connect.testing import (
    Target,
    check_sink,
    check_source,
    drawn_records,
    read_records,
    write_records,
)

Offset = Callable[[int], SourceOffset]


class Numbers:
    """A source of ten numbers, with offsets as a test wants them."""

    TABLE: ClassVar[Table] = Table("Numbers", {})
    VERSION: ClassVar[str] = "1"

    def __init__(self, offset: Offset, first: Callable[[SourceOffset], int], topic: str = "t") -> None:
        self._offset, self._first, self._topic = offset, first, topic

    def partitions(self) -> Sequence[SourcePartition]:
        return ({"numbers": 1},)

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        start = 0 if offset is None else self._first(offset)
        for number in range(start, 10):
            yield [SourceRecord(Record(self._topic, value=number), partition, self._offset(number))]

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_source_that_goes_on_at_its_offsets_passes() -> None:
    found = check_source(lambda: Numbers(lambda n: {"n": n}, lambda offset: offset["n"] + 1))
    assert [each.record.value for each in found] == list(range(10))


@pytest.mark.parametrize(
    ("offset", "first", "topic", "rule"),
    [
        (lambda n: {"n": n}, lambda offset: offset["n"], "t", "10 records come|record 0 is"),
        (lambda n: {"n": n // 2}, lambda offset: offset["n"] * 2, "t", "same offset"),
        (lambda n: {"n": n}, lambda offset: offset["n"] + 2, "t", "record 0 is|records come instead"),
        (lambda n: {"n": (n,)}, lambda offset: offset["n"][0] + 1, "t", "comes back from JSON"),
        (lambda n: {"n": {n}}, lambda offset: 0, "t", "no JSON object"),
        (lambda n: {}, lambda offset: 0, "t", "empty offset"),
        (lambda n: {"n": n}, lambda offset: offset["n"] + 1, "", "no topic"),
    ],
)
def test_a_source_that_breaks_a_rule_is_found(
    offset: Offset, first: Callable[[SourceOffset], int], topic: str, rule: str
) -> None:
    with pytest.raises(AssertionError, match=rule):
        check_source(lambda: Numbers(offset, first, topic))


def test_reading_ends_at_a_limit_and_when_nothing_comes() -> None:
    source = Numbers(lambda n: {"n": n}, lambda offset: offset["n"] + 1)
    assert [each.record.value for each in read_records(source, {}, {"n": 3}, limit=2)] == [4, 5]


class System:
    """What a sink writes to: rows, and next offsets beside them."""

    def __init__(self) -> None:
        self.rows: list[Hashable] = []
        self.ends: dict[TopicPartition, int] = {}


class Rows:
    """A sink that is exactly once, but for the fault that a test asks for."""

    TABLE: ClassVar[Table] = Table("Rows", {})
    VERSION: ClassVar[str] = "1"

    def __init__(self, system: System, fault: str, chance: random.Random) -> None:
        self._system, self._fault, self._chance = system, fault, chance
        self._kept: list[SinkRecord] = []

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        match self._fault:
            case "forgets":
                return {}
            case "ahead":
                return dict.fromkeys(partitions, 10**6)
        return self._system.ends

    def write(self, records: Sequence[SinkRecord]) -> None:
        if self._chance.random() < 0.2:
            raise RetriableError("away for a moment")
        for position, each in enumerate(records):
            if each.offset < self._system.ends.get(each.place, 0) and self._fault != "twice":
                continue
            if each.offset % 7 == 3:
                if self._fault == "wrong-position":
                    raise RecordError(len(records), "bad")
                raise RecordError(position, "bad")
            if self._fault == "keeps":
                self._kept.append(each)
                continue
            if self._fault != "loses" or self._chance.random() > 0.05:
                self._system.rows.append((each.place, each.offset))
            self._system.ends[each.place] = each.offset + 1

    def flush(self) -> Mapping[TopicPartition, int] | None:
        return {place: end + 1 for place, end in self._system.ends.items()} if self._fault == "lies" else None

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    def close(self) -> None:
        pass


def _check(fault: str, exactly_once: bool = True) -> Counter[Hashable]:
    def new_target() -> Target:
        system, chance = System(), random.Random(fault)
        return Target(lambda: Rows(system, fault, chance), lambda: system.rows)

    return check_sink(new_target, drawn_records(random.Random(1), 300), exactly_once=exactly_once)


def test_a_sink_that_is_exactly_once_passes() -> None:
    written = _check("none")
    assert set(written.values()) == {1}
    assert not any(offset % 7 == 3 for _, offset in written)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("forgets", "does not say where"),
        ("ahead", "were ever written"),
        ("twice", "written twice"),
        ("keeps", "does not say where|lost"),
        ("loses", "lost|never written"),
        ("lies", "only records below"),
        ("wrong-position", "has no record"),
    ],
)
def test_a_sink_that_breaks_a_rule_is_found(fault: str, rule: str) -> None:
    with pytest.raises(AssertionError, match=rule):
        _check(fault)


def test_a_sink_that_is_at_least_once_may_write_twice() -> None:
    assert set(_check("twice", exactly_once=False).values()) == {1}


def test_a_sink_that_is_always_away_is_told() -> None:
    class Away(Rows):
        def write(self, records: Sequence[SinkRecord]) -> None:
            raise RetriableError("away")

    with pytest.raises(AssertionError, match="still raises RetriableError"):
        write_records(Away(System(), "none", random.Random(1)), drawn_records(random.Random(1), 3))
