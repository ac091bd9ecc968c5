"""Aggregate a stream by key and session: records at most a gap apart.

A record merges all sessions that are at most the gap away from it; their keys get tombstones, the merged one
its aggregate (Kafka sends a tombstone for a session too whose key does not change: here it is just updated).
A session is closed when the watermark has passed its end + gap + grace, which is strictly later, as in Kafka.
A closed session is not merged with any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ottla.streams.operators.aggregation import Aggregation
from ottla.streams.operators.described import OperatorText, windowed_state
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value
from ottla.streams.operators.windowed_aggregate import window_key
from ottla.streams.operators.windows import SessionWindows


@dataclass(frozen=True, slots=True)
class SessionAggregate:
    """Input 0: a stream. Output: {key, start, end} -> aggregate, end being the last record's time.

    `emit_on_close`: once, when the session is closed, and then no tombstones.
    """

    windows: SessionWindows
    aggregation: Aggregation
    emit_on_close: bool = False
    stores: tuple[str, ...] = ("sessions",)
    timers: frozenset[TimerKind] = frozenset({TimerKind.EVENT_TIME})

    def described(self, inputs: Sequence[str]) -> OperatorText:
        kept = "one value for each key and window"
        state = windowed_state(kept, self.windows, once_closed=self.emit_on_close)
        return OperatorText("aggregate", f"{self.aggregation.in_words} by key and window", state)

    def sending_once(self) -> SessionAggregate:
        """The same, which sends each window's value once, when the window is closed."""
        return replace(self, emit_on_close=True)

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.key is None or event.value is None or event.timestamp_ms < 0:
            context.count_dropped()
            return
        store, gap_ms = context.store("sessions"), self.windows.gap_ms
        start_ms = end_ms = event.timestamp_ms
        near: list[tuple[int, int]] = []
        aggregate: Value | None = None
        for session_start_ms, (session_end_ms, value) in store.entries(event.key):
            assert isinstance(session_start_ms, int)
            if session_start_ms - gap_ms > event.timestamp_ms:
                break
            if session_end_ms + gap_ms < event.timestamp_ms:
                continue
            if self._closes_ms(session_end_ms) <= context.watermark_ms:
                continue
            near.append((session_start_ms, session_end_ms))
            start_ms, end_ms = min(start_ms, session_start_ms), max(end_ms, session_end_ms)
            aggregate = self.aggregation.merge(aggregate, value)
        if self._closes_ms(end_ms) <= context.watermark_ms:
            context.count_late()
            return
        aggregate = self.aggregation.add(aggregate, event.value)
        for session in near:
            if session == (start_ms, end_ms) and aggregate is not None:
                continue
            store.delete(event.key, session[0])
            context.cancel_timer(TimerKind.EVENT_TIME, event.key, self._closes_ms(session[1]))
            if not self.emit_on_close:
                yield Output(window_key(event.key, *session), None, session[1])
        if aggregate is None:
            return
        store.put(event.key, (end_ms, aggregate), start_ms)
        if (start_ms, end_ms) not in near:
            context.set_timer(TimerKind.EVENT_TIME, event.key, self._closes_ms(end_ms))
        if not self.emit_on_close:
            yield Output(window_key(event.key, start_ms, end_ms), aggregate, end_ms)

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        store = context.store("sessions")
        for start_ms, (end_ms, aggregate) in list(store.entries(key)):
            assert isinstance(start_ms, int)
            if self._closes_ms(end_ms) == at_ms:
                store.delete(key, start_ms)
                if self.emit_on_close:
                    yield Output(window_key(key, start_ms, end_ms), aggregate, end_ms)

    def _closes_ms(self, end_ms: int) -> int:
        """The first watermark with which the session is closed."""
        return end_ms + self.windows.gap_ms + self.windows.grace_ms + 1
