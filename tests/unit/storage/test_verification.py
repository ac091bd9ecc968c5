"""A check of files finds each bad place, names it, and changes nothing."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path

import pytest

from ottla.protocol.record_batch import parse_batch_header
from ottla.storage.inspection import segment_batches, segment_verification, verification
from ottla.storage.inspection.problem import Problem
from ottla.storage.inspection.segment_batches import SegmentFile, StoredBatch
from ottla.storage.inspection.verification import Verification
from ottla.storage.log import LogConfig
from support.storage.logs import NOW_MS, append, fill, open_log
from support.storage.written_directories import write_data_directory, write_partition


def problems(path: Path, **options: bool) -> list[Problem]:
    return list(Verification(**options).path(path))


def segments(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def batches(segment: Path) -> list[StoredBatch]:
    found = list(SegmentFile(segment).batches())
    assert all(isinstance(each, StoredBatch) for each in found)
    return [each for each in found if isinstance(each, StoredBatch)]


def change(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_data_directory(tmp_path / "data")
    return tmp_path / "data"


# -- nothing is wrong --------------------------------------------------------------------------------------


def test_a_sound_directory_has_no_problems_and_stays_as_it_is(data: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in data.rglob("*")}

    before = state()
    verification = Verification(gaps=True)
    assert list(verification.path(data)) == []
    assert state() == before
    checked = verification.checked
    assert checked.files == sum(1 for path in data.rglob("*") if path.is_file())
    assert checked.batches == sum(len(batches(path)) for path in data.rglob("*.log")) + 2 * 3


def test_an_open_log_with_unwritten_index_entries_has_no_problems(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 200)
    assert problems(tmp_path / "t-0", gaps=True) == []
    log.close()


def test_a_directory_of_no_files_has_no_problems(tmp_path: Path) -> None:
    assert problems(tmp_path) == []


def test_padding_of_an_index_that_apache_kafka_preallocated_is_no_problem(data: Path) -> None:
    for suffix in (".index", ".timeindex"):
        index = sorted((data / "t-0").glob(f"*{suffix}"))[-1]
        with index.open("ab") as file:
            file.write(bytes(240))
    assert problems(data) == []


# -- segments ----------------------------------------------------------------------------------------------


def test_a_changed_byte_of_a_record_is_named_by_its_batch(data: Path) -> None:
    segment = segments(data / "t-0")[1]
    bad = batches(segment)[2]
    change(segment, bad.position + 70, b"\xff")
    (problem,) = problems(data)
    assert (problem.path, problem.position, problem.offset) == (
        segment,
        bad.position,
        bad.header.base_offset,
    )
    assert "CRC" in problem.reason


def test_a_torn_tail_is_named_by_its_first_byte(data: Path) -> None:
    segment = segments(data / "t-0")[-1]
    last = batches(segment)[-1]
    os.truncate(segment, last.position + 40)
    found = problems(segment)
    assert found[0] == Problem(
        segment, "40 bytes are left, the header of a batch takes 61", last.position, last.header.base_offset
    )
    os.truncate(segment, last.position + 65)
    assert "the last" in problems(segment)[0].reason


def test_zeros_behind_the_last_batch_are_told_as_such(data: Path) -> None:
    segment = segments(data / "t-0")[-1]
    end = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(bytes(5_000))
    (problem,) = problems(segment)
    assert (problem.position, "never written" in problem.reason) == (end, True)


def test_an_offset_that_goes_back_is_a_problem(data: Path) -> None:
    segment = segments(data / "t-0")[0]
    third = batches(segment)[3]
    change(segment, third.position, struct.pack(">q", 0))  # the CRC does not cover it
    assert any("begins at offset 0, below" in problem.reason for problem in problems(segment))


def test_a_leader_epoch_other_than_the_checkpoints_is_a_problem(data: Path) -> None:
    segment = segments(data / "t-0")[0]
    third = batches(segment)[3]
    change(segment, third.position + 12, struct.pack(">i", 77))
    reasons = [problem.reason for problem in problems(segment)]
    assert "the batch has leader epoch 77, leader-epoch-checkpoint says 0" in reasons
    assert any("has leader epoch 0 after 77" in reason for reason in reasons)


def test_segments_that_overlap_are_a_problem(data: Path) -> None:
    first, second = segments(data / "t-0")[:2]
    (second.parent / "00000000000000000001.log").write_bytes(first.read_bytes())
    assert any("the one before it ends with" in problem.reason for problem in problems(data / "t-0"))


def test_missing_offsets_are_problems_only_if_they_are_asked_for(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    append(log, b"b", offset=9)
    log.close()
    assert problems(tmp_path / "t-0") == []
    (problem,) = problems(tmp_path / "t-0", gaps=True)
    assert (problem.offset, problem.reason) == (1, "the offsets 1 to 8 are missing")
    segments(tmp_path / "t-0")[0].rename(tmp_path / "t-0" / "00000000000000000000.log")


def test_a_malformed_record_with_a_right_crc_is_found_in_a_deep_check_only(data: Path) -> None:
    segment = data / "__consumer_offsets-7" / "00000000000000000000.log"
    batch = bytearray(segment.read_bytes()[: batches(segment)[0].header.size_bytes])
    from ottla.protocol.crc import crc32c

    batch[-20:] = b"\xff" * 20
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    assert parse_batch_header(batch).record_count == 1
    change(segment, 0, bytes(batch))
    assert problems(segment, deep=False) == []
    (problem,) = problems(segment)
    assert (problem.path, problem.position) == (segment, 0)


# -- the files beside a segment ----------------------------------------------------------------------------


def damaged_entry(path: Path, entry_bytes: int, place: int, layout: str, *values: int) -> int:
    """Overwrite a part of the second entry; its position."""
    change(path, entry_bytes + place, struct.pack(layout, *values))
    return entry_bytes


def test_an_offset_index_that_points_beside_a_batch_is_a_problem(data: Path) -> None:
    index = sorted((data / "t-0").glob("*.index"))[0]
    at = damaged_entry(index, 8, 4, ">i", struct.unpack(">i", index.read_bytes()[12:16])[0] + 1)
    found = problems(data)
    assert {problem.path for problem in found} == {index}
    assert found[0].position == at and "where no batch begins" in found[0].reason
    # the same by the file alone, and by its directory
    assert problems(index) == found == problems(data / "t-0")


def test_an_offset_index_with_another_offset_is_a_problem(data: Path) -> None:
    index = sorted((data / "t-0").glob("*.index"))[0]
    offset = struct.unpack(">i", index.read_bytes()[8:12])[0]
    damaged_entry(index, 8, 0, ">i", offset + 1)
    (problem,) = problems(data)
    assert (problem.path, problem.position, problem.offset) == (index, 8, offset + 1)


def test_a_time_index_that_goes_back_is_a_problem(data: Path) -> None:
    index = sorted((data / "t-0").glob("*.timeindex"))[0]
    damaged_entry(index, 12, 0, ">q", NOW_MS - 1)
    (problem,) = problems(data)
    assert (problem.path, problem.position) == (index, 12)
    assert "follows" in problem.reason


def test_a_time_index_with_another_timestamp_is_a_problem(data: Path) -> None:
    index = sorted((data / "t-0").glob("*.timeindex"))[0]
    timestamp = struct.unpack(">q", index.read_bytes()[12:20])[0]
    damaged_entry(index, 12, 0, ">q", timestamp + 1)
    assert problems(data)[0].path == index and "the largest of the batch is" in problems(data)[0].reason


def test_an_index_of_a_broken_size_is_a_problem(data: Path) -> None:
    for suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
        path = sorted((data / "t-0").glob(f"*{suffix}"))[-1]
        content = path.read_bytes()
        path.write_bytes(content + b"\x01")
        assert [problem.path for problem in problems(data)] == [path], suffix
        path.write_bytes(content)


def test_a_transaction_index_that_the_log_contradicts_is_a_problem(data: Path) -> None:
    (index,) = (data / "t-0").glob("*.txnindex")
    change(index, 2, struct.pack(">q", 999))
    (problem,) = problems(data)
    assert (problem.path, problem.position) == (index, 0)
    assert "the log does not" in problem.reason
    change(index, 0, struct.pack(">h", 5))
    assert "has version 5" in problems(data)[0].reason


def test_a_producer_snapshot_with_a_wrong_crc_is_a_problem(data: Path) -> None:
    snapshot = sorted((data / "t-0").glob("*.snapshot"))[0]
    change(snapshot, 12, b"\xff")
    (problem,) = problems(data)
    assert problem.path == snapshot and "CRC" in problem.reason


# -- the directory's own files -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("recovery-point-offset-checkpoint", "0\n2\nt 0 1\n"),
        ("replication-offset-checkpoint", "0\n1\nt zero 1\n"),
        ("log-start-offset-checkpoint", "0\n1\nt 0 -4\n"),
        ("cleaner-offset-checkpoint", "9\n0\n"),
        ("recovery-point-offset-checkpoint", "\xff\xfe"),
        ("meta.properties", "version=1\ncluster.id=x\n"),
        ("t-0/partition.metadata", "version: 0\ntopic_id: short\n"),
        ("t-0/leader-epoch-checkpoint", "0\n2\n1 5\n1 6\n"),
        ("t-0/leader-epoch-checkpoint", "0\n2\n1 5\n2 4\n"),
        ("__cluster_metadata-0/quorum-state", "{"),
        ("__cluster_metadata-0/quorum-state", "[" * 100_000),
        ("__cluster_metadata-0/quorum-state", json.dumps({"data_version": 7})),
        ("__cluster_metadata-0/quorum-state", json.dumps({"data_version": 1, "leaderEpoch": "x"})),
        (".kafka_cleanshutdown", "7"),
    ],
)
def test_a_damaged_text_file_is_a_problem(data: Path, name: str, content: str) -> None:
    (data / name).write_bytes(content.encode("latin-1"))
    found = problems(data)
    assert {problem.path for problem in found} == {data / name}


def test_a_checkpoint_beyond_a_logs_end_is_a_problem(data: Path) -> None:
    path = data / "recovery-point-offset-checkpoint"
    path.write_text("0\n1\nt 0 100000\n")
    (problem,) = problems(data)
    assert (problem.path, problem.offset) == (path, 100_000)


@pytest.mark.parametrize("cut", ["header", "footer"])
def test_a_snapshot_without_its_ends_is_a_problem(data: Path, cut: str) -> None:
    (snapshot,) = (data / "__cluster_metadata-0").glob("*.checkpoint")
    found = batches(snapshot)
    content = snapshot.read_bytes()
    snapshot.write_bytes(content[found[1].position :] if cut == "header" else content[: found[2].position])
    (problem,) = problems(data)
    assert (problem.path, cut in problem.reason) == (snapshot, True)


# -- a broker writes meanwhile -----------------------------------------------------------------------------


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    write_partition(tmp_path / "t-0")
    segment = segments(tmp_path / "t-0")[-1]
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-10])
    read = 0

    def write_on(_: int) -> None:
        nonlocal read
        read += 1
        if read == len(segments(tmp_path / "t-0")):  # the last one has just been read
            segment.write_bytes(whole)

    assert list(Verification(seen=write_on).path(tmp_path / "t-0")) == []
    assert read > len(segments(tmp_path / "t-0"))


def test_a_file_that_is_deleted_meanwhile_is_no_problem(tmp_path: Path) -> None:
    write_partition(tmp_path / "t-0")
    first, second = segments(tmp_path / "t-0")[:2]

    def delete(_: int) -> None:
        second.unlink(missing_ok=True)

    verification = Verification(seen=delete)
    assert list(verification.path(tmp_path / "t-0")) == []
    assert first.exists() and not second.exists()


@pytest.mark.parametrize("seed", range(5))
def test_a_log_that_is_written_and_shortened_meanwhile_has_no_bad_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    # each batch is read by itself, and anything may happen before the next one
    monkeypatch.setattr(segment_batches, "_CHUNK_BYTES", 61)
    monkeypatch.setattr(segment_verification, "_SEEN_EVERY_BYTES", 1)
    monkeypatch.setattr(verification, "PAUSE_SECONDS", 0)
    draw = random.Random(seed)
    log = open_log(tmp_path, LogConfig(segment_bytes=4_000, index_interval_bytes=200))
    fill(log, 60, size=80)
    changes = 0

    def happen(_: int) -> None:
        nonlocal changes
        if draw.random() < 0.9 or changes == 100:
            return
        changes += 1
        match draw.randrange(4):
            case 0:
                log.truncate_to(max(log.log_start_offset, log.log_end_offset - draw.randrange(20)))
                append(log, b"other" * draw.randrange(30), timestamp=NOW_MS + draw.randrange(10**6))
            case 1:
                log.advance_log_start_offset(
                    min(log.log_end_offset, log.log_start_offset + draw.randrange(10))
                )
                log.enforce_retention(NOW_MS, log.log_end_offset)
                log.remove_deleted_files(NOW_MS + 10**9)
            case 2:
                log.flush()
            case _:
                fill(log, draw.randrange(8), size=draw.randrange(200), first_timestamp=NOW_MS + changes)

    found = [list(Verification(seen=happen).path(tmp_path / "t-0")) for _ in range(10)]
    assert changes > 10
    assert found == [[]] * 10
    log.close()


def test_many_problems_of_a_file_are_not_all_told(data: Path) -> None:
    path = data / "t-0" / "00000000000000000000.index"
    path.write_bytes(b"".join(struct.pack(">ii", n, 1_000_000 - n) for n in range(1, 5_000)))
    assert len(problems(path)) == 100


@pytest.mark.parametrize(
    "name",
    ["00000000000000000000.txnindex", "00000000000000000000.snapshot", "quorum-state", "meta.properties"],
)
def test_a_file_that_is_too_large_to_be_read_is_a_problem(tmp_path: Path, name: str) -> None:
    with (tmp_path / name).open("wb") as file:
        file.truncate(1 << 40)  # a hole, of which nothing is read
    (problem,) = problems(tmp_path / name)
    assert "are not read" in problem.reason
