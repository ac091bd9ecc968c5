"""Topic partitions as files of a directory, each record in exactly one of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import ottla
from ottla.config.setting import HIGH, Table, by_name, choice, integer, long, string
from ottla.config.settings import Settings
from ottla.config.validators import at_least, not_empty
from ottla.connect.connectors.common import GENERATION, NAME, ledger_name
from ottla.connect.connectors.directory.formats import Format
from ottla.connect.connectors.directory.ledger import FileLedger, Temporary
from ottla.connect.connectors.directory.writers import Writer, open_writer
from ottla.connect.data.record import SinkRecord, TopicPartition
from ottla.connect.data.schema import DataError
from ottla.connect.plugins.api import RecordError
from ottla.connect.plugins.required import Required, require

OUTPUT_PATH: Final = string.optional(
    "output.path",
    "The directory of the files; it is made where it is missing.",
    Required(not_empty),
    importance=HIGH,
)
FORMAT: Final = choice(Format)(
    "format",
    Format.JSON,
    "lines: texts. json: a JSON value in each line. csv: structs or objects. parquet: structs.",
    importance=HIGH,
)
FLUSH_SIZE: Final = integer(
    "flush.size", 10_000, "A file has at most so many records.", at_least(1), importance=HIGH
)
ROTATE_INTERVAL_MS: Final = long(
    "rotate.interval.ms",
    60_000,
    "A file is finished when its first record came so long ago; looked at when offsets are committed. -1: "
    "never.",
    at_least(-1),
)


@dataclass(slots=True)
class _Open:
    """A file that is being written. end: the offset of its last record."""

    temporary: Temporary
    writer: Writer
    began: float
    end: int
    records: int = 0


class DirectorySink:
    """Files `topic+partition+FIRST+LAST.suffix`, which appear complete, with the offsets of their records.

    Exactly once: which offsets are in finished files is kept beside them (`ledger.py`).
    """

    TABLE: ClassVar[Table] = Table(
        "DirectorySink", by_name((OUTPUT_PATH, FORMAT, FLUSH_SIZE, ROTATE_INTERVAL_MS, NAME, GENERATION))
    )
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings, now: Callable[[], float] = time.monotonic) -> None:
        path = Path(require(settings, OUTPUT_PATH))
        self._format = settings[FORMAT]
        self._flush_size = settings[FLUSH_SIZE]
        interval_ms = settings[ROTATE_INTERVAL_MS]
        self._interval_seconds = None if interval_ms < 0 else interval_ms / 1000
        self._now = now
        try:
            self._ledger = FileLedger(path, ledger_name(settings), self._format.suffix)
        except OSError as problem:
            raise settings.refusal(OUTPUT_PATH.name, str(problem)) from None
        self._files: dict[TopicPartition, _Open] = {}
        self._next: dict[TopicPartition, int] = {}
        """The offset from which on records of a partition are taken: those below it are written or kept."""
        self._durable: dict[TopicPartition, int] = {}

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        for place in partitions:
            self._forget(place)
            offset = self._ledger.open(place)
            if offset is not None:
                self._durable[place] = self._next[place] = offset
        return {place: self._durable[place] for place in partitions if place in self._durable}

    def write(self, records: Sequence[SinkRecord]) -> None:
        for position, each in enumerate(records):
            if each.offset < self._next.get(each.place, 0):
                continue
            try:
                self._add(each)
            except DataError as problem:
                raise RecordError(position, str(problem)) from None
            self._next[each.place] = each.offset + 1

    def flush(self) -> Mapping[TopicPartition, int]:
        """Finishes the files that are old enough. Offsets of records in other files are not durable yet."""
        if self._interval_seconds is not None:
            due = self._now() - self._interval_seconds
            for place, file in list(self._files.items()):
                if file.began <= due:
                    self._finish(place)
        return dict(self._durable)

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """Files that are not finished are given up: the next task reads their records again."""
        for place in partitions:
            self._forget(place)

    def close(self) -> None:
        for place in list(self._files):
            self._forget(place)

    def _add(self, each: SinkRecord) -> None:
        place = each.place
        file = self._files.get(place)
        if file is not None and not file.writer.takes(each.record):
            self._finish(place)
            file = None
        if file is None:
            temporary = self._ledger.begin(place, each.offset)
            writer = open_writer(temporary.path, self._format, each.record)
            file = _Open(temporary, writer, self._now(), each.offset)
            try:
                writer.add(each.record)
            except BaseException:
                writer.abandon()
                temporary.path.unlink(missing_ok=True)
                raise
            self._files[place] = file
        else:
            file.writer.add(each.record)
        file.records += 1
        file.end = each.offset
        if file.records >= self._flush_size:
            self._finish(place)

    def _finish(self, place: TopicPartition) -> None:
        file = self._files.pop(place)
        file.writer.finish()
        self._ledger.finish(file.temporary, file.end)
        self._durable[place] = file.end + 1

    def _forget(self, place: TopicPartition) -> None:
        self._next.pop(place, None)
        self._durable.pop(place, None)
        file = self._files.pop(place, None)
        if file is not None:
            file.writer.abandon()
            file.temporary.path.unlink(missing_ok=True)
