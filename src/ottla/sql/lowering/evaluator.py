"""Bound expressions worked out in Python, a row at a time.

A NULL operand makes arithmetic NULL and a comparison false (as in ksqlDB); AND, OR and NOT know three values.
What has no answer (a division of whole numbers by zero, an overflow, a cast that does not fit) raises
`EvaluationError`; whoever holds the whole expression makes that NULL, or leaves the row out in WHERE.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from ottla.sql.functions import casts, java_regex
from ottla.sql.functions.function import ScalarFunction, TableFunction
from ottla.sql.functions.registry import Functions
from ottla.sql.plan.bound import (
    Bound,
    BoundCall,
    BoundColumn,
    BoundLambda,
    BoundLiteral,
    BoundOperation,
    BoundParameter,
)
from ottla.sql.types.sql_types import Base, SqlType

Environment = Mapping[str, Any]
Evaluate = Callable[[Any, Environment], Any]
"""An expression's value for a row, and the values of lambdas' parameters."""
Getter = Callable[[Any], Any]
"""A column's value in a row."""


class EvaluationError(Exception):
    """An expression has no value for a row."""


def row_function(
    bound: Bound,
    column: Callable[[BoundColumn], Getter],
    functions: Functions,
    report: Callable[[str], None] | None = None,
) -> Callable[[Any], Any]:
    """The expression as a function of a row, NULL where it has no value. report: is told why it has none."""
    evaluate = Evaluator(column, functions).compiled(bound)

    def value(row: Any) -> Any:
        try:
            return evaluate(row, {})
        except Exception as error:
            if report is not None:
                report(f"{type(error).__name__}: {error}")
            return None

    return value


def constant_values(values: Iterable[tuple[str, Bound]], functions: Functions) -> dict[str, Any]:
    """What expressions without columns are, by their names: the row of INSERT INTO … VALUES."""
    return {name: row_function(each, _no_column, functions)(None) for name, each in values}


def _no_column(column: BoundColumn) -> Getter:
    return lambda row: None


class Evaluator:
    """Makes functions of expressions. column: how a column is read from a row."""

    def __init__(self, column: Callable[[BoundColumn], Getter], functions: Functions) -> None:
        self._column = column
        self._functions = functions

    def compiled(self, bound: Bound) -> Evaluate:
        """The expression as a function of a row and of lambdas' parameters."""
        match bound:
            case BoundLiteral(value=value):
                return lambda row, environment: value
            case BoundColumn():
                get = self._column(bound)
                return lambda row, environment: get(row)
            case BoundParameter(name=name):
                return lambda row, environment: environment[name]
            case BoundCall():
                return self._call(bound)
            case BoundLambda():
                return self._lambda(bound)
            case BoundOperation():
                return self._operation(bound)

    def _lambda(self, bound: BoundLambda) -> Evaluate:
        body, names = self.compiled(bound.body), bound.parameters

        def made(row: Any, environment: Environment) -> Callable[..., Any]:
            return lambda *values: body(row, {**environment, **dict(zip(names, values, strict=True))})

        return made

    def _call(self, bound: BoundCall) -> Evaluate:
        function = self._functions.find(bound.function)
        if not isinstance(function, ScalarFunction | TableFunction):
            raise EvaluationError(f"there is no function {bound.function} any more")
        variant = next((each for each in function.variants if each.signature.text == bound.signature), None)
        if variant is None:
            raise EvaluationError(f"{bound.function} has no signature {bound.signature} any more")
        arguments = [self.compiled(each) for each in bound.arguments]
        evaluate, types = variant.evaluate, tuple(each.type for each in bound.arguments)
        if isinstance(function, TableFunction):
            return _rows(evaluate, arguments)
        fitted = fitting(bound.type)
        if (vectors := variant.vectors) is not None:

            def call_of_one(row: Any, environment: Environment) -> Any:
                values = [each(row, environment) for each in arguments]
                if not variant.nulls and any(each is None for each in values):
                    return None
                return fitted(vectors.of_row(types, bound.type, values))

            return call_of_one

        def call(row: Any, environment: Environment) -> Any:
            values = [each(row, environment) for each in arguments]
            if not variant.nulls and any(each is None for each in values):
                return None
            return fitted(evaluate(types, *values) if variant.typed else evaluate(*values))

        return call

    def _operation(self, bound: BoundOperation) -> Evaluate:
        operands = [self.compiled(each) for each in bound.operands]
        match bound.operator:
            case "AND" | "OR":
                return _logical(operands, stops_at=bound.operator == "OR")
            case "CASE":
                return _case(operands)
            case "IS NULL":
                return lambda row, environment: operands[0](row, environment) is None
            case "IS NOT NULL":
                return lambda row, environment: operands[0](row, environment) is not None
            case "IS DISTINCT FROM":
                return lambda row, e: operands[0](row, e) != operands[1](row, e)
            case "IS NOT DISTINCT FROM":
                return lambda row, e: operands[0](row, e) == operands[1](row, e)
            case "IN":
                return _in(operands)
            case "ARRAY":
                return lambda row, environment: [each(row, environment) for each in operands]
            case "MAP":
                return lambda row, e: {
                    operands[n](row, e): operands[n + 1](row, e) for n in range(0, len(operands), 2)
                }
            case "STRUCT":
                names = [name for name, _ in bound.type.fields]
                return lambda row, e: {n: each(row, e) for n, each in zip(names, operands, strict=True)}
        compute = self._of_present(bound)
        nothing = False if bound.operator in (*_COMPARISONS, "BETWEEN", "LIKE") else None

        def value(row: Any, environment: Environment) -> Any:
            values = [each(row, environment) for each in operands]
            return nothing if any(each is None for each in values) else compute(*values)

        return value

    def _of_present(self, bound: BoundOperation) -> Callable[..., Any]:
        """What an operator does with operands that are not NULL."""
        operator = bound.operator
        if (comparison := _COMPARISONS.get(operator)) is not None:
            return comparison
        match operator:
            case "+" | "-" | "*" | "/" | "%":
                return _arithmetic(operator, bound.type)
            case "||":
                return lambda left, right: left + right
            case "NOT":
                return lambda value: not value
            case "NEGATE":
                return _within_range(lambda value: -value, bound.type)
            case "BETWEEN":
                return lambda value, low, high: low <= value <= high
            case "LIKE":
                return lambda value, pattern, escape=None: java_regex.like(value, pattern, escape)
            case "FIELD":
                return lambda value, name: value.get(name)
            case "SUBSCRIPT":
                is_map = bound.operands[0].type.base is Base.MAP
                return (lambda value, key: value.get(key)) if is_map else _element
            case "CAST":
                cast = casts.caster(bound.operands[0].type, bound.type)
                if cast is None:
                    raise EvaluationError(f"{bound.operands[0].type} can't be cast to {bound.type}")
                return cast
        raise EvaluationError(f"there is no operator {operator}")


def _rows(evaluate: Callable[..., Any], arguments: list[Evaluate]) -> Evaluate:
    """A table function's call: a list, no rows for NULL."""

    def rows(row: Any, environment: Environment) -> Any:
        values = [each(row, environment) for each in arguments]
        return [] if any(each is None for each in values) else evaluate(*values)

    return rows


def fitting(of: SqlType) -> Callable[[Any], Any]:
    """A function's result within its type: decimals get their scale; whole numbers that do not fit raise."""
    if of.base is Base.DECIMAL:
        return lambda value: None if value is None else casts.to_decimal(value, of)
    if of.base in (Base.INTEGER, Base.BIGINT):
        check = _within_range(lambda value: value, of)
        return lambda value: None if value is None else check(value)
    return lambda value: value


def _within_range(compute: Callable[..., Any], of: SqlType) -> Callable[..., Any]:
    limit = {Base.INTEGER: 2**31, Base.BIGINT: 2**63}.get(of.base)
    if limit is None:
        return compute

    def checked(*values: Any) -> Any:
        found = compute(*values)
        if not -limit <= found < limit:
            raise EvaluationError(f"{found} does not fit {of}")
        return found

    return checked


def _arithmetic(operator: str, of: SqlType) -> Callable[[Any, Any], Any]:
    match of.base:
        case Base.DOUBLE:
            return _OF_DOUBLES[operator]
        case Base.DECIMAL:
            return lambda left, right: _decimal(operator, Decimal(left), Decimal(right), of)
        case _:
            return _within_range(_OF_WHOLE[operator], of)


def _decimal(operator: str, left: Decimal, right: Decimal, of: SqlType) -> Decimal:
    if operator in "/%" and not right:
        raise EvaluationError("division by zero")
    with localcontext() as context:
        context.prec, context.rounding = 100, ROUND_HALF_UP
        match operator:
            case "+":
                found = left + right
            case "-":
                found = left - right
            case "*":
                found = left * right
            case "/":
                found = left / right
            case _:
                found = left % right
    return casts.to_decimal(found, of)


def _whole_quotient(left: int, right: int) -> int:
    """Towards zero."""
    if not right:
        raise EvaluationError("division by zero")
    found = abs(left) // abs(right)
    return found if (left < 0) is (right < 0) else -found


def _whole_rest(left: int, right: int) -> int:
    """With the sign of the left one."""
    if not right:
        raise EvaluationError("division by zero")
    found = abs(left) % abs(right)
    return -found if left < 0 else found


def _double_quotient(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.inf if (left > 0) is (math.copysign(1, right) > 0) else -math.inf


def _double_rest(left: float, right: float) -> float:
    return math.fmod(left, right) if right and math.isfinite(left) else math.nan


_OF_WHOLE: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _whole_quotient,
    "%": _whole_rest,
}
_OF_DOUBLES: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _double_quotient,
    "%": _double_rest,
}
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _element(values: list[Any], index: int) -> Any:
    """From 1; from the end where negative; NULL where there is none."""
    if index < 0:
        return values[index] if -index <= len(values) else None
    return values[index - 1] if 0 < index <= len(values) else None


def _logical(operands: list[Evaluate], *, stops_at: bool) -> Evaluate:
    def value(row: Any, environment: Environment) -> bool | None:
        found: bool | None = not stops_at
        for each in operands:
            one: bool | None = each(row, environment)
            if one is stops_at:
                return stops_at
            if one is None:
                found = None
        return found

    return value


def _case(operands: list[Evaluate]) -> Evaluate:
    pairs = list(zip(operands[:-1:2], operands[1:-1:2], strict=True))
    otherwise = operands[-1]

    def value(row: Any, environment: Environment) -> Any:
        for condition, result in pairs:
            if condition(row, environment):
                return result(row, environment)
        return otherwise(row, environment)

    return value


def _in(operands: list[Evaluate]) -> Evaluate:
    wanted, *choices = operands

    def value(row: Any, environment: Environment) -> bool:
        found = wanted(row, environment)
        return found is not None and any(each(row, environment) == found for each in choices)

    return value
