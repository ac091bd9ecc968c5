"""Tests of connectors without a broker: read from an offset, write with kills in between, and what must hold.

    records = check_source(lambda: MySource(settings_of(MySource, {"topic": "t"})))
    check_sink(new_target, drawn_records(random.Random(1), 200), exactly_once=True)

The checks raise AssertionError, which names the rule that the connector breaks.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.connect.data.record import (
    Record,
    SinkRecord,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    TopicPartition,
)
from ottla.connect.data.schema import Field, Schema, Struct, Type
from ottla.connect.plugins.api import RecordError, RetriableError, SinkConnector, SourceConnector

PATIENCE: Final = 3
"""So many empty batches one after another mean that a source has nothing more."""
MAX_RETRIES: Final = 20


def settings_of(
    connector: type[SourceConnector] | type[SinkConnector], texts: Mapping[str, str] | None = None
) -> Settings:
    """A connector's settings from texts. Raises ConfigError."""
    return Settings(connector.TABLE, from_mapping(texts or {}))


# -- sources ----------------------------------------------------------------------------------------


def read_records(
    source: SourceConnector,
    partition: SourcePartition,
    offset: SourceOffset | None = None,
    *,
    limit: int | None = None,
    patience: int = PATIENCE,
) -> list[SourceRecord]:
    """A partition's records after an offset: all there are now, or `limit` of them."""
    found: list[SourceRecord] = []
    empty_batches = 0
    batches = source.read(partition, offset)
    try:
        for batch in batches:
            empty_batches = 0 if batch else empty_batches + 1
            found.extend(batch)
            if empty_batches >= patience or (limit is not None and len(found) >= limit):
                break
    finally:
        _close(batches)
    return found[:limit]


def check_source(
    make: Callable[[], SourceConnector],
    *,
    limit: int | None = None,
    restarts: int = 50,
    seed: int = 0,
    patience: int = PATIENCE,
) -> list[SourceRecord]:
    """Check that a source goes on from each of its offsets as if it had never stopped.

    make: a new object, as a task has it after a restart. limit: the records looked at of each partition of an
    endless source. restarts: offsets of each partition from which it is read again, drawn where there are
    more. Returns the records, partition by partition.
    """
    chance = random.Random(seed)
    source = make()
    partitions = [_through_json(each, "a source partition") for each in source.partitions()]
    assert partitions, "partitions() gives none: there is nothing to read"
    assert _unique(partitions), "partitions() gives a partition twice"
    found: list[SourceRecord] = []
    for partition in partitions:
        whole = read_records(source, partition, limit=limit, patience=patience)
        for each in whole:
            assert _through_json(each.source_partition, "a record's partition") == partition, (
                f"a record of {partition} says that it is of {each.source_partition}"
            )
            assert each.record.topic, "a record has no topic"
            assert each.source_offset, "a record has an empty offset"
        offsets = [_through_json(each.source_offset, "an offset") for each in whole]
        assert _unique(offsets), f"two records of {partition} have the same offset: a restart would lose one"
        drawn = sorted(chance.sample(range(len(whole)), min(restarts, len(whole))))
        for index in drawn:
            again = make()
            left = None if limit is None else limit - index - 1
            if left == 0:
                continue
            rest = read_records(again, partition, offsets[index], limit=left, patience=patience)
            assert rest == whole[index + 1 :], _difference(
                partition, offsets[index], rest, whole[index + 1 :]
            )
            again.close()
        found += whole
    source.close()
    source.close()  # a task that failed may close twice
    return found


def check_growing_source(
    make: Callable[[], SourceConnector],
    grow: Callable[[], bool],
    *,
    seed: int = 0,
    patience: int = PATIENCE,
) -> list[SourceRecord]:
    """Read a source while it grows, with kills and restarts in between: each record has to come once.

    grow: adds something to what the source reads; False when it is done. Offsets are those of the last record
    that was taken. Returns the records as they came.
    """
    chance = random.Random(seed)
    source = make()
    partition = _through_json(source.partitions()[0], "a source partition")
    offset: SourceOffset | None = None
    batches = source.read(partition, None)
    found: list[SourceRecord] = []
    growing, idle = True, 0
    while growing or idle < patience:
        if growing:
            growing = grow()
        for _ in range(chance.randrange(3)):
            batch = next(batches, ())
            idle = 0 if batch or growing else idle + 1
            # A kill may come when a part of a batch has been produced.
            killed = chance.random() < 0.3
            taken = list(batch)[: chance.randrange(len(batch) + 1)] if killed and batch else list(batch)
            found += taken
            if taken:
                offset = _through_json(taken[-1].source_offset, "an offset")
                if chance.random() < 0.5:
                    source.committed(partition, offset)
            if killed:
                _close(batches)
                source.close()
                source = make()
                batches = source.read(partition, offset)
    _close(batches)
    source.close()
    return found


# -- sinks ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """Another system, empty at first. connect: a new sink on it; content: what it holds, in any order."""

    connect: Callable[[], SinkConnector]
    content: Callable[[], Collection[Hashable]]


@dataclass(slots=True)
class _Group:
    """What a sink's tasks and their consumer group know: positions, and the offsets that are committed."""

    logs: dict[TopicPartition, list[SinkRecord]]
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    dead: set[tuple[TopicPartition, int]] = field(default_factory=set)

    def end(self, partition: TopicPartition) -> int:
        return self.logs[partition][-1].offset + 1

    def open(self, sink: SinkConnector, exactly_once: bool) -> None:
        """Assign all partitions to a sink, and go where it or the group says."""
        places = sink.open(list(self.logs))
        for partition, log in self.logs.items():
            first = log[0].offset
            committed = self.committed.get(partition, first)
            place = places.get(partition, committed)
            assert place <= max(self.positions.get(partition, first), first), (
                f"open() says {partition} goes on at {place}, but only records below "
                f"{self.positions.get(partition, first)} were ever written"
            )
            if exactly_once and committed > first:
                assert partition in places, (
                    f"open() does not say where {partition} goes on, though its records below {committed} "
                    "are durable"
                )
            # Refused records are in no target: one that came last is refused again, which loses nothing.
            between = [each.offset for each in log if place <= each.offset < committed]
            assert all((partition, offset) in self.dead for offset in between), (
                f"open() says {partition} goes on at {place}, but flush() had said that records below "
                f"{committed} are durable"
            )
            self.positions[partition] = place

    def next_batch(self, chance: random.Random) -> list[SinkRecord]:
        """Some records of some partitions, each partition's in its order, as a consumer gives them."""
        batch = []
        for partition in chance.sample(list(self.logs), len(self.logs)):
            if chance.random() < 0.6:
                left = [each for each in self.logs[partition] if each.offset >= self.positions[partition]]
                batch += left[: chance.randint(1, 40)]
        return batch

    def took(self, batch: Sequence[SinkRecord]) -> None:
        for each in batch:
            self.positions[each.place] = each.offset + 1

    def commit(self, flushed: Mapping[TopicPartition, int] | None) -> None:
        """Commit what a flush says: an offset that was never written must not be among them."""
        for partition, offset in (self.positions if flushed is None else flushed).items():
            assert offset <= self.positions[partition], (
                f"flush() says that {partition} is durable up to {offset}, but only records below "
                f"{self.positions[partition]} were written"
            )
            if offset > self.committed.get(partition, -1):
                self.committed[partition] = offset


def write_records(sink: SinkConnector, records: Sequence[SinkRecord]) -> list[SinkRecord]:
    """Write a batch as a task does: again after RetriableError, and without a record that is refused.

    Returns the refused records, which would be dead letters.
    """
    refused: list[SinkRecord] = []
    left = list(records)
    for _ in range(len(left) + MAX_RETRIES):
        try:
            sink.write(left)
            return refused
        except RetriableError:
            continue
        except RecordError as error:
            assert 0 <= error.position < len(left), f"a batch of {len(left)} has no record {error.position}"
            refused.append(left[error.position])
            left = left[error.position + 1 :]
    raise AssertionError(f"write() still raises RetriableError after {MAX_RETRIES} tries")


def check_sink(
    new_target: Callable[[], Target],
    records: Sequence[SinkRecord],
    *,
    exactly_once: bool,
    seed: int = 0,
    runs: int = 5,
    deterministic: bool = True,
) -> Counter[Hashable]:
    """Check what a sink leaves in its target when tasks are killed, moved and repeated at any time.

    new_target: a new and empty target. exactly_once: what the sink claims; else each record may be there more
    than once, and only the order of kills decides how often. deterministic: False where the target's content
    can't be compared with that of a run without kills. Returns the content of the run without kills.
    """
    target = new_target()
    expected, refused = _run(target, records, None, exactly_once)
    for run in range(runs):
        target = new_target()
        found, dead = _run(target, records, random.Random(f"{seed}/{run}"), exactly_once)
        assert dead == refused, f"run {run}: refused records {sorted(dead ^ refused)} differ from run to run"
        if not deterministic:
            continue
        lost = expected - found
        assert not lost, f"run {run} of seed {seed}: lost {_some(lost)}"
        foreign = set(found) - set(expected)
        assert not foreign, (
            f"run {run} of seed {seed}: there is something that was never written: {_some(foreign)}"
        )
        if exactly_once:
            assert found == expected, f"run {run} of seed {seed}: written twice: {_some(found - expected)}"
    return expected


def _run(
    target: Target, records: Sequence[SinkRecord], chance: random.Random | None, exactly_once: bool
) -> tuple[Counter[Hashable], set[tuple[TopicPartition, int]]]:
    """Write all records, with kills where there is chance; the target's content and the refused records."""
    logs: dict[TopicPartition, list[SinkRecord]] = {}
    for each in records:
        logs.setdefault(each.place, []).append(each)
    group = _Group(logs)
    sink = target.connect()
    group.open(sink, exactly_once)
    while any(group.positions[partition] < group.end(partition) for partition in logs):
        batch = list(records) if chance is None else group.next_batch(chance)
        dead = write_records(sink, batch)
        group.dead |= {(each.place, each.offset) for each in dead}
        group.took(batch)
        if chance is None:
            continue
        if chance.random() < 0.2:  # a task that got RetriableError gives the same batch again
            gone = {(each.place, each.offset) for each in dead}
            write_records(sink, [each for each in batch if (each.place, each.offset) not in gone])
        if chance.random() < 0.4:
            group.commit(sink.flush())
        match chance.random():
            case chosen if chosen < 0.15:  # killed: no flush, no close
                sink = target.connect()
                group.open(sink, exactly_once)
            case chosen if chosen < 0.3:  # stopped in order
                group.commit(sink.flush())
                sink.lose(list(logs))
                sink.close()
                sink = target.connect()
                group.open(sink, exactly_once)
            case chosen if chosen < 0.4:  # a partition goes away and comes back, the object stays
                group.commit(sink.flush())
                sink.lose(list(logs))
                group.open(sink, exactly_once)
    group.commit(sink.flush())
    sink.lose(list(logs))
    sink.close()
    sink.close()
    return Counter(target.content()), group.dead


# -- records ----------------------------------------------------------------------------------------

_WORDS: Final = (
    "",
    "a",
    "kafka",
    "ünï",
    "日本",
    "🙂",
    'quote"d',
    "comma,d",
    "back\\slash",
    "line\nline",
    " edge ",
)


def drawn_records(
    chance: random.Random,
    count: int,
    *,
    topics: Sequence[str] = ("first", "second"),
    partitions: int = 2,
    keys: int = 20,
    tombstones: float = 0.1,
    structs: bool = True,
) -> list[SinkRecord]:
    """Records in the order of consuming: text keys; values are structs, or objects without a schema."""
    offsets = {
        TopicPartition(topic, partition): chance.randrange(50)
        for topic in topics
        for partition in range(partitions)
    }
    found = []
    for number in range(count):
        place = chance.choice(list(offsets))
        offset = offsets[place]
        offsets[place] += chance.choice((1, 1, 1, 3))  # compacted topics and transactions leave holes
        schema, value = _drawn_value(chance, number) if structs else (None, _drawn_object(chance, number))
        if chance.random() < tombstones:
            schema, value = None, None
        record = Record(
            place.topic,
            place.partition,
            f"key-{chance.randrange(keys)}",
            Schema(Type.STRING),
            value,
            schema,
            1_700_000_000_000 + number,
        )
        found.append(SinkRecord(record, place, offset))
    return found


def _drawn_object(chance: random.Random, number: int) -> dict[str, Any]:
    return {
        "number": number,
        "word": chance.choice(_WORDS),
        "ratio": chance.choice((0.0, -1.5, 1e10)),
        "flag": chance.random() < 0.5,
        "list": [chance.randrange(10) for _ in range(chance.randrange(3))],
    }


_DRAWN: Final = Schema(
    Type.STRUCT,
    name="drawn",
    fields=(
        Field("number", Schema(Type.INT64)),
        Field("word", Schema(Type.STRING, optional=True)),
        Field("ratio", Schema(Type.FLOAT64)),
        Field("flag", Schema(Type.BOOLEAN)),
        Field("list", Schema(Type.ARRAY, values=Schema(Type.INT32))),
    ),
)


def _drawn_value(chance: random.Random, number: int) -> tuple[Schema | None, Any]:
    value = _drawn_object(chance, number)
    return (_DRAWN, Struct(_DRAWN, value)) if chance.random() < 0.5 else (None, value)


# -- help -------------------------------------------------------------------------------------------


def _close(batches: Iterator[Any]) -> None:
    close = getattr(batches, "close", None)
    if close is not None:
        close()


def _through_json(value: Mapping[str, Any], noun: str) -> Mapping[str, Any]:
    """The value as it comes back from the offsets topic."""
    try:
        read: Mapping[str, Any] = json.loads(json.dumps(value))
    except (TypeError, ValueError) as problem:
        raise AssertionError(f"{noun} is no JSON object: {value!r}: {problem}") from None
    assert read == value, f"{noun} comes back from JSON as {read!r}, it was {value!r}"
    return read


def _unique(values: Sequence[Mapping[str, Any]]) -> bool:
    return len({json.dumps(value, sort_keys=True) for value in values}) == len(values)


def _difference(
    partition: SourcePartition,
    offset: SourceOffset,
    found: Sequence[SourceRecord],
    expected: Sequence[SourceRecord],
) -> str:
    for position, (one, other) in enumerate(zip(found, expected, strict=False)):
        if one != other:
            return f"read from {offset} of {partition}, record {position} is {one}, not {other}"
    return f"read from {offset} of {partition}, {len(found)} records come instead of {len(expected)}"


def _some(values: Collection[Any]) -> str:
    shown = [repr(value)[:200] for value in list(values)[:3]]
    return f"{', '.join(shown)}{' …' if len(values) > 3 else ''} ({len(values)} in all)"
