"""The rows of a query as they come: a thread reads the answer, the caller takes chunks and may stop.

The thread ends with the answer, with an error (which `take` raises), or when the stream is closed: closing
shuts the connection, on which the thread waits. At most MAX_WAITING chunks wait for the caller; then the
thread, and with it the server, wait.
"""

from __future__ import annotations

import http.client
import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from types import TracebackType
from typing import Any, Final

from ottla.client.errors import ClusterError
from ottla.sql.terminal.http import Reply, SqlRefusal, SqlUnreachable

MAX_WAITING: Final = 64
MAX_LINE_BYTES: Final = 32 << 20
_END_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.2

Row = list[Any]


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A column of a query's rows; type: as the server writes it. is_key: None where the server is silent."""

    name: str
    type: str
    is_key: bool | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that came together, and whether they are the last."""

    rows: list[Row]
    notes: tuple[str, ...] = ()
    is_last: bool = False


class RowStream:
    """A query's rows. `columns` and `query_id` are known from the start."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._lines = _lines(reply)
        try:
            head = next(self._lines, b"")
            self.query_id, self.columns = _head(head)
        except (OSError, http.client.HTTPException) as problem:
            reply.end()
            raise _broken(problem) from None
        except BaseException:
            reply.end()
            raise
        self._chunks: queue.Queue[Chunk | BaseException] = queue.Queue(MAX_WAITING)
        self._closed = threading.Event()
        self._last: Chunk | BaseException | None = None
        self._thread = threading.Thread(target=self._read, name="sql-rows", daemon=True)
        self._thread.start()

    def __enter__(self) -> RowStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def take(self, wait_seconds: float) -> Chunk | None:
        """The next rows, None if none come in that time; after the end an empty last chunk each time.

        Raises SqlRefusal for an error that the server tells among the rows, SqlUnreachable for a cut answer.
        """
        found = self._last
        if found is None:
            try:
                found = self._chunks.get(timeout=max(0.0, wait_seconds))
            except queue.Empty:
                return None
        if isinstance(found, BaseException):
            self._last = found
            raise found
        if found.is_last:
            self._last = Chunk([], is_last=True)
        return found

    def close(self) -> None:
        """End the reading; rows that have not been taken are dropped."""
        self._closed.set()
        self._reply.end()
        self._thread.join(_END_SECONDS)

    def _read(self) -> None:
        try:
            self._read_chunks()
        except (OSError, ValueError, AttributeError, http.client.HTTPException) as problem:
            # what a read gives whose connection was shut by `close` is of no interest
            self._put(_broken(problem))
        except ClusterError as problem:
            self._put(problem)

    def _read_chunks(self) -> None:
        rows: list[Row] = []
        notes: list[str] = []
        for line in self._lines:
            if line == b"":  # all that has come is read
                if rows or notes:
                    self._put(Chunk(rows, tuple(notes)))
                    rows, notes = [], []
                continue
            found = _value(line)
            if isinstance(found, list):
                rows.append(found)
            elif isinstance(found, dict):
                note = _note(found)
                if note is not None:
                    notes.append(note)
        self._put(Chunk(rows, tuple(notes), is_last=True))

    def _put(self, found: Chunk | BaseException) -> None:
        while not self._closed.is_set():
            try:
                self._chunks.put(found, timeout=_LOOK_SECONDS)
            except queue.Full:
                continue
            return


class TextStream:
    """An answer's lines of text as they come, of PRINT: the same rules as for rows."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def lines(self) -> Iterator[str]:
        """The lines. Raises SqlUnreachable."""
        try:
            for line in _lines(self._reply):
                if line:
                    yield line.decode("utf-8", "replace")
        except (OSError, ValueError, http.client.HTTPException) as problem:
            raise _broken(problem) from None

    def close(self) -> None:
        """End the reading."""
        self._reply.end()


def _lines(reply: Reply) -> Iterator[bytes]:
    """The lines without their ends; and an empty one behind those that have come together."""
    rest = bytearray()
    while data := reply.read():
        rest += data
        if b"\n" not in data:
            if len(rest) > MAX_LINE_BYTES:
                raise SqlUnreachable(f"a row of the answer has more than {MAX_LINE_BYTES:,} bytes")
            continue
        *whole, last = rest.split(b"\n")
        for line in whole:
            if line.strip():
                yield bytes(line)
        yield b""
        rest = bytearray(last)
    if rest.strip():
        yield bytes(rest)


def _head(line: bytes) -> tuple[str, tuple[RowColumn, ...]]:
    head = _value(line) if line.strip() else None
    if isinstance(head, dict):
        _note(head)
    if not isinstance(head, dict) or not isinstance(head.get("columnNames"), list):
        raise SqlUnreachable("the answer is not one of a server of SQL: it does not begin with the columns")
    names = [str(each) for each in head["columnNames"]]
    types = [str(each) for each in head.get("columnTypes") or ()]
    keys = head.get("keyColumns")
    columns = tuple(
        RowColumn(
            name,
            types[number] if number < len(types) else "STRING",
            name in keys if isinstance(keys, list) else None,
        )
        for number, name in enumerate(names)
    )
    return str(head.get("queryId") or ""), columns


def _value(line: bytes) -> Any:
    try:
        return json.loads(line, parse_float=Decimal)
    except (ValueError, RecursionError):
        raise SqlUnreachable(f"a row of the answer is not JSON: {line[:80]!r}") from None


def _note(told: dict[str, Any]) -> str | None:
    """What a line that is no row says to people, if anything. Raises SqlRefusal for an error."""
    if "error_code" in told or told.get("status") == "error" or "errorMessage" in told:
        inner = told.get("errorMessage")
        if isinstance(inner, dict):
            told = inner
        message = told.get("message") or inner or "the query has failed"
        code = told.get("error_code")
        raise SqlRefusal(code if isinstance(code, int) else 500, str(message), told)
    found = told.get("finalMessage")
    return None if found is None else str(found)


def _broken(problem: BaseException) -> SqlUnreachable:
    return SqlUnreachable(f"the answer broke off: {str(problem) or type(problem).__name__}")
