"""Aggregate a stream by key, without windows: a table that changes with every record.

Records without key or value are dropped and counted, as in Kafka. The timestamp is the latest of the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.streams.operators.aggregation import Aggregation
from ottla.streams.operators.described import FOR_EVER, SENDS_BATCH_CHANGES, OperatorText, StateText
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value


@dataclass(frozen=True, slots=True)
class StreamAggregate:
    """Input 0: a stream. Output: key -> aggregate, a tombstone where the aggregate became None."""

    aggregation: Aggregation
    stores: tuple[str, ...] = ("aggregate",)
    timers: frozenset[TimerKind] = frozenset()

    def described(self, inputs: Sequence[str]) -> OperatorText:
        kept = StateText("one value for each key", FOR_EVER, None, SENDS_BATCH_CHANGES)
        return OperatorText("aggregate", f"{self.aggregation.in_words} by key", kept)

    def on_event(self, event: Event, context: Context) -> Iterable[Output]:
        if event.key is None or event.value is None:
            context.count_dropped()
            return ()
        store = context.store("aggregate")
        aggregate, timestamp_ms = store.get(event.key) or (None, event.timestamp_ms)
        existed = aggregate is not None
        timestamp_ms = max(timestamp_ms, event.timestamp_ms)
        aggregate = self.aggregation.add(aggregate, event.value)
        if aggregate is not None:
            store.put(event.key, (aggregate, timestamp_ms))
        elif existed:
            store.delete(event.key)
        else:
            return ()
        return (Output(event.key, aggregate, timestamp_ms),)

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterable[Output]:
        raise AssertionError("sets no timers")
