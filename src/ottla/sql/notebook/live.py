"""Shows a query's rows while they come: one output of the cell that is written anew, some times a second.

A push query ends by its own LIMIT, by the magic's limit or time, or by an interrupt of the kernel; the server
is told, unless the answer has come to its end. Memory is bounded: of a stream the last rows are kept, of a
table the last row of each key, of an answer that goes into no variable the first rows.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from ottla.config.errors import UserError
from ottla.sql.notebook.options import Options
from ottla.sql.notebook.views import Cells, View, Views, is_number
from ottla.sql.terminal.api import SqlApi
from ottla.sql.terminal.live_rows import LiveRows
from ottla.sql.terminal.row_stream import Row, RowColumn, RowStream

WAIT_SECONDS: Final = 0.1
FRAME_SECONDS: Final = 0.25
MAX_KEPT: Final = 1_000_000
"""Rows that are kept for a DataFrame, at most."""


class Output(Protocol):
    """Where rows are shown. is_live: whether what is shown can be shown anew."""

    @property
    def is_live(self) -> bool: ...

    def show(self, views: Views) -> None:
        """Show these in place of those before."""


@dataclass(frozen=True, slots=True)
class Found:
    """The rows that a query has given, as far as they were kept."""

    columns: tuple[RowColumn, ...]
    rows: list[Row]
    is_interrupted: bool = False


class Kept(Protocol):
    """Rows that have come. shown: those to show, each with the number of the change that brought it."""

    changes: int

    def put(self, rows: Sequence[Row]) -> None: ...
    def shown(self, height: int) -> list[tuple[Row, int]]: ...
    def rows(self) -> list[Row]: ...
    def __len__(self) -> int: ...


class Tail:
    """The last rows of a stream."""

    def __init__(self, most: int) -> None:
        self._rows: deque[Row] = deque(maxlen=most)
        self.changes = 0

    def __len__(self) -> int:
        return self.changes

    def put(self, rows: Sequence[Row]) -> None:
        """Take further rows."""
        self._rows.extend(rows)
        self.changes += len(rows)

    def shown(self, height: int) -> list[tuple[Row, int]]:
        """The last rows."""
        begin = max(0, len(self._rows) - height)
        first = self.changes - len(self._rows) + 1
        return [(row, first + begin + number) for number, row in enumerate(islice(self._rows, begin, None))]

    def rows(self) -> list[Row]:
        """All that are kept."""
        return list(self._rows)


class Head:
    """The first rows of an answer; all of them, if they are wanted. Raises UserError for too many."""

    def __init__(self, most: int, *, wants_all: bool) -> None:
        self._rows: list[Row] = []
        self._most = most
        self._wants_all = wants_all
        self.changes = 0

    def __len__(self) -> int:
        return self.changes

    def put(self, rows: Sequence[Row]) -> None:
        """Take further rows."""
        self.changes += len(rows)
        if self._wants_all and self.changes > MAX_KEPT:
            raise UserError(f"a DataFrame takes {MAX_KEPT:,} rows at most: add a LIMIT to the query")
        self._rows += rows if self._wants_all else rows[: max(0, self._most - len(self._rows))]

    def shown(self, height: int) -> list[tuple[Row, int]]:
        """The first rows."""
        return [(row, 0) for row in self._rows[:height]]

    def rows(self) -> list[Row]:
        """All that are kept."""
        return self._rows


def pulled(stream: RowStream, options: Options, output: Output) -> Found:
    """Read an answer to its end and show it."""
    kept = Head(options.rows, wants_all=options.into is not None)
    picture = _Picture(stream.columns, kept, options.rows, output)
    try:
        while True:
            chunk = stream.take(WAIT_SECONDS)
            if chunk is not None:
                kept.put(chunk.rows)
                if chunk.is_last:
                    break
    finally:
        stream.close()
    picture.draw(is_last=True)
    return Found(stream.columns, kept.rows())


def pushed(
    stream: RowStream, options: Options, output: Output, api: SqlApi, keys: Callable[[], Sequence[int]]
) -> Found:
    """Show a push query's rows until its end, its bounds or an interrupt."""
    is_done = is_interrupted = False
    picture: _Picture | None = None
    kept: Kept = Tail(options.rows)
    try:
        places = keys()
        if places:
            kept = LiveRows(places)
        elif options.into is not None:
            kept = Tail(max(options.rows, min(options.limit or MAX_KEPT, MAX_KEPT)))
        picture = _Picture(stream.columns, kept, options.rows, output)
        is_done = _pump(stream, options, kept, picture)
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        if not is_done and stream.query_id:
            api.close_query(stream.query_id)
        stream.close()
        if picture is not None:
            picture.draw(is_last=True)
    return Found(stream.columns, kept.rows(), is_interrupted)


def _pump(stream: RowStream, options: Options, kept: Kept, picture: _Picture) -> bool:
    """Take rows until the end of the answer, or the bounds; whether the answer was read to its end."""
    deadline = None if options.seconds is None else time.monotonic() + options.seconds
    left = options.limit
    picture.draw()
    while True:
        wait = WAIT_SECONDS
        if deadline is not None:
            wait = min(wait, deadline - time.monotonic())
            if wait <= 0:
                return False
        chunk = stream.take(wait)
        if chunk is not None:
            rows = chunk.rows if left is None else chunk.rows[:left]
            kept.put(rows)
            if left is not None:
                left -= len(rows)
            if chunk.is_last or left == 0:
                return chunk.is_last
        picture.draw_if_due()


class _Picture:
    """The table in the cell's output. Rows that have changed since the picture before are marked."""

    def __init__(self, columns: Sequence[RowColumn], kept: Kept, height: int, output: Output) -> None:
        self._titles = tuple(each.name for each in columns)
        self._right = tuple(is_number(each.type) for each in columns)
        self._kept = kept
        self._height = height
        self._output = output
        self._drawn_changes = 0
        self._next = 0.0

    def draw_if_due(self) -> None:
        """Draw, if there is something new and the last picture has been seen for a moment."""
        if self._kept.changes > self._drawn_changes and time.monotonic() >= self._next:
            self.draw()

    def draw(self, *, is_last: bool = False) -> None:
        """Draw what has come."""
        if not (is_last or self._output.is_live):
            return
        shown = self._kept.shown(self._height)
        changed = frozenset(
            number for number, (_, change) in enumerate(shown) if change > self._drawn_changes and not is_last
        )
        cells = Cells(self._titles, [row for row, _ in shown], self._right, changed)
        self._output.show(Views((View(cells=cells, note=self._note(len(shown), is_last=is_last)),)))
        self._drawn_changes = self._kept.changes
        self._next = time.monotonic() + FRAME_SECONDS

    def _note(self, shown: int, *, is_last: bool) -> str:
        count = len(self._kept)
        told = "1 row" if count == 1 else f"{count:,} rows"
        if isinstance(self._kept, LiveRows):
            told += f", {self._kept.changes:,} changes"
        if shown < count:
            which = "first" if isinstance(self._kept, Head) else "last"
            told += f"; the {which} {shown:,} are shown"
        return told if is_last else f"{told}; more may come: interrupt the kernel to end the query"
