"""The first rows of each key against all rows sorted, with ranks that are kept by the outputs' keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.streams.operators.operator import Event
from ottla.streams.operators.top_rows import TopRows
from support.pipeline.keyed_operators import OperatorRun


@dataclass(frozen=True)
class ByNumber:
    """Rows by their number; of equal ones the earlier first."""

    descending: bool
    in_words: str = "number"

    def precedes(self, later: Any, earlier: Any) -> bool:
        return later["n"] > earlier["n"] if self.descending else later["n"] < earlier["n"]


records = st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 60))


@given(st.lists(st.lists(records, max_size=6), max_size=6), st.integers(1, 4), st.booleans())
def test_the_table_of_ranks_is_the_head_of_the_sorted_rows(
    batches: list[list[tuple[str, int, int]]], limit: int, descending: bool
) -> None:
    host = OperatorRun(TopRows(limit, ByNumber(descending)))
    table: dict[tuple[str, int], tuple[Any, int]] = {}
    came: dict[str, list[tuple[int, int, int]]] = {}
    for batch in batches:
        for key, number, at_ms in batch:
            arrived = came.setdefault(key, [])
            arrived.append((number, len(arrived), at_ms))
        events = [Event(0, key, {"n": number}, at_ms) for key, number, at_ms in batch]
        for output in host.batch(events, -1):
            table[output.key["key"], output.key["rank"]] = (output.value["n"], output.timestamp_ms)

        for key, arrived in came.items():
            ordered = sorted(arrived, key=lambda row: (-row[0] if descending else row[0], row[1]))
            expected = [(number, at_ms) for number, _, at_ms in ordered[:limit]]
            assert [table[key, rank + 1] for rank in range(len(expected))] == expected
    assert all(rank <= limit for _, rank in table)


def test_a_row_that_changes_nothing_is_not_sent() -> None:
    host = OperatorRun(TopRows(1, ByNumber(descending=False)))

    sent = host.batch(
        [Event(0, "a", {"n": 1}, 0), Event(0, "a", {"n": 1}, 1), Event(0, "a", {"n": 2}, 2)], -1
    )

    assert [(each.value["n"], each.timestamp_ms) for each in sent] == [(1, 0)]
