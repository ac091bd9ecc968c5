"""Queries that read each other's output, step by step and in any order: no record comes before an older row.

`World` is a cluster with a stream of records, a topic of events, and two queries: one makes a table of the
events and writes it in transactions, key by key, whose markers come late; the other joins the records with
it. Everything that may happen at the same time happens at any moment, also between two questions of a plan.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ottla.pipeline.query.by_time import Place, Span, Spans
from ottla.pipeline.query.planned_source import Offsets
from ottla.streams.run import reading_order
from ottla.streams.run.reading_order import Input, QueryReading
from support.exploration import examples

TABLE, STREAM = 0, 1
STEPS, DRAIN_STEPS = 40, 1_000


@dataclass(slots=True)
class Record:
    """A record on the cluster. number: counts all. transaction: open until its marker is there."""

    time_ms: int
    number: int
    transaction: int | None = None


@dataclass(slots=True)
class World:
    """The cluster, and what goes on beside the query that plans."""

    random: random.Random
    topics: dict[str, list[list[Record]]]
    marked: set[int] = field(default_factory=set)
    now_ms: int = 1_000
    count: int = 0
    limit: int | None = None
    maker: Maker | None = None
    busy: bool = False

    def produce(self) -> None:
        """A few events and records, in the order of time."""
        for _ in range(self.random.randint(1, 4)):
            topic = self.random.choice(("events", "records"))
            self.now_ms += self.random.randint(0, 3)
            self.count += 1
            self.random.choice(self.topics[topic]).append(Record(self.now_ms, self.count))

    def meanwhile(self) -> None:
        """Whatever may happen between two steps of a query."""
        if self.busy:
            return
        self.busy = True
        for _ in range(self.random.randint(0, 3)):
            if self.random.random() < 0.4:
                self.produce()
            elif self.maker is not None:
                self.maker.step()
        self.busy = False

    # As KafkaCluster

    def partitions(self, topic: str) -> list[int]:
        return list(range(len(self.topics[topic])))

    def start_positions(self, topic: str) -> dict[int, int]:
        return dict.fromkeys(self.partitions(topic), 0)

    def ends_of(self, places: Iterable[tuple[str, int]], *, committed: bool = True) -> dict[Any, int]:
        self.meanwhile()
        return {(topic, number): self.end(topic, number, committed) for topic, number in places}

    def end(self, topic: str, number: int, committed: bool = True) -> int:
        records = self.topics[topic][number]
        for offset, record in enumerate(records):
            if committed and record.transaction is not None and record.transaction not in self.marked:
                return offset
        return len(records)

    def latest(self, topic: str) -> Offsets:
        return {Place(topic, number): self.end(topic, number) for number in self.partitions(topic)}

    # As RecordTimes

    def next_times(self, spans: Spans) -> Mapping[Place, int | None]:
        found: dict[Place, int | None] = {}
        for place, span in spans.items():
            end = min(span.end, self.end(place.topic, place.partition))
            records = self.topics[place.topic][place.partition][span.start : end]
            found[place] = records[0].time_ms if records else None
        return found

    def first_later(self, spans: Spans, time_ms: int) -> Mapping[Place, int]:
        found = {}
        for place, span in spans.items():
            records = self.topics[place.topic][place.partition]
            later = (offset for offset, record in enumerate(records) if record.time_ms > time_ms)
            found[place] = min(span.end, next(later, span.end))
        return found

    def times(self, place: Place, span: Span) -> Iterator[tuple[int, int]]:
        for offset, record in enumerate(self.topics[place.topic][place.partition][span.start : span.end]):
            yield span.start + offset, record.time_ms


def reading(
    world: World, name: str, inputs: list[Input], topics: list[str], output: str | None
) -> QueryReading:
    made = QueryReading(
        name,
        inputs,
        output is None,
        output,
        True,
        None,
        [(topic,) for topic in topics],
        cast(Any, world),
        threading.Condition(),
    )
    made.times = cast(Any, world)
    return made


@dataclass(slots=True)
class Maker:
    """The query that makes the table, in small steps."""

    world: World
    reading: QueryReading
    starts: Offsets
    ends: Offsets = field(default_factory=dict)
    tasks: list[tuple[int, list[Record]]] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    batch: int = 0

    def step(self) -> None:
        """Plan a batch, write a part of one, end it, or have a marker written."""
        world = self.world
        if self.committed and world.random.random() < 0.5:
            world.marked.add(self.committed.pop(world.random.randrange(len(self.committed))))
        elif not self.ends:
            latest = world.latest("events")
            (ends,) = self.reading.plan([self.starts], [latest])
            if ends != self.starts:
                self.ends = dict(ends)
                self.tasks = self._outputs()
        elif self.tasks:
            transaction, rows = task = world.random.choice(self.tasks)
            if rows:
                world.random.choice(world.topics["table"]).append(rows.pop())
            else:
                self.tasks.remove(task)
                self.committed.append(transaction)
        else:
            self.starts, self.ends = self.ends, {}

    def _outputs(self) -> list[tuple[int, list[Record]]]:
        """The events of the batch, by key: in no order of time; each task has a transaction."""
        self.batch += 1
        outputs: list[tuple[int, list[Record]]] = [(2 * self.batch + number, []) for number in range(2)]
        for place, end in self.ends.items():
            for record in self.world.topics["events"][place.partition][self.starts[place] : end]:
                transaction, rows = self.world.random.choice(outputs)
                rows.append(Record(record.time_ms, record.number, transaction))
        for _, rows in outputs:
            self.world.random.shuffle(rows)
        return [output for output in outputs if output[1]]


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_order, "WAIT_SECONDS", 0.0)


@settings(max_examples=examples(40, deep=3_000), deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.integers(0, 1 << 30), st.sampled_from([None, 1, 3, 10]))
def test_no_record_is_joined_before_an_older_row(seed: int, limit: int | None) -> None:
    rolls = random.Random(seed)
    world = World(
        rolls, {name: [[] for _ in range(rolls.randint(1, 3))] for name in ("events", "records", "table")}
    )
    makes = reading(world, "events", [Input(False, limit)], ["events"], "table")
    maker = world.maker = Maker(world, makes, dict.fromkeys(world.latest("events"), 0))
    joins = reading(
        world, "join", [Input(True, limit, makes, True), Input(False, limit)], ["table", "records"], None
    )
    starts = [dict.fromkeys(world.latest(topic), 0) for topic in ("table", "records")]
    seen: set[int] = set()
    for step in range(STEPS + DRAIN_STEPS):
        if step < STEPS:
            world.meanwhile()
        else:
            world.busy = True
            for _ in range(20):
                maker.step()
            if starts == [world.latest("table"), world.latest("records")]:
                break
        stream = world.latest("records")
        world.meanwhile()
        table = world.latest("table")
        world.meanwhile()
        ends = joins.plan(starts, [table, stream])
        # then: the rows of a batch come before its records
        for place, end in ends[TABLE].items():
            records = world.topics["table"][place.partition][starts[TABLE][place] : end]
            assert all(each.transaction in world.marked for each in records)
            seen |= {each.number for each in records}
        for place, end in ends[STREAM].items():
            for record in world.topics["records"][place.partition][starts[STREAM][place] : end]:
                events = itertools.chain.from_iterable(world.topics["events"])
                older = {each.number for each in events if each.number < record.number}
                assert older <= seen, f"record {record} came before {older - seen}"
        starts = [dict(each) for each in ends]
    # then: nothing waits for ever
    assert starts == [world.latest("table"), world.latest("records")]
    assert len(seen) == sum(map(len, world.topics["events"]))
