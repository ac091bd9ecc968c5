"""Logs whose cleaner was killed at every file operation: writing, swapping, and the start after that."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory
from support.exploration import DEEP
from support.storage.compaction import COMPACTED, clean, contents, end_transaction, files, headers, put
from support.storage.kill_points import Killed, Report, killed_everywhere
from support.storage.logs import NOW_MS

CONFIG = replace(COMPACTED, segment_bytes=900, index_interval_bytes=100, file_delete_delay_ms=0)
PARTITION = ("t", 0)
ROUNDS = 3

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


@pytest.fixture(autouse=True, scope="module")
def without_waiting_for_the_disk() -> Iterator[None]:
    """A killed process leaves the page cache behind: syncing changes nothing here but the duration."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "fsync", lambda _: None)
        monkeypatch.setattr("ottla.storage.files._sync_data", lambda _: None)
        yield


@pytest.fixture(scope="module")
def killed_lives(
    without_waiting_for_the_disk: None, tmp_path_factory: pytest.TempPathFactory
) -> list[Killed]:
    """One for every file operation of the life, and the one that lived to its end. Open copies of them."""
    return list(killed_everywhere(live_a_life, tmp_path_factory.mktemp("killed")))


def open_partition(directory: LogDirectory) -> Log:
    return Log.open(
        directory.partition_path(*PARTITION),
        CONFIG,
        now_ms=NOW_MS,
        recovery_point=directory.read_recovery_points().get(PARTITION, 0),
        clean_shutdown=directory.clean_shutdown,
    )


def produce(log: Log, round_number: int) -> None:
    """Values, tombstones of what earlier rounds wrote, a committed and an aborted transaction."""
    for number in range(12):
        put(
            log,
            [(b"%d" % (number % 5), b"%d.%d" % (round_number, number)), (b"only %d" % round_number, b"x")],
        )
    put(log, [(b"only %d" % (round_number - 1), None)])
    for producer_id, committed in ((7, True), (8, False)):
        put(
            log, [(b"t", b"%d of %d" % (round_number, producer_id)), (b"0", b"t")],
            producer_id=producer_id, producer_epoch=0, base_sequence=2 * round_number, transactional=True,
        )  # fmt: skip
        end_transaction(log, producer_id, committed=committed)
    log.roll(NOW_MS)


def live_a_life(root: Path, report: Report) -> None:
    """Rounds of producing and cleaning; every round is later than the horizons of the one before."""
    directory = LogDirectory.open(root, node_id=1)
    log = open_partition(directory)
    for number in range(ROUNDS):
        report("producing", None)
        produce(log, number)
        log.flush()
        directory.write_recovery_points({PARTITION: log.recovery_point})
        report("produced", state(log))
        end_offset, _ = clean(
            log, directory.read_cleaner_offsets().get(PARTITION), now_ms=NOW_MS + 10_000 * number
        )
        report("cleaned", end_offset)
        directory.write_cleaner_offsets({PARTITION: end_offset})
        log.remove_deleted_files(NOW_MS)
    log.close()
    directory.close(clean=True)


def start(root: Path, report: Report) -> None:
    """A start that does nothing else."""
    open_partition(LogDirectory.open(root, node_id=1))


def state(log: Log) -> dict[str, str]:
    """The table that a read_committed reader makes of the log: keys with values, none for deleted ones."""
    aborted = {
        offset
        for entry in log.aborted_transactions(0, log.log_end_offset)
        for header in headers(log)
        if header.producer_id == entry.producer_id and header.is_transactional and not header.is_control
        for offset in range(header.base_offset, header.next_offset)
        if entry.first_offset <= offset <= entry.last_offset
    }
    table: dict[str, str] = {}
    for offset, (key, value) in contents(log).items():
        assert key is not None
        if offset in aborted:
            continue
        if value is None:
            table.pop(key.decode(), None)
        else:
            table[key.decode()] = value.decode()
    return table


def check_after_restart(root: Path, reports: list[Any], case: str) -> None:
    """The table is the one before the kill, nothing is reordered; the life goes on and ends as it should."""
    directory = LogDirectory.open(root, node_id=1)
    log = open_partition(directory)
    names = files(log.directory)
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))], case
    offsets = [header.base_offset for header in headers(log)]
    assert offsets == sorted(set(offsets)), case
    for segment in log.segments:
        segment.check_indexes()
    last = reports[-1][0] if reports else "producing"
    produced = [detail for name, detail in reports if name == "produced"]
    if last != "producing" and produced:
        assert state(log) == produced[-1], case
    before = state(log)
    clean(log, directory.read_cleaner_offsets().get(PARTITION), now_ms=NOW_MS + 90_000)
    assert state(log) == before, case
    end_offset, _ = clean(log, 0, now_ms=NOW_MS + 200_000)
    assert state(log) == before, case
    cleaned = [key for offset, (key, _) in contents(log).items() if offset < end_offset]
    assert len(cleaned) == len(set(cleaned)), case
    log.close()
    directory.close(clean=True)


def test_a_kill_at_any_file_operation_of_a_cleaning_loses_and_revives_nothing(
    killed_lives: list[Killed], tmp_path: Path
) -> None:
    for life in killed_lives:
        copy = tmp_path / str(life.operation)
        copy_of(life, copy)
        check_after_restart(copy, life.reports, f"killed at operation {life.operation}")
        shutil.rmtree(copy)
    assert len(killed_lives) > 150, "the life is too short to tell anything"


def test_a_kill_at_any_file_operation_of_the_start_after_a_kill_is_as_harmless(
    killed_lives: list[Killed], tmp_path: Path
) -> None:
    """Every state with `.swap` files that a killed swap leaves, and a start that is killed at each step."""
    stride = 1 if DEEP else 24
    seen: set[tuple[str, ...]] = set()
    for life in killed_lives:
        path = life.root / "t-0"
        left = (
            tuple(name for name in files(path) if name.endswith((".swap", ".cleaned", ".deleted")))
            if path.exists()
            else ()
        )
        if not any(name.endswith(".swap") for name in left) or left in seen:
            continue
        seen.add(left)
        # Each leftover has its own turn at the start's operations: together they have them all.
        directory = tmp_path / str(life.operation)
        first = len(seen) % stride + 1
        for start_life in killed_everywhere(start, directory, first=first, stride=stride, before=life.root):
            what = f"killed at {life.operation}, the start at {start_life.operation}"
            check_after_restart(start_life.root, life.reports, what)
        shutil.rmtree(directory)
    assert len(seen) > 10, "too few different leftovers to tell anything"


def copy_of(life: Killed, path: Path) -> None:
    """The directory as the kill left it; none, if that came before it was made."""
    if life.root.exists():
        shutil.copytree(life.root, path)
