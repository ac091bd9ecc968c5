"""Records as columns are the same records, and payloads from columns the same bytes, of any shapes."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import (
    NewRecord,
    TimestampType,
    assemble_batch,
    decode_records,
    encode_batch,
    parse_batch_header,
    records_payload,
    write_record,
)
from ottla.protocol.record_columns import decode_columns
from ottla.protocol.record_payloads import payload_of

SIZES = st.sampled_from([0, 1, 5, 62, 63, 64, 100, 127, 128, 300, 8_190, 8_200])
NOW = 1_700_000_000_000


@st.composite
def runs(draw: st.DrawFn) -> list[NewRecord]:
    """Records of one shape, or of many, as producers write them: often alike, sometimes not."""
    dice = random.Random(draw(st.integers(0, 1 << 32)))
    count = draw(st.sampled_from([1, 2, 3, 5, 63, 64, 65, 70, 200, 300]))
    key_bytes = draw(st.none() | SIZES.filter(lambda size: size < 400))
    value_bytes = draw(st.none() | SIZES.filter(lambda size: size < 400 or count < 70))
    varies = draw(st.sampled_from(["nothing", "value", "headers", "time", "late times", "nulls"]))
    found = []
    for index in range(count):
        size = value_bytes
        if varies == "value" and size is not None:
            size = dice.randrange(size + 1)
        if varies == "nulls" and dice.random() < 0.2:
            size = None
        timestamp = NOW
        if varies == "time":
            timestamp += dice.randrange(-200, 200_000)
        if varies == "late times" and index > count // 2:
            timestamp += 1 << dice.randrange(40)
        headers = ()
        if varies == "headers" and dice.random() < 0.5:
            headers = (("h" * dice.randrange(3), dice.choice([None, b"", b"x" * 70])),)
        found.append(
            NewRecord(
                None if key_bytes is None else dice.randbytes(key_bytes),
                None if size is None else dice.randbytes(size),
                timestamp,
                headers,
            )
        )
    return found


BATCHES = st.lists(runs(), min_size=1, max_size=3).map(lambda parts: [one for part in parts for one in part])


@settings(max_examples=150, deadline=None)
@given(BATCHES, st.booleans())
def test_columns_hold_the_records_of_the_batch(records: list[NewRecord], log_append_time: bool) -> None:
    kind = TimestampType.LOG_APPEND_TIME if log_append_time else TimestampType.CREATE_TIME
    batch = encode_batch(records, base_offset=41, timestamp_type=kind)
    header = parse_batch_header(batch)
    payload = records_payload(batch, 0, header)
    expected = decode_records(batch)
    columns = decode_columns(payload, header)
    assert list(zip(*columns, strict=True)) == [tuple(record) for record in expected]
    assert list(decode_columns(payload, header, values_only=True).values) == [each.value for each in expected]


@settings(max_examples=60, deadline=None)
@given(runs(), st.data())
def test_a_compacted_batch_keeps_its_offsets(records: list[NewRecord], data: st.DataObject) -> None:
    """Compaction takes records out, and leaves the others their offset deltas."""
    kept = data.draw(st.lists(st.integers(0, len(records) - 1), min_size=1, unique=True).map(sorted))
    payload = bytearray()
    for index in kept:
        write_record(payload, records[index], index, records[0].timestamp)
    whole = parse_batch_header(encode_batch(records, base_offset=9))
    batch = assemble_batch(whole._replace(record_count=len(kept)), bytes(payload))
    header = parse_batch_header(batch)
    columns = decode_columns(records_payload(batch, 0, header), header)
    assert list(zip(*columns, strict=True)) == [tuple(record) for record in decode_records(batch)]


@settings(max_examples=300, deadline=None)
@given(runs(), st.data())
@example([NewRecord(None, b"x" * 100, NOW)] * 70, None)
def test_damaged_records_are_read_alike_or_refused(
    records: list[NewRecord], data: st.DataObject | None
) -> None:
    """A byte that is changed anywhere gives what `decode_records` gives, or CorruptBatch where that does."""
    batch = encode_batch(records)
    header = parse_batch_header(batch)
    payload = bytearray(records_payload(batch, 0, header))
    at = 3 if data is None else data.draw(st.integers(0, len(payload) - 1))
    payload[at] = 0xFF if data is None else data.draw(st.integers(0, 255))
    if data is not None and data.draw(st.booleans()):
        del payload[data.draw(st.integers(0, len(payload) - 1)) :]
    damaged = assemble_batch(header, bytes(payload))
    again = parse_batch_header(damaged) if len(payload) >= 7 * header.record_count else None
    if again is None:
        return
    try:
        expected = decode_records(damaged)
    except CorruptBatch:
        expected = None
    for values_only in (False, True):
        try:
            columns = decode_columns(bytes(payload), again, values_only=values_only)
        except CorruptBatch:
            assert expected is None
            continue
        assert expected is not None
        assert list(columns.values) == [record.value for record in expected]
        if not values_only:
            assert list(columns.keys) == [record.key for record in expected]
            assert list(columns.timestamps) == [record.timestamp for record in expected]


@settings(max_examples=150, deadline=None)
@given(runs(), st.booleans())
def test_payloads_from_columns_are_the_bytes_of_the_records(records: list[NewRecord], keyed: bool) -> None:
    expected = bytearray()
    for delta, record in enumerate(records):
        write_record(expected, NewRecord(record.key if keyed else None, record.value, NOW), delta, NOW)
    keys = [record.key for record in records] if keyed else None
    assert payload_of(keys, [record.value for record in records]) == bytes(expected)


def test_payloads_of_many_records_have_offset_deltas_of_each_size() -> None:
    values = [b"%d" % (index % 7) for index in range(20_000)]
    expected = bytearray()
    for delta, value in enumerate(values):
        write_record(expected, NewRecord(None, value, NOW), delta, NOW)
    assert payload_of(None, values) == bytes(expected)
    batch = encode_batch([NewRecord(None, value, NOW) for value in values])
    header = parse_batch_header(batch)
    assert list(decode_columns(records_payload(batch, 0, header), header).values) == values


@pytest.mark.parametrize("varied", [False, True])
@pytest.mark.parametrize("key", [None, b"key"])
def test_every_damage_to_a_records_frame_is_read_alike_or_refused(key: bytes | None, varied: bool) -> None:
    """All values of all bytes around the key and value of one record, in a run and in no run."""
    records = [NewRecord(key, b"v" * (20 + (index % 3 if varied else 0)), NOW) for index in range(12)]
    batch = encode_batch(records)
    header = parse_batch_header(batch)
    payload = records_payload(batch, 0, header)
    size = len(payload) // 12
    keys = None if key is None else [key]
    start = sum(len(payload_of(keys, [record.value])) for record in records[:7])
    frame = [*range(6 + len(key or b"")), *range(size - 1, size + 2)]
    for at in frame:
        for byte in range(256):
            damaged = bytearray(payload)
            damaged[start + at] = byte
            whole = assemble_batch(header, bytes(damaged))
            try:
                expected = decode_records(whole)
            except CorruptBatch:
                expected = None
            for values_only in (False, True):
                try:
                    columns = decode_columns(bytes(damaged), header, values_only=values_only)
                except CorruptBatch:
                    assert expected is None, (at, byte)
                    continue
                assert expected is not None, (at, byte, values_only)
                assert list(columns.values) == [record.value for record in expected]
                if not values_only:
                    assert list(zip(*columns, strict=True)) == [tuple(record) for record in expected]
