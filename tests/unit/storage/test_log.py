"""One partition's log: appending, rolling, reading, closing and opening."""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from ottla.protocol.record_batch import NewRecord, encode_batch, parse_batch_header
from ottla.storage.files import FileHandle, OpenFiles
from ottla.storage.log import LogConfig, OffsetOutOfRange, StorageError
from support.storage.logs import NOW_MS, SMALL, append, fill, offsets, open_log, read_all


def test_a_new_log_is_empty_and_has_its_topic_id(tmp_path: Path) -> None:
    topic_id = uuid4()

    log = open_log(tmp_path, topic_id=topic_id)

    assert (log.topic, log.partition, log.topic_id) == ("t", 0, topic_id)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert sorted(os.listdir(log.directory)) == ["00000000000000000000.log", "partition.metadata"]


def test_appended_bytes_are_stored_verbatim(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    batch = encode_batch([NewRecord(b"k", b"v", NOW_MS)], leader_epoch=3)

    result = log.append(batch, [parse_batch_header(batch)], now_ms=NOW_MS)

    assert (result.base_offset, result.last_offset, result.rolled) == (0, 0, False)
    assert (log.directory / "00000000000000000000.log").read_bytes() == batch


def test_several_batches_in_one_append(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first = encode_batch([NewRecord(None, b"a", 1), NewRecord(None, b"b", 2)])
    second = encode_batch([NewRecord(None, b"c", 3)], base_offset=2)

    log.append(first + second, [parse_batch_header(first), parse_batch_header(second)], now_ms=NOW_MS)

    assert [record.value for record in read_all(log)] == [b"a", b"b", b"c"]


def test_offsets_never_go_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b")

    with pytest.raises(ValueError, match="offset 1 is below the log's end, 2"):
        append(log, b"c", offset=1)


def test_bytes_that_do_not_match_their_headers_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    batch = encode_batch([NewRecord(None, b"a", 1)])

    with pytest.raises(ValueError, match="where the headers say"):
        log.append(batch + b"x", [parse_batch_header(batch)], now_ms=NOW_MS)
    assert log.size_bytes == 0


def test_a_follower_may_append_with_gaps(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", offset=5)
    append(log, b"b", offset=10)

    assert log.log_end_offset == 11
    assert offsets(log) == [5, 10]
    # between two batches: the next one is read, never the one before
    assert log.read(7, 1, upper_offset=11, at_least_one_batch=True).first_batch_offset == 10


# --- rolling ----------------------------------------------------------------------------------------------


def test_a_full_segment_is_rolled(tmp_path: Path) -> None:
    log = open_log(tmp_path)

    fill(log, 30)

    assert len(log.segment_base_offsets) > 2
    assert offsets(log) == list(range(30))
    for base_offset in log.segment_base_offsets:
        assert (log.directory / f"{base_offset:020d}.log").stat().st_size <= SMALL.segment_bytes


def test_an_old_segment_is_rolled_by_the_batches_timestamps(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_ms=1000))
    append(log, b"a", timestamp=NOW_MS)

    assert not append(log, b"b", timestamp=NOW_MS + 1000).rolled
    assert append(log, b"c", timestamp=NOW_MS + 1001).rolled
    assert log.segment_base_offsets == [0, 2]


def test_jitter_makes_a_segment_roll_earlier(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_ms=1000, segment_jitter_ms=400))
    append(log, b"a", timestamp=NOW_MS)

    assert not append(log, b"b", timestamp=NOW_MS + 600).rolled
    assert append(log, b"c", timestamp=NOW_MS + 601).rolled


def test_a_segment_without_timestamps_is_rolled_by_the_clock(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_ms=1000))
    append(log, b"a", timestamp=-1)

    assert not append(log, b"b", timestamp=-1, now_ms=NOW_MS + 1000).rolled
    assert append(log, b"c", timestamp=-1, now_ms=NOW_MS + 1001).rolled


def test_a_full_index_rolls_the_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_bytes=1 << 20, segment_index_bytes=36))

    fill(log, 30)

    assert len(log.segment_base_offsets) > 2
    assert offsets(log) == list(range(30))


def test_offsets_too_far_for_the_index_roll_the_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")

    append(log, b"b", offset=2**31)

    assert log.segment_base_offsets == [0, 2**31]
    assert offsets(log) == [0, 2**31]


def test_an_empty_segment_too_far_below_is_replaced(tmp_path: Path) -> None:
    log = open_log(tmp_path)

    append(log, b"a", offset=2**40)

    assert log.segment_base_offsets == [2**40]
    log.close()
    assert offsets(open_log(tmp_path, clean_shutdown=True)) == [2**40]


def test_roll_writes_indexes_and_the_producer_snapshot(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 5)

    assert log.roll(NOW_MS)
    assert not log.roll(NOW_MS), "an empty segment is not rolled"

    assert {
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000005.snapshot",
    } < set(os.listdir(log.directory))


# --- reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reopened", [False, True])
def test_a_read_gives_the_whole_batch_with_the_offset(tmp_path: Path, reopened: bool) -> None:
    log = open_log(tmp_path)
    fill(log, 30, records=2)
    if reopened:
        log.close()
        log = open_log(tmp_path, clean_shutdown=True)

    for offset in range(60):
        piece = log.read(offset, 1, upper_offset=60, at_least_one_batch=True)
        header = parse_batch_header(piece.read())
        assert piece.first_batch_offset == header.base_offset == offset // 2 * 2
        assert piece.size_bytes == header.size_bytes


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("upper_offset", [1, 2, 3, 10, 11, 59, 60])
def test_no_read_reaches_the_upper_offset(tmp_path: Path, upper_offset: int, reopened: bool) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_bytes=1 << 20))
    fill(log, 30, records=2)
    if reopened:
        log.close()
        log = open_log(tmp_path, clean_shutdown=True)

    piece = log.read(0, 1 << 20, upper_offset=upper_offset, at_least_one_batch=True)

    read = read_offsets(piece.read())
    assert read == list(range(upper_offset // 2 * 2))


@pytest.mark.parametrize("reopened", [False, True])
def test_a_read_stays_within_max_bytes_in_whole_batches(tmp_path: Path, reopened: bool) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_bytes=1 << 20))
    fill(log, 30, size=10)
    if reopened:
        log.close()
        log = open_log(tmp_path, clean_shutdown=True)
    sizes = [header.size_bytes for header, _ in log.iterate_batches(0)]

    for count in range(1, 30):
        exact = sum(sizes[:count])
        for max_bytes, expected in ((exact - 1, count - 1), (exact, count), (exact + 1, count)):
            piece = log.read(0, max_bytes, upper_offset=30, at_least_one_batch=False)
            assert read_offsets(piece.read()) == list(range(expected))


def test_a_batch_larger_than_max_bytes_comes_only_on_request(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"x" * 500)

    assert log.read(0, 10, upper_offset=1, at_least_one_batch=False).read() == b""
    assert read_offsets(log.read(0, 10, upper_offset=1, at_least_one_batch=True).read()) == [0]


def test_reading_at_the_end_gives_nothing_and_beyond_it_an_error(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")

    assert log.read(1, 100, upper_offset=1, at_least_one_batch=True).size_bytes == 0
    with pytest.raises(OffsetOutOfRange):
        log.read(2, 100, upper_offset=1, at_least_one_batch=True)
    log.advance_log_start_offset(1)
    with pytest.raises(OffsetOutOfRange):
        log.read(0, 100, upper_offset=1, at_least_one_batch=True)


def test_reads_far_behind_the_tail_are_right_too(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=1 << 20))
    fill(log, 1200, size=20)

    for start in range(0, 1200, 7):
        piece = log.read(start, 5000, upper_offset=1200, at_least_one_batch=True)
        read = read_offsets(piece.read())
        assert read == list(range(start, start + len(read)))
        assert len(read) > 10 or start > 1150


def test_a_consumer_that_catches_up_reads_everything_once(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_bytes=10_000))
    fill(log, 500, records=3, size=20)
    log.close()
    log = open_log(tmp_path, clean_shutdown=True)

    offset, seen = 0, []
    while offset < log.log_end_offset:
        seen += read_offsets(log.read(offset, 700, upper_offset=1500, at_least_one_batch=True).read())
        offset = seen[-1] + 1

    assert seen == list(range(1500))


def test_threads_read_while_the_log_grows(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_bytes=20_000))
    fill(log, 50)
    failures: list[object] = []
    done = threading.Event()

    def consume() -> None:
        while not done.is_set():
            end = log.log_end_offset
            for start in range(0, end, 17):
                piece = log.read(start, 3000, upper_offset=end, at_least_one_batch=True)
                read = read_offsets(piece.read())
                if not read or read[0] != start or read[-1] >= end:
                    failures.append((start, end, read))

    readers = [threading.Thread(target=consume) for _ in range(2)]
    for reader in readers:
        reader.start()
    fill(log, 1500)
    done.set()
    for reader in readers:
        reader.join()

    assert failures == []


def test_few_descriptors_serve_many_segments(tmp_path: Path) -> None:
    open_files = OpenFiles(limit=4)
    log = open_log(tmp_path, open_files=open_files)
    fill(log, 200)

    assert offsets(log) == list(range(200))
    held = [segment for segment in log._segments if segment.handle is not None]
    assert len(log.segment_base_offsets) > 10 and len(held) <= 4


def test_a_slice_outlives_its_segments_descriptor(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    piece = log.read(0, 100, upper_offset=1, at_least_one_batch=True)

    log.close()

    assert read_offsets(piece.read()) == [0]


# --- closing, opening, failing ----------------------------------------------------------------------------


def test_a_closed_log_opens_as_it_was(tmp_path: Path) -> None:
    topic_id = uuid4()
    log = open_log(tmp_path, topic_id=topic_id)
    fill(log, 30, records=2)
    before = (log.segment_base_offsets, log.size_bytes, read_all(log), log.leader_epochs)
    log.close()

    again = open_log(tmp_path, clean_shutdown=True)

    assert (again.segment_base_offsets, again.size_bytes, read_all(again), again.leader_epochs) == before
    assert again.topic_id == topic_id
    assert again.recovery_point == again.log_end_offset == 60


def test_close_writes_no_files_of_an_unchanged_clean_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    log.close()
    before = {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(tmp_path / "t-0")}

    open_log(tmp_path, clean_shutdown=True).close()

    assert {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(tmp_path / "t-0")} == before


def test_another_topics_directory_is_refused(tmp_path: Path) -> None:
    open_log(tmp_path, topic_id=uuid4()).close()

    with pytest.raises(StorageError, match="belongs to another topic of the same name"):
        open_log(tmp_path, topic_id=uuid4())


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    append(log, b"a")

    def write_half(handle: FileHandle, data: bytes, position: int) -> None:
        os.pwrite(handle.fd, data[: len(data) // 2], position)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(FileHandle, "write", write_half)
        with pytest.raises(OSError, match="No space left"):
            append(log, b"b")
    append(log, b"c")

    assert [record.value for record in read_all(log)] == [b"a", b"c"]


def test_flush_moves_the_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 30)
    assert log.recovery_point == 0 and log.has_unflushed_segments

    task = log.prepare_flush(closed_only=True)
    assert task is not None
    task.run()
    assert log.recovery_point == 0, "only once the task is reported"
    log.complete_flush(task)
    assert log.recovery_point == log.segment_base_offsets[-1]
    assert log.prepare_flush(closed_only=True) is None

    log.flush()
    assert log.recovery_point == 30


def test_a_flush_tells_the_time_of_each_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 30)
    segments = len(log.segment_base_offsets)
    assert segments > 2
    task = log.prepare_flush(closed_only=True)
    assert task is not None and task.segment_times_us == []
    task.run()
    assert len(task.segment_times_us) == segments - 1
    assert all(each > 0 for each in task.segment_times_us)


def test_a_flush_overtaken_by_a_truncation_does_not_move_the_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 5)
    task = log.prepare_flush()
    assert task is not None
    log.truncate_to(2)
    fill(log, 5)

    task.run()
    log.complete_flush(task)

    assert log.recovery_point == 0


def test_flush_messages_asks_for_a_flush(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, flush_messages=3))

    assert [append(log, b"a").flush_due for _ in range(4)] == [False, False, True, True]


def test_a_deleted_log_leaves_a_directory_to_remove(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")

    target = log.delete()

    assert not (tmp_path / "t-0").exists()
    assert target.exists() and target.name.startswith("t-0.") and target.name.endswith("-delete")


def test_iterating_goes_over_segments_and_starts_with_the_batch_of_the_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 30, records=2)

    headers = [header for header, data in log.iterate_batches(31) if len(data) == header.size_bytes]

    assert [header.base_offset for header in headers] == list(range(30, 60, 2))
    with pytest.raises(OffsetOutOfRange):
        log.iterate_batches(61)


def read_offsets(data: bytes) -> list[int]:
    """The offsets of the records in these whole batches."""
    position, found = 0, []
    while position < len(data):
        header = parse_batch_header(data, position)
        found += range(header.base_offset, header.next_offset)
        position += header.size_bytes
    assert position == len(data), "a partial batch"
    return found


def test_a_flush_that_a_deletion_overtook_makes_no_file_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 30)
    task = log.prepare_flush()
    assert task is not None

    target = log.delete()
    task.run()

    assert not (tmp_path / "t-0").exists()
    assert not [name for name in os.listdir(target) if name.endswith(".tmp")]


def test_a_flush_that_retention_overtook_makes_no_file_again(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, retention_ms=0, file_delete_delay_ms=0))
    fill(log, 30)
    task = log.prepare_flush()
    assert task is not None

    log.enforce_retention(NOW_MS + 10_000, 30)
    log.remove_deleted_files(NOW_MS + 10_000)
    task.run()
    log.complete_flush(task)

    assert log.recovery_point == 30
    assert [name for name in os.listdir(log.directory) if name.startswith("00000000000000000000.")] == []
