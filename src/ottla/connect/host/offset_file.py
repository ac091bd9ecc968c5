"""Source offsets of a standalone worker: a file of JSON lines, [connector, partition, offset] each.

The last line of a partition counts; null is no offset. Lines are added with an fsync, so a kill can only cut
the last one, which is passed over. A file that is mostly history is written anew beside itself and renamed.
Several hosts of a worker write one file: a lock beside it gives them turns.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.config.errors import UserError
from ottla.connect.data.record import SourceOffset, SourcePartition
from ottla.connect.host.offset_records import OffsetImage, key_bytes, value_bytes
from ottla.pipeline.file_lock import FileLock

MAX_FILE_BYTES: Final = 256 << 20
COMPACT_BYTES: Final = 1 << 20
"""A smaller file is not written anew."""
LOCK_SECONDS: Final = 30.0
HISTORY: Final = 4
"""How often as long as its own content a file may be."""


class OffsetFileError(UserError):
    """The file can't be read or written."""


class OffsetFile:
    """The offsets in one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, connector: str) -> list[tuple[SourcePartition, SourceOffset]]:
        """The offsets of a connector. Raises OffsetFileError."""
        with self._locked():
            return self._read().of(connector)

    def write(self, connector: str, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """Store offsets durably. Raises OffsetFileError, DataError."""
        lines = b"".join(_line(connector, partition, offset) for partition, offset in offsets)
        with self._locked():
            try:
                with self._path.open("ab+") as file:
                    if file.tell() and not _ends_a_line(self._path):
                        lines = b"\n" + lines  # a kill cut the line before
                    file.write(lines)
                    file.flush()
                    os.fsync(file.fileno())
                    size = file.tell()
                if size > COMPACT_BYTES:
                    self._compact(size)
            except OSError as problem:
                raise self._failed(problem) from problem

    def _compact(self, size: int) -> None:
        live = b"".join(
            _line(key.connector, key.partition, offset) for key, offset in self._read().everything()
        )
        if len(live) * HISTORY > size:
            return
        beside = self._path.with_name(f"{self._path.name}.new")
        with beside.open("wb") as file:
            file.write(live)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self._path)

    def _read(self) -> OffsetImage:
        image = OffsetImage()
        try:
            with self._path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return image
        except OSError as problem:
            raise self._failed(problem) from problem
        if len(data) > MAX_FILE_BYTES:
            raise OffsetFileError(
                f"{self._path}: larger than {MAX_FILE_BYTES} bytes, is it a file of offsets?"
            )
        lines = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            read = _read_line(line)
            if read is not None:
                image.apply(*read)
            elif line and number == 1:
                # a file of Java's, for one: it must not be written over
                raise OffsetFileError(f"{self._path}: line 1 is not [connector, partition, offset] in JSON")
        return image

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = FileLock(self._path.with_name(f"{self._path.name}.lock"))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            taken = lock.acquire(LOCK_SECONDS)
        except OSError as problem:
            raise self._failed(problem) from problem
        if not taken:
            raise OffsetFileError(f"{self._path}: another process does not let go of it")
        try:
            yield
        finally:
            lock.release()

    def _failed(self, problem: OSError) -> OffsetFileError:
        return OffsetFileError(
            f"{self._path}: the offsets can't be kept there: {problem.strerror or problem}"
        )


def _line(connector: str, partition: SourcePartition, offset: SourceOffset | None) -> bytes:
    return key_bytes(connector, partition)[:-1] + b"," + (value_bytes(offset) or b"null") + b"]\n"


def _read_line(line: bytes) -> tuple[bytes, bytes | None] | None:
    """The key and the value of a line; None for one that was cut."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match found:
        case [str() as connector, dict() as partition, offset] if offset is None or isinstance(
            offset, Mapping
        ):
            return key_bytes(connector, partition), value_bytes(offset)
    return None


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
