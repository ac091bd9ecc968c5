"""The header that an audited record carries: which producer sent it, for which bucket of time, as which.

A mark is 29 bytes: version (1), instance (16, a random UUID), stream (4), start of the bucket in seconds (4),
sequence (4), all big-endian. A stream is a number that an instance gives to a topic; its reports tell the
topic's name. The sequence counts from 0 within one bucket of one stream, so that a report needs to tell only
how many there are, and what is missing in front of the last one is known even without a report. The bucket
is that of the record's timestamp when it was sent: it holds where a broker writes a time of its own.
"""

from __future__ import annotations

import struct
import uuid
from typing import Final, NamedTuple

HEADER: Final = "ottla-audit"
VERSION: Final = 1
MARK_BYTES: Final = 29
PREFIX_BYTES: Final = 25
"""All but the sequence: the same for all records of one bucket of one stream."""
MOST_SEQUENCES: Final = 1 << 26
"""In one bucket of one stream: 67 million. A producer that sends more begins another stream."""
MS_A_SECOND: Final = 1_000
LAST_BUCKET_MS: Final = ((1 << 32) - 1) * MS_A_SECOND

_PREFIX: Final = struct.Struct(">B16sII")


class StreamBucket(NamedTuple):
    """One bucket of one stream of one instance: whose sequence counts from 0."""

    instance: uuid.UUID
    stream: int
    bucket_start_ms: int


def mark_prefix(of: StreamBucket) -> bytes:
    """The bytes that a mark begins with; four of the sequence follow."""
    return _PREFIX.pack(VERSION, of.instance.bytes, of.stream, of.bucket_start_ms // MS_A_SECOND)


def mark(of: StreamBucket, sequence: int) -> bytes:
    """The value of the header."""
    return mark_prefix(of) + sequence.to_bytes(4, "big")


def parse_prefix(prefix: bytes) -> StreamBucket | None:
    """Whose records begin their marks with these bytes; None if that is no mark of this version."""
    if len(prefix) != PREFIX_BYTES or prefix[0] != VERSION:
        return None
    _, instance, stream, start_seconds = _PREFIX.unpack(prefix)
    return StreamBucket(uuid.UUID(bytes=instance), stream, start_seconds * MS_A_SECOND)


def parse_mark(value: bytes | None) -> tuple[StreamBucket, int] | None:
    """Whose record carries this value, and its sequence; None if that is no mark of this version."""
    if value is None or len(value) != MARK_BYTES:
        return None
    sequence = int.from_bytes(value[PREFIX_BYTES:], "big")
    of = parse_prefix(value[:PREFIX_BYTES])
    return None if of is None or sequence >= MOST_SEQUENCES else (of, sequence)
