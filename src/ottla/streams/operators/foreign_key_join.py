"""Join a table with another one by a foreign key (KIP-213), as three operators with topics between them.

    left table -> Subscriptions --(by foreign key)--> Matches --(by left key)--> Resolution -> pairs
                                    right table ---------^

Subscriptions remembers each left row's foreign key and numbers the row's changes. It tells the foreign key
about the row, and the one that the row had before that it is gone. Matches keeps, by foreign key, the right
row and its subscribers with their left rows; any change of either gives an answer for the left key with the
number of the left change that it knows. Answers from two foreign keys overtake each other: Resolution drops
those that are older than the newest it has seen. (Kafka compares hashes of the left row, for which it has to
have the left table at hand; the number does the same, and the answer brings the row along.)

The numbers of rows that were deleted are remembered, some ten bytes each: a late answer must find them, and
a row that comes again must go on counting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.streams.operators.described import FOR_EVER, SENDS_CHANGES, OperatorText, StateText
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value

RIGHT, SUBSCRIPTIONS = 0, 1


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Input 0: left key -> {"foreign_key", "value"} or a tombstone.

    Output: foreign key -> {"left_key", "version", "subscribe", "answer", "value"}.
    """

    stores: tuple[str, ...] = ("rows",)
    timers: frozenset[TimerKind] = frozenset()

    def described(self, inputs: Sequence[str]) -> OperatorText:
        state = StateText("the foreign key of each row", FOR_EVER, None, SENDS_CHANGES)
        return OperatorText("foreign-key join", "tells by foreign key which rows ask for it", state)

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.key is None:
            context.count_dropped()
            return
        store = context.store("rows")
        version, existed, old_foreign_key = store.get(event.key) or (0, False, None)
        if event.value is None and not existed:
            return
        version += 1
        if event.value is None:
            store.put(event.key, (version, False, None))
            yield self._message(event, old_foreign_key, version, subscribe=False, answer=True)
            return
        foreign_key = event.value["foreign_key"]
        store.put(event.key, (version, True, foreign_key))
        if existed and old_foreign_key != foreign_key:
            yield self._message(event, old_foreign_key, version, subscribe=False, answer=False)
        yield self._message(event, foreign_key, version, subscribe=True, answer=True)

    def _message(
        self, event: Event, foreign_key: Value, version: int, *, subscribe: bool, answer: bool
    ) -> Output:
        value = {
            "left_key": event.key,
            "version": version,
            "subscribe": subscribe,
            "answer": answer,
            "value": event.value["value"] if subscribe else None,
        }
        return Output(foreign_key, value, event.timestamp_ms)

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        raise AssertionError("sets no timers")


@dataclass(frozen=True, slots=True)
class Matches:
    """Input 0: the right table by its key. Input 1: the output of Subscriptions.

    Output: left key -> {"version", "left", "right"}; left None: the row is gone.
    """

    stores: tuple[str, ...] = ("right", "subscribers")
    timers: frozenset[TimerKind] = frozenset()

    def described(self, inputs: Sequence[str]) -> OperatorText:
        state = StateText(f"the rows of {inputs[RIGHT]} and who asks for them", FOR_EVER, None, SENDS_CHANGES)
        return OperatorText("foreign-key join", f"answers with the rows of {inputs[RIGHT]}", state)

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.input == RIGHT:
            yield from self._right(event, context)
        elif event.value is None:
            context.count_dropped()
        else:
            yield from self._subscription(event, context)

    def _right(self, event: Event, context: Context) -> Iterator[Output]:
        if event.key is None:
            context.count_dropped()
            return
        store = context.store("right")
        if event.value is not None:
            store.put(event.key, (event.value, event.timestamp_ms))
        elif store.get(event.key) is not None:
            store.delete(event.key)
        else:
            return
        for _, (left_key, version, left, timestamp_ms) in context.store("subscribers").entries(event.key):
            answer = {"version": version, "left": left, "right": event.value}
            yield Output(left_key, answer, max(timestamp_ms, event.timestamp_ms))

    def _subscription(self, event: Event, context: Context) -> Iterator[Output]:
        message, store = event.value, context.store("subscribers")
        left_key, version, left = message["left_key"], message["version"], message["value"]
        subscriber = repr(left_key)
        known = store.get(event.key, subscriber)
        if known is not None and known[1] > version:
            return
        if event.key is None:
            pass  # no right row can ever come, and messages without a key come in any order
        elif message["subscribe"]:
            store.put(event.key, (left_key, version, left, event.timestamp_ms), subscriber)
        elif known is not None:
            store.delete(event.key, subscriber)
        if not message["answer"]:
            return
        right, timestamp_ms = None, event.timestamp_ms
        if message["subscribe"] and event.key is not None:
            row = context.store("right").get(event.key)
            if row is not None:
                right, timestamp_ms = row[0], max(row[1], timestamp_ms)
        yield Output(left_key, {"version": version, "left": left, "right": right}, timestamp_ms)

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        raise AssertionError("sets no timers")


@dataclass(frozen=True, slots=True)
class Resolution:
    """Input 0: the output of Matches. Output: left key -> {"left", "right"} or a tombstone.

    `left_join`: rows without a right one too.
    """

    left_join: bool = False
    stores: tuple[str, ...] = ("seen",)
    timers: frozenset[TimerKind] = frozenset()

    def described(self, inputs: Sequence[str]) -> OperatorText:
        state = StateText("what each row waits for", FOR_EVER, None, SENDS_CHANGES)
        return OperatorText("foreign-key join", "leaves out answers that are out of date", state)

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.key is None or event.value is None:
            context.count_dropped()
            return
        store, answer = context.store("seen"), event.value
        newest, existed = store.get(event.key) or (0, False)
        if answer["version"] < newest:
            return
        left, right = answer["left"], answer["right"]
        exists = left is not None and (self.left_join or right is not None)
        store.put(event.key, (answer["version"], exists))
        if exists:
            yield Output(event.key, {"left": left, "right": right}, event.timestamp_ms)
        elif existed:
            yield Output(event.key, None, event.timestamp_ms)

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        raise AssertionError("sets no timers")
