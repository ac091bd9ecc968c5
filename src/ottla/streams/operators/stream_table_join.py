"""Join a stream with a table of the same key: each record of the stream meets the table as it is then.

Input 0 is the table, input 1 the stream; only the stream's records give output: {"left": the record's value,
"right": the table's value or None}, with the record's timestamp and headers. Records without a value are
dropped; those without a key too, except in a left join, where they meet nothing (KIP-962).

With a grace period (KIP-923) a record waits until the watermark has reached its timestamp + grace, and meets
the table as it was at its timestamp; a record that is later than that is joined at once. The table's versions
are kept for as long as a record that waits may need them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.streams.operators.described import FOR_EVER, OperatorText, StateText
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value
from ottla.streams.operators.words import duration

TABLE, STREAM = 0, 1


@dataclass(frozen=True, slots=True)
class StreamTableJoin:
    """Output: key -> {"left", "right"}. `left_join`: also records that meet nothing."""

    left_join: bool = False
    grace_ms: int | None = None

    def described(self, inputs: Sequence[str]) -> OperatorText:
        moment = "at that moment"
        if self.grace_ms is not None:
            moment = f"of its own time, {duration(self.grace_ms)} of event time later"
        rest = "" if self.left_join else ", those without a row left out"
        return OperatorText(
            "left join" if self.left_join else "inner join",
            f"each record of {inputs[STREAM]} with the row of {inputs[TABLE]} {moment}{rest}",
            StateText(f"the rows of {inputs[TABLE]}", FOR_EVER, None, "sends each record once"),
        )

    @property
    def stores(self) -> tuple[str, ...]:
        return ("table",) if self.grace_ms is None else ("versions", "waiting")

    @property
    def timers(self) -> frozenset[TimerKind]:
        return frozenset() if self.grace_ms is None else frozenset({TimerKind.EVENT_TIME})

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.input == TABLE:
            self._update(event, context)
            return
        if event.value is None or (event.key is None and not self.left_join):
            context.count_dropped()
            return
        if self.grace_ms is not None and event.timestamp_ms + self.grace_ms > context.watermark_ms:
            store = context.store("waiting")
            waiting = store.get(event.key, event.timestamp_ms) or []
            store.put(event.key, [*waiting, (event.value, event.headers)], event.timestamp_ms)
            context.set_timer(TimerKind.EVENT_TIME, event.key, event.timestamp_ms + self.grace_ms)
            return
        yield from self._join(event.key, event.value, event.timestamp_ms, event.headers, context)

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        assert self.grace_ms is not None
        store, timestamp_ms = context.store("waiting"), at_ms - self.grace_ms
        waiting = store.get(key, timestamp_ms)
        if waiting is not None:
            for value, headers in waiting:
                yield from self._join(key, value, timestamp_ms, headers, context)
            store.delete(key, timestamp_ms)
        self._forget(key, timestamp_ms, context)

    def _update(self, event: Event, context: Context) -> None:
        if event.key is None:
            context.count_dropped()
        elif self.grace_ms is not None:
            context.store("versions").put(event.key, (event.value,), event.timestamp_ms)
            context.set_timer(TimerKind.EVENT_TIME, event.key, event.timestamp_ms + self.grace_ms)
        elif event.value is None:
            context.store("table").delete(event.key)
        else:
            context.store("table").put(event.key, event.value)

    def _join(
        self,
        key: Value,
        value: Value,
        timestamp_ms: int,
        headers: tuple[tuple[str, bytes | None], ...],
        context: Context,
    ) -> Iterator[Output]:
        right: Value | None = None
        if key is not None and self.grace_ms is None:
            right = context.store("table").get(key)
        elif key is not None:
            for since_ms, (version,) in context.store("versions").entries(key):
                assert isinstance(since_ms, int)
                if since_ms > timestamp_ms:
                    break
                right = version
        if right is not None or self.left_join:
            yield Output(key, {"left": value, "right": right}, timestamp_ms, headers)

    def _forget(self, key: Value, needed_ms: int, context: Context) -> None:
        """Remove versions that were replaced before `needed_ms`: all waiting records are younger."""
        store = context.store("versions")
        replaced: int | str | bytes | None = None
        last: Value = None
        for since_ms, (version,) in list(store.entries(key)):
            assert isinstance(since_ms, int)
            if since_ms > needed_ms:
                return
            if replaced is not None:
                store.delete(key, replaced)
            replaced, last = since_ms, version
        if replaced is not None and last is None:
            store.delete(key, replaced)
