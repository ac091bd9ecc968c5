"""Input of `ottla produce`: bytes of files and of stdin, and how they are cut into records.

A reader yields chunks: records in columns where they are plain lines, else one by one. What can't be read
ends the chunk with its problem, so that everything before it is written first. Memory is bounded by
READ_BYTES and the largest record.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from ottla.cli.records.blocking import BlockingThread
from ottla.cli.records.input_records import BadInput, InputRecord
from ottla.cli.records.input_templates import InputTemplate, NeedMore
from ottla.cli.records.json_lines import BadLine, parse_line

READ_BYTES: Final = 1 << 20
MAX_RECORD_BYTES: Final = 256 << 20
"""More than a broker takes by far; a file without line ends must not fill the memory."""
STDIN: Final = "-"


@dataclass(slots=True)
class Chunk:
    """Some records of the input, in order: in columns, and if `records` is not empty, those.

    sources: the numbers of their lines. problem: the line and the reason for which nothing more can be read.
    """

    keys: Sequence[bytes | None] | None = None
    values: Sequence[bytes | None] = ()
    sources: Sequence[int] = ()
    records: Sequence[InputRecord] = ()
    problem: tuple[int, str] | None = None


class Cutter(Protocol):
    """Cuts the bytes of one file into chunks; a new one is made for each file."""

    def feed(self, data: bytes, final: bool) -> Chunk:
        """The records that end in these bytes; all that is left if `final`."""


@dataclass(slots=True)
class Source:
    """A file or stdin. linger_seconds: how long to wait for more of a pipe before records are sent."""

    name: str
    linger_seconds: float
    read_bytes: int = READ_BYTES
    _descriptor: int = -1
    _thread: BlockingThread = field(default_factory=lambda: BlockingThread("input"))
    is_live: bool = False
    """Whether it is a pipe or a terminal, whose bytes come as they are written."""

    def open(self) -> None:
        """Open the file. Raises OSError, with its name."""
        if self.name == STDIN:
            self._descriptor = sys.stdin.fileno()
        else:
            self._descriptor = os.open(self.name, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            if stat.S_ISDIR(os.fstat(self._descriptor).st_mode):
                raise IsADirectoryError(21, "is a directory", self.name)
        self.is_live = not stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    async def read(self) -> bytes:
        """The next bytes; none at the end."""
        if self.is_live:
            data: bytes = await self._thread.run(self._read_live)
            return data
        return os.read(self._descriptor, self.read_bytes)

    def close(self) -> None:
        """Close the file, but not stdin."""
        if self.name != STDIN and self._descriptor >= 0:
            os.close(self._descriptor)

    def _read_live(self) -> bytes:
        """The bytes that are there, and those that come within the linger."""
        data = os.read(self._descriptor, self.read_bytes)
        if not data or sys.platform == "win32":
            return data
        parts, size = [data], len(data)
        while size < self.read_bytes and select.select([self._descriptor], [], [], self.linger_seconds)[0]:
            data = os.read(self._descriptor, self.read_bytes - size)
            if not data:
                break  # the next read finds the end again
            parts.append(data)
            size += len(data)
        return b"".join(parts)


class Lines:
    """Records that end with a delimiter, each a value, or key and value around a separator."""

    def __init__(self, delimiter: bytes, key_separator: bytes | None) -> None:
        self._delimiter = delimiter
        self._separator = key_separator
        self._rest = bytearray()
        self._searched = 0
        self._line = 1

    def feed(self, data: bytes, final: bool) -> Chunk:
        lines = self._cut(data, final)
        sources = range(self._line, self._line + len(lines))
        self._line += len(lines)
        problem = None
        if len(self._rest) > MAX_RECORD_BYTES:
            problem = self._line, f"the line is longer than {MAX_RECORD_BYTES} bytes"
        if self._separator is None:
            return Chunk(None, lines, sources, problem=problem)
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        separator = self._separator
        for line in lines:
            key, found, value = line.partition(separator)
            keys.append(key if found else None)
            values.append(value if found else line)
        return Chunk(keys, values, sources, problem=problem)

    def _cut(self, data: bytes, final: bool) -> list[bytes]:
        delimiter = self._delimiter
        if self._rest:
            # A line that spans many reads is looked through once.
            start = max(len(self._rest) - len(delimiter) + 1, 0)
            self._rest += data
            if not final and self._rest.find(delimiter, start) < 0:
                return []
            data = bytes(self._rest)
        lines = data.split(delimiter)
        last = lines.pop()
        if final:
            self._rest.clear()
            if last:
                lines.append(last)
        else:
            self._rest = bytearray(last)
        return lines


class JsonLines:
    """JSON objects, one a line; lines of spaces are passed over."""

    def __init__(self) -> None:
        self._lines = Lines(b"\n", None)

    def feed(self, data: bytes, final: bool) -> Chunk:
        chunk = self._lines.feed(data, final)
        records: list[InputRecord] = []
        for source, line in zip(chunk.sources, chunk.values, strict=True):
            assert line is not None
            if not line or line.isspace():
                continue
            try:
                found = parse_line(line)
            except BadLine as problem:
                return Chunk(records=records, problem=(source, str(problem)))
            records.append(
                InputRecord(
                    found.key, found.value, found.headers, None, found.partition, found.timestamp_ms, source
                )
            )
        return Chunk(records=records, problem=chunk.problem)


class Templated:
    """Records in the form of a template."""

    def __init__(self, template: InputTemplate) -> None:
        self._template = template
        self._rest = b""
        self._line = 1

    def feed(self, data: bytes, final: bool) -> Chunk:
        data = self._rest + data
        at = 0
        records: list[InputRecord] = []
        problem = None
        while at < len(data):
            try:
                record, end = self._template.read(data, at, final, self._line)
            except NeedMore:
                break
            except BadInput as bad:
                problem = self._line, str(bad)
                break
            records.append(record)
            self._line += data.count(b"\n", at, end)
            at = end
        self._rest = data[at:]
        if problem is None and len(self._rest) > MAX_RECORD_BYTES:
            problem = self._line, f"the record is longer than {MAX_RECORD_BYTES} bytes"
        return Chunk(records=records, problem=problem)


class WholeFile:
    """A file is the value of one record."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes, final: bool) -> Chunk:
        self._data += data
        if len(self._data) > MAX_RECORD_BYTES:
            return Chunk(problem=(1, f"the file is larger than {MAX_RECORD_BYTES} bytes"))
        return Chunk(None, [bytes(self._data)], [1]) if final else Chunk()


@dataclass(frozen=True, slots=True)
class Placed:
    """A chunk, the file it comes from, and whether more of it may be long in coming."""

    chunk: Chunk
    file: str
    is_live: bool


async def chunks(
    files: Sequence[str], cutter: Callable[[], Cutter], linger_seconds: float, read_bytes: int = READ_BYTES
) -> AsyncIterator[Placed]:
    """The chunks of all files, one file after the other; ends after a chunk with a problem. Raises
    OSError.
    """
    for name in files:
        source = Source(name, linger_seconds, read_bytes)
        source.open()
        try:
            cut = cutter()
            while True:
                data = await source.read()
                chunk = cut.feed(data, not data)
                yield Placed(chunk, name, source.is_live)
                if chunk.problem is not None:
                    return
                if not data:
                    break
        finally:
            source.close()


def check_files(files: Sequence[str]) -> None:
    """Raises the OSError of a file that can't be read, before the first record of another is written."""
    for name in files:
        if name != STDIN and stat.S_ISREG(os.stat(name).st_mode):
            os.close(os.open(name, os.O_RDONLY))
        elif name != STDIN and Path(name).is_dir():
            raise IsADirectoryError(21, "is a directory", name)


def slices(chunk: Chunk, most: int) -> Iterator[Chunk]:
    """The chunk in parts of at most so many records; the last one has the problem."""
    count = max(len(chunk.values), len(chunk.records))
    for start in range(0, count, most):
        stop = start + most
        yield Chunk(
            None if chunk.keys is None else chunk.keys[start:stop],
            chunk.values[start:stop],
            chunk.sources[start:stop],
            chunk.records[start:stop],
            chunk.problem if stop >= count else None,
        )


def input_path(name: str) -> str:
    """A file as messages name it."""
    return "stdin" if name == STDIN else str(Path(name))
