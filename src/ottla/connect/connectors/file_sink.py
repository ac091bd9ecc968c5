"""Records as lines at the end of a file, or on standard output: Kafka's FileStreamSink."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import ottla
from ottla.config.setting import HIGH, Table, by_name, string
from ottla.config.settings import Settings
from ottla.connect.connectors.plain import java_text
from ottla.connect.data.record import SinkRecord, TopicPartition
from ottla.connect.plugins.api import RetriableError

FILE: Final = string.optional(
    "file", "The file, which is made where it is missing. Without it, standard output.", importance=HIGH
)
_MODE: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class FileStreamSink:
    """At least once: after a kill, lines that were written and not yet committed come again."""

    TABLE: ClassVar[Table] = Table("FileStreamSink", by_name((FILE,)))
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings) -> None:
        self._file = settings[FILE]
        self._descriptor: int | None = None

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {}

    def write(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        data = "".join(f"{_text(each.record.value)}\n" for each in records).encode("utf-8", "replace")
        if self._file is None:
            sys.stdout.write(data.decode())
            return
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._file, _MODE, 0o644)
            _append(self._descriptor, data)
        except OSError as problem:
            raise RetriableError(f"{self._file}: {problem.strerror or problem}") from problem

    def flush(self) -> Mapping[TopicPartition, int] | None:
        """Lines are on the disk when this returns, not in the page cache alone."""
        if self._file is None:
            sys.stdout.flush()
        elif self._descriptor is not None:
            try:
                os.fsync(self._descriptor)
            except OSError as problem:
                raise RetriableError(f"{self._file}: {problem.strerror or problem}") from problem
        return None

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """What was written stays written."""

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _text(value: object) -> str:
    return value if isinstance(value, str) else java_text(value)


def _append(descriptor: int, data: bytes) -> None:
    """Append all of it, or as little as can be: a disk that is full must not keep half a line.

    Other tasks may append to the same file; the part is taken back only where it is the file's end.
    """
    written = os.write(descriptor, data)
    if written == len(data):
        return
    try:
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        end = os.lseek(descriptor, 0, os.SEEK_CUR)
        if os.fstat(descriptor).st_size == end:
            os.ftruncate(descriptor, end - written)
        raise
