"""Where a plan's columns are in a record: in its key, its value or beside them; read in Python and in Spark.

Between a query's steps a record's value is a struct with a field for each column, named by source and column.
A group's record has its keys in the key and its aggregates in the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ottla.sql.functions.function import Function
from ottla.sql.functions.registry import BUILT_IN, Functions
from ottla.sql.lowering.evaluator import Getter, row_function
from ottla.sql.plan.bound import Bound, BoundColumn
from ottla.sql.types.sql_types import Base, SqlType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from ottla.streams.plan.records import PythonRecord, Record

Path = tuple[str, ...]
"""Names from the record inwards: `("value", "S$ID")`, `("key", "start")`."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def field_name(column: BoundColumn) -> str:
    """The field of a record's value that holds a source's column."""
    return f"{column.source}${column.name}"


@dataclass(frozen=True, slots=True)
class Places:
    """Where columns are. times: paths of timestamps that stand for milliseconds."""

    paths: Mapping[tuple[str, str], Path]
    times: frozenset[Path] = frozenset()

    def path(self, column: BoundColumn) -> Path:
        return self.paths[column.source, column.name]

    def getter(self, column: BoundColumn) -> Getter:
        """The column's value in a PythonRecord."""
        first, *rest = self.path(column)
        in_ms = self.path(column) in self.times
        plain = _plain_getter(column.type)

        def get(record: Any) -> Any:
            found = getattr(record, first)
            for name in rest:
                if found is None:
                    return None
                found = found[name]
            if found is None:
                return None
            return _milliseconds(found) if in_ms else plain(found)

        return get

    def column(self, column: BoundColumn, record: Record) -> Column:
        """The column in Spark."""
        from pyspark.sql import functions as F

        first, *rest = self.path(column)
        found: Column = getattr(record, first)
        for name in rest:
            found = found.getField(name)
        return F.unix_millis(found) if self.path(column) in self.times else found


def _milliseconds(time: datetime) -> int:
    return (time.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


def _plain_getter(of: SqlType) -> Callable[[Any], Any]:
    """Arrow's values as ours: bytes for byte arrays, whatever they are in."""
    if not _has_bytes(of):
        return lambda value: value
    match of.base:
        case Base.BYTES:
            return bytes
        case Base.ARRAY:
            inner = _plain_getter(of.elements[0])
            return lambda value: [None if each is None else inner(each) for each in value]
        case Base.MAP:
            inner = _plain_getter(of.elements[1])
            return lambda value: {key: None if each is None else inner(each) for key, each in value.items()}
        case _:
            fields = {name: _plain_getter(each) for name, each in of.fields}
            return lambda value: {
                name: None if value[name] is None else get(value[name]) for name, get in fields.items()
            }


def _has_bytes(of: SqlType) -> bool:
    return of.base is Base.BYTES or any(map(_has_bytes, (*of.elements, *(each for _, each in of.fields))))


@dataclass(slots=True)
class RowFunction:
    """Expressions of a record in Python, as a struct's fields, or as one value where `single`.

    It travels to Spark's workers as data: the plan's expressions and the user's functions; what they are
    compiled to is made where they run.
    """

    fields: tuple[tuple[str, Bound], ...]
    places: Places
    user_functions: Mapping[str, Function]
    single: bool = False
    name: str = "expressions"
    _compiled: list[tuple[str, Callable[[Any], Any]]] | None = field(default=None, repr=False)

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.fields, self.places, dict(self.user_functions), self.single, self.name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.fields, self.places, self.user_functions, self.single, self.name = state
        self._compiled = None

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, record: PythonRecord) -> Any:
        if self._compiled is None:
            functions = Functions({**BUILT_IN, **self.user_functions})
            self._compiled = [
                (name, row_function(bound, self.places.getter, functions)) for name, bound in self.fields
            ]
        if self.single:
            return self._compiled[0][1](record)
        return {name: value(record) for name, value in self._compiled}
