"""Codecs: other libraries decode our data and we theirs; bombs and damaged bytes end early."""

from __future__ import annotations

import gzip
import random
import struct

import cramjam
import pyarrow
import pytest

from ottla.protocol.compression import Codec, compress, decompress
from ottla.protocol.errors import CorruptBatch

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"99 bottles of beer on the wall, 99 bottles of beer\n" * 3000
NOISE = random.Random(7).randbytes(100_000)
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
SAMPLES = [b"", b"a", TEXT, NOISE, bytes(1_000_000), b"x" * 32768, b"y" * 65537]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", SAMPLES, ids=lambda data: f"{len(data)}-bytes")
def test_data_comes_back_within_its_limit(codec: Codec, data: bytes) -> None:
    compressed = compress(codec, memoryview(data))
    assert decompress(codec, memoryview(compressed), len(data)) == data
    assert decompress(codec, compressed, 10 * len(data) + 10) == data
    if data:
        with pytest.raises(CorruptBatch, match=f"more than {len(data) - 1} bytes"):
            decompress(codec, compressed, len(data) - 1)


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
@pytest.mark.parametrize("data", SAMPLES, ids=lambda data: f"{len(data)}-bytes")
def test_the_reference_libraries_agree(name: str, data: bytes) -> None:
    codec = Codec[name.upper()]
    ours = compress(codec, data)
    assert pyarrow.decompress(ours, decompressed_size=len(data), codec=name).to_pybytes() == data
    theirs = pyarrow.compress(data, codec=name, asbytes=True)
    assert decompress(codec, theirs, len(data)) == data


def test_lz4_frames_have_independent_blocks() -> None:
    # Kafka's Java reader refuses a frame without the block-independence flag (bit 5) or another version.
    for level in (None, 1, 17):
        frame = compress(Codec.LZ4, TEXT, level)
        assert frame[:4] == bytes.fromhex("04224d18")
        assert frame[4] >> 6 == 1
        assert frame[4] & 0x20
    linked = cramjam.lz4.compress(TEXT)
    assert not bytes(linked)[4] & 0x20
    assert decompress(Codec.LZ4, bytes(linked), len(TEXT)) == TEXT


def test_snappy_is_written_in_blocks_of_32_kib_and_read_with_and_without_its_frame() -> None:
    # given
    framed = compress(Codec.SNAPPY, TEXT)
    raw = pyarrow.compress(TEXT, codec="snappy", asbytes=True)
    # then
    assert framed[:16] == XERIAL
    (first,) = struct.unpack_from(">i", framed, 16)
    block = framed[20 : 20 + first]
    assert pyarrow.decompress(block, decompressed_size=32768, codec="snappy").to_pybytes() == TEXT[:32768]
    assert decompress(Codec.SNAPPY, raw, len(TEXT)) == TEXT
    assert decompress(Codec.SNAPPY, framed + framed, 2 * len(TEXT)) == TEXT + TEXT


def test_gzip_members_follow_each_other() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two"), 6) == b"onetwo"
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two"), 5)


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Codec.GZIP, 1),
        (Codec.GZIP, 9),
        (Codec.LZ4, 1),
        (Codec.LZ4, 17),
        (Codec.ZSTD, -131072),
        (Codec.ZSTD, 22),
    ],
)
def test_kafkas_levels_are_taken(codec: Codec, level: int) -> None:
    assert decompress(codec, compress(codec, TEXT, level), len(TEXT)) == TEXT


def test_a_level_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="gzip has no level 10"):
        compress(Codec.GZIP, TEXT, 10)


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (b"\xff\xff\xff\xff\x0f" + b"\x00" * 10, "more than 1048576 bytes"),
        (XERIAL + b"\x7f\xff\xff\xff" + b"\x00" * 10, "a block of 2147483647 bytes, 10 are there"),
        (XERIAL + b"\xff\xff\xff\xff" + b"\x00" * 10, "a block of -1 bytes"),
        (XERIAL + b"\x00\x00", "inside the length"),
        (XERIAL[:11], "inside its header"),
        (b"", "malformed"),
    ],
)
def test_snappy_that_lies_about_its_size_is_refused(lie: bytes, why: str) -> None:
    with pytest.raises(CorruptBatch, match=why):
        decompress(Codec.SNAPPY, lie, 1 << 20)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_thousandfold_bomb_is_refused(codec: Codec) -> None:
    bomb = (
        compress(codec, bytes(200_000_000))
        if codec is not Codec.SNAPPY
        else compress(codec, bytes(20_000_000))
    )
    with pytest.raises(CorruptBatch, match="more than 1000000 bytes"):
        decompress(codec, bomb, 1_000_000)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_broken_bytes_are_refused_or_stay_within_the_limit(codec: Codec) -> None:
    dice = random.Random(11)
    good = compress(codec, TEXT[:2000] + NOISE[:500])
    refused = 0
    for _ in range(1500):
        broken = bytearray(good)
        match dice.randrange(3):
            case 0:
                broken[dice.randrange(len(broken))] ^= dice.randrange(1, 256)
            case 1:
                del broken[dice.randrange(len(broken)) :]
            case 2:
                position = dice.randrange(len(broken))
                broken[position : position + dice.randrange(20)] = dice.randbytes(dice.randrange(20))
        try:
            assert len(decompress(codec, bytes(broken), 100_000)) <= 100_000
        except CorruptBatch:
            refused += 1
    assert refused > 300


@pytest.mark.parametrize("codec", COMPRESSED)
def test_empty_and_foreign_bytes_are_refused(codec: Codec) -> None:
    for data in (b"", b"\x00", b"plain text, not compressed at all"):
        if codec is Codec.SNAPPY and data == b"\x00":
            continue  # a whole raw block of no bytes
        with pytest.raises(CorruptBatch):
            decompress(codec, data, 1000)
