"""Batches that claim or decompress to more than allowed are
refused before the memory is taken, by every codec.
"""

from __future__ import annotations

import contextlib
import gzip
import struct
import tracemalloc
import zlib

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.batch_validation import (
    LOOP_PAYLOAD_BYTES,
    BatchRules,
    HeavyBatch,
    validate_produced,
)
from ottla.protocol.compression import Codec, UnfoldsTooFar, compress, decompress
from ottla.protocol.errors import CorruptBatch, KafkaError
from ottla.protocol.record_batch import NewRecord, encode_batch
from support.exploration import examples
from support.protocol.batches import with_field, with_payload

LIMIT_BYTES = 1 << 20
BOMB_BYTES = 16 << 20
NOW_MS = 1_700_000_000_000
PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
COMPACTED = BatchRules(compacted=True)
RULES = {
    "a compacted topic": COMPACTED,
    "bounds on timestamps": BatchRules(timestamp_before_max_ms=1000),
    "another codec": BatchRules(codec=Codec.NONE),
}


def bomb(codec: Codec) -> bytes:
    """16 MiB of zeros; snappy compresses them to a twentieth, the others to a thousandth or less."""
    return compress(codec, bytes(BOMB_BYTES))


def batch_of(payload: bytes, codec: Codec, record_count: int = 1) -> bytes:
    template = encode_batch([NewRecord(b"k", b"v", NOW_MS)], codec=codec)
    claimed = with_field(with_payload(template, payload), 57, ">i", record_count)
    return with_field(claimed, 23, ">i", record_count - 1)


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_costs_no_more_memory_than_is_allowed(codec: Codec) -> None:
    # given
    packed = bomb(codec)
    tracemalloc.start()

    # when
    with pytest.raises(UnfoldsTooFar):
        decompress(codec, packed, LIMIT_BYTES)

    # then
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 4 * LIMIT_BYTES


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_never_decompressed_on_the_event_loop(codec: Codec, rules: BatchRules) -> None:
    with pytest.raises(HeavyBatch):
        validate_produced(batch_of(bomb(codec), codec), rules, NOW_MS, on_loop=True)


def test_many_empty_gzip_members_are_read_in_time_that_grows_with_them() -> None:
    # given: members of twenty bytes each, in a batch without any data
    members = gzip.compress(b"") * 4_000
    seen: list[int] = []
    make = zlib.decompressobj

    class Member:
        """Counts the bytes passed to and from zlib."""

        def __init__(self) -> None:
            self._inner = make(31)

        def decompress(self, piece: bytes, limit: int) -> bytes:
            seen.append(len(piece))
            return self._inner.decompress(piece, limit)

        @property
        def eof(self) -> bool:
            return self._inner.eof

        @property
        def unused_data(self) -> bytes:
            return self._inner.unused_data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ottla.protocol.compression.zlib.decompressobj", lambda _: Member())
        # when
        assert decompress(Codec.GZIP, members, LIMIT_BYTES) == b""

    # then: a piece for each member, not all remaining bytes
    assert len(seen) == 4_000
    assert max(seen) <= 16 * 1024


def test_a_large_compressed_batch_of_empty_members_is_checked_in_a_thread() -> None:
    members = gzip.compress(b"") * (LOOP_PAYLOAD_BYTES // 20 + 1)
    with pytest.raises(HeavyBatch):
        validate_produced(batch_of(members, Codec.GZIP), COMPACTED, NOW_MS, on_loop=True)


def test_several_gzip_members_are_one_text_as_in_kafka() -> None:
    text = bytes(range(256)) * 1_000
    joined = b"".join(gzip.compress(text[start : start + 7_001]) for start in range(0, len(text), 7_001))
    assert decompress(Codec.GZIP, joined, len(text)) == text
    with pytest.raises(UnfoldsTooFar):
        decompress(Codec.GZIP, joined, len(text) - 1)


SIZE_CLAIMS = {
    "lz4: a content size of 2^63 - 1": (
        Codec.LZ4,
        # magic, FLG with a content size, BD of 64 KiB, the size, the header's checksum
        lambda: _lz4_frame_claiming((1 << 63) - 1),
    ),
    "snappy: a block of 4 GiB": (Codec.SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + bytes(20)),
    "snappy, framed: a block of 4 GiB": (
        Codec.SNAPPY,
        lambda: b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 25) + b"\xff\xff\xff\xff\x0f" + bytes(20),
    ),
    "snappy, framed: a length of 2^31 - 1": (
        Codec.SNAPPY,
        lambda: b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, (1 << 31) - 1) + bytes(20),
    ),
    "zstd: a window of 3.75 TiB": (Codec.ZSTD, lambda: b"\x28\xb5\x2f\xfd\x00\xff" + b"\x01\x00\x00"),
    "zstd: a window of 2 GiB": (Codec.ZSTD, lambda: b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x11\x00\x00" + b"a"),
    "zstd: a content size of 2^64 - 1": (
        Codec.ZSTD,
        lambda: b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + b"\x01\x00\x00",
    ),
    "gzip inside gzip, cut": (Codec.GZIP, lambda: gzip.compress(gzip.compress(b"a"))[:-4]),
}


def _lz4_frame_claiming(size: int) -> bytes:
    sound = bytes(cramjam.lz4.compress(b"abc"))
    described = bytes((sound[4] | 0x08, sound[5])) + struct.pack("<Q", size)
    return sound[:4] + described + b"\x00" + sound[7:]


@pytest.mark.parametrize("case", SIZE_CLAIMS)
def test_claims_of_size_are_not_believed(case: str) -> None:
    codec, make = SIZE_CLAIMS[case]
    tracemalloc.start()
    with pytest.raises(CorruptBatch):
        decompress(codec, make(), LIMIT_BYTES)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 4 * LIMIT_BYTES


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(st.sampled_from(PACKED), st.binary(min_size=1, max_size=400), st.data())
def test_damaged_compressed_data_is_malformed_or_something_else(
    codec: Codec, text: bytes, data: st.DataObject
) -> None:
    packed = bytearray(compress(codec, text * data.draw(st.integers(1, 50))))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    del packed[data.draw(st.integers(1, len(packed))) :]
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, bytes(packed), LIMIT_BYTES)) <= LIMIT_BYTES


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(
    st.sampled_from([Codec.NONE, *PACKED]),
    st.sampled_from(list(RULES.values())),
    st.binary(max_size=200),
    st.integers(1, 5_000),
    st.booleans(),
)
def test_any_payload_under_a_right_crc_has_an_error_with_a_code(
    codec: Codec, rules: BatchRules, payload: bytes, record_count: int, unpacked: bool
) -> None:
    body = payload if unpacked else compress(codec, payload)
    with contextlib.suppress(KafkaError, CorruptBatch):
        validate_produced(batch_of(body, codec, record_count), rules, NOW_MS)
