"""Aggregate a stream by key and sliding window (KIP-450): which windows there are depends on the records.

With a difference of d, these windows exist, both ends inside:
- for each record at t >= d: [t - d, t], its left window;
- for records at t < d: all share [0, d];
- for each record at t: [t + 1, t + 1 + d], its right window, if there is a record in it.

A new record at t updates every window around it, and makes those that exist because of it: its left window,
its right window if later records are there already, and the right window of the record before it. The content
of a new window is known from one that exists: a left window has that of the last window that ended before t
(or it is empty), a right window that of the last window around t. Windows are remembered for as
long as a record may come whose windows are made from them, which is longer than they are open. A window is
closed when the watermark has passed its end + grace, strictly; a record is late when a window that starts
with it would be closed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ottla.streams.operators.aggregation import Aggregation, own_copy
from ottla.streams.operators.described import OperatorText, windowed_state
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value
from ottla.streams.operators.windowed_aggregate import window_key
from ottla.streams.operators.windows import SlidingWindows


@dataclass(frozen=True, slots=True)
class SlidingAggregate:
    """Input 0: a stream. Output: {key, start, end} -> aggregate.

    `emit_on_close`: once, when the window is closed, rather than with every record.
    """

    windows: SlidingWindows
    aggregation: Aggregation
    emit_on_close: bool = False
    stores: tuple[str, ...] = ("windows",)
    timers: frozenset[TimerKind] = frozenset({TimerKind.EVENT_TIME})

    def described(self, inputs: Sequence[str]) -> OperatorText:
        kept = "one value for each key and window"
        state = windowed_state(kept, self.windows, once_closed=self.emit_on_close)
        return OperatorText("aggregate", f"{self.aggregation.in_words} by key and window", state)

    def sending_once(self) -> SlidingAggregate:
        """The same, which sends each window's value once, when the window is closed."""
        return replace(self, emit_on_close=True)

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.key is None or event.value is None or event.timestamp_ms < 0:
            context.count_dropped()
            return
        at_ms, difference_ms = event.timestamp_ms, self.windows.difference_ms
        if self._closed(at_ms, context):
            context.count_late()
            return
        store = context.store("windows")
        windows: dict[int, tuple[Value, int]] = {}
        for start_ms, window in store.entries(event.key):
            assert isinstance(start_ms, int)
            if at_ms - 2 * difference_ms <= start_ms <= at_ms + 1:
                windows[start_ms] = window

        around = [start_ms for start_ms in windows if start_ms <= at_ms <= start_ms + difference_ms]
        made: dict[int, tuple[Value | None, int]] = {}
        left_ms = max(0, at_ms - difference_ms)
        before, previous_ms = self._before(windows, at_ms)
        if left_ms not in windows:
            made[left_ms] = (before, at_ms)
        if previous_ms is not None and previous_ms + 1 not in windows and previous_ms + 1 > left_ms:
            made[previous_ms + 1] = (None, at_ms)
        changed: list[int] = []
        after = windows[around[-1]] if around else None  # before this record is in it
        right_ms = at_ms + 1
        if right_ms not in windows and after is not None and after[1] > at_ms:
            self._put(event.key, right_ms, (own_copy(after[0]), after[1]), context)
            changed.append(right_ms)
        for start_ms in [*around, *made]:
            aggregate, latest_ms = windows[start_ms] if start_ms in windows else made[start_ms]
            if start_ms in made and aggregate is not None:
                aggregate = own_copy(aggregate)
            aggregate = self.aggregation.add(aggregate, event.value)
            self._put(event.key, start_ms, (aggregate, max(latest_ms, at_ms)), context)
            changed.append(start_ms)

        for start_ms in sorted(changed):
            if not self.emit_on_close and not self._closed(start_ms, context):
                aggregate, latest_ms = store.get(event.key, start_ms) or (None, at_ms)
                yield Output(window_key(event.key, start_ms, start_ms + difference_ms), aggregate, latest_ms)

    def _before(self, windows: dict[int, tuple[Value, int]], at_ms: int) -> tuple[Value | None, int | None]:
        """The aggregate of the left window of `at` so far, and the time of its last record; or None."""
        before: Value | None = None
        previous_ms: int | None = None
        for start_ms, (aggregate, latest_ms) in windows.items():
            if latest_ms < at_ms and (previous_ms is None or latest_ms > previous_ms):
                previous_ms = latest_ms
            if start_ms + self.windows.difference_ms < at_ms:
                before = aggregate
        if previous_ms is None or previous_ms < at_ms - self.windows.difference_ms:
            return None, None
        return before, previous_ms

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        store, difference_ms = context.store("windows"), self.windows.difference_ms
        if self.emit_on_close:
            start_ms = at_ms - self._closes_ms(0)
            if (last := store.get(key, start_ms)) is not None:
                yield Output(window_key(key, start_ms, start_ms + difference_ms), *last)
        forgotten_ms = at_ms - self._forgotten_ms(0)
        store.delete(key, forgotten_ms)

    def _put(self, key: Value, start_ms: int, window: tuple[Value, int], context: Context) -> None:
        store = context.store("windows")
        if store.get(key, start_ms) is None:
            if self.emit_on_close and not self._closed(start_ms, context):
                context.set_timer(TimerKind.EVENT_TIME, key, self._closes_ms(start_ms))
            context.set_timer(TimerKind.EVENT_TIME, key, self._forgotten_ms(start_ms))
        store.put(key, window, start_ms)

    def _closed(self, start_ms: int, context: Context) -> bool:
        return self._closes_ms(start_ms) <= context.watermark_ms

    def _closes_ms(self, start_ms: int) -> int:
        """The first watermark with which the window is closed."""
        return start_ms + self.windows.difference_ms + self.windows.grace_ms + 1

    def _forgotten_ms(self, start_ms: int) -> int:
        """The first watermark with which no record is accepted any more that needs to know the window."""
        return start_ms + 3 * self.windows.difference_ms + self.windows.grace_ms + 1
