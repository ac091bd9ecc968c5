"""Plans in JSON and out of it, with the version of their form.

A dataclass is an object with its name under "is"; a type is its text, a decimal {"decimal": "1.50"}, an enum
its value. What a later version of ottla reads of an earlier one's is converted in `_UPGRADES`.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

from ottla.config.errors import UserError
from ottla.sql.catalog.sources import Column, Source, WindowedKeys
from ottla.sql.plan import bound, query_plan, statement_plan
from ottla.sql.types.sql_types import Base, SqlType, parsed_type

VERSION = 2
_UPGRADES: Mapping[int, Callable[[Any], Any]] = {1: lambda plan: plan}
"""By a version: its plan as the next version's. Version 2 added rankings, and windows that cumulate."""

_CLASSES: Mapping[str, type] = {
    each.__name__: each
    for each in (
        *(Column, Source, WindowedKeys),
        *(bound.BoundColumn, bound.BoundLiteral, bound.BoundOperation, bound.BoundCall),
        *(bound.BoundLambda, bound.BoundParameter),
        *(query_plan.FromSource, query_plan.JoinWindow, query_plan.Join, query_plan.Window),
        *(query_plan.Aggregate, query_plan.Named, query_plan.Projected, query_plan.QueryPlan),
        *(query_plan.Order, query_plan.Ranking),
        *(statement_plan.PutSource, statement_plan.PutQuery, statement_plan.RunQuery),
        *(statement_plan.WriteRow, statement_plan.RemoveSource, statement_plan.PutType),
        *(statement_plan.RemoveType, statement_plan.Nothing),
    )
}


class StoredPlanError(UserError):
    """A stored plan that this version can't read."""


def stored(plan: statement_plan.StatementPlan, statement: str) -> dict[str, Any]:
    """A plan and the statement that it was made of, as JSON's values."""
    return {"version": VERSION, "statement": statement, "plan": _written(plan)}


def restored(found: Mapping[str, Any]) -> statement_plan.StatementPlan:
    """The plan of what `stored` made, by this version or an earlier one. Raises StoredPlanError."""
    version = found.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise StoredPlanError(f"the plan has version {version}, this ottla reads versions 1 to {VERSION}")
    plan = found.get("plan")
    for each in range(version, VERSION):
        plan = _UPGRADES[each](plan)
    try:
        read = _read(plan, None)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise StoredPlanError(f"the stored plan is broken: {error}") from error
    if not isinstance(read, statement_plan.StatementPlan):
        raise StoredPlanError("the stored plan is no plan of a statement")
    return read


def _written(value: Any) -> Any:
    match value:
        case SqlType(base=Base.LAMBDA):
            return {"lambda": [_written(each) for each in value.elements]}
        case SqlType():
            return str(value)
        case Decimal():
            return {"decimal": str(value)}
        case float():
            return {"double": repr(value)}
        case Enum():
            return value.value
        case tuple():
            return [_written(each) for each in value]
        case None | bool() | int() | str():
            return value
    if type(value).__name__ not in _CLASSES:
        raise StoredPlanError(f"{type(value).__name__} is not stored")
    fields = {each.name: _written(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return {"is": type(value).__name__, **fields}


def _read(value: Any, wanted: Any) -> Any:
    """A value of the type that a field is declared with."""
    if isinstance(value, dict):
        if "decimal" in value:
            return Decimal(value["decimal"])
        if "double" in value:
            return float(value["double"])
        if "lambda" in value:
            elements = tuple(_read(each, SqlType) for each in value["lambda"])
            return SqlType(Base.LAMBDA, elements=elements)
        made = _CLASSES[value["is"]]
        known = _fields(made)
        given = {name: _read(each, known[name]) for name, each in value.items() if name != "is"}
        return made(**given)
    if value is None:
        return None
    for choice in _choices(wanted):
        if choice is SqlType:
            return parsed_type(value)
        if isinstance(choice, type) and issubclass(choice, Enum):
            return choice(value)
        if typing.get_origin(choice) is tuple and isinstance(value, list):
            inner = typing.get_args(choice)
            if len(inner) == 2 and inner[1] is Ellipsis:
                return tuple(_read(each, inner[0]) for each in value)
            return tuple(_read(each, of) for each, of in zip(value, inner, strict=True))
    return value


def _choices(wanted: Any) -> tuple[Any, ...]:
    return typing.get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)


@functools.cache
def _fields(made: type) -> dict[str, Any]:
    return typing.get_type_hints(made)
