"""All functions by name: ksqlDB's, and the user's in Python."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.config.errors import UserError
from ottla.sql.functions.aggregates import AGGREGATES
from ottla.sql.functions.collections import COLLECTIONS, NULLS
from ottla.sql.functions.dates import DATES
from ottla.sql.functions.function import (
    AggregateFunction,
    AggregateVariant,
    Function,
    ScalarFunction,
    TableFunction,
    Variant,
)
from ottla.sql.functions.json_text import JSON
from ottla.sql.functions.numeric import NUMERIC
from ottla.sql.functions.signature import signature
from ottla.sql.functions.strings import STRINGS
from ottla.sql.functions.tables import TABLES
from ottla.sql.functions.urls import URLS
from ottla.sql.functions.vectors import Vectors, vector_kind
from ottla.sql.types.sql_types import Base

_ALL: tuple[Function, ...] = (
    *NUMERIC,
    *STRINGS,
    *JSON,
    *COLLECTIONS,
    *NULLS,
    *DATES,
    *URLS,
    *TABLES,
    *AGGREGATES,
)
BUILT_IN: Mapping[str, Function] = {each.name: each for each in _ALL}


class FunctionError(UserError):
    """A function that can't be registered as it is given."""


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions that statements may call. A registry never changes: `with_…` gives another one."""

    named: Mapping[str, Function] = field(default_factory=lambda: BUILT_IN)

    def find(self, name: str) -> Function | None:
        return self.named.get(name)

    def close_to(self, name: str) -> str | None:
        """The name that may have been meant."""
        found = difflib.get_close_matches(name, self.named, 1, 0.7)
        return found[0] if found else None

    def with_scalar(
        self,
        name: str,
        signatures: Iterable[str],
        evaluate: Callable[..., Any],
        *,
        summary: str = "",
        nulls: bool = False,
    ) -> Functions:
        """With a function of one row (UDF): Python's values in and out, None for NULL.

        signatures: `"(STRING, INT) -> STRING"`, with letters for any type. nulls: call it for NULLs too. A
        function whose parameters are annotated as pandas Series or pyarrow arrays is called for batches of
        rows. Raises FunctionError.
        """
        try:
            kind = vector_kind(evaluate)
        except ValueError as problem:
            raise FunctionError(f"{_name(name)}: {problem}") from None
        vectors = None if kind is None else Vectors(kind, evaluate, nulls)
        made = tuple(Variant(signature(each), evaluate, nulls, vectors=vectors) for each in signatures)
        if vectors is not None and any(_takes_lambda(each) for each in made):
            raise FunctionError(f"{_name(name)}: a function over batches takes no lambda")
        return self._with(ScalarFunction(_name(name), summary, made))

    def with_table_function(
        self, name: str, signatures: Iterable[str], evaluate: Callable[..., Any], *, summary: str = ""
    ) -> Functions:
        """With a function of a row that returns a list, a row for each element (UDTF).

        Raises FunctionError.
        """
        made = tuple(Variant(signature(each), evaluate) for each in signatures)
        return self._with(TableFunction(_name(name), summary, made, group="user-defined"))

    def with_aggregate(
        self, name: str, variants: Iterable[AggregateVariant], *, summary: str = ""
    ) -> Functions:
        """With a function of a group's rows (UDAF), of the variants that `aggregate` makes.

        Raises FunctionError.
        """
        return self._with(AggregateFunction(_name(name), summary, tuple(variants), group="user-defined"))

    def _with(self, made: Function) -> Functions:
        if not made.variants:
            raise FunctionError(f"{made.name} has no signature")
        if made.name in BUILT_IN:
            raise FunctionError(f"{made.name} is a function of the language: choose another name")
        return replace(self, named={**self.named, made.name: made})


def aggregate(
    text: str,
    new: Callable[[], Any],
    add: Callable[..., Any],
    merge: Callable[[Any, Any], Any],
    result: Callable[[Any], Any] | None = None,
    *,
    remove: Callable[..., Any] | None = None,
) -> AggregateVariant:
    """One signature of a user's aggregate; see AggregateVariant for what the functions take and give.

    Accumulators are of None, bool, int, float, str, Decimal, lists, and dicts with texts as keys.
    """
    return AggregateVariant(signature(text), new, add, merge, result or (lambda value: value), remove)


def _takes_lambda(variant: Variant) -> bool:
    return any(each.base is Base.LAMBDA for each in variant.signature.parameters)


def _name(name: str) -> str:
    found = name.upper()
    if not found.isidentifier():
        raise FunctionError(f"{name!r} is no name of a function")
    return found
