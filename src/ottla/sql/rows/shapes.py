"""Texts of queries by their shape: the same text with other constants is the same plan.

A text's constants are taken out (`'…'` and whole numbers), which leaves its shape. The first text of a
shape is parsed and bound with a mark in place of each constant. Where every mark comes out of the binder as
it went in, exactly once, the plan serves all texts of the shape, with a question's own constants in place of
the marks. Where not (a constant in a type, or one that the binder converts), each text has its own plan.
LIMIT is part of the shape.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.sql.plan.bound import (
    Bound,
    BoundCall,
    BoundColumn,
    BoundLambda,
    BoundLiteral,
    BoundOperation,
)
from ottla.sql.plan.query_plan import QueryPlan
from ottla.sql.types.sql_types import SqlType

GIVEN: Final = "$given"
"""The source of constants that come with each question; their names are their numbers."""
MAX_CONSTANTS: Final = 200
MAX_SHAPE_CHARACTERS: Final = 20_000
_INT_LIMIT: Final = 2**31
_INT_MARK: Final = 1_904_201_337
_LONG_MARK: Final = 7_904_201_337_000_000
_PIECES: Final = re.compile(
    r"(?P<text>'(?:[^']|'')*')"
    r"|\b[Ll][Ii][Mm][Ii][Tt]\s+\d+"
    r"|(?P<number>(?<![\w.])\d{1,18}(?![\w.]))"
    r"|`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|--[^\r\n]*|/\*.*?\*/|[A-Za-z_@][A-Za-z0-9_@]*|[\d.]+[\w.]*",
    re.S,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A text without its constants, and those. In the place of each stand a zero byte and its kind."""

    text: str
    constants: tuple[Any, ...]


def shape_of(text: str) -> Shape | None:
    """The shape of a query's text; None for one that is not looked at by shape (variables, very long)."""
    if len(text) > MAX_SHAPE_CHARACTERS or "${" in text or "\0" in text:
        return None
    constants: list[Any] = []

    def taken(found: re.Match[str]) -> str:
        kind = found.lastgroup
        if kind is None:
            return found[0]
        if kind == "text":
            constants.append(found[0][1:-1].replace("''", "'"))
            return "\0t"
        number = int(found[0])
        constants.append(number)
        return "\0i" if number < _INT_LIMIT else "\0l"

    shape = _PIECES.sub(taken, text)
    return None if len(constants) > MAX_CONSTANTS else Shape(shape, tuple(constants))


def marked(shape: Shape) -> str:
    """A text of the shape that has a mark for each constant."""
    numbers = iter(range(len(shape.constants)))

    def mark(found: re.Match[str]) -> str:
        value = _mark(next(numbers), found[0])
        return f"'{value}'" if isinstance(value, str) else str(value)

    return re.sub("\0[til]", mark, shape.text)


def _mark(number: int, kind: str) -> Any:
    if kind == "\0t":
        return f"\u2402mark {number}\u2403"
    return (_INT_MARK if kind == "\0i" else _LONG_MARK) + number


def with_given(plan: QueryPlan, shape: Shape) -> QueryPlan | None:
    """The plan of a marked text with `$given` columns for its marks; None where one did not come through."""
    kinds = re.findall("\0[til]", shape.text)
    marks = {_mark(number, kind): number for number, kind in enumerate(kinds)}
    seen: list[int] = []

    def column(mark: Any, of: SqlType) -> BoundColumn:
        seen.append(marks[mark])
        return BoundColumn(GIVEN, str(marks[mark]), of)

    def exchanged(bound: Bound) -> Bound:
        if isinstance(bound, BoundLiteral) and type(bound.value) in (str, int) and bound.value in marks:
            return column(bound.value, bound.type)
        if isinstance(bound, BoundLiteral) and type(bound.value) is int and -bound.value in marks:
            return BoundOperation("NEGATE", (column(-bound.value, bound.type),), bound.type)
        return bound

    made = replace(
        plan,
        projection=tuple(
            replace(each, expression=_mapped(each.expression, exchanged)) for each in plan.projection
        ),
        where=None if plan.where is None else _mapped(plan.where, exchanged),
        exploded=tuple(
            replace(each, expression=_mapped(each.expression, exchanged)) for each in plan.exploded
        ),
    )
    return made if sorted(seen) == list(range(len(marks))) else None


def _mapped(bound: Bound, change: Callable[[Bound], Bound]) -> Bound:
    match bound:
        case BoundOperation():
            bound = replace(bound, operands=tuple(_mapped(each, change) for each in bound.operands))
        case BoundCall():
            bound = replace(bound, arguments=tuple(_mapped(each, change) for each in bound.arguments))
        case BoundLambda():
            bound = dataclasses.replace(bound, body=_mapped(bound.body, change))
    return change(bound)


def with_constants(bound: Bound, constants: tuple[Any, ...]) -> Bound:
    """An expression with a question's constants in place of its `$given` columns."""

    def exchanged(each: Bound) -> Bound:
        if isinstance(each, BoundColumn) and each.source == GIVEN:
            return BoundLiteral(constants[int(each.name)], each.type)
        return each

    return _mapped(bound, exchanged)
