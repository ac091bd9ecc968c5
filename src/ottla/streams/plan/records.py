"""How functions of a topology see a record: as columns, or as Python values.

An expression is a function of a `Record` that returns a Spark column: `lambda r: F.upper(r.value.name)`. It
is called once, when the topology is compiled, and runs in Spark without Python. Where Python is needed,
`python` turns a function of a `PythonRecord` into something that may stand wherever an expression may; it is
run over batches in Arrow's format, but once a record, and a record that it fails on is a poison record.
`vectorized` takes a function over whole columns: a pandas Series of keys and one of values (a DataFrame where
they are structs) to a Series or, for structs, a DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

RECORD_COLUMNS = ("key", "value", "timestamp", "headers", "topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Record:
    """A record as columns. Fields of structs are attributes: `r.value.user`, or `r.value["count"]`.

    The names that columns have methods for (`count`, `name`, `cast`…) need the second form. `topic`,
    `partition` and `offset` are those of the source record, null where there is none (after an aggregate).
    """

    key: Column
    value: Column
    timestamp: Column
    headers: Column
    topic: Column
    partition: Column
    offset: Column


class PythonRecord(NamedTuple):
    """A record as Python values: dictionaries for structs, datetime (UTC, naive) for timestamps."""

    key: Any
    value: Any
    timestamp: datetime
    topic: str | None
    partition: int | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A Python function in a topology, and the Spark type that it returns."""

    function: Callable[..., Any]
    returns: DataType | str | type
    vectorized: bool = False

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


Expression = Callable[[Record], "Column"] | PythonFunction
"""Gives a value for each record."""

Joiner = Callable[["Column", "Column"], "Column"]
"""Makes one value of a left and a right one; in outer joins either may be null."""


def python(function: Callable[[PythonRecord], Any], *, returns: DataType | str | type) -> PythonFunction:
    """A function of one record, for wherever an expression may stand.

    `returns`: a Spark type, its DDL (`"name STRING, score DOUBLE"`), a dataclass or a Python type.
    """
    return PythonFunction(function, returns)


def vectorized(function: Callable[..., Any], *, returns: DataType | str | type) -> PythonFunction:
    """A function (keys, values) of pandas Series or DataFrames, for wherever an expression may stand."""
    return PythonFunction(function, returns, vectorized=True)


def record(key: Column, value: Column) -> Column:
    """One record that `flat_map` makes: its expression returns an array of these."""
    from pyspark.sql import functions

    return functions.struct(key.alias("key"), value.alias("value"))


def record_of_columns() -> Record:
    """The record of a frame with RECORD_COLUMNS."""
    from pyspark.sql import functions

    return Record(*(functions.col(name) for name in RECORD_COLUMNS))
