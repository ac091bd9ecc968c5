"""Aggregates in Python: all of a query's in one accumulator, which is kept as JSON's text.

Decimals, bytes, and dicts with keys that are no texts are told apart by a tag, so that what is read is what
was written.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ottla.sql.functions import casts
from ottla.sql.functions.function import AggregateFunction, AggregateVariant, Function
from ottla.sql.functions.registry import BUILT_IN
from ottla.sql.plan.query_plan import Aggregate
from ottla.sql.types.sql_types import Base, SqlType


@dataclass(slots=True)
class Accumulators:
    """The aggregates of a query over structs of their arguments (`argument_name`)."""

    aggregates: tuple[Aggregate, ...]
    user_functions: Mapping[str, Function]
    _variants: list[AggregateVariant] | None = field(default=None, repr=False)

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.aggregates, dict(self.user_functions))

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.aggregates, self.user_functions = state
        self._variants = None

    def new(self) -> str:
        """The accumulator of no rows."""
        return dumped([each.new() for each in self.variants])

    def add(self, accumulated: str, row: Mapping[str, Any]) -> str:
        """With one more row."""
        return self._changed(accumulated, row, lambda variant: variant.add)

    def remove(self, accumulated: str, row: Mapping[str, Any]) -> str:
        """Without a row."""
        return self._changed(accumulated, row, lambda variant: variant.remove or variant.add)

    def merge(self, earlier: str, later: str) -> str:
        """Two sessions as one."""
        pairs = zip(self.variants, loaded(earlier), loaded(later), strict=True)
        return dumped([variant.merge(one, other) for variant, one, other in pairs])

    def results(self, accumulated: str) -> dict[str, Any]:
        """The values of the aggregates."""
        found = {}
        for each, variant, value in zip(self.aggregates, self.variants, loaded(accumulated), strict=True):
            found[each.name] = _fitted(variant.result(value), each.type)
        return found

    @property
    def variants(self) -> list[AggregateVariant]:
        if self._variants is None:
            self._variants = [variant_of(each, self.user_functions) for each in self.aggregates]
        return self._variants

    def _changed(
        self, accumulated: str, row: Mapping[str, Any], step: Callable[[AggregateVariant], Callable[..., Any]]
    ) -> str:
        values = []
        for number, (each, variant, value) in enumerate(
            zip(self.aggregates, self.variants, loaded(accumulated), strict=True)
        ):
            arguments = [_plain(row[argument_name(number, at)]) for at in range(len(each.arguments))]
            values.append(step(variant)(value, *arguments))
        return dumped(values)


def argument_name(aggregate: int, argument: int) -> str:
    """The field of an aggregate's argument."""
    return f"A{aggregate}_{argument}"


def variant_of(aggregate: Aggregate, user_functions: Mapping[str, Function]) -> AggregateVariant:
    """The variant that a plan names. Raises KeyError where it is no more."""
    function = user_functions.get(aggregate.function) or BUILT_IN.get(aggregate.function)
    if isinstance(function, AggregateFunction):
        for each in function.variants:
            if each.signature.text == aggregate.signature:
                return each
    raise KeyError(f"there is no aggregate {aggregate.function}{aggregate.signature} any more")


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def _fitted(value: Any, of: SqlType) -> Any:
    """A result in its type; one that does not fit is NULL."""
    if value is None:
        return None
    limit = {Base.INTEGER: 2**31, Base.BIGINT: 2**63}.get(of.base)
    if limit is not None:
        return value if -limit <= value < limit else None
    if of.base is Base.DECIMAL:
        try:
            return casts.to_decimal(value, of)
        except ValueError:
            return None
    return value


def dumped(value: Any) -> str:
    """An accumulator as a text."""
    return json.dumps(_tagged(value), separators=(",", ":"), ensure_ascii=False)


def loaded(text: str) -> Any:
    """What `dumped` has written."""
    return _untagged(json.loads(text))


def _tagged(value: Any) -> Any:
    match value:
        case Decimal():
            return {"d": str(value)}
        case bytes():
            return {"b": base64.b64encode(value).decode()}
        case float() if not math.isfinite(value):
            return {"f": repr(value)}
        case list() | tuple():
            return [_tagged(each) for each in value]
        case dict():
            return {"m": [[_tagged(key), _tagged(each)] for key, each in value.items()]}
        case _:
            return value


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(each) for each in value]
    if not isinstance(value, dict):
        return value
    ((tag, inner),) = value.items()
    match tag:
        case "d":
            return Decimal(inner)
        case "b":
            return base64.b64decode(inner)
        case "f":
            return float(inner)
        case _:
            return {_untagged(key): _untagged(each) for key, each in inner}
