"""Stateful operators in Python: keyed events and the time in, changes out, state in named stores.

Operators are plain Python without Spark, clock or I/O: the host (`streams/host/keyed_host.py`) runs them
inside transformWithState, tests run them over dictionaries. Values have Python's forms of Spark's types: dict
for a struct, list, int, float, str, bytes, bool, datetime, date, Decimal, None.

Rules the host keeps:
- Events of one key come in the order of their inputs' partitions; those of several partitions are merged by
  the smaller timestamp first, the lower input first at equal timestamps, as Kafka Streams does.
- `context.watermark_ms` is the watermark this batch began with, -1 before there is one. An operator with
  windows drops records that are late by it and says so (`count_late`); the host drops nothing.
- A batch's changes to stores become visible together with the batch, or not at all.
- `on_timer` is called once a timer's time has passed (event time: the watermark; processing time: the
  batch's time), in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from ottla.streams.operators.described import OperatorText

Value = Any
"""A Python value of a Spark type."""


@dataclass(frozen=True, slots=True)
class Event:
    """One record of input number `input`. `value` None is a tombstone where that input is a table."""

    input: int
    key: Value
    value: Value
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """One record that an operator sends on."""

    key: Value
    value: Value
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class TimerKind(Enum):
    """The time that a timer waits for."""

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"


class Store(Protocol):
    """State of the current key: that of the event or timer which the operator is called with.

    `name` spaces are apart. Entries are (key, sub_key) -> value; sub_key orders the entries of one key: a
    window's start, a subscriber. Sub-keys of one store are all int, all str or all bytes (or the default).
    Values are plain (see `Value`; tuples and sets too). A value from `get` may be changed in place
    only if it is `put` again.
    """

    def get(self, key: Value, sub_key: int | str | bytes = b"") -> Value | None: ...

    def put(self, key: Value, value: Value, sub_key: int | str | bytes = b"") -> None: ...

    def delete(self, key: Value, sub_key: int | str | bytes = b"") -> None: ...

    def entries(self, key: Value) -> Iterator[tuple[int | str | bytes, Value]]:
        """All of one key's entries in the order of their sub-keys, as they are now: changes may follow."""
        ...

    def size(self) -> int:
        """How many entries the store has for all keys of the host's bucket."""
        ...


class Context(Protocol):
    """The host, as an operator sees it."""

    @property
    def watermark_ms(self) -> int: ...

    @property
    def processing_time_ms(self) -> int:
        """The batch's time: the same for the whole batch, also when it is repeated."""
        ...

    def store(self, name: str) -> Store: ...

    def set_timer(self, kind: TimerKind, key: Value, at_ms: int) -> None:
        """Have `on_timer` called for `key` at that time; setting it twice is setting it once."""
        ...

    def cancel_timer(self, kind: TimerKind, key: Value, at_ms: int) -> None: ...

    def count_late(self) -> None:
        """A record was dropped because its window is closed; it shows in the query's metrics."""
        ...

    def count_dropped(self) -> None:
        """A record was dropped that has no meaning here (no key, no value); it shows in the metrics."""
        ...


class KeyedOperator(Protocol):
    """A stateful operator: picklable, with no state but its configuration."""

    def described(self, inputs: Sequence[str]) -> OperatorText:
        """The operator in words. inputs: the names of the nodes that it reads."""
        ...

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of its stores."""
        ...

    @property
    def timers(self) -> frozenset[TimerKind]:
        """The timers that it sets. With EVENT_TIME its query needs a watermark."""
        ...

    def on_event(self, event: Event, context: Context) -> Iterable[Output]: ...

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterable[Output]: ...
