"""A log opened after a crash, and logs whose files were damaged."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from ottla.protocol.record_batch import parse_batch_header
from ottla.storage.log import Log, LogConfig, LogCorruption
from support.storage.logs import NOW_MS, SMALL, append, fill, offsets, open_log, read_all

ONE_SEGMENT = LogConfig(segment_bytes=1 << 20, index_interval_bytes=200)


def segment_file(directory: Path, base_offset: int = 0, suffix: str = ".log") -> Path:
    return directory / "t-0" / f"{base_offset:020d}{suffix}"


def flip(path: Path, position: int) -> None:
    """Change one byte."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 0xFF]))


def positions(log: Log) -> list[int]:
    """The position of each batch of the first segment."""
    data = segment_file(log.directory.parent).read_bytes()
    position, found = 0, []
    while position < len(data):
        found.append(position)
        position += parse_batch_header(data, position).size_bytes
    return found


def contents(directory: Path) -> dict[str, bytes]:
    return {entry.name: Path(entry.path).read_bytes() for entry in os.scandir(directory / "t-0")}


# --- torn tails -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [1, 11, 12, 60, 61, 100])
def test_a_torn_batch_at_the_end_is_cut(tmp_path: Path, left: int, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, 10)
    last = positions(log)[-1]
    os.truncate(segment_file(tmp_path), last + left)

    with caplog.at_level(logging.WARNING):
        again = open_log(tmp_path, ONE_SEGMENT)

    assert offsets(again) == list(range(9))
    assert segment_file(tmp_path).stat().st_size == last
    assert [f"bytes={left} " in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("was_cleaned", [True, False])
def test_a_hole_between_segments_is_a_loss_unless_the_log_was_once_cleaned(
    tmp_path: Path, was_cleaned: bool
) -> None:
    """In a cleaned log a cut would drop records that were not lost, whatever the present policy is."""
    log = open_log(tmp_path)
    fill(log, 30)
    first, second = log.segments[:2]
    last_batch = positions(log)[-1]
    os.truncate(first.path, last_batch)

    again = open_log(tmp_path, was_cleaned=was_cleaned)

    lost = second.base_offset - 1
    assert offsets(again) == [each for each in range(30 if was_cleaned else lost) if each != lost]


def test_zeros_at_the_end_are_cut(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, 10)
    size = log.size_bytes
    os.truncate(segment_file(tmp_path), size + 1_000_000)

    again = open_log(tmp_path, ONE_SEGMENT)

    assert (offsets(again), again.size_bytes) == (list(range(10)), size)


def test_a_damaged_last_batch_above_the_recovery_point_is_cut(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, 10)
    flip(segment_file(tmp_path), positions(log)[-1] + 80)

    again = open_log(tmp_path, ONE_SEGMENT, recovery_point=9)

    assert offsets(again) == list(range(9))
    append(again, b"new")
    assert offsets(again) == list(range(10))


def test_a_log_that_is_only_a_torn_batch_is_empty(tmp_path: Path) -> None:
    fill(open_log(tmp_path), 1)
    os.truncate(segment_file(tmp_path), 30)

    assert open_log(tmp_path).log_end_offset == 0


# --- corruption -------------------------------------------------------------------------------------------


def corruption_when_opened(tmp_path: Path, config: LogConfig, **options: object) -> LogCorruption:
    """The error of opening the log, which must change no file."""
    before = contents(tmp_path)
    with pytest.raises(LogCorruption) as caught:
        open_log(tmp_path, config, **options)
    assert contents(tmp_path) == before
    return caught.value


def test_damage_below_valid_batches_is_not_cut_where_these_are_kept(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, 10)
    damaged, following = positions(log)[4:6]
    flip(segment_file(tmp_path), damaged + 80)

    error = corruption_when_opened(tmp_path, ONE_SEGMENT, keeps_valid=True)

    assert (error.path, error.position, error.offset) == (segment_file(tmp_path), damaged, 4)
    message = str(error)
    assert f"a valid batch follows at byte {following}" in message
    assert "\n" not in message and "Nothing was changed" in message and "good copy" in message


def test_a_damaged_length_is_found_to_have_valid_batches_behind_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, 10)
    damaged = positions(log)[4]
    flip(segment_file(tmp_path), damaged + 8)  # the length's first byte: negative, or longer than the file

    assert corruption_when_opened(tmp_path, ONE_SEGMENT, keeps_valid=True).position == damaged


def test_damage_above_the_recovery_point_is_cut_with_all_after_it_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, 10)
    size, damaged = log.size_bytes, positions(log)[4]
    flip(segment_file(tmp_path), damaged + 80)

    again = open_log(tmp_path, ONE_SEGMENT, recovery_point=4)

    assert (offsets(again), again.recovery_point, again.size_bytes) == ([0, 1, 2, 3], 4, damaged)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert f"offsets 4 to 9 are gone path={segment_file(tmp_path)} position={damaged} " in line
    assert f"bytes={size - damaged} segments_removed=0 reason=a batch's CRC is wrong" in line


@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_a_closed_segment_that_was_emptied_below_the_recovery_point_stops_the_start(
    tmp_path: Path, clean_shutdown: bool
) -> None:
    log = open_log(tmp_path)
    fill(log, 60)
    log.close()
    emptied = segment_file(tmp_path, log.segment_base_offsets[1])
    os.truncate(emptied, 0)

    error = corruption_when_opened(tmp_path, SMALL, recovery_point=60, clean_shutdown=clean_shutdown)

    assert (error.path, error.position, error.offset) == (emptied, 0, log.segment_base_offsets[1])


def test_an_emptied_segment_without_indexes_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(tmp_path)
    fill(log, 60)
    log.close()
    first, second = log.segment_base_offsets[1:3]
    os.truncate(segment_file(tmp_path, first), 0)
    for suffix in (".index", ".timeindex"):
        segment_file(tmp_path, first, suffix).unlink()

    open_log(tmp_path, clean_shutdown=True)

    assert f"offsets {first} to {second - 1} are not there path=" in caplog.text


def test_a_segment_that_overlaps_the_one_before_it_is_cut(tmp_path: Path) -> None:
    """A removed segment returns after a power loss: its name was on the disk, its removal was not."""
    log = open_log(tmp_path)
    fill(log, 30)
    second = log.segment_base_offsets[1]
    old = segment_file(tmp_path, second).read_bytes()
    log.truncate_to(second)
    log.remove_deleted_files(NOW_MS * 2)
    fill(log, 2, size=10)
    log.close_files()
    segment_file(tmp_path, second + 1).write_bytes(old)

    again = open_log(tmp_path)

    assert offsets(again) == list(range(again.log_end_offset))
    assert again.log_end_offset <= second + 1


def test_damage_below_the_recovery_point_is_not_cut_even_at_the_end(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, 10)
    last = positions(log)[-1]
    flip(segment_file(tmp_path), last + 80)

    error = corruption_when_opened(tmp_path, ONE_SEGMENT, recovery_point=10)

    assert (error.position, error.offset) == (last, 9)
    assert "though it was flushed up to 10" in str(error)


@pytest.mark.parametrize("damage", ["flipped", "shortened"])
def test_damage_in_a_segment_that_is_not_the_last(tmp_path: Path, damage: str) -> None:
    log = open_log(tmp_path)
    fill(log, 30)
    second = log.segment_base_offsets[1]
    path = segment_file(tmp_path, second)
    if damage == "flipped":
        flip(path, 80)
    else:
        os.truncate(path, path.stat().st_size - 5)

    error = corruption_when_opened(tmp_path, SMALL, keeps_valid=True)

    assert error.path == path
    assert "later segments follow" in str(error)
    again = open_log(tmp_path)
    assert offsets(again) == list(range(error.offset))
    assert again.segment_base_offsets[-1] == second


def test_damage_at_the_end_of_a_cleanly_closed_log_is_found(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, 10)
    log.close()
    flip(segment_file(tmp_path), positions(log)[4] + 80)

    assert corruption_when_opened(tmp_path, ONE_SEGMENT, clean_shutdown=True).offset == 4


def test_offsets_that_go_back_are_corruption(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, 3)
    data = segment_file(tmp_path).read_bytes()
    segment_file(tmp_path).write_bytes(data + data[: positions(log)[1]] + data)

    assert open_log(tmp_path, ONE_SEGMENT).log_end_offset == 3, (
        "the same batches again are none of this log's"
    )


def test_segments_below_the_recovery_point_are_not_read(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 30)
    log.flush()
    flip(segment_file(tmp_path), 80)

    again = open_log(tmp_path, recovery_point=30)

    assert again.log_end_offset == 30


def test_a_reader_meets_damage_with_its_place(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    fill(log, 20)
    log.close()
    log = open_log(tmp_path, ONE_SEGMENT, clean_shutdown=True)
    where = positions(log)[5]
    flip(segment_file(tmp_path), where + 16)  # the magic

    with pytest.raises(LogCorruption) as caught:
        log.read(5, 100, upper_offset=20, at_least_one_batch=True)
    assert caught.value.position == where
    with pytest.raises(LogCorruption):
        list(log.iterate_batches(0))


# --- derived files are made again ------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize(
    "damage", ["missing", "empty", "cut", "zeros behind it", "zeros", "random", "kafka's padding"]
)
@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_damaged_indexes_do_no_harm(tmp_path: Path, suffix: str, damage: str, clean_shutdown: bool) -> None:
    log = open_log(tmp_path)
    fill(log, 60)
    log.close()
    for base_offset in log.segment_base_offsets:
        path = segment_file(tmp_path, base_offset, suffix)
        content = path.read_bytes()
        match damage:
            case "missing":
                path.unlink()
            case "empty":
                path.write_bytes(b"")
            case "cut":
                path.write_bytes(content[:-5])
            case "zeros behind it":
                path.write_bytes(content + b"\0" * 7)
            case "zeros":
                path.write_bytes(b"\0" * len(content))
            case "random":
                path.write_bytes(bytes(range(1, 1 + len(content))))
            case "kafka's padding":
                path.write_bytes(content + b"\0" * (10 * (8 if suffix == ".index" else 12)))

    again = open_log(tmp_path, clean_shutdown=clean_shutdown)

    assert offsets(again) == list(range(60))
    for offset in range(60):
        assert again.read(offset, 1, upper_offset=60, at_least_one_batch=True).first_batch_offset == offset
    if not (suffix == ".timeindex" and damage == "random"):
        for offset in range(60):
            found = again.find_offset_by_timestamp(NOW_MS + offset)
            assert found is not None and found.offset == offset
    fill(again, 60)
    assert offsets(again) == list(range(120))


def test_recovered_indexes_are_those_of_the_run_before(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 60)
    log.close()
    before = contents(tmp_path)
    for name in before:
        if name.endswith("index"):
            (tmp_path / "t-0" / name).unlink()

    open_log(tmp_path)

    after = contents(tmp_path)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "stale"])
def test_leader_epochs_are_found_in_the_batches(tmp_path: Path, damage: str) -> None:
    log = open_log(tmp_path)
    for number in range(40):
        append(log, b"x" * 100, leader_epoch=number // 10)
    expected = log.leader_epochs
    path = tmp_path / "t-0" / "leader-epoch-checkpoint"
    match damage:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "garbage":
            path.write_bytes(b"what is this?")
        case "stale":
            path.write_text("0\n2\n0 0\n1 10\n")

    again = open_log(tmp_path)

    assert expected == [(0, 0), (1, 10), (2, 20), (3, 30)] == again.leader_epochs
    again.close()
    assert path.read_text() == "0\n4\n0 0\n1 10\n2 20\n3 30\n"


def test_epochs_of_batches_that_were_lost_go(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    append(log, b"a", leader_epoch=1)
    size = log.size_bytes
    append(log, b"b", leader_epoch=2)
    os.truncate(segment_file(tmp_path), size)

    assert open_log(tmp_path, ONE_SEGMENT).leader_epochs == [(1, 0)]


@pytest.mark.parametrize("damage", ["nothing", "missing", "garbage"])
def test_producers_come_from_the_snapshot_and_the_batches_after_it(tmp_path: Path, damage: str) -> None:
    log = open_log(tmp_path)
    for sequence in range(40):
        append(log, b"x" * 100, producer_id=5, producer_epoch=2, base_sequence=sequence)
    newest = log.segment_base_offsets[-1]
    snapshot = segment_file(tmp_path, newest, ".snapshot")
    match damage:
        case "missing":
            snapshot.unlink()
        case "garbage":
            snapshot.write_bytes(b"\0" * 50)

    again = open_log(tmp_path)

    state = again.producers.get(5)
    assert state is not None
    assert (state.epoch, state.last_sequence, state.batches[-1].last_offset) == (2, 39, 39)


def test_snapshots_above_the_log_end_are_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path, ONE_SEGMENT)
    append(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    size = log.size_bytes
    append(log, b"b", producer_id=5, producer_epoch=0, base_sequence=1)
    log.close()
    os.truncate(segment_file(tmp_path), size)

    again = open_log(tmp_path, ONE_SEGMENT)

    state = again.producers.get(5)
    assert state is not None and state.last_sequence == 0
    assert not segment_file(tmp_path, 2, ".snapshot").exists()


# --- leftovers --------------------------------------------------------------------------------------------


def test_leftovers_of_deletions_and_unfinished_work_are_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    names = [
        "00000000000000000000.log.deleted",
        "00000000000000000099.index",
        "00000000000000000099.timeindex",
        "00000000000000000000.log.cleaned",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000001.log.swap",
    ]
    for name in names:
        (log.directory / name).write_bytes(b"leftover")

    again = open_log(tmp_path)

    assert offsets(again) == [0, 1, 2]
    assert not set(names) & set(os.listdir(again.directory))


def test_a_finished_compaction_takes_the_place_of_the_segments_it_covers(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 30)
    first, second, third = log.segment_base_offsets[:3]
    log.close()
    # a compaction of the first two segments kept the second one's records
    kept = segment_file(tmp_path, second).read_bytes()
    segment_file(tmp_path, first, ".log.swap").write_bytes(kept)

    again = open_log(tmp_path, clean_shutdown=True)

    assert again.segment_base_offsets[:2] == [first, third]
    assert offsets(again) == list(range(second, 30))


def test_snapshots_of_the_metadata_log_stay(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 1)
    snapshot = log.directory / "00000000000000000000-0000000000.checkpoint"
    snapshot.write_bytes(b"a snapshot")
    deleted = log.directory / "00000000000000000000-0000000000.checkpoint.deleted"
    deleted.write_bytes(b"a snapshot")

    open_log(tmp_path)

    assert snapshot.exists() and deleted.exists()


@pytest.mark.parametrize("made", ["nothing", "directory", "partition.metadata.tmp", "partition.metadata"])
def test_a_kill_while_a_partition_is_made_leaves_an_empty_log(tmp_path: Path, made: str) -> None:
    directory = tmp_path / "t-0"
    if made != "nothing":
        directory.mkdir()
    if made.startswith("partition"):
        (directory / made).write_bytes(
            b"" if made.endswith("tmp") else b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
        )

    log = open_log(tmp_path)

    assert log.log_end_offset == 0
    append(log, b"a")
    assert len(read_all(log)) == 1


def test_a_small_log_is_checked_whole_after_a_clean_stop(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 60)
    log.close()
    flip(segment_file(tmp_path), 80)

    assert open_log(tmp_path, clean_shutdown=True, clean_check_bytes=3000).log_end_offset == 60
    error = corruption_when_opened(tmp_path, SMALL, clean_shutdown=True, clean_check_bytes=1 << 20)
    assert (error.path, error.offset) == (segment_file(tmp_path), 0)
