"""A table that is written anew in its place as its rows change, at most some times a second."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ottla.cli.frame.terminal import Style, styled
from ottla.cli.sql.row_writers import counted
from ottla.cli.sql.sheet import Sheet
from ottla.cli.sql.tables import head_lines, is_number, laid_out, row_lines
from ottla.sql.terminal.live_rows import LiveRows
from ottla.sql.terminal.row_stream import Row, RowColumn

FRAME_SECONDS: Final = 0.1
LINES_BESIDE_ROWS: Final = 4
"""Titles, the line below them, the line that counts, and the one with the cursor."""


class LiveTable:
    """Shows the last row of each key; rows that changed since the last frame are in green."""

    def __init__(self, columns: Sequence[RowColumn], keys: Sequence[int], sheet: Sheet) -> None:
        self._titles = [each.name for each in columns]
        self._right = [is_number(each.type) for each in columns]
        self._rows = LiveRows(keys)
        self._sheet = sheet
        self._drawn_lines = 0
        self._drawn_changes = 0
        self._is_stale = True
        self._next_frame = 0.0

    def put(self, rows: Sequence[Row]) -> None:
        """Take rows; they are shown with the next frame."""
        self._rows.put(rows)
        self._is_stale = True
        if time.monotonic() >= self._next_frame:
            self.settle()

    def settle(self) -> None:
        """Show what is there, unless nothing has changed."""
        if self._is_stale:
            self._draw(self._frame())
            self._next_frame = time.monotonic() + FRAME_SECONDS

    def end(self) -> None:
        """Leave the last state, all rows of it in the file of SPOOL too."""
        self._draw(self._frame(is_last=True))
        paper = self._sheet.paper()
        layout = laid_out(self._titles, self._rows.rows(), self._right, paper)
        if layout is not None:
            lines = [*head_lines(layout, paper)]
            for row in self._rows.rows():
                lines += row_lines(row, layout, paper)
            self._sheet.spool_text("".join(f"{line}\n" for line in lines))

    def _frame(self, *, is_last: bool = False) -> list[str]:
        paper = self._sheet.paper()
        shown = self._rows.shown(max(1, self._sheet.height - LINES_BESIDE_ROWS))
        cutting = replace(paper, wraps=False)
        layout = laid_out(self._titles, [row for row, _ in shown], self._right, cutting)
        lines: list[str] = []
        if layout is None:
            lines.append("the terminal is too narrow for these columns")
        else:
            lines += head_lines(layout, cutting)
            for row, change in shown:
                is_new = change > self._drawn_changes and not is_last
                lines += row_lines(row, layout, cutting, Style.GREEN if is_new else "")
        hidden = len(self._rows) - len(shown)
        told = f"{counted(len(self._rows))}, {self._rows.changes:,} changes"
        told += f", {hidden:,} rows not shown" if hidden else ""
        told += "" if is_last else "; Ctrl-C ends"
        if paper.width is not None:
            told = told[: paper.width - 1]
        lines.append(styled(told, Style.DIM) if paper.colours else told)
        return lines

    def _draw(self, lines: list[str]) -> None:
        import sys

        up = f"\x1b[{self._drawn_lines}F\x1b[J" if self._drawn_lines else ""
        sys.stdout.write(up + "".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
        self._drawn_lines = len(lines)
        self._drawn_changes = self._rows.changes
        self._is_stale = False
