"""Walks the batches of a segment or a metadata snapshot, in bounded memory, to the first invalid byte."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.protocol.crc import crc32c
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    Record,
    decode_records,
    parse_batch_header,
)
from ottla.storage.files import READ_ONLY, FileHandle
from ottla.storage.indexes import OFFSET_ENTRY
from ottla.storage.inspection.problem import Problem

MAX_BATCH_BYTES: Final = 256 * 1024 * 1024
"""A larger batch is checked piece by piece and not decoded."""
_CHUNK_BYTES: Final = 1024 * 1024
_CRC_START: Final = 21
_MAX_INDEX_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A whole batch at a byte of a file. `data` is None where the batch is larger than MAX_BATCH_BYTES."""

    path: Path
    position: int
    header: BatchHeader
    crc_valid: bool
    data: bytes | None

    def records(self) -> list[Record]:
        """The batch's records. Raises CorruptBatch."""
        if self.data is None:
            raise CorruptBatch(
                f"the batch has {self.header.size_bytes} bytes, more than are decoded in one go"
            )
        return decode_records(self.data)


class SegmentFile:
    """An open segment, read from front to end, up to the size that it has when it is opened."""

    __slots__ = ("_handle", "path", "size_bytes")

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self.path = path
        self._handle = FileHandle(str(path), READ_ONLY)
        self.size_bytes = os.fstat(self._handle.fd).st_size

    def batches(self, position: int = 0) -> Iterator[StoredBatch | Problem]:
        """The batches from the one at `position` on; a Problem ends them where no whole batch follows."""
        buffer, start = b"", position
        last_offset = -1
        while position < self.size_bytes:
            if position + BATCH_HEADER_BYTES > start + len(buffer):
                buffer, start = self._read(_CHUNK_BYTES, position), position
            try:
                header = parse_batch_header(buffer, position - start)
            except CorruptBatch as problem:
                yield self._no_batch(position, last_offset, str(problem))
                return
            if position + header.size_bytes > self.size_bytes:
                missing = position + header.size_bytes - self.size_bytes
                reason = (
                    f"the batch takes {header.size_bytes} bytes, the last {missing} of them are not there"
                )
                yield Problem(self.path, reason, position, header.base_offset)
                return
            if position + header.size_bytes > start + len(buffer):
                if header.size_bytes > MAX_BATCH_BYTES:
                    yield StoredBatch(
                        self.path, position, header, self._large_crc_valid(position, header), None
                    )
                    last_offset = header.last_offset
                    position += header.size_bytes
                    continue
                buffer, start = self._read(max(header.size_bytes, _CHUNK_BYTES), position), position
            at = position - start
            data = buffer[at : at + header.size_bytes]
            if len(data) < header.size_bytes:
                yield Problem(self.path, "the file was shortened meanwhile", position, header.base_offset)
                return
            valid = crc32c(memoryview(data)[_CRC_START:]) == header.crc
            yield StoredBatch(self.path, position, header, valid, data)
            last_offset = header.last_offset
            position += header.size_bytes

    def position_near(self, offset: int, base_offset: int) -> int:
        """The position of a batch that is not after `offset`, by the offset index; 0 if that is no help."""
        index = self.path.with_name(self.path.name.removesuffix(".log") + ".index")
        try:
            with index.open("rb") as file:
                entries = file.read(_MAX_INDEX_BYTES)
        except OSError:
            return 0
        found = 0
        usable = len(entries) - len(entries) % OFFSET_ENTRY.size
        for relative, position in OFFSET_ENTRY.iter_unpack(entries[:usable]):
            if base_offset + relative > offset or position <= found:
                break
            found = position
        return found if self._is_batch_before(found, offset, base_offset) else 0

    def _is_batch_before(self, position: int, offset: int, base_offset: int) -> bool:
        try:
            header = parse_batch_header(self._read(BATCH_HEADER_BYTES, position))
        except CorruptBatch:
            return False
        return base_offset <= header.base_offset <= offset and position + header.size_bytes <= self.size_bytes

    def _read(self, size_bytes: int, position: int) -> bytes:
        return self._handle.read(min(size_bytes, self.size_bytes - position), position)

    def _no_batch(self, position: int, last_offset: int, reason: str) -> Problem:
        left = self.size_bytes - position
        if self._only_zeros(position):
            reason = f"{left} zero bytes follow the last batch: space that was never written"
        return Problem(self.path, reason, position, None if last_offset < 0 else last_offset + 1)

    def _only_zeros(self, position: int) -> bool:
        while position < self.size_bytes:
            piece = self._read(_CHUNK_BYTES, position)
            if not piece or piece.strip(b"\0"):
                return False
            position += len(piece)
        return True

    def _large_crc_valid(self, position: int, header: BatchHeader) -> bool:
        end = position + header.size_bytes
        position += _CRC_START
        checksum = 0
        while position < end:
            piece = self._read(min(_CHUNK_BYTES, end - position), position)
            if not piece:
                return False
            checksum = crc32c(piece, checksum)
            position += len(piece)
        return checksum == header.crc
