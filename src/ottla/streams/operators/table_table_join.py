"""Join two tables by their key: a table of pairs.

Input 0 is the left table, input 1 the right one. Each change of either gives {"left", "right"}, or a
tombstone when the pair is gone; nothing where there was no pair (Kafka's inner join sends a needless
tombstone there). The timestamp is the later one of both sides. Changes without a key are dropped and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.streams.operators.described import FOR_EVER, SENDS_CHANGES, OperatorText, StateText
from ottla.streams.operators.join_kind import JoinKind
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value


@dataclass(frozen=True, slots=True)
class TableTableJoin:
    """Output: key -> {"left", "right"}, either None where the join allows it, or None."""

    kind: JoinKind = JoinKind.INNER
    stores: tuple[str, ...] = ("left", "right")
    timers: frozenset[TimerKind] = frozenset()

    def described(self, inputs: Sequence[str]) -> OperatorText:
        left, right = inputs
        state = StateText("the rows of both tables", FOR_EVER, None, SENDS_CHANGES)
        what = f"rows of {left} and {right} with the same key"
        return OperatorText(f"{self.kind.name.lower()} join", what, state)

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        key = event.key
        if key is None:
            context.count_dropped()
            return
        sides = [context.store(name) for name in self.stores]
        before = [side.get(key) for side in sides]
        after = list(before)
        if event.value is None:
            after[event.input] = None
            sides[event.input].delete(key)
        else:
            after[event.input] = (event.value, event.timestamp_ms)
            sides[event.input].put(key, after[event.input])
        other = before[1 - event.input]
        timestamp_ms = event.timestamp_ms if other is None else max(event.timestamp_ms, other[1])
        existed, exists = self._pairs(*before), self._pairs(*after)
        if exists:
            left, right = (None if side is None else side[0] for side in after)
            yield Output(key, {"left": left, "right": right}, timestamp_ms)
        elif existed:
            yield Output(key, None, timestamp_ms)

    def _pairs(self, left: Value | None, right: Value | None) -> bool:
        match self.kind:
            case JoinKind.INNER:
                return left is not None and right is not None
            case JoinKind.LEFT:
                return left is not None
            case JoinKind.OUTER:
                return left is not None or right is not None

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        raise AssertionError("sets no timers")
