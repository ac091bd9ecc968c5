"""How values become an aggregate: Kafka's initializer, aggregator, merger and subtractor as one object.

`Count`, `Reduce` and `Aggregate` serve every aggregating operator. An aggregate of None is none: it removes
the entry and sends a tombstone, as in Kafka.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.streams.operators.operator import Value
from ottla.streams.operators.words import function_name

_IMMUTABLE = frozenset({int, float, str, bytes, bool, type(None)})


class Aggregation(Protocol):
    """How an aggregating operator puts values together."""

    @property
    def in_words(self) -> str:
        """The work on records, as a verb with its object."""
        ...

    def add(self, aggregate: Value | None, value: Value) -> Value | None:
        """The aggregate with `value`; None is the aggregate of nothing."""
        ...

    def merge(self, earlier: Value | None, later: Value | None) -> Value | None:
        """One aggregate of two sessions. Raises TypeError if there is no way to."""
        ...

    def subtract(self, aggregate: Value, value: Value) -> Value | None:
        """The aggregate without `value`. Raises TypeError if there is no way to."""
        ...


@dataclass(frozen=True, slots=True)
class Count:
    """How many values."""

    @property
    def in_words(self) -> str:
        return "counts records"

    def add(self, aggregate: Value | None, value: Value) -> Value:
        return 1 if aggregate is None else aggregate + 1

    def merge(self, earlier: Value | None, later: Value | None) -> Value:
        return (earlier or 0) + (later or 0)

    def subtract(self, aggregate: Value, value: Value) -> Value:
        return aggregate - 1


@dataclass(frozen=True, slots=True)
class Reduce:
    """Two values to one: `function(aggregate, value)`; the first value is the first aggregate.

    `subtractor(aggregate, value)` takes a value out again: tables that are grouped anew need it.
    """

    function: Callable[[Any, Any], Any]
    subtractor: Callable[[Any, Any], Any] | None = None

    @property
    def in_words(self) -> str:
        return f"reduces records by {function_name(self.function)}"

    def add(self, aggregate: Value | None, value: Value) -> Value | None:
        return value if aggregate is None else self.function(aggregate, value)

    def merge(self, earlier: Value | None, later: Value | None) -> Value | None:
        if earlier is None or later is None:
            return later if earlier is None else earlier
        return self.function(earlier, later)

    def subtract(self, aggregate: Value, value: Value) -> Value | None:
        if self.subtractor is None:
            raise TypeError("a reduce of a table that is grouped anew needs a subtractor")
        return self.subtractor(aggregate, value)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of any type: `adder(aggregate, value)`, which begins with `initializer()`.

    `merger(earlier, later)` joins two sessions, `subtractor(aggregate, value)` takes a value out again.
    """

    initializer: Callable[[], Any]
    adder: Callable[[Any, Any], Any]
    merger: Callable[[Any, Any], Any] | None = None
    subtractor: Callable[[Any, Any], Any] | None = None

    @property
    def in_words(self) -> str:
        return f"aggregates records by {function_name(self.adder)}"

    def add(self, aggregate: Value | None, value: Value) -> Value | None:
        return self.adder(self.initializer() if aggregate is None else aggregate, value)

    def merge(self, earlier: Value | None, later: Value | None) -> Value | None:
        if earlier is None or later is None:
            return later if earlier is None else earlier
        if self.merger is None:
            raise TypeError("an aggregate of session windows needs a merger")
        return self.merger(earlier, later)

    def subtract(self, aggregate: Value, value: Value) -> Value | None:
        if self.subtractor is None:
            raise TypeError("an aggregate of a table that is grouped anew needs a subtractor")
        return self.subtractor(aggregate, value)


def own_copy(aggregate: Value) -> Value:
    """The aggregate for a second window: an adder may change it in place."""
    return aggregate if type(aggregate) in _IMMUTABLE else copy.deepcopy(aggregate)
