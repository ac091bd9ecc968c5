"""The index of aborted transactions: its file, its answers, and its use by a log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.indexes import CorruptIndex
from ottla.storage.log import Log, LogConfig
from ottla.storage.transaction_index import (
    ENTRY_BYTES,
    AbortedTransaction,
    TransactionIndex,
    encode_entries,
)
from support.storage.logs import NOW_MS, append, open_log
from support.storage.transactions import append_marker, read_committed, stable_end

ENTRIES = [
    AbortedTransaction(1, 100, 110, 105),
    AbortedTransaction(2, 105, 120, 121),
    AbortedTransaction(1, 121, 140, 141),
]


@pytest.fixture
def index(tmp_path: Path) -> TransactionIndex:
    index = TransactionIndex(DirectoryFiles(tmp_path), "100.txnindex", 100, exists=False)
    for entry in ENTRIES:
        index.append(entry)
    return index


def reopened(index: TransactionIndex) -> TransactionIndex:
    return TransactionIndex(
        DirectoryFiles(Path(index.path).parent), index.name, index.base_offset, exists=True
    )


def write(log: Log, producer_id: int, *values: bytes, sequence: int = 0, epoch: int = 0) -> int:
    """A transactional batch; returns its offset."""
    stamp = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return append(log, *values, transactional=True, **stamp).base_offset


# --- the file ---------------------------------------------------------------------------------------------


def test_an_entry_is_kafkas(index: TransactionIndex) -> None:
    first = Path(index.path).read_bytes()[:ENTRY_BYTES]

    assert first.hex() == "0000" + "".join(f"{value:016x}" for value in (1, 100, 110, 105))
    assert reopened(index).entries() == ENTRIES


def test_without_an_aborted_transaction_there_is_no_file(tmp_path: Path) -> None:
    index = TransactionIndex(DirectoryFiles(tmp_path), "0.txnindex", 0, exists=False)
    index.write_out()
    index.sync()

    assert not Path(index.path).exists() and not index.exists


def test_a_marker_must_be_newer_than_the_last(index: TransactionIndex) -> None:
    with pytest.raises(ValueError, match="140"):
        index.append(AbortedTransaction(3, 130, 140, 141))


@pytest.mark.parametrize(
    "damage",
    [
        b"\0",
        b"\0\1" + b"\0" * 32,
        AbortedTransaction(1, 130, 139, 140),
        AbortedTransaction(1, 150, 150, 151),
        AbortedTransaction(1, 150, 200, 201),
    ],
    ids=["half an entry", "unknown version", "before the last", "no records", "behind the segment"],
)
def test_entries_that_cannot_be_of_the_segment_are_found(index: TransactionIndex, damage: bytes) -> None:
    index.check(end_offset=141)
    if isinstance(damage, AbortedTransaction):
        damage = encode_entries([damage])
    with Path(index.path).open("ab") as file:
        file.write(damage)

    with pytest.raises(CorruptIndex):
        reopened(index).check(end_offset=200)


@pytest.mark.parametrize(
    ("start", "upper", "found", "complete"),
    [
        (0, 100, [], True),
        (100, 105, [0], True),
        (100, 106, [0, 1], True),
        (111, 121, [1], True),
        (121, 130, [2], True),
        (121, 141, [2], True),
        (121, 142, [2], False),
        (141, 200, [], False),
    ],
)
def test_a_range_finds_the_transactions_that_reach_into_it(
    index: TransactionIndex, start: int, upper: int, found: list[int], complete: bool
) -> None:
    assert index.collect(start, upper) == ([ENTRIES[each] for each in found], complete)


def test_truncation_drops_the_transactions_that_end_behind_it(index: TransactionIndex) -> None:
    index.truncate_to(120)

    assert index.entries() == reopened(index).entries() == ENTRIES[:1]
    index.append(ENTRIES[2])
    assert reopened(index).entries() == [ENTRIES[0], ENTRIES[2]]


def test_a_full_disk_delays_an_entry_and_loses_none(
    index: TransactionIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(DirectoryFiles, "append", refuse)
        index.append(AbortedTransaction(3, 141, 150, 151))
    assert index.collect(141, 151)[0] and len(reopened(index)) == 3

    index.sync()

    assert len(reopened(index)) == 4


def test_a_discarded_index_makes_no_file_again(index: TransactionIndex) -> None:
    index.discard()
    os.unlink(index.path)

    index.append(AbortedTransaction(3, 141, 150, 151))
    index.sync()

    assert not Path(index.path).exists()


# --- in a log ---------------------------------------------------------------------------------------------


def index_files(log: Log) -> list[str]:
    return sorted(path.name for path in log.directory.glob("*.txnindex*"))


def test_only_an_abort_makes_an_entry(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1, b"committed")
    append_marker(log, 1, committed=True)
    append_marker(log, 2, committed=False)  # of a transaction without records here
    assert index_files(log) == []

    write(log, 1, b"aborted", sequence=1)
    write(log, 2, b"open")
    append_marker(log, 1, committed=False)

    assert log.aborted_transactions(0, log.log_end_offset) == [AbortedTransaction(1, 3, 5, 4)]
    assert index_files(log) == ["00000000000000000000.txnindex"]
    assert stable_end(log) == 4


def test_an_abort_is_found_from_an_earlier_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1, b"one", b"two")
    log.roll(NOW_MS)
    write(log, 2, b"of another")
    log.roll(NOW_MS)
    append_marker(log, 1, committed=False)
    append_marker(log, 2, committed=True)

    assert index_files(log) == ["00000000000000000003.txnindex"]
    assert log.aborted_transactions(1, 2) == [AbortedTransaction(1, 0, 3, 2)]
    assert [each.value for each in read_committed(log)] == [b"of another"]


def test_the_index_goes_with_its_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(retention_ms=1, file_delete_delay_ms=0))
    write(log, 1, b"aborted")
    append_marker(log, 1, committed=False)
    log.roll(NOW_MS)

    log.enforce_retention(NOW_MS + 10, log.log_end_offset)
    assert index_files(log) == ["00000000000000000000.txnindex.deleted"]
    log.remove_deleted_files(NOW_MS + 10)

    assert index_files(log) == []


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_restart_knows_the_same_transactions(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path)
    for number in range(4):
        write(log, number, b"x" * 1500)
        append_marker(log, number, committed=number % 2 == 0)
    write(log, 9, b"open")
    before = (log.aborted_transactions(0, log.log_end_offset), stable_end(log), read_committed(log))
    assert len(before[0]) == 2 and len(log.segment_base_offsets) > 2
    if clean:
        log.close()
    else:
        log.close_files()

    again = open_log(tmp_path, clean_shutdown=clean, recovery_point=log.recovery_point)

    assert (
        again.aborted_transactions(0, again.log_end_offset),
        stable_end(again),
        read_committed(again),
    ) == before


def test_after_a_kill_the_indexes_of_unflushed_segments_are_made_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1, b"aborted")
    append_marker(log, 1, committed=False)
    expected = log.aborted_transactions(0, 2)
    log.close_files()
    (tmp_path / "t-0" / "00000000000000000000.txnindex").unlink()

    assert open_log(tmp_path).aborted_transactions(0, 2) == expected


def test_after_a_kill_an_entry_without_its_marker_is_dropped(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1, b"aborted")
    marker = append_marker(log, 1, committed=False)
    log.close_files()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    os.truncate(path, path.stat().st_size - 1)

    again = open_log(tmp_path)

    assert again.log_end_offset == marker.base_offset
    assert index_files(again) == [] and stable_end(again) == 0


def test_a_damaged_index_is_made_again_after_a_clean_stop(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1, b"aborted")
    append_marker(log, 1, committed=False)
    log.roll(NOW_MS)
    append(log, b"later")
    log.close()
    path = tmp_path / "t-0" / "00000000000000000000.txnindex"
    path.write_bytes(b"nonsense")

    again = open_log(tmp_path, clean_shutdown=True, recovery_point=3)

    assert again.aborted_transactions(0, 2) == [AbortedTransaction(1, 0, 1, 2)]
    assert path.stat().st_size == ENTRY_BYTES
