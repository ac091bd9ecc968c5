"""Rows that are expected, and whether those that were written are they."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog, Column, Source
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.language.statements import InsertValues, Role, SourceKind
from ottla.sql.lowering.evaluator import constant_values
from ottla.sql.plan.statement_plan import WriteRow
from ottla.sql.types.sql_types import BIGINT, INTEGER

Row = Mapping[str, Any]
_HIDDEN = (("WINDOWSTART", BIGINT), ("WINDOWEND", BIGINT))
_PLACE = (("ROWPARTITION", INTEGER), ("ROWOFFSET", BIGINT))


@dataclass(eq=False, slots=True)
class Mismatch(Exception):
    """What was expected, and what was there: rows by their columns, None for no row."""

    what: str
    columns: tuple[str, ...] = ()
    expected: Row | None = None
    actual: Row | None = None

    def __str__(self) -> str:
        lines = [self.what]
        if self.expected is not None:
            lines.append(f"  expected: {_shown(self.columns, self.expected)}")
        if self.actual is not None:
            lines.append(f"  found:    {_shown(self.columns, self.actual)}")
        return "\n".join(lines)


def _shown(columns: Sequence[str], row: Row) -> str:
    return ", ".join(f"{name}={plain(row[name])!r:.200}" for name in columns if name in row) or "no value"


def expected_row(row: InsertValues, catalog: Catalog, functions: Functions) -> dict[str, Any]:
    """The values of an assertion, of the types of the columns. Raises SqlError."""
    source = catalog.source(row.target, row.at)
    columns = [Column(each.name, each.type) for each in source.columns if each.role is not Role.HEADERS]
    if source.windowed is not None:
        columns += [Column(name, of) for name, of in _HIDDEN]
    if any(each in dict(_PLACE) for each in row.columns):
        raise SqlError("ROWPARTITION and ROWOFFSET can't be asserted: there is no broker", row.at)
    # As the row of a stream, whose columns are all to be written.
    free = replace(source, columns=tuple(columns), kind=SourceKind.STREAM, windowed=None, read_only=False)
    plan = Binder(Catalog({source.name: free}, catalog.types), functions).bind(row)
    assert isinstance(plan, WriteRow)
    return constant_values(plan.values, functions)


def check_row(expected: Row, actual: Row | None, source: Source, *, deletes: bool) -> None:
    """Raises Mismatch unless the row has the expected values; columns that are not named may have any."""
    names = tuple(expected)
    if actual is None:
        raise Mismatch(f"{source.name} has no further row", names, expected, None)
    values = {each.name for each in source.values}
    is_deleted = bool(values) and not values & actual.keys()
    if deletes and not is_deleted:
        raise Mismatch(f"the row of {source.name} does not delete its key", names, expected, actual)
    if not deletes and is_deleted and values & expected.keys():
        raise Mismatch(f"the row of {source.name} deletes its key", names, expected, actual)
    if not all(is_same(expected[name], actual.get(name)) for name in names):
        raise Mismatch(f"the row of {source.name} is another one", names, expected, actual)


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same; of floating-point numbers, but for the last digits."""
    one, other = plain(one), plain(other)
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case float() | int() | Decimal(), float() | int() | Decimal():
            if isinstance(one, float) or isinstance(other, float):
                both_nan = math.isnan(float(one)) and math.isnan(float(other))
                return both_nan or math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-12)
            return one == other
        case list(), list():
            return len(one) == len(other) and all(map(is_same, one, other))
        case dict(), dict():
            return one.keys() == other.keys() and all(is_same(each, other[key]) for key, each in one.items())
        case _:
            return bool(one == other)


def plain(value: Any) -> Any:
    """A value with structs as dictionaries, and arrays as lists."""
    if hasattr(value, "asDict"):
        value = value.asDict()
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(each) for each in value]
    return value
