"""Tables and sentences as a notebook shows them: HTML where there is a page, text in a terminal.

All that comes from a server is escaped. Colours are translucent, so they fit light pages and dark ones; they
stand at the elements, since pages that a reader does not trust lose their style sheets.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.sql.terminal.entities import Block
from ottla.sql.terminal.values import NULL, text_of

MAX_CELL_CHARACTERS: Final = 500
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NUMBERS: Final = ("INT", "BIGINT", "DOUBLE", "DECIMAL")
_TABLE: Final = "border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums"
_HEAD: Final = "padding:3px 10px;border-bottom:1px solid #8888;text-align:"
_CELL: Final = "padding:3px 10px;border-bottom:1px solid #8883;vertical-align:top;white-space:pre-wrap"
_CHANGED: Final = "background:#2a83"
_FAINT: Final = "opacity:.6"


@dataclass(frozen=True, slots=True)
class Cells:
    """A table. right: which columns are numbers; changed: places of the rows that are new."""

    titles: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    right: tuple[bool, ...]
    changed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class View:
    """What is shown at once: a title, a table, lines, and a line below them that counts or explains."""

    title: str = ""
    cells: Cells | None = None
    lines: tuple[str, ...] = ()
    note: str = ""

    def html(self) -> str:
        """As HTML."""
        parts = [f"<div><b>{_escaped(self.title)}</b></div>"] if self.title else []
        if self.cells is not None:
            parts.append(_html_table(self.cells))
        if self.lines:
            parts.append(f'<pre style="white-space:pre-wrap">{_escaped(chr(10).join(self.lines))}</pre>')
        if self.note:
            parts.append(f'<div style="{_FAINT}">{_escaped(self.note)}</div>')
        return "".join(parts)

    def text(self) -> str:
        """As text for a terminal."""
        lines = [plain(self.title)] if self.title else []
        if self.cells is not None:
            lines += _text_table(self.cells)
        lines += map(plain, self.lines)
        if self.note:
            lines.append(plain(self.note))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Views:
    """Several, one below the other: what IPython displays."""

    views: tuple[View, ...]

    def _repr_html_(self) -> str:
        return "".join(f"<div>{each.html()}</div>" for each in self.views)

    def __repr__(self) -> str:
        return "\n\n".join(each.text() for each in self.views)


def view_of(block: Block) -> View:
    """What a server tells of a statement."""
    if not block.columns:
        return View(block.title, lines=block.lines)
    if not block.rows and block.empty:
        return View(block.title, lines=block.lines, note=block.empty)
    rows = [["" if value is None else value for value in row] for row in block.rows]
    right = tuple(
        bool(rows) and all(type(row[number]) is int for row in rows) for number in range(len(block.columns))
    )
    return View(block.title, Cells(block.columns, rows, right), block.lines)


def is_number(type_name: str) -> bool:
    """Whether a column's values are numbers, which are aligned right."""
    return type_name.upper().startswith(_NUMBERS)


def plain(text: str) -> str:
    r"""The text with control characters as `\x1b`: a row must not steer a terminal. Line ends stay."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _cut(value: Any) -> str:
    text = text_of(value)
    return text if len(text) <= MAX_CELL_CHARACTERS else text[:MAX_CELL_CHARACTERS] + "…"


def _escaped(text: str) -> str:
    return html.escape(plain(text))


def _html_table(cells: Cells) -> str:
    sides = ["right" if right else "left" for right in cells.right]
    parts = [f'<table style="{_TABLE}">']
    if any(cells.titles):
        head = (
            f'<th style="{_HEAD}{side}">{_escaped(title)}</th>'
            for title, side in zip(cells.titles, sides, strict=True)
        )
        parts.append(f"<thead><tr>{''.join(head)}</tr></thead>")
    parts.append("<tbody>")
    for number, row in enumerate(cells.rows):
        style = f"{_CELL};{_CHANGED}" if number in cells.changed else _CELL
        parts.append("<tr>")
        for value, side in zip(row, sides, strict=False):
            shown = f'<i style="{_FAINT}">{NULL}</i>' if value is None else _escaped(_cut(value))
            parts.append(f'<td style="{style};text-align:{side}">{shown}</td>')
        parts.append("</tr>")
    parts.append("</tbody></table>")
    return "".join(parts)


def _text_table(cells: Cells) -> Iterator[str]:
    titles = [_line(title) for title in cells.titles]
    rows = [[_line(_cut(value)) for value in row] for row in cells.rows]
    widths = [
        max([len(title), *(len(row[number]) for row in rows if number < len(row))])
        for number, title in enumerate(titles)
    ]

    def aligned(texts: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(texts, widths, cells.right, strict=False)
        )
        return f" {' │ '.join(padded)}".rstrip()

    if any(titles):
        yield aligned(titles)
        yield f"─{'─┼─'.join('─' * width for width in widths)}─"
    yield from map(aligned, rows)


def _line(text: str) -> str:
    return plain(text).replace("\n", "\\n").replace("\t", "\\t")
