"""What a pull query's WHERE says of keys and windows: which rows have to be looked at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.sql.catalog.sources import Source
from ottla.sql.plan.bound import Bound, BoundColumn, BoundLiteral, BoundOperation, columns_of
from ottla.sql.rows.shapes import GIVEN
from ottla.sql.types.sql_types import Base

MAX_KEYS: Final = 10_000
MIN_MS: Final = -(2**63)
MAX_MS: Final = 2**63 - 1
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_INEXACT: Final = (Base.DOUBLE, Base.DECIMAL, Base.ARRAY, Base.MAP, Base.STRUCT)
"""Types whose values have several spellings in bytes, so that keys are not looked up by them."""


_ORDERED: Final = (Base.STRING, Base.INTEGER, Base.BIGINT)
"""Types whose keys in Kafka's own format are in the order of their values, numbers of each sign apart."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys of a table with one key column, from `low` to `high`, both inclusive, None for no end."""

    low: Any = None
    high: Any = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """keys: the only keys that can fulfil the filter, None for all. from_ms, to_ms: of windows' starts.

    between: where all of those keys are, None if the filter does not tell.
    """

    keys: tuple[Mapping[str, Any], ...] | None
    from_ms: int = MIN_MS
    to_ms: int = MAX_MS
    between: KeyRange | None = None


def bounds_of(where: Bound | None, source: Source) -> Bounds:
    """The bounds of a filter; whoever uses them still has to ask the filter itself."""
    names = [each.name for each in source.keys]
    found: dict[str, Sequence[Any]] = {}
    low, high = MIN_MS, MAX_MS
    lows: list[Any] = []
    highs: list[Any] = []
    for each in _conjunction(where):
        for name, operator, values in _comparison(each):
            if name in names and operator == "=":
                before = found.get(name)
                found[name] = values if before is None else [one for one in values if one in before]
            elif name in names and len(values) == 1 and type(values[0]) in (int, str):
                (lows if operator in (">", ">=") else highs).append(values[0])
            elif name == "WINDOWSTART" and len(values) == 1 and isinstance(values[0], int):
                at = values[0]
                match operator:
                    case "=":
                        low, high = max(low, at), min(high, at)
                    case ">" | ">=":
                        low = max(low, at + (operator == ">"))
                    case "<" | "<=":
                        high = min(high, at - (operator == "<"))
    usable = bool(names) and all(
        name in found and column.type.base not in _INEXACT
        for name, column in zip(names, source.keys, strict=True)
    )
    if not usable:
        is_ordered = len(names) == 1 and source.key_format == "KAFKA" and source.keys[0].type.base in _ORDERED
        between = None
        if is_ordered and (lows or highs):
            between = KeyRange(max(lows, default=None), min(highs, default=None))
        return Bounds(None, low, high, between)
    count = 1
    for name in names:
        count *= len(found[name])
    if count > MAX_KEYS:
        return Bounds(None, low, high)
    keys = tuple(
        dict(zip(names, cells, strict=True)) for cells in itertools.product(*(found[name] for name in names))
    )
    return Bounds(keys, low, high)


def given_key(where: Bound | None, source: Source) -> Mapping[str, int] | None:
    """The numbers of the constants that are the key, where a filter of a shape (shapes.py) says just that.

    None where `bounds_of` has to look at the constants themselves.
    """
    if source.windowed is not None:
        return None
    names = {each.name for each in source.keys if each.type.base not in _INEXACT}
    found: dict[str, int] = {}
    for each in _conjunction(where):
        if not isinstance(each, BoundOperation) or each.operator != "=":
            if any(one.name in names for one in columns_of(each)):
                return None
            continue
        left, right = each.operands
        for column, value in ((left, right), (right, left)):
            if not isinstance(column, BoundColumn) or column.name not in names:
                continue
            if not isinstance(value, BoundColumn) or value.source != GIVEN or column.name in found:
                return None
            found[column.name] = int(value.name)
    return found if found.keys() == {each.name for each in source.keys} else None


def _conjunction(where: Bound | None) -> Iterator[Bound]:
    if where is None:
        return
    if isinstance(where, BoundOperation) and where.operator == "AND":
        for each in where.operands:
            yield from _conjunction(each)
        return
    yield where


def _comparison(of: Bound) -> Iterator[tuple[str, str, Sequence[Any]]]:
    """A column compared with constants: its name, the operator, the values."""
    if not isinstance(of, BoundOperation):
        return
    if of.operator == "IN":
        column, *choices = of.operands
        values = [_constant(each) for each in choices]
        if isinstance(column, BoundColumn) and all(each is not None for each in values):
            yield column.name, "=", list(dict.fromkeys(each[0] for each in values if each is not None))
        return
    if of.operator == "BETWEEN":
        column, first, last = of.operands
        begin, end = _constant(first), _constant(last)
        if isinstance(column, BoundColumn) and begin is not None and end is not None:
            yield column.name, ">=", [begin[0]]
            yield column.name, "<=", [end[0]]
        return
    if of.operator not in _MIRRORED:
        return
    left, right = of.operands
    for column, value, operator in ((left, right, of.operator), (right, left, _MIRRORED[of.operator])):
        constant = _constant(value)
        if isinstance(column, BoundColumn) and constant is not None:
            yield column.name, operator, [constant[0]]


def _constant(of: Bound) -> tuple[Any] | None:
    """A constant's value, in a tuple as it may be anything; NULL equals nothing."""
    if isinstance(of, BoundLiteral) and of.value is not None:
        return (of.value,)
    if isinstance(of, BoundOperation) and of.operator == "NEGATE":
        inner = _constant(of.operands[0])
        return None if inner is None else (-inner[0],)
    if isinstance(of, BoundOperation) and of.operator == "CAST":
        inner, given = _constant(of.operands[0]), of.operands[0].type
        # Without a loss, so that equal values stay equal.
        wider = of.type.base is Base.BIGINT and given.base is Base.INTEGER
        return inner if wider else None
    return None
