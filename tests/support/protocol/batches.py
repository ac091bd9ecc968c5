"""Record batches for tests: made by hypothesis, and broken on purpose with a right CRC."""

from __future__ import annotations

import struct

from crc32c import crc32c
from hypothesis import strategies as st

from ottla.protocol.compression import Codec
from ottla.protocol.record_batch import BATCH_HEADER_BYTES, NewRecord

_timestamps = st.integers(min_value=-1, max_value=253_402_300_799_999)
_data = st.none() | st.binary(max_size=200)
_headers = st.lists(st.tuples(st.text(max_size=12), st.none() | st.binary(max_size=20)), max_size=4)

new_records = st.lists(
    st.builds(NewRecord, _data, _data, _timestamps, _headers.map(tuple)), min_size=1, max_size=30
)
codecs = st.sampled_from(Codec)


def sealed(batch: bytes | bytearray) -> bytes:
    """`batch` with a length and a CRC that fit its bytes, whatever they are."""
    whole = bytearray(batch)
    struct.pack_into(">i", whole, 8, len(whole) - 12)
    struct.pack_into(">I", whole, 17, crc32c(bytes(whole[21:])))
    return bytes(whole)


def with_field(batch: bytes, position: int, layout: str, value: int) -> bytes:
    """`batch` with one header field overwritten, sealed again."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, position, value)
    return sealed(changed)


def with_payload(batch: bytes, payload: bytes, record_count: int | None = None) -> bytes:
    """The header of `batch` in front of other records."""
    changed = sealed(batch[:BATCH_HEADER_BYTES] + payload)
    return changed if record_count is None else with_field(changed, 57, ">i", record_count)
