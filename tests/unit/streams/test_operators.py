"""Operators one by one: examples of their outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.streams.operators.aggregation import Aggregate, Count, Reduce
from ottla.streams.operators.foreign_key_join import Matches, Resolution, Subscriptions
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value
from ottla.streams.operators.processor import (
    Processor,
    ProcessorContext,
    ProcessorOperator,
    ProcessorRecord,
)
from ottla.streams.operators.session_aggregate import SessionAggregate
from ottla.streams.operators.suppress import UntilTimeLimit
from ottla.streams.operators.windows import SessionWindows
from support.pipeline.keyed_operators import OperatorRun


def window(key: str, start: int, end: int) -> dict[str, Any]:
    return {"key": key, "start": start, "end": end}


def rows(outputs: list[Output]) -> list[tuple[Any, Any, int]]:
    return [(each.key, each.value, each.timestamp_ms) for each in outputs]


def test_sessions_that_a_record_connects_get_tombstones_and_become_one() -> None:
    host = OperatorRun(SessionAggregate(SessionWindows(10, 100), Count()))
    assert rows(host.batch([Event(0, "a", "x", 0), Event(0, "a", "x", 20)])) == [
        (window("a", 0, 0), 1, 0),
        (window("a", 20, 20), 1, 20),
    ]
    assert rows(host.batch([Event(0, "a", "x", 10)])) == [
        (window("a", 0, 0), None, 0),
        (window("a", 20, 20), None, 20),
        (window("a", 0, 20), 3, 20),
    ]


def test_an_aggregate_of_sessions_says_that_it_needs_a_merger() -> None:
    host = OperatorRun(SessionAggregate(SessionWindows(10, 0), Aggregate(list, lambda a, b: [*a, b])))
    with pytest.raises(TypeError, match="needs a merger"):
        host.batch([Event(0, "a", 1, 0), Event(0, "a", 1, 20), Event(0, "a", 1, 10)])


def test_a_reduce_without_subtractor_says_so() -> None:
    with pytest.raises(TypeError, match="needs a subtractor"):
        Reduce(max).subtract(1, 1)


def test_changes_are_held_back_for_a_time_and_the_latest_goes_on() -> None:
    host = OperatorRun(UntilTimeLimit(10))
    assert host.batch([Event(0, "a", 1, 100), Event(0, "a", 2, 105)], watermark_ms=100) == []
    assert rows(host.batch([Event(0, "b", 1, 109)], watermark_ms=110)) == [("a", 2, 105)]
    assert rows(host.batch([], watermark_ms=119)) == [("b", 1, 109)]


def test_a_full_buffer_lets_further_keys_pass() -> None:
    host = OperatorRun(UntilTimeLimit(10, max_records=1))
    events = [Event(0, "a", 1, 100), Event(0, "b", 1, 101), Event(0, "a", 2, 102)]
    assert rows(host.batch(events, watermark_ms=100)) == [("b", 1, 101)]
    assert rows(host.batch([], watermark_ms=110)) == [("a", 2, 102)]


def test_an_answer_that_was_overtaken_is_dropped() -> None:
    resolution = OperatorRun(Resolution())
    newer = {"version": 2, "left": "new", "right": "r2"}
    older = {"version": 1, "left": "old", "right": "r1"}
    assert [each.value for each in resolution.batch([Event(0, "l", newer, 0), Event(0, "l", older, 0)])] == [
        {"left": "new", "right": "r2"}
    ]


def test_a_changed_foreign_key_leaves_the_old_one() -> None:
    subscriptions, matches = OperatorRun(Subscriptions()), OperatorRun(Matches())
    sent = subscriptions.batch(
        [
            Event(0, "l", {"foreign_key": "r1", "value": 1}, 0),
            Event(0, "l", {"foreign_key": "r2", "value": 2}, 1),
        ]
    )
    assert [(each.key, each.value["subscribe"]) for each in sent] == [
        ("r1", True),
        ("r1", False),
        ("r2", True),
    ]
    matches.batch([Event(1, each.key, each.value, each.timestamp_ms) for each in sent])
    assert matches.batch([Event(0, "r1", "right", 5)]) == []
    (answer,) = matches.batch([Event(0, "r2", "right", 5)])
    assert (answer.key, answer.value["left"], answer.value["right"]) == ("l", 2, "right")


class Visits(Processor):
    """Sums values of a key and says the sum 10 ms of event time after the first."""

    stores = ("sum", "seen")
    ttl_ms = {"seen": 50}  # noqa: RUF012 - as the documentation has it

    def process(self, record: ProcessorRecord, context: ProcessorContext) -> None:
        total = context.store("sum")
        if total.get() is None:
            context.schedule_event_time(record.timestamp_ms + 10)
        total.put(total.get(default=0) + record.value)
        seen = context.store("seen")
        if seen.get() is not None:
            context.forward(record.key, "again", headers=())
        seen.put(True)

    def punctuate(self, key: Any, at_ms: int, context: ProcessorContext) -> None:
        context.forward(key, context.store("sum").get())
        context.store("sum").delete()
        if at_ms < 130:
            context.store("sum").put(0)
            context.schedule_event_time(at_ms + 10)


def test_a_processor_has_stores_times_and_forwards() -> None:
    host = OperatorRun(ProcessorOperator(Visits()))
    assert rows(host.batch([Event(0, "a", 1, 100), Event(0, "b", 5, 100), Event(0, "a", 2, 101)])) == [
        ("a", "again", 101)
    ]
    # Punctuators that are set for times that have come already follow at once, in the order of time.
    assert rows(host.batch([], watermark_ms=121)) == [
        ("a", 3, 110),
        ("b", 5, 110),
        ("a", 0, 120),
        ("b", 0, 120),
    ]
    assert rows(host.batch([Event(0, "a", 1, 122)], watermark_ms=121, processing_time_ms=50)) == []


def test_a_processor_names_the_stores_that_it_has() -> None:
    class Wrong(Visits):
        def process(self, record: ProcessorRecord, context: ProcessorContext) -> None:
            context.store("total")

    with pytest.raises(KeyError, match="no store 'total': this processor declares sum, seen"):
        OperatorRun(ProcessorOperator(Wrong())).batch([Event(0, "a", 1, 0)])


class Stubborn:
    """Sets a timer again for the time that it fires at, and for the one before."""

    stores = ()
    timers = frozenset({TimerKind.EVENT_TIME})

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        context.set_timer(TimerKind.EVENT_TIME, event.key, event.timestamp_ms)
        return iter(())

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        context.set_timer(kind, key, at_ms)
        context.set_timer(kind, key, at_ms - 1)
        yield Output(key, at_ms, at_ms)


def test_a_timer_that_sets_itself_again_waits_for_the_next_batch() -> None:
    host = OperatorRun(Stubborn())  # type: ignore[arg-type]
    assert host.batch([Event(0, "a", None, 5)], watermark_ms=4) == []
    assert [each.value for each in host.batch([], watermark_ms=5)] == [5]
    assert [each.value for each in host.batch([], watermark_ms=5)] == [4, 5]


def test_an_operator_has_the_state_of_the_key_at_hand_only() -> None:
    class Curious(Stubborn):
        stores = ("s",)

        def on_event(self, event: Event, context: Context) -> Iterator[Output]:
            context.store("s").put("other", 1)
            return iter(())

    with pytest.raises(ValueError, match="an operator at key 'a' has only that key's state"):
        OperatorRun(Curious()).batch([Event(0, "a", None, 5)])  # type: ignore[arg-type]
