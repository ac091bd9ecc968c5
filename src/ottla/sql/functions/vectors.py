"""Functions of the user's over whole batches: pandas Series, or pyarrow arrays, as their annotations say.

A row alone is a batch of one, so that a function's result does not depend on where it runs. Rows with a NULL
argument are left out of a batch unless the function takes NULLs. A batch that the function raises on is given
to it again row by row: only the rows that it raises on then have no value.

| SQL | pandas | pyarrow |
|---|---|---|
| INT, BIGINT | numpy's, or with NULLs Int32, Int64 | int32, int64 |
| DOUBLE, BOOLEAN | numpy's, or with NULLs Float64, boolean | double, bool |
| STRING, BYTES, DECIMAL | object: str, bytes, Decimal | string, binary, decimal128 |
| DATE, TIME, TIMESTAMP | the whole numbers that they are in topics | int32, int32, int64 |
| ARRAY, MAP, STRUCT | object: list, dict, dict | list, map, struct |
"""

from __future__ import annotations

import contextlib
import math
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

from ottla.sql.types.sql_types import Base, SqlType

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Fit = Callable[[Any], Any]
"""A value within its type; raises where it does not fit."""
VALUE, FAILED = "v", "e"
"""The fields of a batch's results: the value, and whether there is none as the function raised."""
_NULLABLE = {Base.BOOLEAN: "boolean", Base.INTEGER: "Int32", Base.BIGINT: "Int64", Base.DOUBLE: "Float64"}
_NULLABLE |= {Base.DATE: "Int32", Base.TIME: "Int32", Base.TIMESTAMP: "Int64"}

_CLASSES = {Base.BOOLEAN: bool, Base.STRING: str, Base.BYTES: bytes}


class VectorKind(Enum):
    """What a function takes and gives."""

    PANDAS = "pandas Series"
    ARROW = "pyarrow arrays"


@dataclass(frozen=True, slots=True)
class Vectors:
    """A function over batches. nulls: it takes NULLs."""

    kind: VectorKind
    function: Callable[..., Any]
    nulls: bool

    def of_row(self, types: Sequence[SqlType], returns: SqlType, values: Sequence[Any]) -> Any:
        """The result for one row's arguments. Raises what the function raises, ValueError."""
        import pyarrow as pa

        arrays = [pa.array([v], arrow_type(of)) for v, of in zip(values, types, strict=True)]
        return self._results(arrays, types, returns)[0]

    def of_batch(
        self, types: Sequence[SqlType], returns: SqlType, fit: Fit, arrays: Sequence[pa.Array]
    ) -> pa.StructArray:
        """The results for arrays of arguments, as structs of VALUE and FAILED."""
        import pyarrow as pa
        import pyarrow.compute as pc

        length = len(arrays[0])
        arrays = [_as(array, arrow_type(of)) for array, of in zip(arrays, types, strict=True)]
        values: list[Any] = [None] * length
        failed = [False] * length
        rows: Sequence[int] = range(length)
        if not self.nulls and any(array.null_count for array in arrays):
            present = pc.is_valid(arrays[0])
            for array in arrays[1:]:
                present = pc.and_(present, pc.is_valid(array))
            rows = [number for number, each in enumerate(present.to_pylist()) if each]
            arrays = [array.filter(present) for array in arrays]
        if rows:
            for number, (value, has_failed) in zip(
                rows, self._fitted(types, returns, fit, arrays), strict=True
            ):
                values[number], failed[number] = value, has_failed
        found = _array(values, failed, arrow_type(returns))
        return pa.StructArray.from_arrays([found, pa.array(failed, pa.bool_())], [VALUE, FAILED])

    def _fitted(
        self, types: Sequence[SqlType], returns: SqlType, fit: Fit, arrays: Sequence[pa.Array]
    ) -> Iterator[tuple[Any, bool]]:
        """Each row's value, and whether it has none."""
        length = len(arrays[0])
        try:
            found: Sequence[Any] | None = self._results(arrays, types, returns)
        except Exception:
            found = None
        for number in range(length):
            try:
                if found is None:
                    one = [array.slice(number, 1) for array in arrays]
                    yield fit(self._results(one, types, returns)[0]), False
                else:
                    yield fit(found[number]), False
            except Exception:
                yield None, True

    def _results(self, arrays: Sequence[pa.Array], types: Sequence[SqlType], returns: SqlType) -> list[Any]:
        given: list[Any] = list(arrays)
        if self.kind is VectorKind.PANDAS:
            given = [_series(array, of, self.nulls) for array, of in zip(arrays, types, strict=True)]
        made = self.function(*given)
        if not hasattr(made, "__len__") or len(made) != len(arrays[0]):
            size = f"{len(made)} values" if hasattr(made, "__len__") else type(made).__name__
            raise ValueError(f"the function gives {size} for {len(arrays[0])} rows")
        values = made.to_pylist() if hasattr(made, "to_pylist") else list(_plain_values(made))
        return [_result(each, returns) for each in values]


def vector_kind(function: Callable[..., Any]) -> VectorKind | None:
    """What the function's annotations say; None for one of plain values. Raises ValueError for a mixture."""
    names = dict(getattr(function, "__annotations__", None) or {})
    with contextlib.suppress(Exception):  # a name may be known to type checkers alone: its text has to do
        names = typing.get_type_hints(function)
    kinds = {name: _kind_of(each) for name, each in names.items()}
    returned = kinds.pop("return", None)
    found = set(kinds.values())
    if found <= {None}:
        return None
    if len(found) > 1 or (returned is not None and {returned} != found):
        raise ValueError("a function over batches has pandas Series alone, or pyarrow arrays alone")
    return found.pop()


def _kind_of(annotation: Any) -> VectorKind | None:
    origin = typing.get_origin(annotation) or annotation
    if isinstance(origin, str):
        module, _, name = origin.partition("[")[0].strip().rpartition(".")
        is_pandas, is_arrow = module in ("pd", "pandas"), module in ("pa", "pyarrow")
    else:
        name, module = getattr(origin, "__name__", ""), getattr(origin, "__module__", "") or ""
        is_pandas, is_arrow = module.startswith("pandas."), module.startswith("pyarrow.")
    if is_pandas and name == "Series":
        return VectorKind.PANDAS
    return VectorKind.ARROW if is_arrow and name.endswith("Array") else None


def arrow_type(of: SqlType) -> pa.DataType:
    """The type of arrays of an SQL type."""
    import pyarrow as pa

    match of.base:
        case Base.BOOLEAN:
            return pa.bool_()
        case Base.INTEGER | Base.DATE | Base.TIME:
            return pa.int32()
        case Base.BIGINT | Base.TIMESTAMP:
            return pa.int64()
        case Base.DOUBLE:
            return pa.float64()
        case Base.BYTES:
            return pa.binary()
        case Base.DECIMAL:
            return pa.decimal128(of.precision, of.scale)
        case Base.ARRAY:
            return pa.list_(arrow_type(of.elements[0]))
        case Base.MAP:
            return pa.map_(arrow_type(of.elements[0]), arrow_type(of.elements[1]))
        case Base.STRUCT:
            return pa.struct([(name, arrow_type(each)) for name, each in of.fields])
        case _:
            return pa.string()


def _array(values: list[Any], failed: list[bool], of: pa.DataType) -> pa.Array:
    """Results as an array; those that it can't hold have failed."""
    import pyarrow as pa

    try:
        return pa.array(values, of)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        if len(values) == 1:
            failed[0] = True
            return pa.nulls(1, of)
        parts = []
        for number, value in enumerate(values):
            one = [failed[number]]
            parts.append(_array([value], one, of))
            failed[number] = one[0]
        return pa.concat_arrays(parts)


def _as(array: Any, of: pa.DataType) -> pa.Array:
    """An array of Spark's in the type that the function is promised."""
    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
    return array if array.type == of else array.cast(of)


def _series(array: pa.Array, of: SqlType, nulls: bool) -> pd.Series:
    import pandas as pd

    nullable = _NULLABLE.get(of.base)
    if nullable is None:
        return pd.Series([_result(each, of) for each in array.to_pylist()], dtype=object)
    if nulls:
        return pd.Series(array.to_pylist(), dtype=nullable)
    return pd.Series(array.to_numpy(zero_copy_only=False))


def _plain_values(made: Any) -> Iterator[Any]:
    """The values of a Series, numpy's as Python's, missing ones of nullable types as None."""
    import pandas as pd

    for each in made.tolist() if hasattr(made, "tolist") else made:
        yield None if each is pd.NA or each is pd.NaT else each.item() if hasattr(each, "item") else each


def _result(value: Any, of: SqlType) -> Any:
    """A value as the evaluator has it. Raises ValueError for one that is none of the type's.

    NaN stands for NULL where the type has no NaN, and whole numbers beside it are floating-point in pandas.
    """
    if value is None or (of.base is not Base.DOUBLE and isinstance(value, float) and math.isnan(value)):
        return None
    match of.base:
        case Base.MAP:
            pairs = value.items() if isinstance(value, dict) else value
            return {key: _result(each, of.elements[1]) for key, each in pairs}
        case Base.ARRAY:
            elements = value.tolist() if hasattr(value, "tolist") else value
            return [_result(each, of.elements[0]) for each in elements]
        case Base.STRUCT:
            return {name: _result(value.get(name), each) for name, each in of.fields}
        case Base.DECIMAL:
            return Decimal(repr(value)) if isinstance(value, float) else value
        case Base.DOUBLE:
            return float(value)
        case Base.BOOLEAN | Base.STRING | Base.BYTES:
            fits = isinstance(value, _CLASSES[of.base])
        case _:
            fits = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            value = int(value) if fits else value
    if not fits:
        raise ValueError(f"the function gives {value!r:.100}, which is no {of}")
    return value
