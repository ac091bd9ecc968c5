"""Reads the binary side files of a segment: offset index, time index, transaction index, producer snapshot.

A size that is not a whole number of entries, and a content that can't be such a file, raise DamagedFile.
Zeros at the end of an index are space that Apache Kafka has set aside, and no entries.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from ottla.protocol.crc import crc32c
from ottla.storage.indexes import OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.inspection.problem import DamagedFile, Problem

MAX_FILE_BYTES: Final = 256 * 1024 * 1024
MAX_LISTED_BYTES: Final = 32 * 1024 * 1024
"""Of files whose entries are all kept in memory: about a million of them."""
_TRANSACTION_ENTRY: Final = Struct(">hqqqq")
_SNAPSHOT_START: Final = Struct(">hIi")
_SNAPSHOT_CRC_END: Final = 6
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
_SNAPSHOT_VERSION: Final = 1


class OffsetEntry(NamedTuple):
    """An entry of an offset index: the batch at `position` of the segment ends with `offset`."""

    at: int
    offset: int
    position: int


class TimeEntry(NamedTuple):
    """An entry of a time index: up to `offset` the largest timestamp is `timestamp_ms`."""

    at: int
    timestamp_ms: int
    offset: int


class AbortedEntry(NamedTuple):
    """An entry of a transaction index: an aborted transaction, whose marker is at `last_offset`."""

    at: int
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerEntry(NamedTuple):
    """A producer in a snapshot: its last batch, and its open transaction's first offset (-1 for none)."""

    at: int
    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int


def read_bounded(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """The whole file. Raises DamagedFile for one of more than `limit` bytes, OSError."""
    with path.open("rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes > limit:
            raise DamagedFile(
                Problem(path, f"the file has {size_bytes} bytes, more than {limit} are not read")
            )
        return file.read(limit)


def offset_entries(path: Path, base_offset: int) -> Iterator[OffsetEntry]:
    """The entries of an offset index. Raises DamagedFile, OSError."""
    for at, (relative, position) in _entries(path, OFFSET_ENTRY, padded=True):
        yield OffsetEntry(at, base_offset + relative, position)


def time_entries(path: Path, base_offset: int) -> Iterator[TimeEntry]:
    """The entries of a time index. Raises DamagedFile, OSError."""
    for at, (timestamp_ms, relative) in _entries(path, TIME_ENTRY, padded=True):
        yield TimeEntry(at, timestamp_ms, base_offset + relative)


def aborted_entries(path: Path) -> Iterator[AbortedEntry]:
    """The entries of a transaction index. Raises DamagedFile, OSError."""
    for at, fields in _entries(path, _TRANSACTION_ENTRY, padded=False, limit=MAX_LISTED_BYTES):
        yield AbortedEntry(at, *fields)


def producer_entries(path: Path) -> list[ProducerEntry]:
    """The producers in a snapshot. Raises DamagedFile for another version, a wrong CRC or size; OSError."""
    content = read_bounded(path, MAX_LISTED_BYTES)
    if len(content) < _SNAPSHOT_START.size:
        raise DamagedFile(Problem(path, f"{len(content)} bytes are too few for a producer snapshot", 0))
    version, crc, count = _SNAPSHOT_START.unpack_from(content)
    if version != _SNAPSHOT_VERSION:
        raise DamagedFile(Problem(path, f"the snapshot has version {version}, not {_SNAPSHOT_VERSION}", 0))
    computed = crc32c(memoryview(content)[_SNAPSHOT_CRC_END:])
    if computed != crc:
        raise DamagedFile(Problem(path, f"the CRC is {crc:#010x}, the bytes have {computed:#010x}", 2))
    if _SNAPSHOT_START.size + count * _SNAPSHOT_ENTRY.size != len(content):
        raise DamagedFile(
            Problem(path, f"{count} producers do not fit {len(content)} bytes", _SNAPSHOT_CRC_END)
        )
    places = range(_SNAPSHOT_START.size, len(content), _SNAPSHOT_ENTRY.size)
    return [ProducerEntry(at, *_SNAPSHOT_ENTRY.unpack_from(content, at)) for at in places]


def _entries(
    path: Path, layout: Struct, *, padded: bool, limit: int = MAX_FILE_BYTES
) -> Iterator[tuple[int, tuple[int, ...]]]:
    content = read_bounded(path, limit)
    size = layout.size
    if padded:
        # an entry may itself end with zero bytes
        content = content[: -(-len(content.rstrip(b"\0")) // size) * size]
    whole = len(content) - len(content) % size
    for at in range(0, whole, size):
        yield at, layout.unpack_from(content, at)
    if whole != len(content):
        left = len(content) - whole
        raise DamagedFile(Problem(path, f"the last entry has {left} of {size} bytes", whole))
