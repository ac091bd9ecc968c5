"""Marks that are cut out of a batch are those that reading it field by field finds, or none are cut out."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from ottla.audit.core.counting import _grouped
from ottla.audit.core.marks import _TAIL, marks_of
from ottla.client.audit.mark import HEADER, MARK_BYTES, MOST_SEQUENCES, StreamBucket, mark
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import BATCH_HEADER_BYTES, NewRecord, encode_batch, parse_batch_header
from ottla.protocol.record_columns import decode_columns

streams = st.builds(
    StreamBucket,
    st.sampled_from([uuid.UUID(int=1), uuid.UUID(int=2)]),
    st.integers(0, 2),
    st.sampled_from([0, 600_000]),
)
marks = st.builds(mark, streams, st.integers(0, MOST_SEQUENCES - 1))
lengths = st.one_of(st.integers(0, 100), st.sampled_from([8_100, 8_191, 9_000, 1_100_000]))
plain = st.one_of(st.none(), st.builds(bytes, lengths), st.binary(max_size=40))
misleading = st.builds(lambda before, value: before + _TAIL + value, st.binary(max_size=3), marks)
others = st.lists(st.tuples(st.sampled_from(["a", HEADER]), plain), max_size=2)


def record(value: bytes | None, headers: list[tuple[str, bytes | None]], last: bytes | None) -> NewRecord:
    if last is not None:
        headers = [*headers, (HEADER, last)]
    return NewRecord(None, value, 1, tuple(headers))


marked = st.builds(record, plain, others, marks)
any_records = st.builds(record, st.one_of(plain, misleading), others, st.one_of(st.none(), marks))


def payload_of(records: list[NewRecord]) -> tuple[bytes, bytes]:
    batch = bytes(encode_batch(records))
    return batch, batch[BATCH_HEADER_BYTES:]


@given(st.lists(st.one_of(marked, any_records), min_size=1, max_size=6))
def test_what_is_cut_out_is_what_is_there(records: list[NewRecord]) -> None:
    batch, payload = payload_of(records)
    found = marks_of(payload, len(records))
    if found is not None:
        by_prefix, unmarked = _grouped(decode_columns(payload, parse_batch_header(batch)))
        assert not unmarked and found == by_prefix
    ends = [bool(one.headers) and one.headers[-1][0] == HEADER for one in records]
    are_marks = all(len(one.headers[-1][1] or b"") == MARK_BYTES for one in records if one.headers)
    is_large = any(len(one.value or b"") > 1_000_000 for one in records)
    if all(ends) and are_marks and payload.count(_TAIL) == len(records) and not is_large:
        assert found is not None, "this batch needs no reading field by field"


@given(st.lists(marked, min_size=1, max_size=4), st.data())
def test_a_damaged_batch_has_no_other_marks(records: list[NewRecord], data: st.DataObject) -> None:
    batch, payload = payload_of(records)
    damaged = bytearray(payload)
    at = data.draw(st.integers(0, min(len(payload), 200) - 1))
    damaged[at] = data.draw(st.integers(0, 255))
    found = marks_of(bytes(damaged), len(records))
    try:
        by_prefix, unmarked = _grouped(decode_columns(bytes(damaged), parse_batch_header(batch)))
    except CorruptBatch:
        return
    if found is not None:
        assert not unmarked and found == by_prefix
