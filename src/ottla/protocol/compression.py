"""Compress and decompress the records of a batch: gzip, snappy, lz4 and zstd as Kafka's clients write them.

Each codec writes a form that Java, librdkafka and kafka-python read:
- gzip: one member of RFC 1952.
- snappy: blocks of 32 KiB in the framing of xerial's snappy-java, which Java writes. librdkafka writes one
  raw snappy block without a frame; both are read.
- lz4: an LZ4 frame of independent blocks. Kafka's Java reader refuses linked blocks, which the codec library
  writes by default.
- zstd: one frame at level 3, Kafka's default.

Decompression never produces more than `max_bytes`: the output buffer is bounded before the codec runs, so a
small input that claims or decompresses to gigabytes raises `CorruptBatch` and takes no memory.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Callable

import cramjam

from ottla.protocol.errors import CorruptBatch


class Codec(enum.IntEnum):
    """Kafka's compression types: the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        """The name in `compression.type`; on topics `none` is called `uncompressed`."""
        return self.name.lower()


DEFAULT_LEVELS = {Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3}
"""Kafka's defaults of `compression.gzip.level`, `compression.lz4.level` and `compression.zstd.level`."""

_GZIP_WINDOW_BITS = 31
_GZIP_FIRST_PIECE_BYTES = 16 * 1024
_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC_BYTES = 8
_XERIAL_BLOCK_BYTES = 32 * 1024
_FIRST_GUESS_BYTES = 64 * 1024
_FIRST_GUESS_RATIO = 8
_NEXT_GUESS_RATIO = 16
_INT32 = struct.Struct(">i")


def compress(codec: Codec, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """Compress `data`; `level` is the codec's own, ignored by codecs without levels.

    Raises ValueError for a level that the codec does not have.
    """
    if level is None:
        level = DEFAULT_LEVELS.get(codec, 0)
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return _compress_gzip(data, level)
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            # An LZ4 frame does not record its level; Kafka's range is 1 to 17, the codec's own ends at 12.
            lz4 = cramjam.lz4.Compressor(level=min(level, 12), content_checksum=False, block_linked=False)
            lz4.compress(bytes(data))
            return bytes(lz4.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(bytes(data), level=level))


def decompress(
    codec: Codec, data: bytes | memoryview, max_bytes: int, expected_bytes: int | None = None
) -> bytes:
    """Decompress `data`, to at most `max_bytes`. expected_bytes: the first guess at what it will be.

    Raises CorruptBatch if the bytes are malformed, end too early, or decompress to more than `max_bytes`.
    """
    match codec:
        case Codec.NONE:
            if len(data) > max_bytes:
                raise _too_large(codec, max_bytes)
            return bytes(data)
        case Codec.GZIP:
            return _decompress_gzip(data, max_bytes)
        case Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), max_bytes)
        case Codec.LZ4:
            return _decompress_into(codec, cramjam.lz4.decompress_into, data, max_bytes, expected_bytes)
        case Codec.ZSTD:
            return _decompress_into(codec, cramjam.zstd.decompress_into, data, max_bytes, expected_bytes)


class UnfoldsTooFar(CorruptBatch):
    """Compressed data that decompresses to more than allowed; its first `max_bytes` may be valid."""


def _too_large(codec: Codec, max_bytes: int) -> UnfoldsTooFar:
    return UnfoldsTooFar(f"the {codec.config_name} data unfolds to more than {max_bytes} bytes")


def _malformed(codec: Codec, reason: object) -> CorruptBatch:
    return CorruptBatch(f"the {codec.config_name} data is malformed: {reason}")


def _compress_gzip(data: bytes | bytearray | memoryview, level: int) -> bytes:
    if not -1 <= level <= 9:
        raise ValueError(f"gzip has no level {level}")
    compressor = zlib.compressobj(level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return compressor.compress(data) + compressor.flush()


def _decompress_gzip(data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress one member or several in a row.

    Fed in pieces that grow with the member: the rest of the input is copied at the end of each member, so
    many tiny members would otherwise take quadratic time.
    """
    view = memoryview(data)
    parts: list[bytes] = []
    produced = position = 0
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        piece_bytes = _GZIP_FIRST_PIECE_BYTES
        while not member.eof:
            piece = view[position : position + piece_bytes]
            if not piece:
                raise _malformed(Codec.GZIP, "it ends early")
            try:
                part = member.decompress(piece, max_bytes - produced + 1)
            except zlib.error as problem:
                raise _malformed(Codec.GZIP, problem) from None
            produced += len(part)
            if produced > max_bytes:
                raise _too_large(Codec.GZIP, max_bytes)
            parts.append(part)
            position += len(piece) - len(member.unused_data)
            piece_bytes *= 2
        if position == len(view):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _compress_snappy(data: bytes | bytearray | memoryview) -> bytes:
    output = bytearray(_XERIAL_HEADER)
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(bytes(view[start : start + _XERIAL_BLOCK_BYTES])))
        output += _INT32.pack(len(block))
        output += block
    return bytes(output)


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    if bytes(data[:_XERIAL_MAGIC_BYTES]) != _XERIAL_HEADER[:_XERIAL_MAGIC_BYTES]:
        return _decompress_snappy_block(data, 0, max_bytes)
    output = bytearray()
    position = 0
    while position < len(data):
        # Where two streams were joined, snappy-java has another header.
        if bytes(data[position : position + _XERIAL_MAGIC_BYTES]) == _XERIAL_HEADER[:_XERIAL_MAGIC_BYTES]:
            position += len(_XERIAL_HEADER)
            if position > len(data):
                raise _malformed(Codec.SNAPPY, "it ends inside its header")
            continue
        if position + 4 > len(data):
            raise _malformed(Codec.SNAPPY, "it ends inside the length of a block")
        (length,) = _INT32.unpack_from(data, position)
        position += 4
        if not 0 < length <= len(data) - position:
            raise _malformed(Codec.SNAPPY, f"a block of {length} bytes, {len(data) - position} are there")
        output += _decompress_snappy_block(data[position : position + length], len(output), max_bytes)
        position += length
    return bytes(output)


def _decompress_snappy_block(block: memoryview, produced: int, max_bytes: int) -> bytes:
    try:
        # The block states its size and the library allocates it, so the limit is checked first.
        if produced + cramjam.snappy.decompress_raw_len(block) > max_bytes:
            raise _too_large(Codec.SNAPPY, max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as problem:
        raise _malformed(Codec.SNAPPY, problem) from None


def _decompress_into(
    codec: Codec,
    decompress_into: Callable[[bytes | memoryview, bytearray], int],
    data: bytes | memoryview,
    max_bytes: int,
    expected_bytes: int | None = None,
) -> bytes:
    """Decompress into a buffer of our own that grows up to `max_bytes`, which the library cannot exceed."""
    if expected_bytes is None:
        expected_bytes = max(len(data) * _FIRST_GUESS_RATIO, _FIRST_GUESS_BYTES)
    size = min(max(expected_bytes, 1), max_bytes)
    while True:
        output = bytearray(size)
        try:
            produced = decompress_into(data, output)
        except cramjam.DecompressionError as problem:
            if not _is_full(problem):
                raise _malformed(codec, problem) from None
            if size >= max_bytes:
                raise _too_large(codec, max_bytes) from None
            size = min(size * _NEXT_GUESS_RATIO, max_bytes)
        else:
            del output[produced:]
            return bytes(output)


def _is_full(problem: Exception) -> bool:
    """Whether the library stopped because the output buffer is full; only its message shows that."""
    return "whole buffer" in str(problem)
