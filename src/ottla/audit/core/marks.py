"""Finds the marks of a batch's records without reading anything else of them.

An audited record ends in its mark, since producers put it behind all other headers: name and length, 13 bytes
that are always the same, then the 29 bytes of the mark. So a record costs a look at its length and its tail.
Where any record ends otherwise the batch is read field by field (`record_columns`), a mark in front of other
headers included. Whoever writes a tail of these bytes on purpose could write the header as well.
"""

from __future__ import annotations

import struct
from typing import Final

from ottla.client.audit.mark import HEADER, MARK_BYTES, MOST_SEQUENCES, PREFIX_BYTES, VERSION

_TAIL: Final = bytes([2 * len(HEADER)]) + HEADER.encode() + bytes([2 * MARK_BYTES])
_TAIL_AT: Final = MARK_BYTES + len(_TAIL)
_LEAST_RECORD: Final = _TAIL_AT + 5
_ONE: Final = struct.Struct(f">{PREFIX_BYTES}xI")

Marks = dict[bytes, list[int]]
"""Sequences by the prefix of their marks."""


def marks_of(payload: bytes, record_count: int) -> Marks | None:
    """The marks of all records; None where a record ends in something else, or the payload is malformed."""
    found: list[bytes] = []
    add = found.append
    position, size = 0, len(payload)
    tail, tail_at, mark_bytes = _TAIL, _TAIL_AT, MARK_BYTES
    try:
        while position < size:
            byte = payload[position]
            if byte < 0x80:
                end = position + 1 + (byte >> 1)
            else:
                more = payload[position + 1]
                if more < 0x80:
                    end = position + 2 + (byte + (more << 7) - 0x80 >> 1)
                else:
                    last = payload[position + 2]
                    if last >= 0x80:
                        return None
                    end = position + 3 + (byte + (more << 7) + (last << 14) - 0x4080 >> 1)
            if end > size or end - position < _LEAST_RECORD:
                return None
            if payload[end - tail_at : end - mark_bytes] != tail:
                return None
            add(payload[end - mark_bytes : end])
            position = end
    except IndexError:
        return None
    if len(found) != record_count:
        return None
    return _grouped(found)


def _grouped(found: list[bytes]) -> Marks | None:
    joined = b"".join(found)
    count = len(found)
    first = found[0][:PREFIX_BYTES]
    sequences = [sequence for (sequence,) in _ONE.iter_unpack(joined)]
    if max(sequences) >= MOST_SEQUENCES:
        return None
    marks: Marks = {}
    # almost always all records of a batch are of one producer and one bucket
    if all(joined[at::MARK_BYTES] == first[at : at + 1] * count for at in range(PREFIX_BYTES)):
        marks[first] = sequences
    else:
        for mark, sequence in zip(found, sequences, strict=True):
            marks.setdefault(mark[:PREFIX_BYTES], []).append(sequence)
    return None if any(prefix[0] != VERSION for prefix in marks) else marks
