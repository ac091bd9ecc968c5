"""Keep the first rows of each key by an order: Top-N, and with one row deduplication.

A row that comes behind `limit` others is forgotten at once, so a key's state has so many rows at most. Where
a row comes in, it and all rows behind it have another rank, and are sent again; a rank is never taken back,
as rows of a stream stay. A row that is sent has the time of its own record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.streams.operators.described import FOR_EVER, SENDS_CHANGES, OperatorText, StateText
from ottla.streams.operators.operator import Context, Event, Output, TimerKind, Value


class RowOrder(Protocol):
    """An order of rows."""

    @property
    def in_words(self) -> str:
        """What rows are ordered by."""
        ...

    def precedes(self, later: Value, earlier: Value) -> bool:
        """Whether a row stands before one that came before it."""
        ...


def rank_key(key: Value, rank: int) -> dict[str, Value]:
    """The key of a row that is sent; ranks count from 1."""
    return {"key": key, "rank": rank}


@dataclass(frozen=True, slots=True)
class TopRows:
    """Input 0: a stream. Output: {key, rank} -> row."""

    limit: int
    order: RowOrder
    stores: tuple[str, ...] = ("rows",)
    timers: frozenset[TimerKind] = frozenset()

    def described(self, inputs: Sequence[str]) -> OperatorText:
        rows = "row" if self.limit == 1 else f"{self.limit} rows"
        kept = StateText(f"the first {rows} of each key", FOR_EVER, None, SENDS_CHANGES)
        return OperatorText("top", f"the first {rows} of each key by {self.order.in_words}", kept)

    def on_event(self, event: Event, context: Context) -> Iterator[Output]:
        if event.key is None or event.value is None:
            context.count_dropped()
            return
        store = context.store("rows")
        rows = list(store.get(event.key) or ())
        place = next(
            (n for n, (row, _) in enumerate(rows) if self.order.precedes(event.value, row)), len(rows)
        )
        if place >= self.limit:
            return
        rows.insert(place, (event.value, event.timestamp_ms))
        del rows[self.limit :]
        store.put(event.key, rows)
        for number in range(place, len(rows)):
            row, timestamp_ms = rows[number]
            yield Output(rank_key(event.key, number + 1), row, timestamp_ms)

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> Iterator[Output]:
        raise AssertionError("sets no timers")
