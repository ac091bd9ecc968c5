"""Writers of a query's rows in each form: as they come, in bounded memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from ottla.cli.sql.sheet import Form, Sheet
from ottla.cli.sql.tables import Layout, expanded_lines, fits, head_lines, is_number, laid_out, row_lines
from ottla.sql.terminal.row_stream import Row, RowColumn
from ottla.sql.terminal.values import csv_text, json_text, text_of

MEASURED_ROWS: Final = 1_000
"""A table's widths are those of so many rows at most, or those that come first."""


class RowWriter(Protocol):
    """Writes rows; `end` when there are no more."""

    def put(self, rows: Sequence[Row]) -> None: ...
    def settle(self) -> None:
        """Nothing more comes for now: write what waits."""

    def end(self) -> None: ...


def row_writer(form: Form, columns: Sequence[RowColumn], sheet: Sheet) -> RowWriter:
    """The writer of a form."""
    match form:
        case Form.TABLE:
            return TableWriter(columns, sheet)
        case Form.EXPANDED:
            return ExpandedWriter(columns, sheet)
        case Form.JSON:
            return LineWriter(sheet, [], _json_line(columns))
        case Form.CSV:
            return LineWriter(sheet, [csv_line([each.name for each in columns])], _csv_row)
        case Form.TSV:
            return LineWriter(sheet, ["\t".join(tsv_field(each.name) for each in columns)], _tsv_row)


class LineWriter:
    """A line a row; the head before the first."""

    def __init__(self, sheet: Sheet, head: Sequence[str], line: Callable[[Row], str]) -> None:
        self._sheet = sheet
        self._line = line
        sheet.lines(head)

    def put(self, rows: Sequence[Row]) -> None:
        self._sheet.lines(map(self._line, rows))

    def settle(self) -> None:
        self._sheet.flush()

    def end(self) -> None:
        self._sheet.flush()


class ExpandedWriter:
    """A block a row."""

    def __init__(self, columns: Sequence[RowColumn], sheet: Sheet) -> None:
        self._titles = [each.name for each in columns]
        self._sheet = sheet
        self._paper = sheet.paper()
        self._count = 0

    def put(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._count += 1
            self._sheet.lines(expanded_lines(self._count, self._titles, row, self._paper))

    def settle(self) -> None:
        self._sheet.flush()

    def end(self) -> None:
        self._sheet.say(counted(self._count))
        self._sheet.flush()


class TableWriter:
    """A table, as wide as the first rows need; the head comes again where later ones need more.

    Without room for the columns it is a block a row.
    """

    def __init__(self, columns: Sequence[RowColumn], sheet: Sheet) -> None:
        self._columns = tuple(columns)
        self._sheet = sheet
        self._paper = sheet.paper()
        self._waiting: list[Row] = []
        self._layout: Layout | None = None
        self._blocks: ExpandedWriter | None = None
        self._count = 0

    def put(self, rows: Sequence[Row]) -> None:
        self._count += len(rows)
        if self._blocks is not None:
            self._blocks.put(rows)
        elif self._layout is not None:
            self._write(rows, self._layout)
        else:
            self._waiting += rows
            if len(self._waiting) >= MEASURED_ROWS:
                self.settle()

    def settle(self) -> None:
        if self._layout is None and self._blocks is None and self._waiting:
            self._begin()
        self._sheet.flush()

    def end(self) -> None:
        if self._layout is None and self._blocks is None:
            self._begin()
        if self._blocks is not None:
            self._blocks.end()
        else:
            self._sheet.say(counted(self._count))
            self._sheet.flush()

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        titles = [each.name for each in self._columns]
        right = [is_number(each.type) for each in self._columns]
        self._layout = laid_out(titles, waiting, right, self._paper)
        if self._layout is None:
            self._blocks = ExpandedWriter(self._columns, self._sheet)
            self._blocks.put(waiting)
            return
        self._sheet.lines(head_lines(self._layout, self._paper))
        self._sheet.lines(line for row in waiting for line in row_lines(row, self._layout, self._paper))

    def _write(self, rows: Sequence[Row], layout: Layout) -> None:
        if self._paper.width is not None and not all(fits(row, layout) for row in rows):
            titles = [each.name for each in self._columns]
            wider = laid_out(titles, rows, layout.right, self._paper, before=layout)
            if wider is not None and wider != layout:
                self._layout = layout = wider
                self._sheet.lines(head_lines(layout, self._paper))
        self._sheet.lines(line for row in rows for line in row_lines(row, layout, self._paper))


def counted(count: int) -> str:
    """`(3 rows)`."""
    return "(1 row)" if count == 1 else f"({count:,} rows)"


def csv_line(values: Sequence[object]) -> str:
    """A line of CSV, without its end."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerow(values)  # what ends a line is quoted within a field
    return written.getvalue().removesuffix("\r\n")


def tsv_field(text: str) -> str:
    r"""A field between tabs: what would end it is written as `\t`, `\n`, `\r`."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _json_line(columns: Sequence[RowColumn]) -> Callable[[Row], str]:
    names = [json_text(each.name) for each in columns]

    def line(row: Row) -> str:
        pairs: Iterator[str] = (
            f"{name}: {json_text(value)}" for name, value in zip(names, row, strict=False)
        )
        return "{" + ", ".join(pairs) + "}"

    return line


def _csv_row(row: Row) -> str:
    return csv_line([csv_text(value) for value in row])


def _tsv_row(row: Row) -> str:
    return "\t".join("\\N" if value is None else tsv_field(text_of(value)) for value in row)
