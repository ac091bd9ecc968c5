"""Rows of COPY, read without waiting: one thread reads as many connections as there are ranges at once.

What is not read stays with the server, so that slow readers bound what is in memory. The rows' texts are
those that the stream has.
"""

from __future__ import annotations

import re
import selectors
from collections.abc import Callable, Iterable
from typing import Final

from psycopg import errors, pq

from ottla.connect.cdc.postgres.catalog import Connection

WAIT_SECONDS: Final = 0.05
Cells = tuple[str | None, ...]
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def copied_row(data: bytes) -> Cells:
    """The texts of a row in COPY's text format, None for NULL. Raises UnicodeDecodeError."""
    text = data.decode()
    cells = text.rstrip("\n").split("\t")
    if "\\" not in text:
        return tuple(cells)
    return tuple(
        None if cell == "\\N" else _ESCAPED.sub(_unescaped, cell) if "\\" in cell else cell for cell in cells
    )


def _unescaped(found: re.Match[str]) -> str:
    return _CONTROLS.get(found[1], found[1])


class CopyReader:
    """One connection, in a transaction of its own, that reads one query after the other."""

    def __init__(self, connection: Connection) -> None:
        self._pgconn = connection.pgconn
        self._reads = False

    @property
    def reads(self) -> bool:
        """Whether a query has begun and is not at its end."""
        return self._reads

    @property
    def socket(self) -> int:
        """Its file descriptor."""
        return self._pgconn.socket

    def start(self, query: bytes) -> None:
        """Begin with COPY (…) TO STDOUT. Raises psycopg.Error."""
        result = self._pgconn.exec_(query)
        if result.status != pq.ExecStatus.COPY_OUT:
            raise errors.error_from_result(result)
        self._reads = True

    def rows(self, take: Callable[[Cells], None], most_rows: int, most_bytes: int) -> int:
        """Give what is there, up to so many rows; the bytes that they had. Raises psycopg.Error."""
        read = 0
        pgconn = self._pgconn
        for _ in range(most_rows):
            length, data = pgconn.get_copy_data(1)
            if length == 0:
                pgconn.consume_input()
                length, data = pgconn.get_copy_data(1)
                if length == 0:
                    break
            if length < 0:
                self._end()
                break
            take(copied_row(bytes(data)))
            read += length
            if read >= most_bytes:
                break
        return read

    def _end(self) -> None:
        self._reads = False
        while (result := self._pgconn.get_result()) is not None:
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise errors.error_from_result(result)


def wait_for_rows(readers: Iterable[CopyReader]) -> bool:
    """Wait a moment for any of them; whether one has something."""
    with selectors.DefaultSelector() as selector:
        for each in readers:
            selector.register(each.socket, selectors.EVENT_READ)
        return bool(selector.select(WAIT_SECONDS))
