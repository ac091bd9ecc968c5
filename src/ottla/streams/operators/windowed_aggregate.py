"""Aggregate a stream by key and window: tumbling and hopping windows.

A record belongs to every window [start, start + size) with its timestamp inside. A window is closed once the
watermark has reached its end + grace: records for it are dropped and counted, its state is removed. Closing
is an event-time timer that is set when the window's first record comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ottla.streams.operators.aggregation import Aggregation
from ottla.streams.operators.described import OperatorText, windowed_state
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value
from ottla.streams.operators.windows import HoppingWindows, TumblingWindows


def window_key(key: Value, start_ms: int, end_ms: int) -> dict[str, Value]:
    """The key of a window's value: start and end in milliseconds since 1970."""
    return {"key": key, "start": start_ms, "end": end_ms}


@dataclass(frozen=True, slots=True)
class WindowedAggregate:
    """Input 0: a stream. Output: {key, start, end} -> aggregate.

    `emit_on_close`: once, when the window is closed, rather than with every record.
    """

    windows: TumblingWindows | HoppingWindows
    aggregation: Aggregation
    emit_on_close: bool = False
    stores: tuple[str, ...] = ("windows",)
    timers: frozenset[TimerKind] = frozenset({TimerKind.EVENT_TIME})

    def described(self, inputs: Sequence[str]) -> OperatorText:
        kept = "one value for each key and window"
        state = windowed_state(kept, self.windows, once_closed=self.emit_on_close)
        return OperatorText("aggregate", f"{self.aggregation.in_words} by key and window", state)

    def sending_once(self) -> WindowedAggregate:
        """The same, which sends each window's value once, when the window is closed."""
        return replace(self, emit_on_close=True)

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.key is None or event.value is None or event.timestamp_ms < 0:
            context.count_dropped()
            return
        store = context.store("windows")
        size_ms, grace_ms = self.windows.size_ms, self.windows.grace_ms
        for start_ms in _starts(self.windows, event.timestamp_ms):
            closes_ms = start_ms + size_ms + grace_ms
            if closes_ms <= context.watermark_ms:
                context.count_late()
                continue
            old = store.get(event.key, start_ms)
            if old is None:
                context.set_timer(TimerKind.EVENT_TIME, event.key, closes_ms)
                old = (None, event.timestamp_ms)
            aggregate = self.aggregation.add(old[0], event.value)
            timestamp_ms = max(old[1], event.timestamp_ms)
            if aggregate is None:
                store.delete(event.key, start_ms)
                if old[0] is None:
                    continue
            else:
                store.put(event.key, (aggregate, timestamp_ms), start_ms)
            if not self.emit_on_close:
                yield Output(window_key(event.key, start_ms, start_ms + size_ms), aggregate, timestamp_ms)

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        store = context.store("windows")
        size_ms = self.windows.size_ms
        start_ms = at_ms - self.windows.grace_ms - size_ms
        if (last := store.get(key, start_ms)) is not None:
            store.delete(key, start_ms)
            if self.emit_on_close:
                yield Output(window_key(key, start_ms, start_ms + size_ms), *last)


def _starts(windows: TumblingWindows | HoppingWindows, timestamp_ms: int) -> range:
    """The starts of the windows with `timestamp_ms` inside; none is before 1970, as in Kafka."""
    if isinstance(windows, TumblingWindows):
        start_ms = timestamp_ms - timestamp_ms % windows.size_ms
        return range(start_ms, start_ms + 1)
    advance_ms = windows.advance_ms
    first_ms = max(0, timestamp_ms - windows.size_ms + advance_ms) // advance_ms * advance_ms
    return range(first_ms, timestamp_ms + 1, advance_ms)
