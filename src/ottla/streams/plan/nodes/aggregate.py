"""Aggregates by key, or by key and window, of Spark's own functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from ottla.streams.operators.described import windowed_state
from ottla.streams.operators.windows import SessionWindows, Windows
from ottla.streams.plan.node import EventTime, Facts, Node, NodeText, State, Windowed
from ottla.streams.plan.records import Record

if TYPE_CHECKING:
    from pyspark.sql import Column


class Emit(Enum):
    """When an aggregate's value goes on."""

    CHANGES = "changes"
    """After each batch that changed it."""
    WINDOW_CLOSE = "window close"
    """Once, when its window is closed."""


Aggregates = Callable[[Record], "Mapping[str, Column]"]
"""Names a struct's fields and gives a Spark aggregate for each."""


@dataclass(frozen=True, slots=True, eq=False)
class NativeAggregate:
    """A table by key, or by key and window, of Spark aggregates.

    `aggregates` None counts, and the value is a number; else the value is a struct. `single`: the one field
    of `aggregates` is the value itself.
    """

    name: str
    input: Node
    windows: Windows | None
    aggregates: Aggregates | None
    single: bool
    emit: Emit

    table = True

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> NativeAggregate:
        return replace(self, input=inputs[0], name=name or self.name)

    @property
    def watermark_delay_ms(self) -> int:
        """By how much the watermark is behind event time.

        The grace, and for sessions the millisecond that makes `<` of `<=`.
        """
        if self.windows is None:
            return 0
        grace_ms = self.windows.grace_ms
        return grace_ms + 1 if isinstance(self.windows, SessionWindows) else grace_ms

    @property
    def facts(self) -> Facts:
        identity = {
            "operator": "Spark aggregate",
            "windows": str(self.windows),
            "emit": self.emit.value,
        }
        if self.windows is None:
            return Facts(State(identity, two_steps=True))
        delay_ms = self.watermark_delay_ms
        event_time = EventTime(delay_ms, delay_ms + self.windows.length_ms)
        windowed = Windowed(self.windows, self._sending_once)
        return Facts(State(identity, event_time, windowed, two_steps=True))

    @property
    def text(self) -> NodeText:
        work = "counts records" if self.aggregates is None else "Spark's aggregates"
        by = "key" if self.windows is None else "key and window"
        once = self.emit is Emit.WINDOW_CLOSE
        state = windowed_state(f"one row for each {by}", self.windows, once_closed=once)
        return NodeText("aggregate", state.windows_in_short or "by key", f"{work} by {by}", state)

    def _sending_once(self, name: str) -> NativeAggregate:
        return replace(self, name=name, emit=Emit.WINDOW_CLOSE)
