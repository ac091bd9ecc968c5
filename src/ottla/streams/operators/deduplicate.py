"""Let the first record of a key pass and drop those that follow within a time.

Time is event time: a record is a duplicate when one of its key passed that is at most `within_ms` older or
younger. What passed is forgotten when the watermark has left it behind by that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """Input 0: a stream. Output: its records, unchanged; duplicates leave no trace."""

    within_ms: int
    stores: tuple[str, ...] = ("passed",)
    timers: frozenset[TimerKind] = frozenset({TimerKind.EVENT_TIME})

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.key is None:
            context.count_dropped()
            return
        store = context.store("passed")
        for passed_ms, _ in store.entries(event.key):
            assert isinstance(passed_ms, int)
            if abs(passed_ms - event.timestamp_ms) <= self.within_ms:
                return
        if event.timestamp_ms + self.within_ms > context.watermark_ms:
            store.put(event.key, True, event.timestamp_ms)
            context.set_timer(TimerKind.EVENT_TIME, event.key, event.timestamp_ms + self.within_ms + 1)
        else:
            # What passed around that time may be forgotten: nobody can tell any more.
            context.count_late()
            return
        yield Output(event.key, event.value, event.timestamp_ms, event.headers)

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        context.store("passed").delete(key, at_ms - self.within_ms - 1)
        return iter(())
