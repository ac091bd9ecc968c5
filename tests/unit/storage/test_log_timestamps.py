"""Offsets by timestamp, exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.protocol.compression import Codec
from ottla.protocol.record_batch import TimestampType
from ottla.storage.log import LogCorruption
from support.storage.logs import NOW_MS, append, fill, open_log


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_first_record_that_is_not_older_is_found(tmp_path: Path, codec: Codec, reopened: bool) -> None:
    log = open_log(tmp_path)
    for number in range(40):
        append(log, b"a" * 60, b"b" * 60, timestamps=[10 * number + 5, 10 * number + 9], codec=codec)
    if reopened:
        log.close()
        log = open_log(tmp_path, clean_shutdown=True)

    times = [10 * number + plus for number in range(40) for plus in (5, 9)]
    for target in range(401):
        expected = next((offset for offset, time in enumerate(times) if time >= target), None)
        found = log.find_offset_by_timestamp(target)
        if expected is None:
            assert found is None
        else:
            assert found is not None
            assert (found.offset, found.timestamp, found.leader_epoch) == (expected, times[expected], 0)


def test_timestamps_out_of_order_are_searched_in_the_order_of_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    times = [5, 100, 7, 8, 50, 100, 101, 3]
    for time in times:
        append(log, b"x" * 300, timestamp=time)

    for target in range(103):
        expected = next((offset for offset, time in enumerate(times) if time >= target), None)
        found = log.find_offset_by_timestamp(target)
        assert (found.offset if found is not None else None) == expected


def test_records_below_the_log_start_are_not_found(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b", b"c", timestamps=[10, 20, 15])
    log.advance_log_start_offset(2)

    found = log.find_offset_by_timestamp(0)

    assert found is not None and (found.offset, found.timestamp) == (2, 15)
    assert log.find_offset_by_timestamp(16) is None


def test_log_append_time_is_the_time_of_all_records_of_a_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b", timestamps=[1, 50], timestamp_type=TimestampType.LOG_APPEND_TIME)

    found = log.find_offset_by_timestamp(40)

    assert found is not None and (found.offset, found.timestamp) == (0, 50)


@pytest.mark.parametrize("reopened", [False, True])
def test_the_largest_timestamp_gives_its_first_record(tmp_path: Path, reopened: bool) -> None:
    log = open_log(tmp_path)
    fill(log, 20, first_timestamp=100)
    append(log, b"a", b"b", b"c", timestamps=[3, 900, 900])
    append(log, b"d", timestamps=[900])
    fill(log, 20, first_timestamp=200)
    if reopened:
        log.close()
        log = open_log(tmp_path, clean_shutdown=True)

    found = log.find_max_timestamp()

    assert found is not None and (found.offset, found.timestamp) == (21, 900)


def test_no_timestamps_no_answer(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.find_max_timestamp() is None
    assert log.find_offset_by_timestamp(0) is None
    append(log, b"a", timestamp=-1)
    assert log.find_max_timestamp() is None
    assert log.find_offset_by_timestamp(0) is None


def test_a_damaged_batch_is_named(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"abc", timestamp=NOW_MS, codec=Codec.GZIP)
    with (log.directory / "00000000000000000000.log").open("r+b") as file:
        file.seek(70)
        file.write(b"\xff\xff\xff\xff")

    with pytest.raises(LogCorruption, match="byte 0, offset 0"):
        log.find_offset_by_timestamp(NOW_MS)
