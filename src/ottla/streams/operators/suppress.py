"""Hold back a table's changes for a time. (Until a window closes: see windowed_tables.py.)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.streams.operators.described import SENDS_CHANGES, OperatorText, StateText
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value
from ottla.streams.operators.words import duration


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

    def described(self, inputs: Sequence[str]) -> OperatorText:
        bound = f", at most {self.max_records} rows" if self.max_records is not None else ""
        state = StateText("the last change of each row", "until it is sent", None, SENDS_CHANGES)
        what = f"holds changes of a row back for {duration(self.limit_ms)}{bound}"
        return OperatorText("suppress", what, state)

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
