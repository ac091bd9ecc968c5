"""Logs whose writer was killed: at every file operation, at every byte, and at any time from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.record_batch import parse_batch_header
from ottla.storage.log import Log, LogConfig, LogCorruption
from ottla.storage.log_directory import LogDirectory
from support.storage.kill_points import Report, killed_everywhere
from support.storage.logs import NOW_MS, append, fill, offsets, open_log, read_all

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, file_delete_delay_ms=0)
PARTITION = ("t", 0)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


def open_partition(directory: LogDirectory) -> Log:
    """The log as a broker opens it after a restart."""
    return Log.open(
        directory.partition_path(*PARTITION),
        CONFIG,
        now_ms=NOW_MS,
        recovery_point=directory.read_recovery_points().get(PARTITION, 0),
        log_start_offset=directory.read_log_start_offsets().get(PARTITION, 0),
        clean_shutdown=directory.clean_shutdown,
    )


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process leaves the page cache behind: syncing changes nothing here but the duration."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr("ottla.storage.files._sync_data", lambda _: None)


# --- killed at every file operation -----------------------------------------------------------------------


def live_a_life(root: Path, report: Report) -> None:
    """All that a broker does to a log. `report` tells what begins and what was acknowledged."""
    directory = LogDirectory.open(root, node_id=1)
    log = open_partition(directory)

    def produce(count: int, generation: int) -> None:
        for _ in range(count):
            value = f"{log.log_end_offset}/{generation}"
            report("appending", [log.log_end_offset, value])
            append(
                log, value.encode() + b"." * 50, leader_epoch=generation,
                producer_id=1, producer_epoch=generation, base_sequence=-1,
            )  # fmt: skip
            report("appended", None)

    produce(14, 0)
    log.flush()
    directory.write_recovery_points({PARTITION: log.recovery_point})
    produce(3, 0)
    report("truncating", 9)
    directory.write_recovery_points({PARTITION: 9})
    log.truncate_to(9)
    report("truncated", None)
    produce(9, 1)
    report("deleting", 11)
    log.advance_log_start_offset(11)
    directory.write_log_start_offsets({PARTITION: 11})
    report("deleted", None)
    log.enforce_retention(NOW_MS, log.log_end_offset)
    log.remove_deleted_files(NOW_MS)
    produce(3, 1)
    log.close()
    directory.write_recovery_points({PARTITION: log.recovery_point})
    directory.close(clean=True)

    directory = LogDirectory.open(root, node_id=1)
    log = open_partition(directory)
    produce(3, 2)
    log.close()
    directory.close(clean=True)


@dataclass
class Promise:
    """The values that a log may hold after its writer died: up to `least` at least, up to `most` at most."""

    values: dict[int, str] = field(default_factory=dict)
    least: int = 0
    most: int = 0
    earliest_start: int = 0
    latest_start: int = 0

    @classmethod
    def of(cls, reports: list[tuple[str, Any]]) -> Promise:
        promise = cls()
        truncating = 0
        for what, detail in reports:
            match what:
                case "appending":
                    promise.values[detail[0]] = detail[1]
                    promise.most = detail[0] + 1
                case "appended":
                    promise.least = promise.most
                case "truncating":
                    promise.least = truncating = detail
                case "truncated":
                    promise.most = truncating
                case "deleting":
                    promise.latest_start = detail
                case "deleted":
                    promise.earliest_start = promise.latest_start
        return promise


def test_a_kill_at_any_file_operation_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kill_at = 0
    for life in killed_everywhere(live_a_life, tmp_path):
        kill_at, root = life.operation, life.root
        promise = Promise.of(life.reports)

        directory = LogDirectory.open(root, node_id=1)
        log = open_partition(directory)
        records = read_all(log)

        assert promise.least <= log.log_end_offset <= promise.most, f"killed at operation {kill_at}"
        assert promise.earliest_start <= log.log_start_offset <= promise.latest_start
        assert [record.offset for record in records] == list(range(log.log_start_offset, log.log_end_offset))
        for record in records:
            assert record.value is not None
            assert record.value.decode().rstrip(".") == promise.values[record.offset]
            assert log.epoch_at(record.offset) == int(promise.values[record.offset].split("/")[1])
        append(log, b"life goes on", leader_epoch=9)
        log.close()
        directory.close(clean=True)
        directory = LogDirectory.open(root, node_id=1)
        again = open_partition(directory)
        assert directory.clean_shutdown and read_all(again)[:-1] == records
        directory.close(clean=False)
        shutil.rmtree(root)
    assert kill_at > 100, "the life is too short to tell anything"


# --- cut at every byte ------------------------------------------------------------------------------------


def test_a_log_cut_at_any_byte_keeps_every_whole_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 6, records=2, size=10)
    path = log.directory / "00000000000000000000.log"
    whole = path.read_bytes()
    ends, position = [], 0
    while position < len(whole):
        position += parse_batch_header(whole, position).size_bytes
        ends.append(position)
    log.close_files()

    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])

        again = open_log(tmp_path)

        kept = sum(end <= length for end in ends)
        assert offsets(again) == list(range(2 * kept))
        assert path.stat().st_size == ([0, *ends])[kept]
        again.close_files()


def test_a_flushed_log_cut_at_any_byte_is_refused_unless_whole_batches_are_left(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 4)
    path = log.directory / "00000000000000000000.log"
    whole = path.read_bytes()
    log.close_files()

    for length in range(1, len(whole), 7):
        path.write_bytes(whole[:length])
        size = len(whole) // 4
        if length % size:
            with pytest.raises(LogCorruption, match="though it was flushed up to 4"):
                open_log(tmp_path, recovery_point=4)
            assert path.stat().st_size == length


# --- killed from outside ----------------------------------------------------------------------------------

WRITER = """
import sys, pathlib
sys.path[:0] = [sys.argv[2]]
from support.storage.logs import append, NOW_MS
from ottla.storage.log import Log, LogConfig
from ottla.storage.log_directory import LogDirectory
directory = LogDirectory.open(pathlib.Path(sys.argv[1]), node_id=1)
log = Log.open(directory.partition_path("t", 0), LogConfig(segment_bytes=50_000), now_ms=NOW_MS,
               recovery_point=directory.read_recovery_points().get(("t", 0), 0))
while True:
    offset = log.log_end_offset
    append(log, *(b"%d" % (offset + index) for index in range(5)))
    print(log.log_end_offset, flush=True)
    if offset % 500 == 0:
        log.flush()
        directory.write_recovery_points({("t", 0): log.recovery_point})
"""


def test_a_writer_killed_from_outside_again_and_again(tmp_path: Path) -> None:
    acknowledged = 0
    for life in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(Path(__file__).parents[2])],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        for _ in range(100 + 150 * life):
            acknowledged = int(writer.stdout.readline())
        writer.kill()
        rest = writer.stdout.read().split("\n")[:-1]
        acknowledged = int(rest[-1]) if rest else acknowledged
        writer.wait(timeout=10)
        writer.stdout.close()

    directory = LogDirectory.open(tmp_path, node_id=1)
    log = open_partition(directory)

    assert log.log_end_offset >= acknowledged
    assert [record.value for record in read_all(log)] == [
        b"%d" % offset for offset in range(log.log_end_offset)
    ]
