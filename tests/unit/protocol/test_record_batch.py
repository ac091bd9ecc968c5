"""Record batches byte by byte: fields, flags, patches, control batches, and refusals."""

from __future__ import annotations

import struct

import pytest

from ottla.protocol.batch_rewriting import rebuild_batch
from ottla.protocol.compression import Codec, compress
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    ControlRecordType,
    NewRecord,
    Record,
    TimestampType,
    UnsupportedMagic,
    control_record_type,
    crc_valid,
    decode_records,
    decrement_sequence,
    encode_batch,
    encode_control_batch,
    encode_end_transaction_marker,
    end_transaction_coordinator_epoch,
    increment_sequence,
    iterate_headers,
    parse_batch_header,
    patch_base_offset_and_epoch,
    patch_log_append_time,
)
from ottla.protocol.record_queries import find_offset_by_timestamp
from support.protocol.batches import sealed, with_field, with_payload

ONE = [NewRecord(b"key", b"value", 1_700_000_000_000, (("h", b"1"), ("n", None)))]
BASE_OFFSET, BATCH_LENGTH, MAGIC, ATTRIBUTES, LAST_OFFSET_DELTA, RECORD_COUNT = 0, 8, 16, 21, 23, 57


def test_the_bytes_of_one_batch_are_those_of_the_protocol_guide() -> None:
    # given one record, laid out by hand
    record = (
        b"\x00"  # attributes
        b"\x00"  # timestamp delta 0
        b"\x00"  # offset delta 0
        b"\x06key"
        b"\x0avalue"
        b"\x04"  # two headers
        b"\x02h\x021"
        b"\x02n\x01"
    )
    body = struct.pack(
        ">hiqqqhii", 0x10, 0, 1_700_000_000_000, 1_700_000_000_000, 77, 4, 1000, 1
    ) + struct.pack(">B", len(record) * 2)
    by_hand = sealed(struct.pack(">qiibI", 12, 0, 9, 2, 0) + body + record)
    # when
    batch = encode_batch(
        ONE,
        base_offset=12,
        leader_epoch=9,
        producer_id=77,
        producer_epoch=4,
        base_sequence=1000,
        transactional=True,
    )
    # then
    assert batch == by_hand


def test_a_header_has_every_field() -> None:
    batch = encode_batch(
        ONE * 3,
        base_offset=100,
        leader_epoch=5,
        codec=Codec.ZSTD,
        producer_id=1,
        producer_epoch=2,
        base_sequence=3,
        transactional=True,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    header = parse_batch_header(memoryview(batch))
    assert header.size_bytes == len(batch) == header.batch_length + 12
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 102, 103)
    assert (header.partition_leader_epoch, header.magic, header.record_count) == (5, 2, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1, 2, 3)
    assert header.last_sequence == 5
    assert header.compression is Codec.ZSTD
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.is_transactional
    assert not header.is_control
    assert header.delete_horizon_ms is None


def test_a_batch_without_a_producer_has_no_sequence() -> None:
    header = parse_batch_header(encode_batch(ONE))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert header.last_sequence == -1


def test_sequences_wrap_at_two_to_the_31() -> None:
    last = 2**31 - 1
    assert increment_sequence(last, 1) == 0
    assert increment_sequence(last - 2, 5) == 2
    assert decrement_sequence(0, 1) == last
    assert decrement_sequence(2, 5) == last - 2
    batch = encode_batch(ONE * 4, producer_id=1, producer_epoch=0, base_sequence=last - 1)
    assert parse_batch_header(batch).last_sequence == 1


def test_offset_and_epoch_are_patched_under_the_same_crc() -> None:
    # given
    buffer = bytearray(b"..." + encode_batch(ONE * 2))
    header = parse_batch_header(buffer, 3)
    # when
    patch_base_offset_and_epoch(memoryview(buffer), 3, 2**40, 17)
    # then
    patched = parse_batch_header(buffer, 3)
    assert patched == header.placed(2**40, 17)
    assert patched._replace(base_offset=0, partition_leader_epoch=-1) == header
    assert crc_valid(buffer, 3, patched)
    assert [record.offset for record in decode_records(buffer, 3)] == [2**40, 2**40 + 1]


def test_log_append_time_stamps_every_record() -> None:
    # given
    buffer = bytearray(encode_batch([NewRecord(b"a", b"1", 10), NewRecord(b"b", b"2", 20)]))
    # when
    header = patch_log_append_time(buffer, 0, parse_batch_header(buffer), 5000)
    # then
    assert header == parse_batch_header(buffer)
    assert crc_valid(buffer, 0, header)
    assert [record.timestamp for record in decode_records(buffer)] == [5000, 5000]
    assert find_offset_by_timestamp(buffer, 0, header, 4000) == (0, 5000)


def test_a_search_by_timestamp_starts_at_an_offset() -> None:
    batch = encode_batch([NewRecord(None, b"", 30), NewRecord(None, b"", 10), NewRecord(None, b"", 20)])
    header = parse_batch_header(batch)
    assert find_offset_by_timestamp(batch, 0, header, 15) == (0, 30)
    assert find_offset_by_timestamp(batch, 0, header, 15, start_offset=1) == (2, 20)
    assert find_offset_by_timestamp(batch, 0, header, 31) is None


def test_a_marker_ends_a_transaction() -> None:
    batch = encode_end_transaction_marker(
        committed=False, coordinator_epoch=6, producer_id=40, producer_epoch=2, timestamp=99, base_offset=8
    )
    header = parse_batch_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (40, 2, -1)
    (record,) = decode_records(batch)
    assert record == Record(8, 99, b"\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x06")
    assert control_record_type(record) is ControlRecordType.ABORT
    assert end_transaction_coordinator_epoch(record) == 6


@pytest.mark.parametrize("kind", list(ControlRecordType))
def test_every_control_record_type_comes_back(kind: ControlRecordType) -> None:
    batch = encode_control_batch([(kind, b"value")], timestamp=1)
    (record,) = decode_records(batch)
    assert parse_batch_header(batch).is_control
    assert control_record_type(record) is kind
    assert record.value == b"value"


def test_a_newer_control_record_type_is_unknown_and_a_short_key_corrupt() -> None:
    assert control_record_type(Record(0, 0, b"\x00\x01\x00\x63", b"")) is None
    for key in (None, b"\x00\x00\x00", b"\xff\xff\x00\x00"):
        with pytest.raises(CorruptBatch):
            control_record_type(Record(0, 0, key, b""))
    for value in (None, b"\x00\x00", b"\xff\xff\x00\x00\x00\x00"):
        with pytest.raises(CorruptBatch):
            end_transaction_coordinator_epoch(Record(0, 0, b"\x00\x00\x00\x00", value))


def test_compaction_keeps_offsets_and_sets_the_delete_horizon() -> None:
    # given
    records = [NewRecord(b"k%d" % n, b"v", 1000 + n) for n in range(5)]
    batch = encode_batch(records, base_offset=50, producer_id=3, producer_epoch=0, base_sequence=7)
    kept = [record for record in decode_records(batch) if record.offset in (51, 53)]
    # when
    compacted = rebuild_batch(parse_batch_header(batch), kept, codec=Codec.LZ4, delete_horizon_ms=9_000_000)
    # then
    header = parse_batch_header(compacted)
    assert header.delete_horizon_ms == 9_000_000
    assert (header.base_offset, header.last_offset, header.last_sequence) == (50, 54, 11)
    assert header.max_timestamp == 1003
    assert decode_records(compacted) == kept
    # and a second pass keeps the horizon
    again = rebuild_batch(header, kept[:1])
    assert parse_batch_header(again).delete_horizon_ms == 9_000_000
    assert decode_records(again) == kept[:1]


def test_compaction_may_leave_an_empty_batch() -> None:
    batch = encode_batch(
        ONE * 2, base_offset=4, codec=Codec.GZIP, producer_id=3, producer_epoch=0, base_sequence=0
    )
    empty = rebuild_batch(parse_batch_header(batch), [])
    assert decode_records(empty) == []
    assert parse_batch_header(empty).last_offset == 5
    with pytest.raises(ValueError, match=r"offset 9 is not in 4\.\.5"):
        rebuild_batch(parse_batch_header(batch), [Record(9, 0, None, None)])


def test_header_names_that_are_not_utf8_come_back() -> None:
    # given: a record whose header name is not valid UTF-8
    record = b"\x00\x00\x00\x01\x01\x02\x02\xff\x00"
    batch = with_payload(encode_batch([NewRecord(None, None, 0)]), bytes([len(record) * 2]) + record)
    # when
    (read,) = decode_records(batch)
    # then
    again = encode_batch([NewRecord(read.key, read.value, read.timestamp, read.headers)])
    assert again[BATCH_HEADER_BYTES:] == batch[BATCH_HEADER_BYTES:]


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([])
    with pytest.raises(ValueError, match="does not fit"):
        encode_batch(ONE, producer_epoch=40_000)
    with pytest.raises(ValueError, match="does not fit"):
        encode_batch([NewRecord(None, None, -(2**63)), NewRecord(None, None, 2**63 - 1)])


@pytest.mark.parametrize("magic", [0, 1])
def test_the_old_formats_are_named(magic: int) -> None:
    old = bytearray(encode_batch(ONE))
    old[MAGIC] = magic
    with pytest.raises(UnsupportedMagic, match="old message format") as caught:
        parse_batch_header(old)
    assert caught.value.magic == magic
    # a message of the old formats may be shorter than our header
    with pytest.raises(UnsupportedMagic):
        parse_batch_header(bytes(old[:30]))


@pytest.mark.parametrize(
    ("position", "layout", "value", "why"),
    [
        (BATCH_LENGTH, ">i", 48, "length of 48"),
        (BATCH_LENGTH, ">i", -1, "length of -1"),
        (BATCH_LENGTH, ">i", 2**31 - 1, "length of 2147483647"),
        (MAGIC, ">b", 3, "magic 3"),
        (MAGIC, ">b", -1, "magic -1"),
        (RECORD_COUNT, ">i", -1, "count -1"),
        (RECORD_COUNT, ">i", 2**31 - 1, "2147483647 records in"),
        (RECORD_COUNT, ">i", 4, "4 records in 22 bytes"),
        (LAST_OFFSET_DELTA, ">i", -1, "last offset delta -1"),
        (BASE_OFFSET, ">q", -1, "base offset -1"),
    ],
)
def test_a_header_that_cannot_be_true_is_refused(position: int, layout: str, value: int, why: str) -> None:
    batch = bytearray(encode_batch(ONE))
    struct.pack_into(layout, batch, position, value)
    with pytest.raises(CorruptBatch, match=why):
        parse_batch_header(batch)


def test_a_header_is_held_to_the_bounds_it_is_given() -> None:
    batch = encode_batch(ONE)
    assert parse_batch_header(batch, max_bytes=len(batch)).size_bytes == len(batch)
    with pytest.raises(CorruptBatch):
        parse_batch_header(batch, max_bytes=len(batch) - 1)
    for short in (b"", batch[:16], batch[:60]):
        with pytest.raises(CorruptBatch, match="bytes are left"):
            parse_batch_header(short)
    with pytest.raises(CorruptBatch):
        parse_batch_header(batch, len(batch) + 5)


def test_an_incomplete_batch_has_no_valid_crc() -> None:
    batch = encode_batch(ONE)
    header = parse_batch_header(batch)
    assert crc_valid(batch, 0, header)
    assert not crc_valid(batch[:-1], 0, header)
    assert not crc_valid(batch, 1, header)
    assert list(iterate_headers(batch[:-1])) == []


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"\x10\x00\x00\x00\x02k\x02v\x00\x00", "left after the last record"),
        (b"\x20\x00\x00\x00\x02k\x02v\x00", "a record claims 16 bytes"),
        (b"\x0f\x00\x00\x00\x02k\x02v\x00", "a record claims -8 bytes"),
        (b"\x10\x00\x00\x02\x02k\x02v\x00", "offset delta 1"),
        (b"\x10\x00\x00\x01\x02k\x02v\x00", "offset delta -1"),
        (b"\x10\x00\x00\x00\x7fk\x02v\x00", "a field claims -64 bytes"),
        (b"\x10\x00\x00\x00\x14k\x02v\x00", "a field claims 10 bytes"),
        (b"\x10\x00\x00\x00\x02k\x02v\x02", "claims 1 headers in 0 bytes"),
        (b"\x10\x00\x00\x00\x02k\x02v\x01", "claims -1 headers"),
        (b"\x14\x00\x00\x00\x02k\x02v\x02\x01\x01", "key of a record header is null"),
        (b"\x12\x00\x00\x00\x02k\x02v\x00\x00", "left at the end of a record"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff", "larger than its type"),
        (b"\x10\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", "too many bytes"),
        (b"\x0e\x00\x00\x00\x80\x80\x80\x80", "bytes end inside|claims"),
    ],
)
def test_a_record_that_lies_is_refused(payload: bytes, why: str) -> None:
    for codec in Codec:
        batch = with_payload(encode_batch(ONE, codec=codec), compress(codec, payload))
        with pytest.raises(CorruptBatch, match=why):
            decode_records(batch)


def test_a_record_shorter_than_its_fields_is_refused_by_searches_too() -> None:
    short = b"\x0c\x00" + b"\x80" * 8 + b"\x01\x00\x01\x01\x00"
    batch = with_payload(encode_batch(ONE), short)
    with pytest.raises(CorruptBatch, match="run past its end"):
        find_offset_by_timestamp(batch, 0, parse_batch_header(batch), 0)


def test_a_timestamp_past_the_range_of_time_is_refused() -> None:
    batch = with_field(
        encode_batch([NewRecord(None, None, 5), NewRecord(None, None, 9)]), 27, ">q", 2**63 - 1
    )
    with pytest.raises(CorruptBatch, match="range of time"):
        decode_records(batch)


def test_a_count_that_lies_is_refused() -> None:
    for codec in Codec:
        batch = with_field(encode_batch(ONE * 5, codec=codec), RECORD_COUNT, ">i", 4)
        with pytest.raises(CorruptBatch, match="left after the last record"):
            decode_records(batch)
        with pytest.raises(CorruptBatch):
            decode_records(with_field(batch, RECORD_COUNT, ">i", 6))
        with pytest.raises(CorruptBatch):
            decode_records(with_field(batch, RECORD_COUNT, ">i", 2**31 - 1))


def test_an_unknown_codec_is_refused() -> None:
    batch = with_field(encode_batch(ONE), ATTRIBUTES, ">h", 5)
    with pytest.raises(CorruptBatch, match="compression type 5"):
        decode_records(batch)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_refused(codec: Codec) -> None:
    batch = encode_batch([NewRecord(b"k", bytes(4_000_000), 0)], codec=codec)
    assert len(decode_records(batch)) == 1
    for read in (
        lambda: decode_records(batch, max_bytes=1_000_000),
        lambda: find_offset_by_timestamp(batch, 0, parse_batch_header(batch), 1, max_bytes=1_000_000),
    ):
        with pytest.raises(CorruptBatch, match="more than 1000000 bytes"):
            read()
