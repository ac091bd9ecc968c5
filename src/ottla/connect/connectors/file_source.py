"""Lines of a file, or of standard input, as records: Kafka's FileStreamSource, which follows rotation too."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import ottla
from ottla.config.setting import HIGH, LOW, Table, by_name, integer, string
from ottla.config.settings import Settings
from ottla.config.validators import at_least, not_empty
from ottla.connect.connectors.growing_file import (
    CHUNK_BYTES,
    MAX_LINE_BYTES,
    GrowingFile,
    Lines,
    LineTooLong,
    split_lines,
)
from ottla.connect.data.record import Record, SourceBatch, SourceOffset, SourcePartition, SourceRecord
from ottla.connect.data.schema import Schema, Type
from ottla.connect.plugins.api import RetriableError
from ottla.connect.plugins.required import Required, require

FILE: Final = string.optional("file", "The file. Without it, standard input is read.", importance=HIGH)
TOPIC: Final = string.optional("topic", "The topic of the records.", Required(not_empty), importance=HIGH)
BATCH_SIZE: Final = integer("batch.size", 2000, "The most lines of a batch.", at_least(1), importance=LOW)

FILENAME: Final = "filename"
POSITION: Final = "position"
INODE: Final = "inode"
LINE: Final = Schema(Type.STRING)


class FileStreamSource:
    """One source partition, the file; its offset is a position in bytes, and the file's inode."""

    TABLE: ClassVar[Table] = Table("FileStreamSource", by_name((FILE, TOPIC, BATCH_SIZE)))
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings) -> None:
        self._file = settings[FILE]
        self._topic = require(settings, TOPIC)
        self._batch_size = settings[BATCH_SIZE]

    def partitions(self) -> Sequence[SourcePartition]:
        return ({FILENAME: self._file},)

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        if self._file is None:
            return _read_standard_input(self._topic, self._batch_size)
        position, inode = read_offset(offset)
        file = GrowingFile(Path(self._file), position, inode)
        return records_of(file, partition, self._topic, self._batch_size)

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Nothing is to be forgotten."""

    def close(self) -> None:
        """Each iterator closes its file."""


def read_offset(offset: SourceOffset | None) -> tuple[int, int | None]:
    """The position and the inode of a file's offset. Raises ValueError for one that makes no sense."""
    given: Mapping[str, Any] = offset or {}
    position, inode = given.get(POSITION, 0), given.get(INODE)
    if type(position) is not int or position < 0:
        raise ValueError(f"the offset's {POSITION!r} must be a number of bytes, not {position!r}")
    if inode is not None and type(inode) is not int:
        raise ValueError(f"the offset's {INODE!r} must be a number, not {inode!r}")
    return position, inode


def records_of(
    file: GrowingFile, partition: SourcePartition, topic: str, batch_size: int
) -> Iterator[Sequence[SourceRecord]]:
    """The lines of a growing file as records, in batches; the file is closed with the iterator."""
    try:
        while True:
            try:
                lines = file.read()
            except OSError as problem:
                raise RetriableError(str(problem)) from problem
            if lines is None:
                yield ()
                continue
            for start in range(0, len(lines.texts), batch_size):
                yield _batch(topic, partition, lines, slice(start, start + batch_size))
    finally:
        file.close()


def _batch(topic: str, partition: SourcePartition, lines: Lines, part: slice) -> SourceBatch:
    ends, inode = lines.ends[part], lines.inode

    def place_after(index: int) -> SourceOffset:
        return {POSITION: ends[index], INODE: inode}

    return SourceBatch(topic, partition, place_after, lines.texts[part], LINE)


def _read_standard_input(topic: str, batch_size: int) -> Iterator[Sequence[SourceRecord]]:
    """The lines of standard input, which can't be read twice: a new task goes on with what comes then."""
    descriptor = sys.stdin.fileno()
    pending, position, partition = b"", 0, {FILENAME: None}
    at_end = False
    while not at_end:
        readable, _, _ = select.select([descriptor], [], [], 0)
        if not readable:
            yield ()
            continue
        data = os.read(descriptor, CHUNK_BYTES)
        at_end = not data
        pending += data
        if len(pending) > MAX_LINE_BYTES:
            raise LineTooLong(f"standard input: a line is longer than {MAX_LINE_BYTES} bytes")
        texts, ends = split_lines(pending, position, at_end)
        if texts:
            pending = pending[ends[-1] - position :]
            position = ends[-1]
        records = [
            SourceRecord(Record(topic, value=text, value_schema=LINE), partition, {POSITION: end})
            for text, end in zip(texts, ends, strict=True)
        ]
        for start in range(0, len(records), batch_size):
            yield records[start : start + batch_size]
