"""Record batches of any content can be decoded, also by other parsers; broken ones raise CorruptBatch."""

from __future__ import annotations

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.compression import Codec
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    NewRecord,
    Record,
    crc_valid,
    decode_records,
    encode_batch,
    iterate_headers,
    parse_batch_header,
)
from ottla.protocol.record_queries import find_offset_by_timestamp
from support.protocol.batches import codecs, new_records, sealed, with_payload

MAX_BYTES = 1 << 20


def as_read(records: list[NewRecord], base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + delta, record.timestamp, record.key, record.value, record.headers)
        for delta, record in enumerate(records)
    ]


@given(records=new_records, codec=codecs, base_offset=st.integers(0, 1 << 62))
def test_records_come_back(records: list[NewRecord], codec: Codec, base_offset: int) -> None:
    batch = encode_batch(records, base_offset=base_offset, codec=codec)
    assert decode_records(batch) == as_read(records, base_offset)
    assert decode_records(memoryview(b"xxx" + batch), 3) == as_read(records, base_offset)


@given(records=new_records, codec=st.sampled_from([Codec.NONE, Codec.GZIP]))
def test_kafka_python_reads_what_we_write(records: list[NewRecord], codec: Codec) -> None:
    batch = kafka_python_records.DefaultRecordBatch(encode_batch(records, base_offset=7, codec=codec))
    assert batch.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert read == as_read(records, 7)


@given(records=new_records, codec=codecs)
def test_aiokafka_reads_what_we_write(records: list[NewRecord], codec: Codec) -> None:
    batch = aiokafka_records.DefaultRecordBatch(encode_batch(records, base_offset=7, codec=codec))
    assert batch.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert read == as_read(records, 7)


@given(records=new_records, codec=st.sampled_from([Codec.NONE, Codec.GZIP]))
def test_we_read_what_kafka_python_writes(records: list[NewRecord], codec: Codec) -> None:
    builder = kafka_python_records.DefaultRecordBatchBuilder(2, int(codec), False, 12, 3, 40, 1 << 20)
    for offset, record in enumerate(records):
        builder.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())
    header = parse_batch_header(batch)
    assert crc_valid(batch, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (12, 3, 40)
    # kafka-python takes a negative timestamp for "now"
    read = decode_records(batch)
    assert [(r.key, r.value, r.headers) for r in read] == [(r.key, r.value, r.headers) for r in records]


@given(records=new_records, codec=codecs)
def test_we_read_what_aiokafka_writes(records: list[NewRecord], codec: Codec) -> None:
    builder = aiokafka_records.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=12,
        producer_epoch=3,
        base_sequence=40,
        batch_size=1 << 20,
    )
    for offset, record in enumerate(records):
        builder.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())
    header = parse_batch_header(batch)
    assert crc_valid(batch, 0, header)
    assert header.is_transactional
    read = decode_records(batch)
    assert [(r.key, r.value, r.headers) for r in read] == [(r.key, r.value, r.headers) for r in records]


@given(records=new_records)
def test_uncompressed_bytes_equal_those_of_kafka_python(records: list[NewRecord]) -> None:
    records = [NewRecord(r.key, r.value, max(r.timestamp, 0), r.headers) for r in records]
    builder = kafka_python_records.DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    for offset, record in enumerate(records):
        builder.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    theirs = bytes(builder.build())
    ours = encode_batch(records, leader_epoch=parse_batch_header(theirs).partition_leader_epoch)
    assert ours == theirs


@given(records=new_records, codec=codecs)
def test_a_search_by_timestamp_agrees_with_the_records(records: list[NewRecord], codec: Codec) -> None:
    batch = encode_batch(records, codec=codec)
    header = parse_batch_header(batch)
    newest = max(record.timestamp for record in records)
    first = next(offset for offset, record in enumerate(records) if record.timestamp == newest)
    assert find_offset_by_timestamp(batch, 0, header, newest) == (first, newest)
    assert find_offset_by_timestamp(batch, 0, header, newest + 1) is None


@given(batches=st.lists(new_records, max_size=5), cut=st.integers(0, 10_000))
def test_a_partial_batch_ends_the_iteration(batches: list[list[NewRecord]], cut: int) -> None:
    encoded = [encode_batch(records) for records in batches]
    data = b"".join(encoded)[:cut]
    whole = [header.size_bytes for _, header in iterate_headers(data)]
    expected = []
    for batch in encoded:
        if sum(expected) + len(batch) > len(data):
            break
        expected.append(len(batch))
    assert whole == expected


@given(records=new_records, codec=codecs, data=st.data())
def test_a_changed_byte_is_noticed(records: list[NewRecord], codec: Codec, data: st.DataObject) -> None:
    batch = bytearray(encode_batch(records, codec=codec))
    # the leader sets base offset and leader epoch, so the CRC leaves them out
    position = data.draw(st.integers(8, len(batch) - 1).filter(lambda n: not 12 <= n < 16), "position")
    batch[position] ^= data.draw(st.integers(1, 255), "flipped bits")
    with pytest.raises(CorruptBatch):
        decode_records(bytes(batch))


@given(records=new_records, codec=codecs, data=st.data())
def test_a_cut_batch_is_noticed(records: list[NewRecord], codec: Codec, data: st.DataObject) -> None:
    batch = encode_batch(records, codec=codec)
    with pytest.raises(CorruptBatch):
        decode_records(batch[: data.draw(st.integers(0, len(batch) - 1), "bytes kept")])


@given(records=new_records, codec=codecs, data=st.data())
def test_lies_under_a_right_crc_end_in_corrupt_batch_only(
    records: list[NewRecord], codec: Codec, data: st.DataObject
) -> None:
    batch = bytearray(encode_batch(records, codec=codec))
    for _ in range(data.draw(st.integers(1, 4), "changes")):
        position = data.draw(st.integers(21, len(batch) - 1), "position")
        match data.draw(st.sampled_from(["overwrite", "insert", "delete"]), "change"):
            case "overwrite":
                batch[position] = data.draw(st.integers(0, 255))
            case "insert":
                batch[position:position] = data.draw(st.binary(min_size=1, max_size=12))
            case "delete" if len(batch) > BATCH_HEADER_BYTES + 12:
                del batch[position : position + data.draw(st.integers(1, 12))]
    lying = sealed(batch)
    try:
        read = decode_records(lying, max_bytes=MAX_BYTES)
    except CorruptBatch:
        return
    header = parse_batch_header(lying)
    assert len(read) == header.record_count
    assert all(header.base_offset <= record.offset <= header.last_offset for record in read)


@given(payload=st.binary(max_size=300), codec=codecs, count=st.integers(0, 40))
def test_random_records_end_in_corrupt_batch_only(payload: bytes, codec: Codec, count: int) -> None:
    template = encode_batch([NewRecord(b"k", b"v", 0)] * 41, codec=codec)
    batch = with_payload(template, payload, count)
    for question in (
        lambda: decode_records(batch, max_bytes=MAX_BYTES),
        lambda: find_offset_by_timestamp(batch, 0, parse_batch_header(batch), 0, max_bytes=MAX_BYTES),
    ):
        try:
            question()
        except CorruptBatch:
            continue


@given(data=st.binary(max_size=400))
def test_random_bytes_end_in_corrupt_batch_only(data: bytes) -> None:
    try:
        for position, _ in iterate_headers(data):
            decode_records(data, position, max_bytes=MAX_BYTES)
    except CorruptBatch:
        return
