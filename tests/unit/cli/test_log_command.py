"""`ottla log dump` and `ottla log verify`, as a user runs them."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest

from ottla.cli.main import main
from support.clients.ottla_command import CommandRun
from support.storage.logs import NOW_MS
from support.storage.written_directories import write_data_directory


def log(*words: str) -> CommandRun:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["log", *words])
    return CommandRun(words, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log") / "data"
    write_data_directory(directory)
    return directory


def test_every_kind_of_file_is_told(data: Path) -> None:
    run = log("dump", str(data), "--records", "--json")
    assert (run.code, run.err) == (0, "")
    told = {Path(row["file"]).relative_to(data).as_posix(): row for row in run.rows}
    kept = {path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file()}
    # the snapshot of __consumer_offsets has no producers
    assert told.keys() == kept - {"__consumer_offsets-7/00000000000000000002.snapshot"} - _empty(data)
    assert told["meta.properties"]["cluster.id"] == "cluster"
    assert told[".kafka_cleanshutdown"]["brokerEpoch"] == 7
    assert told["__cluster_metadata-0/quorum-state"]["leaderEpoch"] == 4
    snapshot = [row for row in run.rows if row["file"].endswith("5-0000000001.checkpoint")]
    assert [row["type"] for row in snapshot if row["kind"] == "record"] == [
        "SNAPSHOT_HEADER",
        "FeatureLevelRecord",
        "TopicRecord",
        "SNAPSHOT_FOOTER",
    ]
    (commit, tombstone) = (
        row for row in run.rows if "__consumer_offsets" in row["file"] and row["kind"] == "record"
    )
    assert commit["key"] == {"group": "g", "topic": "t", "partition": 3}
    assert (commit["value"]["offset"], tombstone["value"]) == (42, None)


def _empty(data: Path) -> set[str]:
    files = (path for path in data.rglob("*") if path.is_file())
    return {path.relative_to(data).as_posix() for path in files if not path.stat().st_size}


def test_people_read_lines_with_the_file_above_them(data: Path) -> None:
    segment = data / "t-0" / "00000000000000000000.log"
    run = log("dump", str(segment), "-n", "1", "--payload")
    heading, batch, record = run.out.splitlines()
    assert heading == f"# {segment}"
    assert batch.startswith("base_offset: 0 ") and batch.endswith("valid: true")
    assert record.startswith("| offset: 0 timestamp: ") and "value: value 0.0" in record


def test_the_format_of_records_may_be_given(data: Path, tmp_path: Path) -> None:
    segment = data / "__consumer_offsets-7" / "00000000000000000000.log"
    copy = tmp_path / segment.name
    copy.write_bytes(segment.read_bytes())
    (_, record, *_) = log("dump", str(copy), "--payload", "--json").rows
    assert record["key"] == "\0\1\0\1g\0\1t\0\0\0\3"
    (_, record, *_) = log("dump", str(copy), "--decode", "offsets", "--json").rows
    assert record["type"] == "OffsetCommit"


def test_a_time_chooses_records(data: Path) -> None:
    words = ("--at", str(NOW_MS + 500), "--to", f"@{NOW_MS + 600}", "--records", "--json")
    rows = [row for row in log("dump", str(data / "t-0"), *words).rows if row["kind"] == "record"]
    assert rows[0]["timestamp"] >= NOW_MS + 500
    assert max(row["timestamp"] for row in rows) <= NOW_MS + 600


def test_a_bad_place_is_told_and_ends_with_1(data: Path, tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    content = bytearray((data / "t-0" / segment.name).read_bytes())
    content[65] ^= 4
    segment.write_bytes(content)
    run = log("verify", str(segment))
    line = f"{segment}: byte 0, offset 0: the batch's CRC does not fit its bytes"
    assert (run.code, run.out) == (1, f"{line}\n")
    assert run.err.endswith(": 1 problem\n")
    (row,) = log("verify", str(segment), "--json").rows
    assert row == {
        "file": str(segment),
        "position": 0,
        "offset": 0,
        "problem": "the batch's CRC does not fit its bytes",
    }
    run = log("dump", str(segment), "-n", "2")
    assert run.code == 1 and run.err == f"ottla log dump: {line}\n"
    assert run.out.count("base_offset") == 2, "the batches are told all the same"


def test_files_of_others_and_missing_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for words in (["dump"], ["verify"]):
        run = log(*words, str(tmp_path / "notes.txt"))
        assert run.code == 1 and "the name is not one of a file that Kafka keeps" in run.out + run.err
        run = log(*words, str(tmp_path / "nothing"))
        assert run.code == 1
        assert run.err == f"ottla log {words[0]}: {tmp_path / 'nothing'}: No such file or directory\n"
    assert log("dump").code == 2
    assert log("dump", str(tmp_path), "--topic", "t").code == 2


def test_the_problems_that_are_told_have_a_bound(data: Path, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    for number in range(8):
        path = directory / f"t-{number}" / "partition.metadata"
        path.parent.mkdir(parents=True)
        path.write_text("damaged")
    run = log("verify", str(directory), "--max-problems", "3", "--json")
    assert (run.code, len(run.out.splitlines())) == (1, 3)
    assert all(json.loads(line)["problem"] for line in run.out.splitlines())
