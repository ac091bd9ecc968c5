"""Writes the result of a statement: entities, the rows of a query, the lines of PRINT."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.cli.frame.terminal import Style, styled
from ottla.cli.sql.live_table import LiveTable
from ottla.cli.sql.row_writers import RowWriter, counted, csv_line, row_writer, tsv_field
from ottla.cli.sql.sheet import Form, Sheet
from ottla.cli.sql.tables import expanded_lines, head_lines, laid_out, row_lines
from ottla.sql.terminal.api import Entity, SqlApi
from ottla.sql.terminal.entities import Block, blocks_of, failure_of, warnings_of
from ottla.sql.terminal.row_stream import RowStream, TextStream
from ottla.sql.terminal.values import csv_text, text_of

WAIT_SECONDS: Final = 0.1
"""Rows that came are shown when no more have come for that time."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a push query ends by itself: after that many rows, after that time. None: it does not."""

    rows: int | None = None
    seconds: float | None = None


def write_entities(entities: Sequence[Entity], sheet: Sheet) -> str | None:
    """Write what the server tells; why a command of it has failed, None if none has."""
    problem = None
    for entity in entities:
        for warning in warnings_of(entity):
            sheet.warn(warning)
        failure = failure_of(entity)
        problem = problem or failure
        if sheet.form is Form.JSON:
            sheet.lines([json.dumps(entity, ensure_ascii=False)])
        elif failure is None:
            _write_blocks(blocks_of(entity), sheet)
    return problem


def write_lines(stream: TextStream, sheet: Sheet) -> None:
    """Write the lines of PRINT as they come. Ctrl-C closes them and is raised."""
    try:
        for line in stream.lines():
            sheet.lines([line])
            sheet.flush()
    finally:
        stream.close()


def write_rows(
    stream: RowStream, sheet: Sheet, api: SqlApi, keys: Callable[[], Sequence[int]] | None, bounds: Bounds
) -> None:
    """Write the rows of a query until its end, or its bounds; a push query is then closed at the server.

    keys: of a push query the places of the columns that tell rows apart; None for a pull query.
    """
    is_push = keys is not None
    places = keys() if keys is not None and sheet.form is Form.TABLE and sheet.live and sheet.is_seen else ()
    writer: RowWriter | LiveTable
    writer = (
        LiveTable(stream.columns, places, sheet) if places else row_writer(sheet.form, stream.columns, sheet)
    )
    is_done = False
    try:
        is_done = _pump(stream, writer, sheet, bounds)
    except KeyboardInterrupt:
        if sheet.is_seen and not isinstance(writer, LiveTable):
            sheet.lines([""])  # behind the `^C` that the terminal shows
        raise
    finally:
        if is_push and not is_done and stream.query_id:
            api.close_query(stream.query_id)
        stream.close()
        writer.end()


def _pump(stream: RowStream, writer: RowWriter | LiveTable, sheet: Sheet, bounds: Bounds) -> bool:
    """Take rows until the end of the answer, or the bounds; whether the answer was read to its end."""
    deadline = None if bounds.seconds is None else time.monotonic() + bounds.seconds
    left = bounds.rows
    while True:
        wait = WAIT_SECONDS if deadline is None else min(WAIT_SECONDS, deadline - time.monotonic())
        if wait <= 0 and deadline is not None and time.monotonic() >= deadline:
            return False
        chunk = stream.take(max(0.0, wait))
        if chunk is None:
            writer.settle()
            continue
        rows = chunk.rows if left is None else chunk.rows[:left]
        if rows:
            writer.put(rows)
        for note in chunk.notes:
            sheet.say(note)
        if left is not None:
            left -= len(rows)
            if left <= 0:
                return chunk.is_last
        if chunk.is_last:
            return True


def _write_blocks(blocks: Sequence[Block], sheet: Sheet) -> None:
    if sheet.form in (Form.CSV, Form.TSV):
        _write_fields(blocks, sheet)
        return
    for number, block in enumerate(blocks):
        if number:
            sheet.lines([""])
        if block.title:
            sheet.lines([styled(block.title, Style.BOLD) if sheet.paper().colours else block.title])
        if block.columns and not block.rows and block.empty:
            sheet.say(block.empty)
        elif block.columns:
            _write_table(block, sheet)
        sheet.lines(block.lines)
    sheet.flush()


def _write_table(block: Block, sheet: Sheet) -> None:
    paper = sheet.paper()
    rows = [[_shown(value) for value in row] for row in block.rows]
    right = [
        bool(rows) and all(type(row[number]) is int for row in rows) for number in range(len(block.columns))
    ]
    layout = laid_out(block.columns, rows, right, paper) if sheet.form is Form.TABLE else None
    if layout is None:
        for number, row in enumerate(rows, start=1):
            sheet.lines(expanded_lines(number, block.columns, row, paper))
        return
    has_titles = any(block.columns)
    if has_titles:
        sheet.lines(head_lines(layout, paper))
    for row in rows:
        sheet.lines(row_lines(row, layout, paper))
    if has_titles and block.empty:
        sheet.say(counted(len(rows)))


def _shown(value: Any) -> Any:
    """A cell of what a server tells: no value is nothing there, not NULL."""
    return "" if value is None else value


def _write_fields(blocks: Sequence[Block], sheet: Sheet) -> None:
    """The first table, or else the lines: one thing is all that a file of fields can hold."""
    for block in blocks:
        if block.columns:
            if sheet.form is Form.CSV:
                sheet.lines(
                    [csv_line(block.columns), *(csv_line([csv_text(v) for v in row]) for row in block.rows)]
                )
            else:
                sheet.lines(
                    "\t".join(tsv_field(text_of(_shown(v))) for v in row)
                    for row in (block.columns, *block.rows)
                )
            return
    for block in blocks:
        for line in block.lines:
            print(line, file=sys.stderr)
