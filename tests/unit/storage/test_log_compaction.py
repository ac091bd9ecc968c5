"""The records that a cleaning of a log keeps and drops."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.protocol.compression import Codec
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import BATCH_HEADER_BYTES, NewRecord, encode_batch, parse_batch_header
from ottla.storage.compaction.key_map import KeyMap, map_key
from ottla.storage.compaction.selection import examine, groups
from ottla.storage.errors import LogCorruption, StorageError
from ottla.storage.log import Log
from support.storage.compaction import (
    COMPACTED,
    clean,
    contents,
    end_transaction,
    files,
    headers,
    last_stable_offset,
    put,
    table,
)
from support.storage.logs import NOW_MS, open_log

LATER_MS = NOW_MS + 10_000


def open_compacted(tmp_path: Path, **settings: object) -> Log:
    return open_log(tmp_path, replace(COMPACTED, **settings))  # type: ignore[arg-type]


# --- keys -----------------------------------------------------------------------------------------------


def test_the_table_of_the_seed(tmp_path: Path) -> None:
    # given: the seed's log before compaction
    before = {
        13: ("K1", "V5"), 17: ("K5", "V2"), 19: ("K2", "V7"), 20: ("K7", "V1"), 21: ("K8", "V4"),
        22: ("K4", "V6"), 23: ("K1", "V1"), 24: ("K1", "V2"), 25: ("K1", "V9"), 26: ("K9", "V6"),
        27: ("K8", "V22"), 28: ("K2", "V25"),
    }  # fmt: skip
    log = open_compacted(tmp_path)
    for offset, (key, value) in before.items():
        put(log, [(key.encode(), value.encode())], offset=offset)
    log.roll(NOW_MS)

    # when
    clean(log)

    # then: the table after compaction
    after = {17: "V2", 20: "V1", 22: "V6", 25: "V9", 26: "V6", 27: "V22", 28: "V25"}
    assert contents(log) == {
        offset: (before[offset][0].encode(), value.encode()) for offset, value in after.items()
    }


@pytest.mark.parametrize("codec", Codec)
def test_the_last_record_of_each_key_stays_at_its_offset(tmp_path: Path, codec: Codec) -> None:
    log = open_compacted(tmp_path)
    written: dict[int, tuple[bytes, bytes]] = {}
    for number in range(60):
        records = [(b"%d" % ((number * 7 + at) % 23), b"%d.%d" % (number, at)) for at in range(5)]
        base = put(log, records, codec=codec)
        written |= {base + at: record for at, record in enumerate(records)}
    log.roll(NOW_MS)
    last = {key: offset for offset, (key, _) in written.items()}

    clean(log)

    assert contents(log) == {offset: written[offset] for offset in sorted(last.values())}


def test_keys_of_any_length_are_told_apart(tmp_path: Path) -> None:
    log = open_compacted(tmp_path, segment_bytes=1 << 20)
    keys = [b"", b"a", b"x" * 63, b"x" * 64, b"x" * 65, b"y" * 200, b"y" * 9000, b"z" * 20_000]
    for generation in (b"1", b"2"):
        for key in keys:
            put(log, [(key, generation)])
    log.roll(NOW_MS)

    clean(log)

    assert list(contents(log).values()) == [(key, b"2") for key in keys]


def test_a_batch_with_many_records_keeps_the_right_ones(tmp_path: Path) -> None:
    """Offset deltas of one, two and three bytes."""
    log = open_compacted(tmp_path, segment_bytes=1 << 22)
    put(log, [(b"%d" % (at % 9000), b"%d" % at) for at in range(20_000)])
    log.roll(NOW_MS)

    clean(log, map_bytes=1 << 24)

    kept = contents(log)
    assert list(kept) == list(range(11_000, 20_000))
    assert all(value == b"%d" % offset for offset, (_, value) in kept.items())


def test_records_without_a_key_go(tmp_path: Path) -> None:
    """They come from a time when the topic was not compacted."""
    log = open_compacted(tmp_path)
    put(log, [(None, b"1"), (b"k", b"2"), (None, b"3")])
    log.roll(NOW_MS)

    _, stats = clean(log)

    assert contents(log) == {1: (b"k", b"2")}
    assert stats.records_written == 1


def test_batches_that_stay_whole_are_not_touched(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    for number in range(50):
        put(log, [(b"%d" % number, b"x" * 50)], codec=Codec(number % 5))
    log.roll(NOW_MS)
    before = [bytes(batch) for _, batch in log.iterate_batches(0)]

    clean(log)

    assert [bytes(batch) for _, batch in log.iterate_batches(0)] == before


def test_a_cleaned_batch_has_the_newest_timestamp_of_its_records(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    put(log, [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")], timestamp=NOW_MS)
    put(log, [(b"c", b"4")], timestamp=NOW_MS + 50)
    log.roll(NOW_MS)

    clean(log)

    assert [header.max_timestamp for header in headers(log)] == [NOW_MS + 1, NOW_MS + 50]
    found = log.find_offset_by_timestamp(NOW_MS + 1)
    assert found is not None and (found.offset, found.timestamp) == (1, NOW_MS + 1)


def test_the_active_segment_is_never_cleaned(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    put(log, [(b"k", b"1")])
    put(log, [(b"k", b"2")])
    log.roll(NOW_MS)
    put(log, [(b"k", b"3")])
    put(log, [(b"k", b"4")])

    clean(log)

    assert list(contents(log).values()) == [(b"k", b"2"), (b"k", b"3"), (b"k", b"4")]


def test_records_of_the_clean_section_are_replaced_by_the_dirty_one(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    put(log, [(b"%d" % at, b"old") for at in range(10)])
    log.roll(NOW_MS)
    checkpoint, _ = clean(log)
    put(log, [(b"3", b"new"), (b"4", b"new")])
    log.roll(NOW_MS)

    checkpoint, stats = clean(log, checkpoint)

    assert checkpoint == 12 and stats.map_records == 2
    assert list(contents(log)) == [0, 1, 2, 5, 6, 7, 8, 9, 10, 11]


def test_cleaning_twice_changes_nothing(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    for number in range(100):
        put(log, [(b"%d" % (number % 7), b"%d" % number), (b"t%d" % number, None)])
    log.roll(NOW_MS)
    clean(log)
    once = [bytes(batch) for _, batch in log.iterate_batches(0)]

    clean(log)

    assert [bytes(batch) for _, batch in log.iterate_batches(0)] == once


@pytest.mark.parametrize("key_bytes", [1, 9, 63, 64, 100])
@pytest.mark.parametrize("value", [b"x" * 10, b"x" * 5000, None], ids=["short", "long", "tombstone"])
@pytest.mark.parametrize("odd_one", [None, 0, 77, 199])
def test_records_that_are_alike_and_those_that_are_not(
    key_bytes: int, value: bytes | None, odd_one: int | None
) -> None:
    """Both of the map's ways through a batch give the same result."""
    names = [(b"%d" % (number % 150)).rjust(key_bytes, b"-")[-key_bytes:] for number in range(200)]
    records = [NewRecord(name, value, NOW_MS + number // 3) for number, name in enumerate(names)]
    if odd_one is not None:
        records[odd_one] = NewRecord(b"odd", None, NOW_MS)
    batch = encode_batch(records)
    keys = KeyMap(1 << 24)

    keys.add(batch, BATCH_HEADER_BYTES, len(batch), parse_batch_header(batch), 0)

    expected = {record.key: offset for offset, record in enumerate(records)}
    assert keys.entries == {map_key(key): offset for key, offset in expected.items() if key is not None}
    assert keys.tombstones == [offset for offset, record in enumerate(records) if record.value is None]


def test_records_that_end_too_early_are_found() -> None:
    for size in (3, 300):
        batch = encode_batch([NewRecord(b"key", b"x" * size, NOW_MS) for _ in range(20)])
        header = parse_batch_header(batch)
        for cut in range(1, 40):
            with pytest.raises(CorruptBatch):
                KeyMap(1 << 20).add(batch[:-cut], BATCH_HEADER_BYTES, len(batch) - cut, header, 0)


# --- the map's memory -----------------------------------------------------------------------------------


def test_a_map_that_is_full_is_gone_on_with_in_the_next_round(tmp_path: Path) -> None:
    log = open_compacted(tmp_path, segment_bytes=200_000)
    for number in range(400):
        put(log, [(b"%d" % ((number * 31 + at) % 3000), b"%d.%d" % (number, at)) for at in range(20)])
    log.roll(NOW_MS)
    expected = table(log)
    ends = [0]
    while ends[-1] < log.log_end_offset:
        end_offset, _ = clean(log, ends[-1], map_bytes=150_000)
        assert end_offset > ends[-1], "a round has to move on"
        assert table(log) == expected
        ends.append(end_offset)

    assert len(ends) > 3
    clean(log, 0)
    assert len(contents(log)) == len(expected)


def test_the_map_keeps_to_its_bytes() -> None:
    for limit in (200_000, 1_000_000, 5_000_000):
        keys = KeyMap(limit)
        offset = 0
        while not keys.full:
            names = [b"%09d" % number for number in range(offset, offset + 500)]
            batch = encode_batch([NewRecord(name, b"v", NOW_MS) for name in names])
            header = parse_batch_header(batch).placed(offset, 0)
            keys.add(batch, BATCH_HEADER_BYTES, len(batch), header, 0)
            offset += 500
        assert limit / 3 < keys.used_bytes <= limit
        assert keys.latest_offset == len(keys.entries) - 1
        assert keys.survivors() == list(range(len(keys.entries)))


# --- tombstones -----------------------------------------------------------------------------------------


def test_a_tombstone_stays_for_delete_retention_ms_after_its_first_cleaning(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    put(log, [(b"k", b"1"), (b"other", b"x")])
    put(log, [(b"k", None)])
    log.roll(NOW_MS)

    # the first cleaning removes the value and sets the horizon
    checkpoint, _ = clean(log, now_ms=LATER_MS)
    assert contents(log) == {1: (b"other", b"x"), 2: (b"k", None)}
    assert [header.delete_horizon_ms for header in headers(log)] == [None, LATER_MS + 1000]
    assert [batch.max_timestamp for batch in headers(log)] == [NOW_MS + 1, NOW_MS]

    # before the horizon it stays, with the same horizon
    put(log, [(b"z", b"1")])
    log.roll(NOW_MS)
    checkpoint, _ = clean(log, checkpoint, now_ms=LATER_MS + 999)
    assert 2 in contents(log)
    assert headers(log)[1].delete_horizon_ms == LATER_MS + 1000

    # at the horizon it is dropped
    put(log, [(b"z", b"2")])
    log.roll(NOW_MS)
    clean(log, checkpoint, now_ms=LATER_MS + 1000)
    assert contents(log) == {1: (b"other", b"x"), 4: (b"z", b"2")}


def test_records_beside_a_tombstone_keep_their_times(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    put(log, [(b"a", b"1"), (b"k", None), (b"c", b"3")], timestamp=NOW_MS)
    put(log, [(b"a", b"2")])
    log.roll(NOW_MS)

    clean(log, now_ms=LATER_MS)

    for offset, timestamp in ((1, NOW_MS + 1), (2, NOW_MS + 2)):
        found = log.find_offset_by_timestamp(timestamp)
        assert found is not None and (found.offset, found.timestamp) == (offset, timestamp)


# --- transactions and producers -------------------------------------------------------------------------


def test_data_of_an_aborted_transaction_goes_at_once_and_its_marker_later(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    put(log, [(b"k", b"kept")])
    put(log, [(b"k", b"aborted")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, 7, committed=False)
    put(log, [(b"z", b"1")], producer_id=7, producer_epoch=0, base_sequence=1)
    log.roll(NOW_MS)

    # the data is dropped, the marker stays, and with it the entry of the index
    checkpoint, _ = clean(log, now_ms=LATER_MS)
    assert contents(log) == {0: (b"k", b"kept"), 3: (b"z", b"1")}
    assert [header.is_control for header in headers(log)] == [False, True, False]
    assert [entry.last_offset for entry in log.aborted_transactions(0, 4)] == [2]

    # no record of the transaction is left: the marker gets its horizon
    put(log, [(b"z", b"2")], producer_id=7, producer_epoch=0, base_sequence=2)
    log.roll(NOW_MS)
    checkpoint, _ = clean(log, checkpoint, now_ms=LATER_MS)
    assert headers(log)[1].is_control and headers(log)[1].delete_horizon_ms == LATER_MS + 1000
    assert log.aborted_transactions(0, 4) == []
    assert not [name for name in files(log.directory) if name.endswith(".txnindex")]

    # at the horizon it is dropped
    put(log, [(b"z", b"3")], producer_id=7, producer_epoch=0, base_sequence=3)
    log.roll(NOW_MS)
    clean(log, checkpoint, now_ms=LATER_MS + 1000)
    assert not any(header.is_control for header in headers(log))


def test_a_commit_marker_stays_while_a_record_of_its_transaction_does(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    put(log, [(b"a", b"1")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    end_transaction(log, 7, committed=True)
    put(log, [(b"b", b"1")])
    log.roll(NOW_MS)
    for now_ms in (LATER_MS, LATER_MS + 5000):
        clean(log, 0, now_ms=now_ms)
        assert [header.is_control for header in headers(log)] == [False, True, False]
        assert headers(log)[1].delete_horizon_ms is None

    # when its only record is replaced, and the producer is forgotten
    put(log, [(b"a", b"2")])
    log.roll(NOW_MS)
    log.producers.clear()
    for now_ms in (LATER_MS, LATER_MS + 5000, LATER_MS + 6000):
        clean(log, 0, now_ms=now_ms)
    assert not any(header.is_control for header in headers(log))
    assert list(contents(log).values()) == [(b"b", b"1"), (b"a", b"2")]


def test_cleaning_ends_before_an_open_transaction(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    put(log, [(b"k", b"1")])
    put(log, [(b"k", b"2")])
    log.roll(NOW_MS)
    put(log, [(b"k", b"3")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    put(log, [(b"k", b"4")])
    log.roll(NOW_MS)

    end_offset, _ = clean(log)

    assert end_offset == 2
    assert list(contents(log)) == [1, 2, 3]


def test_the_last_batch_of_a_producer_stays_without_its_records(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    put(log, [(b"k", b"1")], producer_id=7, producer_epoch=3, base_sequence=40)
    put(log, [(b"k", b"2"), (b"k", b"3")], producer_id=7, producer_epoch=3, base_sequence=41)
    put(log, [(b"k", b"4")])
    log.roll(NOW_MS)

    clean(log)

    first, second = headers(log)
    assert (first.record_count, first.base_sequence, first.last_sequence) == (0, 41, 42)
    assert (first.base_offset, first.last_offset, first.producer_epoch) == (1, 2, 3)
    assert second.record_count == 1
    log.close()
    again = open_log(tmp_path, COMPACTED)
    state = again.producers.get(7)
    assert state is not None and state.last_sequence == 42


def test_the_last_batch_of_a_round_stays_even_empty(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    put(log, [(b"k", b"1")])
    put(log, [(None, b"no key")])
    log.roll(NOW_MS)

    clean(log)

    assert [(header.base_offset, header.record_count) for header in headers(log)] == [(0, 1), (1, 0)]


# --- segments -------------------------------------------------------------------------------------------


def test_small_segments_become_one(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    for number in range(300):
        put(log, [(b"%d" % (number % 5), b"x" * 100)])
    log.roll(NOW_MS)
    before = log.segment_base_offsets

    clean(log)  # each is emptied
    clean(log)  # and then they are put together

    assert len(before) > 10
    assert log.segment_base_offsets == [0, log.log_end_offset]
    assert table(log) == {b"%d" % number: b"x" * 100 for number in range(5)}


def test_a_group_fits_a_segment_and_its_offsets_31_bits(tmp_path: Path) -> None:
    log = open_compacted(tmp_path, segment_bytes=1000)
    offsets = [0, 100, 2**31 - 2, 2**31 + 50, 2**31 + 60]
    for offset in offsets:
        put(log, [(b"%d" % offset, b"x" * 200)], offset=offset)
        log.roll(NOW_MS)

    found = [[each.base_offset for each in group] for group in groups(log, log.log_end_offset)]

    assert found == [[0, 1, 101], [2**31 - 1, 2**31 + 51]]
    clean(log)
    assert list(contents(log)) == offsets


def test_offsets_without_records_lead_on_to_the_next(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    for number in range(100):
        put(log, [(b"k", b"%d" % number)])
    log.roll(NOW_MS)
    put(log, [(b"j", b"1")])

    clean(log)

    for offset in range(100):
        piece = log.read(offset, 10_000, upper_offset=101, at_least_one_batch=True)
        assert piece.first_batch_offset == 99
    assert log.log_start_offset == 0


def test_the_log_opens_again_as_it_was(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    for number in range(100):
        put(log, [(b"%d" % (number % 9), b"%d" % number)], leader_epoch=number // 30)
    log.roll(NOW_MS)
    clean(log)
    kept, epochs = contents(log), log.leader_epochs
    assert any(name.endswith(".deleted") for name in files(log.directory))
    log.close()

    for clean_shutdown in (True, False):
        again = open_log(tmp_path, COMPACTED, clean_shutdown=clean_shutdown)
        assert contents(again) == kept
        assert again.log_end_offset == 100 and again.leader_epochs == epochs
        assert not [name for name in files(log.directory) if name.endswith((".deleted", ".cleaned", ".swap"))]
        again.close()


def test_indexes_of_a_cleaned_segment_are_those_that_would_be_made_again(tmp_path: Path) -> None:
    log = open_compacted(tmp_path, segment_bytes=100_000)
    for number in range(500):
        put(log, [(b"%d" % (number % 300), b"x" * (number % 50))], timestamp=NOW_MS + number * 13 % 101)
    log.roll(NOW_MS)
    clean(log)
    segment = log.segments[0]
    paths = [Path(segment.offset_index.file.path), Path(segment.time_index.file.path)]
    made = [path.read_bytes() for path in paths]

    segment.rebuild_indexes()

    assert [path.read_bytes() for path in paths] == made
    assert all(len(content) > 50 for content in made)


def test_a_segment_keeps_the_time_of_its_last_source(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    put(log, [(b"k", b"1")], timestamp=-1)
    log.roll(NOW_MS)
    os.utime(log.segments[0].path, (1000, 1000))

    clean(log)

    assert log.segments[0].retention_timestamp() == 1_000_000


def test_segments_that_are_gone_are_not_replaced(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    for _ in range(2):
        put(log, [(b"k", b"1")])
        log.roll(NOW_MS)
    group = list(log.segments[:2])
    log.truncate_to(1)

    with pytest.raises(StorageError, match="changed while they were cleaned"):
        log.replace_segments(group, 0, has_transaction_index=False, now_ms=NOW_MS)

    assert contents(log) == {0: (b"k", b"1")}


def test_readers_of_a_replaced_segment_see_it_to_its_end(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    for number in range(10):
        put(log, [(b"k", b"%d" % number)])
    log.roll(NOW_MS)
    piece = log.read(0, 10_000, upper_offset=10, at_least_one_batch=True)
    before = piece.read()

    clean(log)
    log.remove_deleted_files(NOW_MS + 10**9)

    assert piece.read() == before


def test_corrupt_bytes_end_a_cleaning_and_the_log_is_unchanged(tmp_path: Path) -> None:
    log = open_compacted(tmp_path)
    for number in range(10):
        put(log, [(b"k", b"%d" % number)])
    log.roll(NOW_MS)
    path = log.segments[0].path
    content = bytearray(path.read_bytes())
    content[-3] ^= 0xFF
    path.write_bytes(content)

    with pytest.raises((CorruptBatch, LogCorruption)):
        clean(log)

    assert path.read_bytes() == content


# --- selection -------------------------------------------------------------------------------------------


def fill_segments(log: Log, count: int) -> None:
    for number in range(count):
        put(log, [(b"%d" % number, b"x" * 100)], timestamp=NOW_MS + 1000 * number)
        log.roll(NOW_MS)


def test_dirtiness_is_the_share_of_bytes_since_the_checkpoint(tmp_path: Path) -> None:
    log = open_compacted(tmp_path, min_cleanable_dirty_ratio=0.5)
    fill_segments(log, 4)

    def look(checkpoint: int | None) -> tuple[float, bool]:
        found = examine(log, checkpoint, last_stable_offset(log), NOW_MS)
        return found.dirty_ratio, found.is_due

    assert look(None) == (1.0, True)
    assert look(1) == (0.75, True)
    assert look(2) == (0.5, False)
    assert look(4) == (0.0, False)


def test_young_segments_and_those_behind_wait_for_min_compaction_lag(tmp_path: Path) -> None:
    log = open_compacted(tmp_path, min_compaction_lag_ms=5000)
    fill_segments(log, 4)

    assert examine(log, None, 4, NOW_MS + 6500).end_offset == 2
    assert examine(log, None, 4, NOW_MS + 60_000).end_offset == 4
    assert not examine(log, None, 4, NOW_MS).is_due


def test_an_old_record_makes_a_log_due_by_max_compaction_lag(tmp_path: Path) -> None:
    log = open_compacted(tmp_path, max_compaction_lag_ms=5000, min_cleanable_dirty_ratio=1.0)
    fill_segments(log, 2)

    assert not examine(log, None, 2, NOW_MS + 5000).is_due
    assert examine(log, None, 2, NOW_MS + 5001).is_due
    assert not examine(log, 2, 2, NOW_MS + 9000).is_due


@pytest.mark.parametrize("checkpoint", [0, 99])
def test_a_checkpoint_outside_the_log_counts_as_none(tmp_path: Path, checkpoint: int) -> None:
    log = open_compacted(tmp_path)
    fill_segments(log, 3)
    log.advance_log_start_offset(1)

    found = examine(log, checkpoint, 3, NOW_MS)

    assert found.checkpoint_invalid and found.start_offset == 1


def test_retention_waits_for_a_cleaning(tmp_path: Path) -> None:
    log = open_compacted(tmp_path, cleanup_policy=frozenset({"compact", "delete"}), retention_bytes=1)
    fill_segments(log, 3)
    log.being_cleaned = True
    assert log.enforce_retention(NOW_MS, 3) == []
    log.being_cleaned = False
    assert log.enforce_retention(NOW_MS, 3) != []
