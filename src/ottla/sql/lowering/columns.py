"""Bound expressions as Spark's columns, where Spark's results are SQL's; None where they are not.

Nothing here can raise in Spark: whole numbers that overflow, and divisions by zero, are NULL as in
evaluator.py. Decimals' arithmetic, casts of texts, and most functions are left to Python.

The user's functions over batches are columns too, as Arrow functions of Spark's. Where one of them raises for
a row, the expression as a whole is NULL there, as in evaluator.py; so they have to stand where they are
always worked out, not in CASE, AND or OR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from ottla.sql.functions.function import Function, ScalarFunction
from ottla.sql.functions.registry import BUILT_IN
from ottla.sql.functions.vectors import FAILED, VALUE
from ottla.sql.lowering.arrow_calls import ArrowCall, arrow_column, has_arrow_functions
from ottla.sql.lowering.rows import Places
from ottla.sql.plan.bound import Bound, BoundCall, BoundColumn, BoundLiteral, BoundOperation, within
from ottla.sql.types.sql_types import Base, SqlType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from ottla.streams.plan.records import Record

Native = Callable[["Record"], "Column"]
_LAZY = ("AND", "OR", "CASE")
"""Operators that do not work all of their operands out."""
_WHOLE = (Base.INTEGER, Base.BIGINT)
_COMPARABLE = (*_WHOLE, Base.STRING, Base.BOOLEAN, Base.DATE, Base.TIME, Base.TIMESTAMP, Base.DECIMAL)


def native(
    bound: Bound, places: Places, user_functions: Mapping[str, Function] | None = None
) -> Native | None:
    """The expression as a function of a record's columns; None where Spark has not the same."""
    columns = _Columns(places, user_functions or {})
    column = columns.of(bound)
    calls = [each for each in within(bound) if isinstance(each, BoundCall)]
    failures = [made for each in calls if (made := columns.failure(each)) is not None]
    if column is None or not failures:
        return column

    def whole(record: Record) -> Column:
        from pyspark.sql import functions as F

        failed = _fold([each(record) for each in failures], lambda one, other: one | other)
        return F.when(~failed, column(record))

    return whole


def is_native(bound: Bound, places: Places) -> bool:
    """Whether Spark works the expression out without Python."""
    return native(bound, places) is not None


@dataclass(frozen=True, slots=True)
class _Columns:
    """Makes columns of expressions. The user's functions are those that may be columns too."""

    places: Places
    user_functions: Mapping[str, Function]

    def of(self, bound: Bound, *, always: bool = True) -> Native | None:
        """always: the expression is worked out for every row."""
        match bound:
            case BoundColumn():
                return lambda record: self.places.column(bound, record)
            case BoundLiteral():
                return _literal(bound)
            case BoundCall():
                return self._call(bound, always)
            case BoundOperation():
                return self._operation(bound, always)
            case _:
                return None

    def failure(self, bound: BoundCall) -> Native | None:
        """Whether a function over batches has raised for a row; None for other functions."""
        called = self._vector_call(bound)
        return None if called is None else lambda record: called(record).getField(FAILED)

    def _all(self, operands: tuple[Bound, ...], always: bool) -> list[Native] | None:
        found = [self.of(each, always=always) for each in operands]
        known = [each for each in found if each is not None]
        return known if len(known) == len(found) else None

    def _call(self, bound: BoundCall, always: bool) -> Native | None:
        if always and (called := self._vector_call(bound)) is not None:
            return lambda record: called(record).getField(VALUE)
        function = BUILT_IN.get(bound.function)
        arguments = self._all(bound.arguments, always)
        if arguments is None or not isinstance(function, ScalarFunction):
            return None
        from ottla.sql.lowering.spark_functions import SCALARS

        on_columns = SCALARS.get((bound.function, bound.signature))
        if on_columns is None:
            return None
        nulls = next(each.nulls for each in function.variants if each.signature.text == bound.signature)

        def column(record: Record) -> Column:
            from pyspark.sql import functions as F

            values = [each(record) for each in arguments]
            found = on_columns(*values)
            return found if nulls else F.when(_present(values), found)

        return column

    def _vector_call(self, bound: BoundCall) -> Native | None:
        """A struct of VALUE and FAILED; None for other functions, and arguments that are no columns."""
        function = self.user_functions.get(bound.function)
        if not isinstance(function, ScalarFunction) or not bound.arguments or not has_arrow_functions():
            return None
        variant = next((each for each in function.variants if each.signature.text == bound.signature), None)
        arguments = self._all(bound.arguments, True)
        if variant is None or variant.vectors is None or arguments is None:
            return None
        run = ArrowCall(variant.vectors, tuple(each.type for each in bound.arguments), bound.type)
        return lambda record: arrow_column(run, [each(record) for each in arguments])

    def _operation(self, bound: BoundOperation, always: bool) -> Native | None:
        operands = self._all(bound.operands, always and bound.operator not in _LAZY)
        if operands is None:
            return None
        make = _maker(bound)
        return None if make is None else lambda record: make([each(record) for each in operands])


def _literal(bound: BoundLiteral) -> Native:
    value, of = bound.value, bound.type

    def column(record: Record) -> Column:
        from pyspark.sql import functions as F

        from ottla.sql.lowering.spark_types import spark_type

        given = str(value) if isinstance(value, Decimal) else value
        return F.lit(given).cast(spark_type(of))

    return column


def _present(values: list[Column]) -> Column:
    found = values[0].isNotNull()
    for each in values[1:]:
        found = found & each.isNotNull()
    return found


def _maker(bound: BoundOperation) -> Callable[[list[Column]], Column] | None:
    """The operator on columns; None where Spark has not the same."""
    from pyspark.sql import functions as F

    types = [each.type for each in bound.operands]
    match bound.operator:
        case "AND":
            return lambda values: _fold(values, lambda one, other: one & other)
        case "OR":
            return lambda values: _fold(values, lambda one, other: one | other)
        case "NOT":
            return lambda values: ~values[0]
        case "IS NULL":
            return lambda values: values[0].isNull()
        case "IS NOT NULL":
            return lambda values: values[0].isNotNull()
        case "=" | "<>" | "<" | "<=" | ">" | ">=" if _are(types, _COMPARABLE):
            compare = _COMPARISONS[bound.operator]
            return lambda values: F.coalesce(compare(values[0], values[1]), F.lit(False))
        case "IS DISTINCT FROM" if _are(types, _COMPARABLE):
            return lambda values: ~values[0].eqNullSafe(values[1])
        case "IS NOT DISTINCT FROM" if _are(types, _COMPARABLE):
            return lambda values: values[0].eqNullSafe(values[1])
        case "BETWEEN" if _are(types, _COMPARABLE):
            return lambda values: F.coalesce(values[0].between(values[1], values[2]), F.lit(False))
        case "IN" if _are(types, _COMPARABLE):
            return lambda values: F.coalesce(
                _fold([values[0] == v for v in values[1:]], lambda a, b: a | b), F.lit(False)
            )
        case "LIKE":
            return _like(bound)
        case "||":
            return lambda values: F.concat(*values)
        case "+" | "-" | "*" | "/" | "%" | "NEGATE":
            return _arithmetic(bound.operator, bound.type)
        case "FIELD":
            name = bound.operands[1]
            assert isinstance(name, BoundLiteral)
            return lambda values: values[0].getField(str(name.value))
        case "SUBSCRIPT":
            if types[0].base is Base.MAP:
                return lambda values: F.try_element_at(values[0], values[1])
            return lambda values: F.when(values[1] != 0, F.try_element_at(values[0], values[1]))
        case "CASE":
            return _case
        case "CAST":
            return _cast(types[0], bound.type)
        case "ARRAY":
            return lambda values: F.array(*values)
        case "STRUCT":
            names = [name for name, _ in bound.type.fields]
            return lambda values: F.struct(*(v.alias(n) for n, v in zip(names, values, strict=True)))
    return None


_COMPARISONS: dict[str, Callable[[Column, Column], Column]] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _are(types: list[SqlType], wanted: tuple[Base, ...]) -> bool:
    """Whether all are of these types. Doubles are left out: Spark's NaN is equal to itself."""
    return all(each.base in (*wanted, Base.UNKNOWN) for each in types)


def _fold(values: list[Column], put: Callable[[Column, Column], Column]) -> Column:
    found = values[0]
    for each in values[1:]:
        found = put(found, each)
    return found


def _like(bound: BoundOperation) -> Callable[[list[Column]], Column] | None:
    from pyspark.sql import functions as F

    pattern = bound.operands[1]
    if len(bound.operands) > 2 or not isinstance(pattern, BoundLiteral) or not isinstance(pattern.value, str):
        return None
    if "\\" in pattern.value:
        return None
    text = pattern.value
    return lambda values: F.coalesce(values[0].like(text), F.lit(False))


def _arithmetic(operator: str, of: SqlType) -> Callable[[list[Column]], Column] | None:
    from pyspark.sql import functions as F

    if of.base is Base.DOUBLE:
        plain: dict[str, Callable[[list[Column]], Column]] = {
            "+": lambda values: values[0] + values[1],
            "-": lambda values: values[0] - values[1],
            "*": lambda values: values[0] * values[1],
            "NEGATE": lambda values: -values[0],
        }
        return plain.get(operator)
    if of.base not in _WHOLE:
        return None
    name = of.base.value.lower()
    whole: dict[str, Callable[[list[Column]], Column]] = {
        "+": lambda values: F.try_add(values[0], values[1]),
        "-": lambda values: F.try_subtract(values[0], values[1]),
        "*": lambda values: F.try_multiply(values[0], values[1]),
        "%": lambda values: F.try_mod(values[0], values[1]),
        "NEGATE": lambda values: F.try_subtract(F.lit(0).cast(name), values[0]),
    }
    if operator == "/":
        # The smallest number divided by -1 has no place in its type.
        lowest = -(2**31) if of.base is Base.INTEGER else -(2**63)
        return lambda values: F.when(
            (values[1] != 0) & ~((values[0] == F.lit(lowest)) & (values[1] == -1)),
            F.call_function("div", values[0], values[1]).cast(name),
        )
    return whole[operator]


def _case(values: list[Column]) -> Column:
    from pyspark.sql import functions as F

    found = F.when(values[0], values[1])
    for condition, result in zip(values[2:-1:2], values[3:-1:2], strict=True):
        found = found.when(condition, result)
    return found.otherwise(values[-1])


def _cast(given: SqlType, to: SqlType) -> Callable[[list[Column]], Column] | None:
    """Casts that lose nothing, and whole numbers as texts."""
    exact = (
        (given.base is Base.INTEGER and to.base in (Base.BIGINT, Base.DOUBLE, Base.STRING))
        or (given.base is Base.BIGINT and to.base in (Base.DOUBLE, Base.STRING))
        or (given.base is Base.BOOLEAN and to.base is Base.STRING)
        or given == to
    )
    if not exact:
        return None
    from ottla.sql.lowering.spark_types import spark_type

    return lambda values: values[0].cast(spark_type(to))
