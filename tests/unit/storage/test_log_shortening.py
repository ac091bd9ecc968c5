"""A log made shorter: truncation, DeleteRecords, retention."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.storage.log import LogConfig, OffsetOutOfRange
from support.storage.logs import NOW_MS, SMALL, append, fill, offsets, open_log, read_all

# --- truncation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1, 13, 14, 15, 29])
def test_truncation_cuts_everything_from_the_offset_on(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path)
    fill(log, 30)

    assert log.truncate_to(offset)

    assert log.log_end_offset == offset
    assert offsets(log) == list(range(offset))
    append(log, b"new")
    assert [record.offset for record in read_all(log)] == list(range(offset + 1))
    log.close()
    assert offsets(open_log(tmp_path, clean_shutdown=True)) == list(range(offset + 1))


def test_truncation_inside_a_batch_takes_the_whole_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 10, records=3)

    log.truncate_to(7)

    assert log.log_end_offset == 6
    assert offsets(log) == list(range(6))


def test_truncation_at_or_beyond_the_end_does_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)

    assert not log.truncate_to(3)
    assert not log.truncate_to(9)
    with pytest.raises(ValueError, match="offset -1"):
        log.truncate_to(-1)
    assert offsets(log) == [0, 1, 2]


def test_truncation_lowers_recovery_point_and_forgets_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", leader_epoch=1)
    append(log, b"b", leader_epoch=4)
    log.flush()

    log.truncate_to(1)

    assert log.recovery_point == 1
    assert log.leader_epochs == [(1, 0)]
    append(log, b"c", leader_epoch=3)
    assert log.leader_epochs == [(1, 0), (3, 1)]


def test_an_epoch_without_records_is_dropped_by_a_truncation_at_the_log_end(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", leader_epoch=1)
    log.assign_epoch(3)  # a leader epoch without records
    assert log.leader_epochs == [(1, 0), (3, 1)]

    assert not log.truncate_to(1)

    assert log.leader_epochs == [(1, 0)]
    append(log, b"b", leader_epoch=2)
    assert log.leader_epochs == [(1, 0), (2, 1)]


def test_an_assigned_epoch_is_on_the_disk_with_its_first_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.assign_epoch(3)
    append(log, b"a", leader_epoch=3)
    log.close_files()  # as a kill leaves it
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n1\n3 0\n"


def test_a_flush_that_began_before_a_cut_raises_no_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 5)
    log.flush()
    fill(log, 5)
    task = log.prepare_flush()
    assert task is not None

    log.lower_recovery_point(3)
    task.run()
    log.complete_flush(task)

    assert log.recovery_point == 3


def test_truncation_takes_producers_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    log.roll(NOW_MS)
    append(log, b"b", producer_id=7, producer_epoch=0, base_sequence=1)

    log.truncate_to(1)

    state = log.producers.get(7)
    assert state is not None and state.last_sequence == 0


def test_timestamps_are_right_after_a_truncation(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(40):
        append(log, b"x" * 50, timestamp=NOW_MS + (1000 if number == 30 else number))

    log.truncate_to(20)

    found = log.find_max_timestamp()
    assert found is not None and (found.offset, found.timestamp) == (19, NOW_MS + 19)


def test_truncating_fully_starts_anew(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 30)

    log.truncate_fully(100)

    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    append(log, b"a")
    assert offsets(log) == [100]
    log.close()
    assert offsets(open_log(tmp_path, clean_shutdown=True)) == [100]


def test_truncating_below_the_first_segment_starts_anew_there(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, retention_ms=0))
    fill(log, 30)
    log.enforce_retention(NOW_MS + 10_000, 30)
    assert log.log_start_offset > 5

    log.truncate_to(5)

    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


# --- DeleteRecords ----------------------------------------------------------------------------------------


def test_records_below_the_start_offset_are_gone(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 30)

    assert log.advance_log_start_offset(17)
    assert not log.advance_log_start_offset(17)
    assert not log.advance_log_start_offset(3)

    assert offsets(log) == list(range(17, 30))
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start_offset(31)


def test_segments_below_the_start_offset_are_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, cleanup_policy=frozenset({"compact"})))
    fill(log, 30)
    bases = log.segment_base_offsets

    log.advance_log_start_offset(bases[2] + 1)

    assert log.enforce_retention(NOW_MS, 30) == bases[:2]
    assert log.log_start_offset == bases[2] + 1
    assert log.segment_base_offsets == bases[2:]


def test_the_start_offset_is_the_checkpointed_one_after_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 30)
    log.advance_log_start_offset(17)
    log.close()

    again = open_log(tmp_path, clean_shutdown=True, log_start_offset=17)

    assert offsets(again) == list(range(17, 30))
    assert again.leader_epochs == [(0, 17)]


def test_a_log_that_ends_below_its_start_begins_anew(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 30)
    log.close()

    again = open_log(tmp_path, log_start_offset=100)

    assert (again.log_start_offset, again.log_end_offset) == (100, 100)
    assert append(again, b"a").base_offset == 100


# --- retention --------------------------------------------------------------------------------------------


def test_segments_go_when_their_newest_record_is_too_old(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, retention_ms=100))
    fill(log, 60)  # a millisecond apart
    bases = log.segment_base_offsets

    log.enforce_retention(NOW_MS + 100, 60)
    assert log.segment_base_offsets == bases, "the newest record of the first segment is 100 ms old at most"

    # now the newest record of the second segment is 101 ms old
    assert log.enforce_retention(NOW_MS + bases[2] + 100, 60) == bases[:2]
    assert log.log_start_offset == bases[2]
    assert offsets(log) == list(range(bases[2], 60))


def test_even_the_active_segment_goes_when_it_is_too_old(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, retention_ms=100))
    fill(log, 3)

    assert log.enforce_retention(NOW_MS + 1000, 3) == [0]

    assert (log.log_start_offset, log.log_end_offset, log.segment_base_offsets) == (3, 3, [3])
    assert log.enforce_retention(NOW_MS + 2000, 3) == [], "an empty segment stays"


def test_segments_go_until_the_log_is_just_not_below_the_size(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, retention_bytes=5000))
    fill(log, 100)

    log.enforce_retention(NOW_MS, 100)

    sizes = [segment.size_bytes for segment in log._segments]
    assert log.size_bytes >= 5000 and log.size_bytes - sizes[0] < 5000
    assert offsets(log) == list(range(log.log_start_offset, 100))


def test_retention_keeps_segments_above_the_high_watermark(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, retention_ms=0))
    fill(log, 60)
    bases = log.segment_base_offsets

    log.enforce_retention(NOW_MS + 10_000, high_watermark=bases[2] + 1)

    assert log.log_start_offset == bases[2]


def test_minus_one_and_compaction_keep_everything(tmp_path: Path) -> None:
    compacted = frozenset({"compact"})
    for index, config in enumerate(
        [
            LogConfig(segment_bytes=2000, retention_ms=-1, retention_bytes=-1),
            LogConfig(segment_bytes=2000, retention_ms=0, retention_bytes=0, cleanup_policy=compacted),
        ]
    ):
        (tmp_path / str(index)).mkdir()
        log = open_log(tmp_path / str(index), config)
        fill(log, 30)
        assert log.enforce_retention(NOW_MS * 2, 30) == []


def test_a_segment_without_timestamps_goes_by_when_it_was_written(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, retention_ms=1000))
    append(log, b"a", timestamp=-1)
    log.roll(NOW_MS)
    os.utime(tmp_path / "t-0" / "00000000000000000000.log", (NOW_MS / 1000, NOW_MS / 1000))

    assert log.enforce_retention(NOW_MS + 1000, 1) == []
    assert log.enforce_retention(NOW_MS + 1001, 1) == [0]


def test_files_are_renamed_at_once_and_removed_later(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, retention_ms=0, file_delete_delay_ms=60_000))
    fill(log, 3)
    log.roll(NOW_MS)
    now = NOW_MS + 10_000

    log.enforce_retention(now, 3)

    names = set(os.listdir(log.directory))
    assert {"00000000000000000000.log.deleted", "00000000000000000000.index.deleted"} < names
    assert "00000000000000000000.log" not in names
    assert log.remove_deleted_files(now + 59_999) == 0
    assert log.remove_deleted_files(now + 60_000) == 3
    assert not [name for name in os.listdir(log.directory) if name.endswith(".deleted")]


def test_a_reader_keeps_a_deleted_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, retention_ms=0, file_delete_delay_ms=0))
    append(log, b"a")
    log.roll(NOW_MS)
    piece = log.read(0, 1000, upper_offset=1, at_least_one_batch=True)

    log.enforce_retention(NOW_MS + 1000, 1)
    log.remove_deleted_files(NOW_MS + 1000)

    assert len(piece.read()) == piece.size_bytes
