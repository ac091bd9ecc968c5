"""The drill's own checks: a change that is missing, doubled or out of order is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.connect.cdc.copy_path import Chains, TransactionCounts
from support.connect.cdc.random_tables import State, Table

TABLE = Table("t", (("id", "integer"),), (), is_full=False)
Records = list[tuple[Any, Any]]


def event(op: str, version: int | None) -> tuple[Any, Any]:
    """An event of the one key; version: of its row, None for deleted."""
    return {"id": 1}, {"op": op, "before": None, "after": None if version is None else {"version": version}}


TOMBSTONE = ({"id": 1}, None)
HISTORY = {"[1]": [State(each, None) for each in (1, 2, None, 3, 4)]}
EVENTS: Records = [
    event("r", 1),
    event("u", 2),
    event("d", None),
    TOMBSTONE,
    event("c", 3),
    event("u", 4),
]


def check(records: Records, streamed_from: int = 1) -> int:
    chains = Chains(TABLE)
    for key, value in records:
        chains.add(key, value)
    return chains.check(HISTORY, streamed_from)


def test_the_history_from_the_copys_moment_on_is_right() -> None:
    assert check(EVENTS) == 4
    # a copy that was cut short comes again, at whatever state the row has by then
    assert check([*EVENTS[:2], event("r", 2), *EVENTS[2:]]) == 4
    assert check([event("r", 4)], streamed_from=4) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda events: events[:1] + events[2:],
        lambda events: events[:2] + events[1:],
        lambda events: events[:-1],
        lambda events: [*events[:-2], events[-1], events[-2]],
        lambda events: events[:3] + events[4:],
        lambda events: events[:4] + events[3:],
        lambda events: [event("r", 2), *events[1:]],
        lambda events: events[1:],
        lambda events: [*events, event("u", 5)],
        lambda events: [event("r", 4)],
    ],
)
def test_what_is_missing_twice_or_out_of_order_is_told(wrong: Callable[[Records], Records]) -> None:
    with pytest.raises(AssertionError):
        check(wrong(EVENTS))


@pytest.mark.parametrize("numbers", [(1, 3), (1, 2, 2), (1,), (2, 3)])
def test_transactions_have_each_number_once(numbers: tuple[int, ...]) -> None:
    counts = TransactionCounts()
    for number in numbers:
        counts.add({"id": "7:1", "total_order": number})
    told = [{"id": "7:1", "status": "BEGIN"}, {"id": "7:9", "status": "END", "event_count": 2}]
    with pytest.raises(AssertionError):
        counts.check(iter(told))
