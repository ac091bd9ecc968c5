"""Turn a table into its changes, by another key: the input of an aggregate of a table that is grouped anew.

Each change gives the old value, to be taken out of the group that the row was in, then the new one, to be
added to the group that it is in now; both in one record where the group is the same (KIP-904).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.streams.operators.described import FOR_EVER, SENDS_CHANGES, OperatorText, StateText
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Input 0: key -> {"group_key", "value"} or a tombstone. Output: group key -> {"subtract", "add"}.

    A row whose group key or value is null is in no group, as in Kafka.
    """

    stores: tuple[str, ...] = ("rows",)
    timers: frozenset[TimerKind] = frozenset()

    def described(self, inputs: Sequence[str]) -> OperatorText:
        state = StateText("each row as it was grouped last", FOR_EVER, None, SENDS_CHANGES)
        what = "takes a changed row out of its old group and puts it into its new one"
        return OperatorText("group", what, state)

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.key is None:
            context.count_dropped()
            return
        store = context.store("rows")
        old, new = store.get(event.key), _grouped(event.value)
        if new is None and event.value is not None:
            context.count_dropped()
        if new is not None:
            store.put(event.key, new)
        elif old is not None:
            store.delete(event.key)
        if old is not None and new is not None and old[0] == new[0]:
            yield Output(old[0], {"subtract": old[1], "add": new[1]}, event.timestamp_ms)
            return
        if old is not None:
            yield Output(old[0], {"subtract": old[1], "add": None}, event.timestamp_ms)
        if new is not None:
            yield Output(new[0], {"subtract": None, "add": new[1]}, event.timestamp_ms)

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        raise AssertionError("sets no timers")


def _grouped(value: Value | None) -> tuple[Value, Value] | None:
    if value is None or value["group_key"] is None or value["value"] is None:
        return None
    return value["group_key"], value["value"]
