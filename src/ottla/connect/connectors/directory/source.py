"""The files of a directory as records: each file is a source partition, each row or line a record."""

from __future__ import annotations

import enum
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final

import ottla
from ottla.config.setting import HIGH, Table, boolean, by_name, choice, integer, long, string, string_list
from ottla.config.settings import Settings
from ottla.config.validators import Rule, at_least, between, not_empty
from ottla.connect.connectors.directory.formats import BadFile, Format
from ottla.connect.connectors.directory.readers import CsvOptions, read_file
from ottla.connect.connectors.growing_file import LineTooLong
from ottla.connect.data.record import Record, SourceOffset, SourcePartition, SourceRecord
from ottla.connect.plugins.required import Required, require

log = logging.getLogger(__name__)


class Cleanup(enum.StrEnum):
    """What becomes of a file whose records are all in Kafka."""

    NONE = "NONE"
    DELETE = "DELETE"
    MOVE = "MOVE"


def _expression_problem(value: str | None) -> str | None:
    try:
        re.compile(value or "")
    except re.error as problem:
        return f"no regular expression: {problem}"
    return None


def _types_problem(value: Sequence[str]) -> str | None:
    wrong = [each for each in value if not re.fullmatch(r"[^:]+:[a-z0-9_\[\]]+", each)]
    return f"an entry is a column's name, a colon and a type, not {wrong[0]!r}" if wrong else None


TOPIC: Final = string.optional("topic", "The topic of the records.", Required(not_empty), importance=HIGH)
INPUT_PATH: Final = string.optional(
    "input.path", "The directory with the files.", Required(not_empty), importance=HIGH
)
INPUT_FILE_PATTERN: Final = string(
    "input.file.pattern",
    ".*",
    "A regular expression: files are read whose whole names match it.",
    Rule("a regular expression", _expression_problem),
    importance=HIGH,
)
FORMAT: Final = choice(Format)(
    "format",
    Format.LINES,
    "lines: texts. json: a JSON value in each line. csv, parquet: structs.",
    importance=HIGH,
)
TAIL: Final = boolean(
    "tail",
    False,
    "Files of lines or JSON grow and are rotated: each is read on for ever. Otherwise a file is complete "
    "when it is there.",
)
FINISHED_PATH: Final = string.optional(
    "finished.path", "Where files are moved whose records are all in Kafka."
)
ERROR_PATH: Final = string.optional(
    "error.path", "Where a file is moved that is not in its format, with halt.on.error=false."
)
HALT_ON_ERROR: Final = boolean("halt.on.error", True, "A file that is not in its format ends the task.")
CLEANUP_POLICY: Final = choice(Cleanup).optional(
    "cleanup.policy",
    "What becomes of a file whose records are all in Kafka. By default it is moved where finished.path is "
    "given, and else left.",
)
BATCH_SIZE: Final = integer("batch.size", 1000, "The most records of a batch.", between(1, 100_000))
MINIMUM_AGE_MS: Final = long(
    "file.minimum.age.ms", 1000, "A file is read when it was not changed for so long.", at_least(0)
)
CSV_HEADER: Final = boolean("csv.first.row.as.header", True, "The first row has the columns' names.")
CSV_SEPARATOR: Final = integer(
    "csv.separator.char", ord(","), "The separator's character code.", between(1, 127)
)
CSV_QUOTE: Final = integer(
    "csv.quote.char", ord('"'), "The quote's character code; 0: none.", between(0, 127)
)
CSV_TYPES: Final = string_list(
    "csv.types",
    (),
    "Types of columns, as in id:int64,price:double,day:date32: names of Arrow's. Others are texts.",
    Rule("name:type, …", _types_problem),
)
CSV_INFER: Final = boolean(
    "csv.infer.types", False, "Types of the other columns are found in the file's first megabyte."
)

FILENAME: Final = "filename"
MODIFIED_MS: Final = "modified_ms"
MAX_FILES: Final = 100_000


class DirectorySource:
    """Files of a directory. A complete file is known by its name and the time of its last change.

    So a file that comes again under a former name is read, and one that was moved away is not missed.
    """

    TABLE: ClassVar[Table] = Table(
        "DirectorySource",
        by_name(
            (
                TOPIC,
                INPUT_PATH,
                INPUT_FILE_PATTERN,
                FORMAT,
                TAIL,
                FINISHED_PATH,
                ERROR_PATH,
                HALT_ON_ERROR,
                CLEANUP_POLICY,
                BATCH_SIZE,
                MINIMUM_AGE_MS,
                CSV_HEADER,
                CSV_SEPARATOR,
                CSV_QUOTE,
                CSV_TYPES,
                CSV_INFER,
            )
        ),
    )
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings, now: Callable[[], float] = time.time) -> None:
        self._topic = require(settings, TOPIC)
        self._input = _directory(settings, INPUT_PATH.name, require(settings, INPUT_PATH))
        self._pattern = re.compile(settings[INPUT_FILE_PATTERN])
        self._format = settings[FORMAT]
        self._tail = settings[TAIL]
        self._batch_size = settings[BATCH_SIZE]
        self._minimum_age_ms = settings[MINIMUM_AGE_MS]
        self._now = now
        finished, error = settings[FINISHED_PATH], settings[ERROR_PATH]
        self._cleanup = settings[CLEANUP_POLICY] or (Cleanup.NONE if finished is None else Cleanup.MOVE)
        if self._tail and self._format not in (Format.LINES, Format.JSON):
            raise settings.refusal(TAIL.name, f"files of format {self._format} can't be read while they grow")
        if self._tail and self._cleanup is not Cleanup.NONE:
            name = CLEANUP_POLICY.name if settings.is_given(CLEANUP_POLICY.name) else FINISHED_PATH.name
            raise settings.refusal(name, "a file that is read while it grows is never finished")
        if self._cleanup is Cleanup.MOVE and finished is None:
            raise settings.refusal(FINISHED_PATH.name, f"must be given with {CLEANUP_POLICY.name}=MOVE")
        self._finished = None if finished is None else _directory(settings, FINISHED_PATH.name, finished)
        if not settings[HALT_ON_ERROR] and error is None:
            raise settings.refusal(ERROR_PATH.name, f"must be given with {HALT_ON_ERROR.name}=false")
        self._error = (
            None if error is None or settings[HALT_ON_ERROR] else _directory(settings, ERROR_PATH.name, error)
        )
        self._csv = CsvOptions(
            settings[CSV_HEADER],
            chr(settings[CSV_SEPARATOR]),
            chr(settings[CSV_QUOTE]) if settings[CSV_QUOTE] else "",
            [(name, kind) for name, _, kind in (each.rpartition(":") for each in settings[CSV_TYPES])],
            settings[CSV_INFER],
        )
        if settings[CSV_TYPES]:
            _check_types(settings, self._csv)
        self._ends: dict[str, SourceOffset] = {}
        """The last offsets of files that were read to their end; they are finished when that is committed."""

    def partitions(self) -> Sequence[SourcePartition]:
        found: list[SourcePartition] = []
        newest_ms = self._now() * 1000 - self._minimum_age_ms
        with os.scandir(self._input) as entries:
            for entry in entries:
                if not self._pattern.fullmatch(entry.name):
                    continue
                try:
                    modified_ms = entry.stat().st_mtime_ns // 1_000_000
                    if not entry.is_file() or (not self._tail and modified_ms > newest_ms):
                        continue
                except FileNotFoundError:
                    continue
                found.append(
                    {FILENAME: entry.name} if self._tail else {FILENAME: entry.name, MODIFIED_MS: modified_ms}
                )
                if len(found) > MAX_FILES:
                    raise ValueError(f"{self._input} has more than {MAX_FILES} files to read")
        return sorted(found, key=lambda each: (each.get(MODIFIED_MS, 0), each[FILENAME]))

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        path = self._input / str(partition[FILENAME])
        try:
            if not self._tail and path.stat().st_mtime_ns // 1_000_000 != partition[MODIFIED_MS]:
                return  # another file has this name now: it is a source partition of its own
            last: SourceOffset | None = None
            rows = read_file(path, self._format, offset or {}, self._csv, self._batch_size, self._tail)
            for each in rows:
                if each is None:
                    yield ()
                    continue
                records = [
                    SourceRecord(Record(self._topic, value=value, value_schema=each.schema), partition, place)
                    for value, place in zip(each.values, each.offsets, strict=True)
                ]
                for start in range(0, len(records), self._batch_size):
                    yield records[start : start + self._batch_size]
                last = each.offsets[-1] if each.offsets else last
        except FileNotFoundError:
            log.info("%s is gone: it was finished, or moved away", path)
        except (BadFile, LineTooLong) as problem:
            if self._error is None:
                raise
            log.error("%s: it is moved to %s", problem, self._error)
            _move(path, self._error)
        else:
            if last is None:  # the offset that was given is that of the end, and it is committed
                self._finish(path)
            else:
                self._ends[path.name] = last

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        name = str(partition[FILENAME])
        if self._ends.get(name) == offset:
            del self._ends[name]
            self._finish(self._input / name)

    def close(self) -> None:
        """Each iterator closes its file."""

    def _finish(self, path: Path) -> None:
        try:
            if self._cleanup is Cleanup.DELETE:
                path.unlink()
            elif self._cleanup is Cleanup.MOVE and self._finished is not None:
                _move(path, self._finished)
        except FileNotFoundError:
            log.info("%s is gone: it was moved away", path)


def _directory(settings: Settings, name: str, text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise settings.refusal(name, "is no directory")
    return path


def _check_types(settings: Settings, csv: CsvOptions) -> None:
    import pyarrow as pa

    from ottla.connect.connectors.directory.arrow import connect_schema

    for column, kind in csv.types:
        try:
            connect_schema(pa.schema([(column, pa.type_for_alias(kind))]), "csv")
        except ValueError as problem:
            raise settings.refusal(CSV_TYPES.name, str(problem)) from None


def _move(path: Path, directory: Path) -> None:
    """Move a file, under another name where there is one of its name already."""
    target, count = directory / path.name, 0
    while target.exists():
        count += 1
        target = directory / f"{path.name}.{count}"
    shutil.move(path, target)
