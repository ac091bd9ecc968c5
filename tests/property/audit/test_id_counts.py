"""Counts by sequence are a Counter that is small: whatever is added, in pages or one by one."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.audit.core.id_counts import MOST, PAGE, IdCounts

sequences = st.integers(0, 3 * PAGE)
runs = st.builds(lambda first, count: list(range(first, first + count)), sequences, st.integers(1, 2 * PAGE))
groups = st.lists(st.one_of(st.lists(sequences, min_size=1, max_size=30), runs), max_size=6)


def ids(ranges: object) -> list[int]:
    return [one for first, last in ranges for one in range(first, last + 1)]  # type: ignore[attr-defined]


@given(groups, groups)
def test_they_count_as_a_counter_does(first: list[list[int]], second: list[list[int]]) -> None:
    counts, other = IdCounts(), IdCounts()
    model: Counter[int] = Counter()
    for target, parts in ((counts, first), (other, second)):
        for part in parts:
            target.add(part)
            model.update(part)
    for number, page in other.pages.items():
        counts.add_page(number, bytes(page))
    until = counts.end
    assert until == max(model, default=-1) + 1
    assert counts.seen() == len(model)
    assert counts.occurrences() == model.total()
    assert ids(counts.missing(until)) == [one for one in range(until) if not model[one]]
    assert ids(counts.repeated()) == sorted(one for one in model if model[one] > 1)
    assert len(ids(counts.missing(until + 9_000))) == until + 9_000 - len(model)


def test_a_count_stays_at_its_largest() -> None:
    counts = IdCounts()
    for _ in range(MOST + 5):
        counts.add([7])
    page = bytes(counts.pages[0])
    counts.add_page(0, page)
    assert counts.times(7) == MOST
