"""Tables for people: columns as wide as their texts, wrapped to fit the terminal, or a block a row.

Not rich's: it takes 3 s for the 9,000 rows of a large cluster's topics, this 0.1 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.cli.frame.terminal import Style, pieces_of, printable, styled, width_of

GAP: Final = "  "
LEAST_WIDTH: Final = 10
"""A column is not made narrower than this, its title or its longest text, whichever is least."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    key: the value's key in the rows. title: over the column; the key if there is none. right: numbers are
    aligned so. show: a value as people read it; None leaves `text_of`. style: the style of a value, of
    `terminal.Style`, or "".
    """

    key: str
    title: str = ""
    right: bool = False
    show: Callable[[Any], str] | None = None
    style: Callable[[Any], str] | None = None

    @property
    def head(self) -> str:
        """The title, in lower case: the tables of all commands look alike."""
        return (self.title or self.key).lower()

    def text(self, row: Mapping[str, Any]) -> str:
        """The text of the row's value."""
        value = row.get(self.key)
        return printable(text_of(value) if self.show is None or value is None else self.show(value))


def text_of(value: Any) -> str:
    """A value as people read it: `-` for none and nothing, lists with commas."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(map(str, value)) or "-"
        case _:
            return str(value)


def columns_for(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """A column for each key of the first row; those of numbers are aligned right."""
    return [Column(key) for key in rows[0]] if rows else []


def table_lines(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], width: int | None, colours: bool = False
) -> Iterator[str]:
    """The lines of a table. width: of the terminal; None if lines may be as long as they are."""
    texts = [[column.text(row) for column in columns] for row in rows]
    heads = [column.head for column in columns]
    natural = [
        max([width_of(head), *(width_of(line[index]) for line in texts)]) for index, head in enumerate(heads)
    ]
    widths = natural if width is None else _narrowed(natural, heads, width)
    if widths is None:
        yield from _blocks(rows, columns, texts, width or 0, colours)
        return
    shown = [styled(head, Style.BOLD) if colours else head for head in heads]
    yield from _line(shown, heads, widths, columns)
    for row, line in zip(rows, texts, strict=True):
        yield from _row(row, line, widths, columns, colours)


def _narrowed(natural: list[int], heads: list[str], width: int) -> list[int] | None:
    """Widths that fit, the widest columns cut first; None if the columns would be too narrow to read."""
    widths = list(natural)
    least = [min(each, max(LEAST_WIDTH, width_of(head))) for each, head in zip(natural, heads, strict=True)]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while excess > 0:
        widest = max(
            (index for index in range(len(widths)) if widths[index] > least[index]),
            key=lambda index: widths[index],
            default=None,
        )
        if widest is None:
            return None
        widths[widest] -= 1
        excess -= 1
    return widths


def _row(
    row: Mapping[str, Any],
    texts: list[str],
    widths: list[int],
    columns: Sequence[Column],
    colours: bool,
) -> Iterator[str]:
    styles = [
        column.style(row.get(column.key)) if colours and column.style is not None else ""
        for column in columns
    ]
    pieces = [
        pieces_of(text, width) if width_of(text) > width else [text]
        for text, width in zip(texts, widths, strict=True)
    ]
    for index in range(max(map(len, pieces), default=0)):
        plain = [each[index] if index < len(each) else "" for each in pieces]
        shown = [styled(text, style) for text, style in zip(plain, styles, strict=True)]
        yield from _line(shown, plain, widths, columns)


def _line(shown: list[str], plain: list[str], widths: list[int], columns: Sequence[Column]) -> Iterator[str]:
    cells = []
    for text, bare, width, column in zip(shown, plain, widths, columns, strict=True):
        space = " " * (width - width_of(bare))
        cells.append(space + text if column.right else text + space)
    yield GAP.join(cells).rstrip()


def _blocks(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    texts: list[list[str]],
    width: int,
    colours: bool,
) -> Iterator[str]:
    """The rows one below the other, a line for each value: the terminal is too narrow for a table."""
    title = max((width_of(column.head) for column in columns), default=0)
    room = max(LEAST_WIDTH, width - title - len(GAP))
    for number, (row, line) in enumerate(zip(rows, texts, strict=True)):
        if number:
            yield ""
        for column, text in zip(columns, line, strict=True):
            style = column.style(row.get(column.key)) if colours and column.style is not None else ""
            for index, piece in enumerate(pieces_of(text, room)):
                head = column.head if index == 0 else ""
                space = " " * (title - width_of(head) + len(GAP))
                yield (styled(head, Style.BOLD) if colours else head) + space + styled(piece, style)
