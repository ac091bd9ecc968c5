"""Hold back a table's changes: until a window closes, or for a time.

UntilWindowCloses gives exactly one record a window, its last. A change that comes after its window's close
is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ottla.pipeline.streams.operators.operator import Context, Event, Output, TimerKind, Value

_EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class UntilWindowCloses:
    """Input 0: {"key", "start", "end"} -> value. Output: the same, once, when end + `after_end_ms` passed.

    Windows that were read from a topic: their start and end are datetimes without a zone, in UTC.
    `after_end_ms`: the grace of tumbling and hopping windows, gap + grace + 1 of sessions, grace + 1 of
    sliding windows.
    """

    after_end_ms: int
    stores: tuple[str, ...] = ("last",)
    timers: frozenset[TimerKind] = frozenset({TimerKind.EVENT_TIME})

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.key is None:
            context.count_dropped()
            return iter(())
        closes_ms = (event.key["end"] - _EPOCH) // _MILLISECOND + self.after_end_ms
        if closes_ms <= context.watermark_ms:
            context.count_late()
        elif event.value is None:
            context.store("last").delete(event.key)
            context.cancel_timer(TimerKind.EVENT_TIME, event.key, closes_ms)
        else:
            context.store("last").put(event.key, (event.value, event.timestamp_ms, event.headers))
            context.set_timer(TimerKind.EVENT_TIME, event.key, closes_ms)
        return iter(())

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        last = context.store("last").get(key)
        if last is not None:
            context.store("last").delete(key)
            yield Output(key, *last)


@dataclass(frozen=True, slots=True)
class UntilTimeLimit:
    """Input 0: a table. Output: its changes, each key's latest, when event time has passed by `limit_ms`.

    The time of a key begins with the first change that is held back. `max_records`: when so many keys of one
    bucket wait, a further key's change goes on at once.
    """

    limit_ms: int
    max_records: int | None = None
    stores: tuple[str, ...] = ("last",)
    timers: frozenset[TimerKind] = frozenset({TimerKind.EVENT_TIME})

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.key is None:
            context.count_dropped()
            return
        store = context.store("last")
        held = store.get(event.key)
        if held is None:
            due_ms = event.timestamp_ms + self.limit_ms
            full = self.max_records is not None and store.size() >= self.max_records
            if full or due_ms <= context.watermark_ms:
                yield Output(event.key, event.value, event.timestamp_ms, event.headers)
                return
            context.set_timer(TimerKind.EVENT_TIME, event.key, due_ms)
        store.put(event.key, (event.value, event.timestamp_ms, event.headers))

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        held = context.store("last").get(key)
        if held is not None:
            context.store("last").delete(key)
            yield Output(key, *held)
