"""The file source and sink: lines, rotation, truncation, resumption at each line."""

from __future__ import annotations

import errno
import io
import os
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ottla.config.errors import ConfigError
from ottla.connect.connectors import file_sink, growing_file
from ottla.connect.connectors.file_sink import FileStreamSink
from ottla.connect.connectors.file_source import FileStreamSource
from ottla.connect.connectors.growing_file import GrowingFile, LineTooLong, split_lines
from ottla.connect.data.record import Record, SinkRecord, SourceRecord, TopicPartition
from ottla.connect.data.schema import Field, Moment, Schema, Struct, Type
from ottla.connect.plugins.api import RetriableError
from ottla.connect.testing import (
    Target,
    check_growing_source,
    check_sink,
    check_source,
    drawn_records,
    read_records,
    settings_of,
)

TOPIC = {"topic": "lines"}
ENDS = ("\n", "\r\n")
TEXTS = ("", "x", "ünï", "日本語", "a\tb", "long " * 50, "\x0b\x0c\u2028\x85 no line ends here")


def _source(path: Path, **texts: str) -> FileStreamSource:
    return FileStreamSource(settings_of(FileStreamSource, {**TOPIC, "file": str(path), **texts}))


def _texts(records: Sequence[SourceRecord]) -> list[str]:
    return [each.record.value for each in records]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_file, "CHUNK_BYTES", 64)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.usefixtures("small_chunks")
def test_reading_goes_on_at_each_line(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    ends = chance.choice((("\n",), ("\r\n",), ENDS, ("\r", "\n", "\r\n")))
    lines = [chance.choice(TEXTS) for _ in range(chance.randrange(1, 80))]
    path = tmp_path / "in.txt"
    path.write_bytes("".join(line + chance.choice(ends) for line in lines).encode() + b"unended")
    whole = path.read_bytes().decode()

    found = check_source(lambda: _source(path, **{"batch.size": str(chance.randint(1, 9))}), seed=seed)

    # A \r before an empty line ended by \n is read as one end, as anyone reads it.
    assert _texts(found) == re.split("\r\n|\n|\r", whole)[:-1]


def test_a_line_that_is_not_ended_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"one\ntwo\r")
    batches = _source(path).read({"filename": str(path)}, None)
    assert _texts(next(batches)) == ["one"]
    assert next(batches) == ()
    with path.open("ab") as file:
        file.write(b"\nthree\n")
    assert _texts(next(batches)) == ["two", "three"]


def test_offsets_are_bytes_and_those_of_kafka_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("aü\nb\n", encoding="utf-8")
    (first, second) = read_records(_source(path), {"filename": str(path)})
    assert first.source_partition == {"filename": str(path)}
    assert [first.source_offset["position"], second.source_offset["position"]] == [4, 6]
    assert _texts(read_records(_source(path), first.source_partition, {"position": 4})) == ["b"]


def test_a_missing_file_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "later.txt"
    batches = _source(path).read({"filename": str(path)}, None)
    assert next(batches) == ()
    path.write_text("here\n")
    assert _texts(next(batches)) == ["here"]


def test_a_rotated_file_is_read_to_its_end_first_and_its_last_line_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("1\n2\n")
    batches = _source(path).read({"filename": str(path)}, None)
    assert _texts(next(batches)) == ["1", "2"]
    with path.open("a") as writer:
        path.rename(tmp_path / "log.1")
        path.touch()
        writer.write("3\n4")
    assert _texts(next(batches)) == ["3"]
    assert next(batches) == ()  # the new file is empty: the writer may still have the former one
    path.write_text("5\n")
    assert _texts(next(batches)) == ["4"]
    assert _texts(next(batches)) == ["5"]


def test_a_file_that_was_rotated_while_nobody_read_is_found_by_its_inode(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("1\n2\n")
    first = read_records(_source(path), {"filename": str(path)}, limit=1)[0]
    path.rename(tmp_path / "log.1")
    path.write_text("3\n")
    assert _texts(read_records(_source(path), first.source_partition, first.source_offset)) == ["2", "3"]


def test_a_rotated_file_that_is_gone_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "log"
    path.write_text("1\n2\n")
    first = read_records(_source(path), {"filename": str(path)}, limit=1)[0]
    other = tmp_path / "other"
    other.write_text("3\n")  # made while the first exists: it has another inode
    other.replace(path)
    assert _texts(read_records(_source(path), first.source_partition, first.source_offset)) == ["3"]
    assert "lines that it had after position 2 are not read" in caplog.text


def test_a_truncated_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("long line\nlong line\n")
    batches = _source(path).read({"filename": str(path)}, None)
    assert len(next(batches)) == 2
    with path.open("r+") as file:
        file.truncate(0)
        file.write("new\n")
    assert _texts(next(batches)) == ["new"]


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.usefixtures("small_chunks")
def test_lines_come_once_while_the_file_grows_and_rotates_and_tasks_are_killed(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    path = tmp_path / "log"
    path.touch()
    written: list[str] = []
    turns = [40]

    def grow() -> bool:
        turns[0] -= 1
        with path.open("a") as file:
            for _ in range(chance.randrange(8)):
                written.append(f"{len(written)} {chance.choice(TEXTS[:4])}")
                file.write(written[-1] + "\n")
        if chance.random() < 0.2 and path.stat().st_size:
            path.rename(tmp_path / f"log.{turns[0]}")
            path.write_text("")
        return turns[0] > 0

    found = check_growing_source(lambda: _source(path), grow, seed=seed)

    # Two rotations while nobody reads leave a file between: it is neither the one read nor the one there.
    missing = set(written) - set(_texts(found))
    assert len(set(_texts(found))) == len(found)
    assert _texts(found) == [line for line in written if line not in missing]
    between = {line for each in tmp_path.glob("log.*") for line in each.read_text().splitlines()}
    assert missing <= between


def test_a_line_beyond_all_measure_ends_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_file, "CHUNK_BYTES", 8)
    monkeypatch.setattr(growing_file, "MAX_LINE_BYTES", 64)
    path = tmp_path / "in"
    path.write_bytes(b"ok\n" + b"x" * 200 + b"\n")
    file = GrowingFile(path)
    assert file.read() is not None
    with pytest.raises(LineTooLong, match="longer than 64 bytes"):
        file.read()
    file.close()


@pytest.mark.parametrize("whole", [False, True])
def test_invalid_utf_8_moves_no_position(whole: bool) -> None:
    assert split_lines(b"a\xff\xfe\nb\n", 10, whole) == (["a\ufffd\ufffd", "b"], [14, 16])


@pytest.mark.parametrize(
    ("texts", "named"),
    [({}, "topic"), ({"topic": ""}, "topic"), ({"topic": "t", "batch.size": "0"}, "batch.size")],
)
def test_bad_settings_of_the_source_are_named(texts: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        FileStreamSource(settings_of(FileStreamSource, texts))


@pytest.mark.parametrize("offset", [{"position": -1}, {"position": "3"}, {"position": 1, "inode": "x"}])
def test_an_offset_that_makes_no_sense_is_refused(tmp_path: Path, offset: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="offset's"):
        _source(tmp_path / "in").read({"filename": "in"}, offset)


def test_standard_input_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr("sys.stdin", os.fdopen(reader))
    batches = FileStreamSource(settings_of(FileStreamSource, TOPIC)).read({"filename": None}, None)
    assert next(batches) == ()
    os.write(writer, b"one\ntw")
    assert _texts(next(batches)) == ["one"]
    os.write(writer, b"o\nthree")
    os.close(writer)
    assert [text for batch in batches for text in _texts(batch)] == ["two", "three"]


# -- sink -------------------------------------------------------------------------------------------


def _sink(path: Path | None) -> FileStreamSink:
    return FileStreamSink(settings_of(FileStreamSink, {} if path is None else {"file": str(path)}))


def _record(value: object, offset: int = 0) -> SinkRecord:
    return SinkRecord(Record("t", 0, value=value), TopicPartition("t", 0), offset)


def _new_target(tmp_path: Path) -> Callable[[], Target]:
    def make() -> Target:
        path = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        path.touch()
        return Target(lambda: _sink(path), lambda: path.read_text().splitlines())

    return make


@pytest.mark.parametrize("seed", range(5))
def test_the_sink_loses_no_line(tmp_path: Path, seed: int) -> None:
    records = drawn_records(random.Random(seed), 200, tombstones=0)
    check_sink(_new_target(tmp_path), records, exactly_once=False, seed=seed)


def test_values_are_written_as_java_prints_them(tmp_path: Path) -> None:
    schema = Schema(
        Type.STRUCT,
        fields=(Field("a", Schema(Type.INT32)), Field("b", Schema(Type.STRING, optional=True))),
    )
    values = ["text", 5, True, None, Struct(schema, {"a": 1}), {"k": [1, False]}, b"bytes", Moment(0)]
    sink = _sink(tmp_path / "out")
    sink.write([_record(value) for value in values])
    sink.flush()
    assert (tmp_path / "out").read_text().splitlines() == [
        "text",
        "5",
        "true",
        "null",
        "Struct{a=1}",
        "{k=[1, false]}",
        "bytes",
        "Thu Jan 01 00:00:00 UTC 1970",
    ]


def test_a_full_disk_keeps_no_half_line_and_the_batch_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = _sink(tmp_path / "out")
    sink.write([_record("first")])
    room = [7]

    def write(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken, room[0] = min(room[0], len(data)), max(0, room[0] - len(data))
        return real(descriptor, data[:taken])

    real = os.write
    monkeypatch.setattr(file_sink.os, "write", write)
    with pytest.raises(RetriableError, match="No space left"):
        sink.write([_record("second"), _record("third")])
    assert (tmp_path / "out").read_text() == "first\n"
    room[0] = 1 << 20
    sink.write([_record("second"), _record("third")])
    assert (tmp_path / "out").read_text() == "first\nsecond\nthird\n"


def test_without_a_file_lines_go_to_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    sink = _sink(None)
    sink.write([_record("a"), _record("b")])
    sink.flush()
    assert out.getvalue() == "a\nb\n"
