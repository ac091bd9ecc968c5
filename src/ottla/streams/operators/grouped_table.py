"""Aggregate a table that is grouped anew: values leave one group and enter another.

Reads the output of TableChanges. The old value is taken out before the new one is added, as in Kafka, so an
aggregate may be seen for a moment without either when the group changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.streams.operators.aggregation import Aggregation
from ottla.streams.operators.described import FOR_EVER, SENDS_BATCH_CHANGES, OperatorText, StateText
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value


@dataclass(frozen=True, slots=True)
class GroupedTableAggregate:
    """Input 0: group key -> {"subtract", "add"}. Output: group key -> aggregate, a tombstone for None."""

    aggregation: Aggregation
    stores: tuple[str, ...] = ("aggregate",)
    timers: frozenset[TimerKind] = frozenset()

    def described(self, inputs: Sequence[str]) -> OperatorText:
        what = f"{self.aggregation.in_words} by group, rows that left taken out"
        state = StateText("one value for each key", FOR_EVER, None, SENDS_BATCH_CHANGES)
        return OperatorText("aggregate", what, state)

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.key is None or event.value is None:
            context.count_dropped()
            return
        store = context.store("aggregate")
        old = store.get(event.key)
        aggregate = None if old is None else old[0]
        timestamp_ms = event.timestamp_ms if old is None else max(old[1], event.timestamp_ms)
        if event.value["subtract"] is not None and aggregate is not None:
            aggregate = self.aggregation.subtract(aggregate, event.value["subtract"])
        if event.value["add"] is not None:
            aggregate = self.aggregation.add(aggregate, event.value["add"])
        if aggregate is not None:
            store.put(event.key, (aggregate, timestamp_ms))
        elif old is not None:
            store.delete(event.key)
        else:
            return
        yield Output(event.key, aggregate, timestamp_ms)

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        raise AssertionError("sets no timers")
