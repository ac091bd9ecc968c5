"""What a function is: its name, its signatures, and how it is worked out.

A scalar function takes and gives Python's values (types/sql_types.py). One that raises gives NULL for the
whole expression it stands in, and a line in the processing log. Without `nulls` a NULL argument gives NULL
and the function is not called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.sql.functions.signature import Match, Returns, Signature, match, signature
from ottla.sql.functions.vectors import Vectors
from ottla.sql.types.sql_types import SqlType


@dataclass(frozen=True, slots=True)
class Variant:
    """One signature and its evaluator.

    typed: `evaluate` gets the types of its arguments first. vectors: it is a function over batches.
    """

    signature: Signature
    evaluate: Callable[..., Any]
    nulls: bool = False
    typed: bool = False
    vectors: Vectors | None = None


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function of one row's values. stable: equal arguments give equal results."""

    name: str
    summary: str
    variants: tuple[Variant, ...]
    group: str = "user-defined"
    stable: bool = True

    def resolve(self, given: Sequence[SqlType]) -> tuple[int, Match] | None:
        """The variant that fits with the fewest casts, and how; None if none does."""
        return resolve([each.signature for each in self.variants], given)


@dataclass(frozen=True, slots=True)
class AggregateVariant:
    """One signature of an aggregate.

    new() makes an accumulator out of JSON's values, add(accumulator, *arguments) gives the next one,
    merge(first, second) one of two sessions, result(accumulator) the value, remove takes a row out again: for
    tables; None where that can't be. constants: how many arguments at the end are the same for all rows.
    """

    signature: Signature
    new: Callable[[], Any]
    add: Callable[..., Any]
    merge: Callable[[Any, Any], Any]
    result: Callable[[Any], Any]
    remove: Callable[..., Any] | None = None
    constants: int = 0


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """A function of the rows of a group."""

    name: str
    summary: str
    variants: tuple[AggregateVariant, ...]
    group: str = "aggregates"

    def resolve(self, given: Sequence[SqlType]) -> tuple[int, Match] | None:
        """The variant that fits with the fewest casts, and how; None if none does."""
        return resolve([each.signature for each in self.variants], given)


@dataclass(frozen=True, slots=True)
class TableFunction:
    """A function that gives several rows for one: `evaluate` returns a list, None is no row."""

    name: str
    summary: str
    variants: tuple[Variant, ...]
    group: str = "table functions"

    def resolve(self, given: Sequence[SqlType]) -> tuple[int, Match] | None:
        """The variant that fits with the fewest casts, and how; None if none does."""
        return resolve([each.signature for each in self.variants], given)


Function = ScalarFunction | AggregateFunction | TableFunction


def resolve(signatures: Sequence[Signature], given: Sequence[SqlType]) -> tuple[int, Match] | None:
    """The signature that fits with the fewest casts, and how; None if none does."""
    found = [
        (number, fit) for number, each in enumerate(signatures) if (fit := match(each, given)) is not None
    ]
    return min(found, key=lambda each: each[1].casts, default=None)


def scalar(
    name: str, summary: str, *variants: Variant, group: str = "user-defined", stable: bool = True
) -> ScalarFunction:
    """A scalar function of the catalogue."""
    return ScalarFunction(name, summary, variants, group, stable)


def on(
    text: str,
    evaluate: Callable[..., Any],
    *,
    nulls: bool = False,
    returns: Returns | None = None,
) -> Variant:
    """A variant by the text of its signature."""
    return Variant(signature(text, returns), evaluate, nulls)
