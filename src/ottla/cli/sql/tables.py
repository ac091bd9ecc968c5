"""Tables of rows on a terminal: names as the statement has them, NULL unlike an empty text, bounded width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.cli.frame.terminal import Style, pieces_of, printable, styled, width_of
from ottla.sql.terminal.values import text_of

LEAST_WIDTH: Final = 6
"""A column is not made narrower than this, or than its longest text."""
_NUMBERS: Final = ("INT", "BIGINT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True, slots=True)
class Paper:
    """What is written on. width: of the terminal, None for lines of any length; wraps: or cuts long texts.

    column_width: of all columns; None: as wide as their texts.
    """

    width: int | None = None
    colours: bool = False
    boxes: bool = True
    wraps: bool = True
    column_width: int | None = None

    @property
    def bar(self) -> str:
        """Between two columns."""
        return " │ " if self.boxes else " | "

    @property
    def ellipsis(self) -> str:
        """The end of a text that is cut."""
        return "…" if self.boxes else "~"


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table: titles, widths, and which are numbers."""

    titles: tuple[str, ...]
    widths: tuple[int, ...]
    right: tuple[bool, ...]


def is_number(type_name: str) -> bool:
    """Whether a column's values are numbers, which are aligned right."""
    return type_name.upper().startswith(_NUMBERS)


def laid_out(
    titles: Sequence[str],
    rows: Sequence[Sequence[Any]],
    right: Sequence[bool],
    paper: Paper,
    before: Layout | None = None,
) -> Layout | None:
    """The layout for these rows, and others like them; None if the columns would be too narrow to read.

    before: of earlier rows, whose columns are not made narrower without need.
    """
    shown = tuple(map(printable, titles))
    natural = [width_of(title) for title in shown] if before is None else list(before.widths)
    if paper.column_width is not None:
        natural = [paper.column_width] * len(natural)
    else:
        for row in rows:
            for number, value in enumerate(row[: len(natural)]):
                natural[number] = max(natural[number], width_of(cell(value)))
    widths: list[int] | None = natural
    if paper.width is not None:
        widths = _narrowed(natural, paper.width - len(paper.bar) * (len(natural) - 1) - 2)
    return None if widths is None else Layout(shown, tuple(widths), tuple(right))


def cell(value: Any) -> str:
    """A value in one line."""
    return printable(text_of(value))


def fits(row: Sequence[Any], layout: Layout) -> bool:
    """Whether no text of a row is longer than its column is wide."""
    return all(width_of(cell(value)) <= width for value, width in zip(row, layout.widths, strict=False))


def head_lines(layout: Layout, paper: Paper) -> Iterator[str]:
    """The titles and a line below them."""
    cells = []
    for title, width in zip(layout.titles, layout.widths, strict=True):
        cut = _cut(title, width, paper.ellipsis)
        space = " " * (width - width_of(cut))
        cells.append((styled(cut, Style.BOLD) if paper.colours else cut) + space)
    yield (" " + paper.bar.join(cells)).rstrip()
    dash, cross = ("─", "─┼─") if paper.boxes else ("-", "-+-")
    rule = dash + cross.join(dash * width for width in layout.widths) + dash
    yield styled(rule, Style.DIM) if paper.colours else rule


def row_lines(row: Sequence[Any], layout: Layout, paper: Paper, style: str = "") -> Iterator[str]:
    """A row: one line, or several where texts are wrapped. style: of its values, if they have none."""
    values = [*row[: len(layout.widths)], *[None] * (len(layout.widths) - len(row))]
    pieces = []
    for value, width in zip(values, layout.widths, strict=True):
        text = cell(value)
        if width_of(text) <= width or (paper.width is None and paper.column_width is None):
            pieces.append([text])
        elif paper.wraps:
            pieces.append(pieces_of(text, width))
        else:
            pieces.append([_cut(text, width, paper.ellipsis)])
    for line in range(max(map(len, pieces), default=0)):
        cells = []
        for value, each, width, right in zip(values, pieces, layout.widths, layout.right, strict=True):
            text = each[line] if line < len(each) else ""
            space = " " * (width - width_of(text))
            shown = styled(text, Style.DIM if value is None else style) if paper.colours else text
            cells.append(space + shown if right else shown + space)
        yield (" " + paper.bar.join(cells)).rstrip()


def expanded_lines(number: int, titles: Sequence[str], row: Sequence[Any], paper: Paper) -> Iterator[str]:
    """A row as a block: a line a value."""
    dash = "─" if paper.boxes else "-"
    mark = f"{dash}[ row {number} ]{dash * 20}"
    yield styled(mark, Style.DIM) if paper.colours else mark
    names = list(map(printable, titles))
    wide = max(map(width_of, names), default=0)
    room = None if paper.width is None else max(LEAST_WIDTH, paper.width - wide - len(paper.bar))
    for name, value in zip(names, row, strict=False):
        text = cell(value)
        for index, piece in enumerate([text] if room is None else pieces_of(text, room)):
            head = name if index == 0 else ""
            shown = styled(head, Style.BOLD) if paper.colours else head
            told = styled(piece, Style.DIM) if paper.colours and value is None else piece
            yield f"{shown}{' ' * (wide - width_of(head))}{paper.bar}{told}"


def _narrowed(natural: Sequence[int], room: int) -> list[int] | None:
    """Widths that fit, the widest columns cut first; None if there is no room for all columns."""
    widths = list(natural)
    least = [min(each, LEAST_WIDTH) for each in natural]
    if sum(least) > room:
        return None
    while (excess := sum(widths) - room) > 0:
        widest = max(range(len(widths)), key=lambda number: widths[number] - least[number])
        others = max((each for number, each in enumerate(widths) if number != widest), default=0)
        step = min(excess, max(1, widths[widest] - max(others, least[widest])))
        widths[widest] -= min(step, widths[widest] - least[widest])
    return widths


def _cut(text: str, width: int, ellipsis: str) -> str:
    if width_of(text) <= width:
        return text
    kept = text
    while kept and width_of(kept) > width - 1:
        kept = kept[: -max(1, (width_of(kept) - width) // 2)]
    return kept + ellipsis
