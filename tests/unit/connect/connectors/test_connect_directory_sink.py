"""The directory sink: each record in one finished file, whatever is killed, frozen or moved."""

from __future__ import annotations

import decimal
import os
import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.config.errors import ConfigError
from ottla.connect.connectors.common import Superseded
from ottla.connect.connectors.directory.ledger import HIDDEN, FileLedger
from ottla.connect.connectors.directory.sink import DirectorySink
from ottla.connect.connectors.directory.source import DirectorySource
from ottla.connect.connectors.plain import json_text, plain
from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Moment, Schema, Struct, Type
from ottla.connect.plugins.api import RecordError
from ottla.connect.testing import Target, check_sink, drawn_records, read_records, settings_of

PLACE = TopicPartition("t", 0)


def _sink(path: Path, now: Callable[[], float] | None = None, **texts: str) -> DirectorySink:
    given = {"output.path": str(path)} | {name.replace("_", "."): text for name, text in texts.items()}
    settings = settings_of(DirectorySink, given)
    return DirectorySink(settings) if now is None else DirectorySink(settings, now)


def _records(*values: Any, first: int = 0, schema: Schema | None = None) -> list[SinkRecord]:
    return [
        SinkRecord(Record("t", 0, value=value, value_schema=schema), PLACE, offset)
        for offset, value in enumerate(values, first)
    ]


def _names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.name != HIDDEN)


def _read(path: Path, kind: str, **texts: str) -> list[Any]:
    """What the directory source reads of a sink's directory, file by file."""
    given = {"topic": "t", "input.path": str(path), "format": kind, "file.minimum.age.ms": "0"}
    source = DirectorySource(settings_of(DirectorySource, given | texts))
    found = []
    for partition in sorted(source.partitions(), key=lambda each: str(each["filename"])):
        if partition["filename"] != HIDDEN:
            found += [plain(each.record.value) for each in read_records(source, partition)]
    return found


@pytest.mark.parametrize("kind", ["lines", "json", "csv", "parquet"])
@pytest.mark.parametrize("seed", range(2))
def test_each_record_is_in_one_file_whatever_is_killed(tmp_path: Path, kind: str, seed: int) -> None:
    chance = random.Random(f"{kind}/{seed}")
    targets: list[Path] = []

    def new_target() -> Target:
        path = tmp_path / str(len(targets))
        targets.append(path)

        def connect() -> DirectorySink:
            # A flush looks at a clock that runs on by itself: some flushes finish files.
            time = [0.0]

            def now() -> float:
                time[0] += chance.random()
                return time[0]

            return _sink(path, now, format=kind, flush_size="7", rotate_interval_ms="2000")

        def content() -> list[Hashable]:
            _finish(connect(), records, path, kind)
            return [json_text(value) for value in _read(path, kind)]

        return Target(connect, content)

    records = drawn_records(chance, 100, tombstones=0.1 if kind == "json" else 0.0)
    if kind == "lines":
        records = [_with_text(each) for each in records]
    check_sink(new_target, records, exactly_once=True, seed=seed, runs=2)


def _with_text(each: SinkRecord) -> SinkRecord:
    record = each.record
    return SinkRecord(
        Record(record.topic, record.partition, value=f"{each.place} {each.offset}"), each.place, each.offset
    )


def _finish(sink: DirectorySink, records: Sequence[SinkRecord], path: Path, kind: str) -> None:
    """Write what a run has left in unfinished files, as the next task would, and finish all files."""
    rest = DirectorySink(
        settings_of(DirectorySink, {"output.path": str(path), "format": kind, "rotate.interval.ms": "0"})
    )
    places = rest.open(list({each.place for each in records}))
    for each in records:
        if each.offset >= places.get(each.place, 0):
            try:
                rest.write([each])
            except RecordError:
                continue
    rest.flush()
    rest.close()


def test_names_have_the_offsets_and_files_roll_by_size_and_time(tmp_path: Path) -> None:
    time = [0.0]
    sink = _sink(tmp_path, lambda: time[0], flush_size="3", rotate_interval_ms="1000")
    assert sink.open([PLACE]) == {}
    sink.write(_records(*range(5), first=7))
    assert sink.flush() == {PLACE: 10}
    assert _names(tmp_path) == [f"t+0+{7:020}+{9:020}.json"]
    time[0] = 1.0
    assert sink.flush() == {PLACE: 12}
    assert _names(tmp_path)[1:] == [f"t+0+{10:020}+{11:020}.json"]
    assert (tmp_path / _names(tmp_path)[0]).read_text() == "0\n1\n2\n"


def test_finished_files_may_be_taken_away_and_their_records_do_not_come_again(tmp_path: Path) -> None:
    sink = _sink(tmp_path, flush_size="2")
    sink.write(_records(0, 1, 2, 3))
    for name in _names(tmp_path):
        (tmp_path / name).unlink()
    assert _sink(tmp_path).open([PLACE]) == {PLACE: 4}


def test_another_generation_or_connector_knows_nothing_of_the_offsets(tmp_path: Path) -> None:
    sink = _sink(tmp_path, name="one", flush_size="2")
    sink.write(_records(0, 1))
    assert _sink(tmp_path, name="one").open([PLACE]) == {PLACE: 2}
    assert _sink(tmp_path, name="two").open([PLACE]) == {}
    assert _sink(tmp_path, name="one", ottla_generation="1").open([PLACE]) == {}


def test_a_change_of_columns_begins_a_file(tmp_path: Path) -> None:
    sink = _sink(tmp_path, format="csv", rotate_interval_ms="0")
    sink.write(_records({"a": 1, "b": None}, {"a": 2, "b": ""}, {"c": 'x"y\nz'}, {"c": None}))
    sink.flush()
    assert [(tmp_path / name).read_text() for name in _names(tmp_path)] == [
        '"a","b"\n1,\n2,""\n',
        '"c"\n"x""y\nz"\n""\n',
    ]


def test_logical_types_survive_parquet(tmp_path: Path) -> None:
    schema = Schema(
        Type.STRUCT,
        name="t+0+",
        fields=(
            Field("at", Schema(Type.INT64, name=TIMESTAMP, version=1)),
            Field("day", Schema(Type.INT32, name=DATE, version=1, optional=True)),
            Field("clock", Schema(Type.INT32, name=TIME, version=1)),
            Field("price", Schema(Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})),
            Field("raw", Schema(Type.BYTES)),
            Field(
                "map", Schema(Type.MAP, keys=Schema(Type.STRING), values=Schema(Type.INT32, optional=True))
            ),
            Field("inner", Schema(Type.STRUCT, fields=(Field("x", Schema(Type.INT8, default=5)),))),
        ),
    )
    value = {
        "at": Moment(-1),
        "day": Moment(86_400_000),
        "clock": Moment(1005),
        "price": decimal.Decimal("1.50"),
        "raw": b"\xff",
        "map": {"k": 1, "n": None},
        "inner": Struct(schema.fields[6].schema, {}),
    }
    sink = _sink(tmp_path, format="parquet", flush_size="1")
    sink.write(_records(Struct(schema, value), schema=schema))
    assert _read(tmp_path, "parquet") == [plain(Struct(schema, value))]


@pytest.mark.parametrize(
    ("kind", "bad"),
    [("lines", "two\nlines"), ("json", float("nan")), ("csv", "no columns"), ("parquet", {"a": 1})],
)
def test_a_record_that_a_format_can_not_have_is_refused_and_the_others_are_written(
    tmp_path: Path, kind: str, bad: Any
) -> None:
    schema = Schema(Type.STRUCT, fields=(Field("a", Schema(Type.INT32)),))
    good = [Struct(schema, {"a": number}) for number in range(4)]
    sink = _sink(tmp_path, format=kind, rotate_interval_ms="0")
    records = [
        *_records(good[0], good[1], schema=schema),
        *_records(bad, first=2),
        *_records(good[2], good[3], first=3, schema=schema),
    ]
    with pytest.raises(RecordError) as refused:
        sink.write(records)
    assert refused.value.position == 2
    sink.write(records[3:])
    assert sink.flush() == {PLACE: 5}
    assert len(_read(tmp_path, kind)) == 4


@pytest.mark.parametrize("value", [{"a": "text"}, {"a": None}, {"a": 2**40}])
def test_a_value_that_does_not_fit_its_column_is_refused_with_its_record(tmp_path: Path, value: Any) -> None:
    schema = Schema(Type.STRUCT, fields=(Field("a", Schema(Type.INT32)),))
    sink = _sink(tmp_path, format="parquet")
    with pytest.raises(RecordError) as refused:
        sink.write(_records(Struct(schema, {"a": 1}), Struct(schema, value), schema=schema))
    assert refused.value.position == 1


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({}, "output.path"),
        ({"output.path": "/dev/null/x"}, "output.path=/dev/null/x"),
        ({"output.path": "/tmp", "flush.size": "0"}, "flush.size=0"),
        ({"output.path": "/tmp", "format": "avro"}, "format=avro"),
    ],
)
def test_bad_settings_are_named(texts: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        DirectorySink(settings_of(DirectorySink, texts))


# -- the ledger: kills at any call, and writers that were frozen -------------------------------------


class Killed(BaseException):
    """The process is dead: nothing after this runs, no `except` and no `finally` of the product counts."""


CALLS = ("fsync", "rename", "symlink", "unlink", "open")


@pytest.fixture
def kill_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Arms the n-th call that changes the directory: it kills instead."""
    left = [10**9]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(*arguments, **named)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, counted(getattr(os, name)))

    def arm(calls: int) -> None:
        left[0] = calls

    yield arm
    left[0] = 10**9


def test_a_kill_at_any_call_leaves_each_record_once(tmp_path: Path, kill_at: Callable[[int], None]) -> None:
    records = _records(*range(10))
    kills = 0
    for calls in range(200):
        path = tmp_path / str(calls)
        kill_at(calls)
        try:
            sink = _sink(path, flush_size="2")
            sink.open([PLACE])
            sink.write(records[:6])
            finished = True
        except Killed:
            finished = False
            kills += 1
        kill_at(10**9)
        sink = _sink(path, flush_size="2")
        place = sink.open([PLACE]).get(PLACE, 0)
        sink.write(records[place:])
        assert [int(value) for value in _read(path, "json")] == list(range(10)), calls
        if finished:
            break
    assert kills > 20
    assert finished


def test_of_two_writers_at_one_offset_the_second_is_refused(tmp_path: Path) -> None:
    frozen, successor = _sink(tmp_path, flush_size="4"), _sink(tmp_path, flush_size="2")
    frozen.open([PLACE])
    frozen.write(_records(0, 1, 2))
    successor.open([PLACE])
    successor.write(_records(0, 1, 2, 3, 4, 5))
    with pytest.raises(Superseded, match="another task wrote"):
        frozen.write(_records(3, first=3))
    assert [int(value) for value in _read(tmp_path, "json")] == list(range(6))
    assert _sink(tmp_path).open([PLACE]) == {PLACE: 6}


@pytest.mark.parametrize("seed", range(40))
def test_frozen_writers_that_go_on_at_any_call_write_nothing_twice(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers take turns at each call: the first was frozen, the second took its partition over."""
    chance = random.Random(seed)
    ledgers = [FileLedger(tmp_path, "one", "txt") for _ in range(2)]
    in_successor = [False]

    def successor() -> None:
        """The whole of another task's work, between two calls of the first."""
        if in_successor[0]:
            return
        in_successor[0] = True
        for _ in range(chance.randrange(3)):
            start = ledgers[1].open(PLACE) or 0
            _finish_file(ledgers[1], start, chance)
        in_successor[0] = False

    def interrupted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if chance.random() < 0.3:
                successor()
            return real(*arguments, **named)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, interrupted(getattr(os, name)))
    for _ in range(6):
        try:
            start = ledgers[0].open(PLACE) or 0
            _finish_file(ledgers[0], start, chance)
        except Superseded:
            continue
    monkeypatch.undo()
    end = FileLedger(tmp_path, "one", "txt").open(PLACE) or 0
    written = [int(line) for name in _names(tmp_path) for line in (tmp_path / name).read_text().split()]
    assert written == list(range(end))


def _finish_file(ledger: FileLedger, start: int, chance: random.Random) -> None:
    end = start + chance.randrange(5)
    temporary = ledger.begin(PLACE, start)
    temporary.path.write_text("".join(f"{offset}\n" for offset in range(start, end + 1)))
    ledger.finish(temporary, end)


def test_another_task_s_open_leaves_the_file_that_is_being_written(tmp_path: Path) -> None:
    owner, zombie = (FileLedger(tmp_path, "one", "txt") for _ in range(2))
    _finish_file(owner, 0, random.Random(1))
    start = owner.open(PLACE)
    assert start is not None
    temporary = owner.begin(PLACE, start)
    temporary.path.write_text(f"{start}\n")
    assert zombie.open(PLACE) == start
    assert owner.finish(temporary, start).read_text() == f"{start}\n"


def test_a_file_is_named_when_its_commit_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power loss may undo what was not synced: the link has to be, before the file gets its name."""
    calls: list[str] = []

    def noted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            calls.append(name)
            return real(*arguments, **named)

        return call

    sink = _sink(tmp_path, flush_size="1")
    for name in ("fsync", "rename", "symlink"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    sink.write(_records(1))
    assert calls == ["fsync", "symlink", "fsync", "rename", "fsync", "fsync"]
