"""The offset index and the time index."""

from __future__ import annotations

import os
from pathlib import Path
from struct import pack

import pytest

from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.indexes import CorruptIndex, OffsetIndex, TimeIndex


@pytest.fixture(params=["in memory", "on file", "mapped"])
def offset_index(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> OffsetIndex:
    """Base offset 1000, entries (1010, 100), (1020, 200), (1030, 300)."""
    index = OffsetIndex(DirectoryFiles(tmp_path), "0.index", 1000, 800)
    for number in (1, 2, 3):
        index.append(1000 + 10 * number, 100 * number)
    if request.param != "in memory":
        index.file.write_out()
        index = OffsetIndex(DirectoryFiles(tmp_path), index.file.name, 1000, 800)
    if request.param == "mapped":
        monkeypatch.setattr("ottla.storage.indexes._MAP_FROM_BYTES", 0)
    return index


@pytest.mark.parametrize(
    ("offset", "entry"),
    [(1000, (1000, 0)), (1009, (1000, 0)), (1010, (1010, 100)), (1029, (1020, 200)), (5000, (1030, 300))],
)
def test_lookup_gives_the_last_entry_not_above_the_offset(
    offset_index: OffsetIndex, offset: int, entry: tuple[int, int]
) -> None:
    assert offset_index.lookup(offset) == entry


@pytest.mark.parametrize(
    ("position", "entry"),
    [(0, (1000, 0)), (99, (1000, 0)), (100, (1010, 100)), (299, (1020, 200)), (999, (1030, 300))],
)
def test_lookup_by_position(offset_index: OffsetIndex, position: int, entry: tuple[int, int]) -> None:
    assert offset_index.lookup_position(position) == entry


@pytest.mark.parametrize(
    ("offset", "left"), [(1000, 0), (1010, 0), (1011, 1), (1020, 1), (1030, 2), (1031, 3)]
)
def test_truncation_drops_entries_at_or_above_the_offset(
    offset_index: OffsetIndex, offset: int, left: int
) -> None:
    offset_index.truncate_to(offset)

    assert offset_index.file.count == left
    offset_index.append(1500, 900)
    assert offset_index.last() == (1500, 900)
    offset_index.file.write_out()
    assert os.path.getsize(offset_index.file.path) == 8 * (left + 1)


def test_the_file_is_kafkas(tmp_path: Path) -> None:
    index = OffsetIndex(DirectoryFiles(tmp_path), "5.index", 5, 800)
    index.append(12, 4711)
    index.file.write_out()
    times = TimeIndex(DirectoryFiles(tmp_path), "5.timeindex", 5, 1200)
    times.append_if_larger(1_700_000_000_000, 12)
    times.file.write_out()

    assert (tmp_path / "5.index").read_bytes() == pack(">ii", 7, 4711)
    assert (tmp_path / "5.timeindex").read_bytes() == pack(">qi", 1_700_000_000_000, 7)


def test_entries_are_written_some_hundred_at_a_time(tmp_path: Path) -> None:
    index = OffsetIndex(DirectoryFiles(tmp_path), "0.index", 0, 1 << 20)

    for number in range(1, 1200):
        index.append(number, number * 10)

    assert os.path.getsize(index.file.path) == 1024 * 8
    assert index.file.count == 1199 and index.lookup(1150) == (1150, 11500)
    assert os.path.getsize(index.file.path) == 1199 * 8, "a lookup writes the rest"


def test_an_index_is_full_at_its_size_and_the_time_index_keeps_one_entry_free(tmp_path: Path) -> None:
    index = OffsetIndex(DirectoryFiles(tmp_path), "0.index", 0, 17)
    times = TimeIndex(DirectoryFiles(tmp_path), "0.timeindex", 0, 24)
    fullness = []
    for number in (1, 2):
        fullness.append((index.is_full, times.is_full))
        index.append(number, number)
        times.append_if_larger(number, number)
    fullness.append((index.is_full, times.is_full))

    assert fullness == [(False, False), (False, True), (True, True)]


def test_kafkas_preallocated_zeros_are_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(pack(">iiii", 5, 256, 9, 65536) + bytes(8 * 1000))
    index = OffsetIndex(DirectoryFiles(path.parent), path.name, 0, 1 << 20)

    assert index.file.count == 2
    index.append(12, 70000)
    index.file.write_out()
    assert path.read_bytes() == pack(">iiiiii", 5, 256, 9, 65536, 12, 70000)


def test_a_size_between_entries_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(b"\1" * 13)

    with pytest.raises(CorruptIndex, match="13 bytes, not a multiple of 8"):
        OffsetIndex(DirectoryFiles(path.parent), path.name, 0, 800).lookup(1)


def test_entries_beyond_the_log_are_corrupt(tmp_path: Path) -> None:
    index = OffsetIndex(DirectoryFiles(tmp_path), "0.index", 0, 800)
    index.append(5, 100)

    index.check(log_size_bytes=101)
    with pytest.raises(CorruptIndex):
        index.check(log_size_bytes=100)


def test_times_only_grow(tmp_path: Path) -> None:
    index = TimeIndex(DirectoryFiles(tmp_path), "0.timeindex", 0, 1200)
    for timestamp, offset in ((10, 1), (10, 2), (9, 3), (15, 4), (15, 4)):
        index.append_if_larger(timestamp, offset)

    assert index.file.count == 2
    assert [index.lookup(time) for time in (9, 10, 14, 15, 99)] == [
        (-1, 0),
        (10, 1),
        (10, 1),
        (15, 4),
        (15, 4),
    ]
    index.truncate_to(4)
    assert index.last() == (10, 1)
    index.truncate_to(0)
    assert index.last() == (-1, 0)


def test_a_full_disk_delays_entries_but_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = OffsetIndex(DirectoryFiles(tmp_path), "0.index", 0, 1 << 20)
    index.append(1, 10)
    index.file.write_out()

    def fail_half_way(files: DirectoryFiles, name: str, data: bytearray) -> None:
        with open(files.path / name, "ab") as file:
            file.write(data[: len(data) // 2 + 3])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryFiles, "append", fail_half_way)
        for number in range(2, 800):
            index.append(number, number * 10)
        with pytest.raises(OSError, match="No space left"):
            index.file.write_out()
    assert os.path.getsize(index.file.path) == 8
    index.file.write_out()

    assert index.file.count == 799
    assert [index.lookup(number) for number in (1, 400, 799)] == [(1, 10), (400, 4000), (799, 7990)]
