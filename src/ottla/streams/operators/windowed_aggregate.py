"""Aggregate a stream by key and window: tumbling, hopping and cumulating windows.

A record belongs to every window [start, start + size) with its timestamp inside. A window is closed once the
watermark has reached its end + grace: records for it are dropped and counted, its state is removed. Closing
is an event-time timer that is set when the window's first record comes. A window's entry in the store is
named by its start; a cumulating one's by its end, as several have one start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ottla.streams.operators.aggregation import Aggregation
from ottla.streams.operators.described import OperatorText, windowed_state
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value
from ottla.streams.operators.windows import CumulatingWindows, HoppingWindows, TumblingWindows

AlignedWindows = TumblingWindows | HoppingWindows | CumulatingWindows
"""Windows that a time alone says, and no record."""


def window_key(key: Value, start_ms: int, end_ms: int) -> dict[str, Value]:
    """The key of a window's value: start and end in milliseconds since 1970."""
    return {"key": key, "start": start_ms, "end": end_ms}


@dataclass(frozen=True, slots=True)
class WindowedAggregate:
    """Input 0: a stream. Output: {key, start, end} -> aggregate.

    `emit_on_close`: once, when the window is closed, rather than with every record.
    """

    windows: AlignedWindows
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
        store, windows = context.store("windows"), self.windows
        by_end = isinstance(windows, CumulatingWindows)
        for start_ms, end_ms in _windows(windows, event.timestamp_ms):
            closes_ms = end_ms + windows.grace_ms
            if closes_ms <= context.watermark_ms:
                context.count_late()
                continue
            entry = end_ms if by_end else start_ms
            old = store.get(event.key, entry)
            if old is None:
                context.set_timer(TimerKind.EVENT_TIME, event.key, closes_ms)
                old = (None, event.timestamp_ms)
            aggregate = self.aggregation.add(old[0], event.value)
            timestamp_ms = max(old[1], event.timestamp_ms)
            if aggregate is None:
                store.delete(event.key, entry)
                if old[0] is None:
                    continue
            else:
                store.put(event.key, (aggregate, timestamp_ms), entry)
            if not self.emit_on_close:
                yield Output(window_key(event.key, start_ms, end_ms), aggregate, timestamp_ms)

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        store, windows = context.store("windows"), self.windows
        end_ms = at_ms - windows.grace_ms
        if isinstance(windows, CumulatingWindows):
            start_ms, entry = _start(windows, end_ms - 1), end_ms
        else:
            start_ms = entry = end_ms - windows.size_ms
        if (last := store.get(key, entry)) is not None:
            store.delete(key, entry)
            if self.emit_on_close:
                yield Output(window_key(key, start_ms, end_ms), *last)


def _windows(windows: AlignedWindows, timestamp_ms: int) -> Iterator[tuple[int, int]]:
    """Start and end of the windows with `timestamp_ms` inside; none begins before 1970, as in Kafka."""
    match windows:
        case TumblingWindows():
            start_ms = _start(windows, timestamp_ms)
            yield start_ms, start_ms + windows.size_ms
        case HoppingWindows(size_ms=size_ms, advance_ms=advance_ms):
            first_ms = max(0, timestamp_ms - size_ms + advance_ms) // advance_ms * advance_ms
            for start_ms in range(first_ms, timestamp_ms + 1, advance_ms):
                yield start_ms, start_ms + size_ms
        case CumulatingWindows(size_ms=size_ms, step_ms=step_ms):
            start_ms = _start(windows, timestamp_ms)
            first_ms = timestamp_ms // step_ms * step_ms + step_ms
            for end_ms in range(first_ms, start_ms + size_ms + 1, step_ms):
                yield start_ms, end_ms


def _start(windows: TumblingWindows | CumulatingWindows, timestamp_ms: int) -> int:
    return timestamp_ms - timestamp_ms % windows.size_ms
