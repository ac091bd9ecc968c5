"""The directory source: formats, resumption at each row, what becomes of files."""

from __future__ import annotations

import decimal
import json
import os
import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as arrow_parquet
import pytest

from ottla.config.errors import ConfigError
from ottla.connect.connectors import growing_file
from ottla.connect.connectors.directory.formats import BadFile
from ottla.connect.connectors.directory.source import DirectorySource
from ottla.connect.connectors.plain import plain
from ottla.connect.data.record import SourceRecord
from ottla.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Moment, Struct, Type
from ottla.connect.testing import check_growing_source, check_source, read_records, settings_of

WORDS = ("", "x", "ünï", "日本", 'quote"d', "comma,d", "  ", "back\\slash", "🙂")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.mkdir()
    return path


def _source(files: Path, **texts: str) -> DirectorySource:
    given = {"topic": "t", "input.path": str(files), "file.minimum.age.ms": "0"}
    given |= {name.replace("_", "."): text for name, text in texts.items()}
    return DirectorySource(settings_of(DirectorySource, given))


def _values(records: Sequence[SourceRecord]) -> list[Any]:
    return [plain(each.record.value) for each in records]


def _drawn_rows(chance: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": chance.randrange(-(10**6), 10**6),
            "word": chance.choice([*WORDS, None]),
            "ratio": chance.random(),
            "flag": chance.random() < 0.5,
        }
        for _ in range(count)
    ]


def _csv_text(row: dict[str, Any]) -> str:
    cells = []
    for value in row.values():
        match value:
            case None:
                cells.append("")
            case str():
                cells.append('"' + value.replace('"', '""') + '"')
            case bool():
                cells.append(str(value).lower())
            case _:
                cells.append(repr(value))
    return ",".join(cells)


def _write(path: Path, kind: str, rows: Sequence[dict[str, Any]], chance: random.Random) -> list[Any]:
    """Write rows in a format; the values that are to be read."""
    match kind:
        case "lines":
            texts = [row["word"] or "" for row in rows]
            path.write_text("".join(f"{text}\n" for text in texts))
            if chance.random() < 0.5:  # a last line without an end
                path.write_text(path.read_text() + "last")
                texts.append("last")
            return texts
        case "json":
            path.write_text("".join(json.dumps(row) + chance.choice(("\n", "\n\n", "\r\n")) for row in rows))
            return list(rows)
        case "csv":
            path.write_text("\n".join(["id,word,ratio,flag", *map(_csv_text, rows)]))
            return list(rows)
    arrow_parquet.write_table(
        pa.Table.from_pylist(
            list(rows),
            schema=pa.schema(
                [("id", pa.int64()), ("word", pa.string()), ("ratio", pa.float64()), ("flag", pa.bool_())]
            ),
        ),
        path,
        row_group_size=chance.randint(1, 20),
    )
    return list(rows)


@pytest.mark.parametrize("kind", ["lines", "csv", "json", "parquet"])
@pytest.mark.parametrize("seed", range(6))
def test_reading_goes_on_at_each_row(
    files: Path, kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.connect.connectors.directory.readers.CHUNK_BYTES", 100)
    chance = random.Random(f"{kind}/{seed}")
    expected: dict[str, list[Any]] = {}
    for number in range(chance.randint(1, 4)):
        name = f"{number}.{kind}"
        expected[name] = _write(files / name, kind, _drawn_rows(chance, chance.randrange(60)), chance)
    texts = {"format": kind, "batch_size": str(chance.randint(1, 30))}
    if kind == "csv":
        texts["csv_types"] = "id:int64,ratio:double,flag:bool"

    found = check_source(lambda: _source(files, **texts), seed=seed, restarts=15)

    for name, values in expected.items():
        assert _values([each for each in found if each.source_partition["filename"] == name]) == values


def test_csv_has_texts_unless_types_are_given_or_inferred(files: Path) -> None:
    (files / "a.csv").write_text('id,day,note\n1,2026-01-02,"a ""b""\nc"\n2,,\n')
    assert _values(read_records(_source(files, format="csv"), _source(files).partitions()[0])) == [
        {"id": "1", "day": "2026-01-02", "note": 'a "b"\nc'},
        {"id": "2", "day": None, "note": None},
    ]
    partition = _source(files).partitions()[0]
    for texts in ({"csv_infer_types": "true"}, {"csv_types": "id:int64,day:date32"}):
        found = read_records(_source(files, format="csv", **texts), partition)
        value = found[0].record.value
        assert isinstance(value, Struct)
        assert [each.schema.type for each in value.schema.fields] == [Type.INT64, Type.INT32, Type.STRING]
        assert value.get("day") == Moment(1_767_312_000_000)
        assert value.schema.name == "a"


def test_csv_without_a_header_and_with_another_separator(files: Path) -> None:
    (files / "a.csv").write_text("1;'x;y'\n")
    texts = {"csv_first_row_as_header": "false", "csv_separator_char": "59", "csv_quote_char": "39"}
    source = _source(files, format="csv", **texts)
    assert _values(read_records(source, source.partitions()[0])) == [{"f0": "1", "f1": "x;y"}]


def test_types_of_parquet_become_connects(files: Path) -> None:
    columns = pa.schema(
        [
            pa.field("small", pa.int8(), nullable=False),
            ("unsigned", pa.uint64()),
            ("at", pa.timestamp("ns", tz="Europe/Berlin")),
            ("day", pa.date32()),
            ("clock", pa.time64("us")),
            ("price", pa.decimal128(10, 2)),
            ("raw", pa.binary()),
            ("list", pa.list_(pa.timestamp("ms"))),
            ("map", pa.map_(pa.string(), pa.int32())),
            ("inner", pa.struct([("when", pa.date32()), ("name", pa.dictionary(pa.int8(), pa.string()))])),
        ]
    )
    row = {
        "small": 5,
        "unsigned": 2**64 - 1,
        "at": datetime(1969, 12, 31, 23, 59, 59, 500_000, UTC),
        "day": date(1970, 1, 3),
        "clock": time(0, 0, 1, 5000),
        "price": decimal.Decimal("12.30"),
        "raw": b"\x00\xff",
        "list": [datetime(1970, 1, 1, tzinfo=UTC), None],
        "map": [("k", 1)],
        "inner": {"when": date(1970, 1, 2), "name": "n"},
    }
    arrow_parquet.write_table(pa.Table.from_pylist([row], schema=columns), files / "a.parquet")
    source = _source(files, format="parquet")
    (found,) = read_records(source, source.partitions()[0])
    value = found.record.value
    assert isinstance(value, Struct)
    schemas = {each.name: each.schema for each in value.schema.fields}
    assert (schemas["small"].type, schemas["small"].optional) == (Type.INT8, False)
    assert [schemas[name].name for name in ("at", "day", "clock", "price")] == [
        TIMESTAMP,
        DATE,
        TIME,
        DECIMAL,
    ]
    assert value.get("unsigned") == decimal.Decimal(2**64 - 1)
    assert value.get("at") == Moment(-500)
    assert value.get("day") == Moment(2 * 86_400_000)
    assert value.get("clock") == Moment(1005)
    assert value.get("price") == decimal.Decimal("12.30")
    assert value.get("raw") == b"\x00\xff"
    assert value.get("list") == [Moment(0), None]
    assert value.get("map") == {"k": 1}
    assert plain(value.get("inner")) == {"when": 86_400_000, "name": "n"}


def test_a_type_that_connect_does_not_have_is_named(files: Path) -> None:
    arrow_parquet.write_table(pa.table({"d": pa.array([1], pa.duration("s"))}), files / "a.parquet")
    source = _source(files, format="parquet")
    with pytest.raises(BadFile, match=r"a\.parquet: column d: Connect has no type for duration"):
        read_records(source, source.partitions()[0])


@pytest.mark.parametrize("kind", ["lines", "json"])
@pytest.mark.parametrize("seed", range(6))
def test_growing_files_are_read_on(
    files: Path, kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_file, "CHUNK_BYTES", 64)
    chance = random.Random(seed)
    path, written, turns = files / "log", [0], [30]
    path.touch()

    def grow() -> bool:
        turns[0] -= 1
        with path.open("a") as file:
            for _ in range(chance.randrange(6)):
                file.write(f"{written[0]}\n")
                written[0] += 1
        return turns[0] > 0

    found = check_growing_source(lambda: _source(files, format=kind, tail="true"), grow, seed=seed)
    assert [int(each.record.value) for each in found] == list(range(written[0]))


# -- files ------------------------------------------------------------------------------------------


def test_files_are_chosen_by_their_names_and_age(files: Path) -> None:
    for name in ("a.csv", "b.csv", "b.csv.part", "c.txt"):
        (files / name).touch()
    (files / "d.csv").mkdir()
    os.utime(files / "b.csv", (5, 5))
    source = _source(files, input_file_pattern=r".*\.csv")
    assert [each["filename"] for each in source.partitions()] == ["b.csv", "a.csv"]  # oldest first
    old = _source(files, file_minimum_age_ms="3600000")
    assert [each["filename"] for each in old.partitions()] == ["b.csv"]


def test_a_file_is_moved_when_its_last_offset_is_committed(files: Path, tmp_path: Path) -> None:
    finished = tmp_path / "done"
    finished.mkdir()
    (finished / "a").write_text("an earlier one")
    (files / "a").write_text("1\n2\n")
    source = _source(files, finished_path=str(finished))
    (partition,) = source.partitions()
    found = read_records(source, partition)
    source.committed(partition, found[0].source_offset)
    assert (files / "a").exists()
    source.committed(partition, found[1].source_offset)
    assert not (files / "a").exists()
    assert (finished / "a").read_text() == "an earlier one"
    assert (finished / "a.1").read_text() == "1\n2\n"
    source.committed(partition, found[1].source_offset)
    assert list(read_records(source, partition)) == []


def test_a_file_that_a_kill_left_after_its_last_commit_is_moved_by_the_next_task(
    files: Path, tmp_path: Path
) -> None:
    finished = tmp_path / "done"
    finished.mkdir()
    for name in ("full", "empty"):
        (files / name).write_text("1\n" if name == "full" else "")
    source = _source(files, finished_path=str(finished))
    partitions = {each["filename"]: each for each in source.partitions()}
    last = read_records(source, partitions["full"])[-1].source_offset
    again = _source(files, finished_path=str(finished))
    assert read_records(again, partitions["full"], last) == []
    assert read_records(again, partitions["empty"]) == []
    assert sorted(each.name for each in finished.iterdir()) == ["empty", "full"]


def test_finished_files_can_be_deleted(files: Path) -> None:
    (files / "a").write_text("1\n")
    source = _source(files, cleanup_policy="delete")
    (partition,) = source.partitions()
    source.committed(partition, read_records(source, partition)[-1].source_offset)
    assert list(files.iterdir()) == []


def test_a_new_file_of_an_old_name_is_read_and_the_old_one_s_offset_does_not_count(files: Path) -> None:
    (files / "a").write_text("1\n2\n")
    os.utime(files / "a", (5, 5))
    source = _source(files)
    (old,) = source.partitions()
    (files / "a").write_text("3\n")
    (new,) = source.partitions()
    assert old != new
    assert read_records(source, old) == []
    assert _values(read_records(source, new)) == ["3"]


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        ("json", '{"a": 1}\n{"a"\n', "line 2 is no JSON"),
        ("csv", "a,b\n1,2\n3\n", "Expected 2 columns"),
        ("parquet", "no parquet", "[Pp]arquet"),
    ],
)
def test_a_file_that_is_not_in_its_format_ends_the_task_or_is_moved(
    files: Path, tmp_path: Path, kind: str, text: str, problem: str
) -> None:
    (files / "bad").write_text(text)
    source = _source(files, format=kind)
    (partition,) = source.partitions()
    with pytest.raises(BadFile, match=problem):
        read_records(source, partition)
    assert (files / "bad").exists()
    errors = tmp_path / "errors"
    errors.mkdir()
    read_records(_source(files, format=kind, halt_on_error="false", error_path=str(errors)), partition)
    assert [each.name for each in errors.iterdir()] == ["bad"]


def test_a_value_that_its_column_can_not_have_is_named(files: Path) -> None:
    (files / "a.csv").write_text("id\n1\nx\n")
    source = _source(files, format="csv", csv_types="id:int64")
    with pytest.raises(BadFile, match=r"a\.csv.*invalid value 'x'"):
        read_records(source, source.partitions()[0])


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({"topic": ""}, "topic"),
        ({"input.path": "/nowhere/at/all"}, "input.path=/nowhere/at/all: is no directory"),
        ({"input.file.pattern": "("}, "input.file.pattern=.*regular expression"),
        ({"format": "xml"}, "format=xml"),
        ({"format": "csv", "tail": "true"}, "tail=true: files of format csv"),
        ({"tail": "true", "cleanup.policy": "DELETE"}, "cleanup.policy=DELETE"),
        ({"cleanup.policy": "MOVE"}, "finished.path: must be given"),
        ({"finished.path": "/nowhere/at/all"}, "finished.path=.*is no directory"),
        ({"halt.on.error": "false"}, "error.path: must be given"),
        ({"csv.types": "id"}, "csv.types=id"),
        ({"csv.types": "id:nothing"}, "csv.types=id:nothing"),
        ({"csv.separator.char": "300"}, "csv.separator.char=300"),
    ],
)
def test_bad_settings_are_named(files: Path, texts: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        DirectorySource(settings_of(DirectorySource, {"topic": "t", "input.path": str(files), **texts}))
