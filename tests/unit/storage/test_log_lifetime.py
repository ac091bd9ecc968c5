"""Work on a deleted topic's log does not touch the files of a new topic with the same name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from ottla.storage.errors import StorageError
from ottla.storage.files import OpenFiles
from ottla.storage.log import Log
from support.storage.compaction import MAP_BYTES, job_for, sources
from support.storage.logs import NOW_MS, SMALL, append, fill, open_log, read_all

OLD, NEW = UUID(int=1001), UUID(int=1002)
CONFIG = replace(SMALL, segment_bytes=1000, retention_bytes=0, file_delete_delay_ms=0)


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def old(tmp_path: Path) -> Log:
    """A log of several segments, none of them synced, whose files are mostly closed."""
    log = open_log(tmp_path, CONFIG, topic_id=OLD, open_files=OpenFiles(limit=1))
    fill(log, 40)
    append(log, b"of another leader", leader_epoch=3)
    return log


@contextlib.contextmanager
def made_again(old: Log) -> Iterator[Log]:
    """Delete the topic and create it again with a record; the test's work must not change that."""
    root = old.directory.parent
    assert old.delete() is not None
    new = open_log(root, CONFIG, topic_id=NEW)
    append(new, b"of the new topic")
    before = files_of(new.directory)
    try:
        yield new
    finally:
        assert files_of(new.directory) == before
        assert [record.value for record in read_all(new)] == [b"of the new topic"]
        new.close()
        assert open_log(root, CONFIG, topic_id=NEW).log_end_offset == 1


def test_a_flush_that_was_prepared_before(old: Log) -> None:
    task = old.prepare_flush()
    assert task is not None

    with made_again(old):
        task.run()


WORK: dict[str, Callable[[Log], object]] = {
    "retention": lambda log: log.enforce_retention(NOW_MS, log.log_end_offset),
    "removal of deleted files": lambda log: log.remove_deleted_files(NOW_MS),
    "a flush": lambda log: log.flush(),
    "a roll": lambda log: log.roll(NOW_MS),
    "an append": lambda log: append(log, b"late", leader_epoch=7),
    "an append that rolls": lambda log: append(log, b"x" * 900, leader_epoch=7),
    "a search by time": lambda log: log.find_offset_by_timestamp(NOW_MS + 20),
    "a search for the newest": lambda log: log.find_max_timestamp(),
    "a read": lambda log: log.read(5, 1 << 20, upper_offset=log.log_end_offset, at_least_one_batch=True),
    "a truncation": lambda log: log.truncate_to(10),
    "a full truncation": lambda log: log.truncate_fully(0),
    "the close": lambda log: log.close(),
    "a second deletion": lambda log: log.delete(),
}


@pytest.mark.parametrize("work", WORK)
def test_work_that_comes_late(work: str, old: Log) -> None:
    with made_again(old), contextlib.suppress(StorageError, OSError):
        WORK[work](old)


def test_a_segment_that_retention_deleted_is_not_made_again_by_a_search(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG, open_files=OpenFiles(limit=1))
    fill(log, 40)
    doomed = log.segments[:3]
    log.close_files()
    log.enforce_retention(NOW_MS, log.log_end_offset)
    before = files_of(log.directory)

    for segment in doomed:  # as a search in a thread that already had these segments
        with pytest.raises(FileNotFoundError):
            segment.file()
        with contextlib.suppress(FileNotFoundError):
            segment.locate(segment.base_offset + 1)
        with contextlib.suppress(FileNotFoundError):
            segment.rebuild_indexes()

    assert files_of(log.directory) == before


def test_a_search_goes_on_in_the_segments_that_retention_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, CONFIG, open_files=OpenFiles(limit=1))
    fill(log, 40)
    log.close_files()
    oldest = log.segments[0]
    locate = type(oldest).locate

    def locate_after_retention(segment: object, offset: int) -> object:
        if segment is oldest:
            log.enforce_retention(NOW_MS, log.log_end_offset)
        return locate(segment, offset)  # type: ignore[arg-type]

    monkeypatch.setattr(type(oldest), "locate", locate_after_retention)

    found = log.find_offset_by_timestamp(NOW_MS)

    assert found is None or found.offset >= log.log_start_offset > 0


def test_a_cleaning_that_was_ordered_before(old: Log) -> None:
    from ottla.storage.compaction.cleaning import Cleaning

    job = job_for(old, 0, old.segments[-1].base_offset, now_ms=NOW_MS, map_bytes=MAP_BYTES)

    with made_again(old), pytest.raises(StorageError, match="is not the partition's directory any more"):
        Cleaning(job, lambda _: None)


def test_a_cleaning_that_has_begun(old: Log) -> None:
    from ottla.storage.compaction.cleaning import Cleaning

    job = job_for(old, 0, old.segments[-1].base_offset, now_ms=NOW_MS, map_bytes=MAP_BYTES)
    cleaning = Cleaning(job, lambda _: None)
    cleaning.build_map()
    group = old.segments[:2]

    with made_again(old):
        done = cleaning.clean(sources(group))
        with pytest.raises(StorageError):
            old.replace_segments(group, done.size_bytes, has_transaction_index=False, now_ms=NOW_MS)


def test_deleting_a_topic_tolerates_a_missing_directory(old: Log) -> None:
    old.directory.rename(old.directory.with_name("moved-away"))

    assert old.delete() is None
    assert old.is_deleted


def test_a_new_segment_never_uses_a_file_with_content(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    append(log, b"first")
    (log.directory / f"{1:020d}.log").write_bytes(b"somebody's")

    with pytest.raises(StorageError, match="has 10 bytes where a new file was to be made"):
        log.roll(NOW_MS)

    assert (log.directory / f"{1:020d}.log").read_bytes() == b"somebody's"
