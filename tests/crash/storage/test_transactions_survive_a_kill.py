"""Logs with transactions whose writer was killed at every file operation.

After the restart the log must know what a replay of all its batches tells: which transactions are open, up
to where it is stable, and which were aborted.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ottla.protocol.record_batch import Record
from ottla.storage.log import AbortedTransaction, Log, LogConfig
from ottla.storage.log_directory import LogDirectory
from support.exploration import DEEP
from support.storage.kill_points import Report, killed_everywhere
from support.storage.logs import NOW_MS, append
from support.storage.transactions import append_marker, read_committed, stable_end

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, file_delete_delay_ms=0)
PARTITION = ("t", 0)
PRODUCERS = 3

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process leaves the page cache behind: syncing changes nothing here but the duration."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr("ottla.storage.files._sync_data", lambda _: None)


def open_partition(directory: LogDirectory) -> Log:
    return Log.open(
        directory.partition_path(*PARTITION),
        CONFIG,
        now_ms=NOW_MS,
        recovery_point=directory.read_recovery_points().get(PARTITION, 0),
        log_start_offset=directory.read_log_start_offsets().get(PARTITION, 0),
        clean_shutdown=directory.clean_shutdown,
    )


def transact(log: Log, rounds: range, report: Report) -> None:
    """Three producers take turns: one writes, another's transaction ends, every other time with an abort."""
    for number in rounds:
        producer_id = number % PRODUCERS
        state = log.producers.get(producer_id)
        sequence = 0 if state is None else state.last_sequence + 1
        value = b"%d/%d" % (producer_id, number) + b"." * 60
        append(
            log, value, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        report("written", log.log_end_offset)
        if number % 4:
            ended = (number + 1) % PRODUCERS
            append_marker(log, ended, committed=number % 2 == 0)
            report("written", log.log_end_offset)


def live_a_life(root: Path, report: Report) -> None:
    directory = LogDirectory.open(root, node_id=1)
    log = open_partition(directory)
    transact(log, range(12), report)
    log.flush()
    directory.write_recovery_points({PARTITION: log.recovery_point})
    transact(log, range(12, 15), report)
    report("truncating", 12)
    directory.write_recovery_points({PARTITION: 12})
    log.truncate_to(12)
    transact(log, range(15, 26), report)
    log.advance_log_start_offset(10)
    directory.write_log_start_offsets({PARTITION: 10})
    log.enforce_retention(NOW_MS, log.log_end_offset)
    log.remove_deleted_files(NOW_MS)
    log.close()
    directory.write_recovery_points({PARTITION: log.recovery_point})
    directory.close(clean=True)

    directory = LogDirectory.open(root, node_id=1)
    log = open_partition(directory)
    transact(log, range(26, 30), report)
    log.close()
    directory.close(clean=True)


Known = tuple[dict[int, int], int, list[AbortedTransaction], list[Record]]


def known_of(log: Log) -> Known:
    """Open transactions, last stable offset, aborted transactions, committed records."""
    opened = {
        state.producer_id: state.current_txn_first_offset
        for state in log.producers
        if state.current_txn_first_offset >= 0
    }
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset + 1)
    return opened, stable_end(log), aborted, read_committed(log)


def replayed(log: Log, copy: Path) -> Known:
    """The state after a full replay of a copy without derived files."""
    shutil.copytree(log.directory, copy / "t-0")
    for path in (copy / "t-0").iterdir():
        if path.suffix in (".txnindex", ".index", ".timeindex"):
            path.unlink()
        elif path.suffix == ".snapshot" and int(path.stem) != log.segment_base_offsets[0]:
            path.unlink()  # the first one stays: records before it were deleted
    again = Log.open(copy / "t-0", CONFIG, now_ms=NOW_MS, log_start_offset=log.log_start_offset)
    known = known_of(again)
    again.close_files()
    return known


def test_a_kill_at_any_file_operation_leaves_the_transactions_that_the_log_tells(tmp_path: Path) -> None:
    """Every third operation in `make test`, every one in `make drills`."""
    stride = 1 if DEEP else 3
    seen_open, seen_aborted = 0, 0
    for life in killed_everywhere(live_a_life, tmp_path, stride=stride):
        kill_at, root, reports = life.operation, life.root, life.reports
        directory = LogDirectory.open(root, node_id=1)
        log = open_partition(directory)

        known = known_of(log)

        least = reports[-1][1] if reports and reports[-1][0] == "written" else 0
        assert log.log_end_offset >= least, f"killed at operation {kill_at}"
        assert known == replayed(log, tmp_path / "copy"), f"killed at operation {kill_at}"
        seen_open += bool(known[0])
        seen_aborted += bool(known[2])
        for producer_id in known[0]:
            append_marker(log, producer_id, committed=True)
        assert stable_end(log) == log.log_end_offset
        after = known_of(log)
        log.close()
        directory.close(clean=True)
        directory = LogDirectory.open(root, node_id=1)
        again = open_partition(directory)
        assert directory.clean_shutdown and known_of(again) == after
        directory.close(clean=False)
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / "copy")
    assert kill_at > 100, "the life is too short to tell anything"
    assert seen_open > 50 // stride and seen_aborted > 50 // stride
