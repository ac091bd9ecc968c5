"""Combinations of state batches, in pictures: on overlaps, the later delivery counts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.share.state_batches import StateBatch, combine

A, R, D = 0, 4, 2
"""Available, archived, acknowledged."""


def batches(*rows: tuple[int, int, int, int]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(*row) for row in rows)


@pytest.mark.parametrize(
    ("so_far", "newer", "start", "combined"),
    [
        ([], [], -1, []),
        ([(0, 9, A, 1)], [], -1, [(0, 9, A, 1)]),
        # neighbours with equal states are one
        ([(0, 9, A, 1)], [(10, 19, A, 1)], -1, [(0, 19, A, 1)]),
        ([(0, 9, A, 1)], [(10, 19, A, 2)], -1, [(0, 9, A, 1), (10, 19, A, 2)]),
        ([(0, 9, A, 1)], [(11, 19, A, 1)], -1, [(0, 9, A, 1), (11, 19, A, 1)]),
        # the stronger one inside, at the beginning, at the end, on all
        ([(0, 9, A, 1)], [(3, 5, D, 1)], -1, [(0, 2, A, 1), (3, 5, D, 1), (6, 9, A, 1)]),
        ([(0, 9, A, 1)], [(0, 5, A, 2)], -1, [(0, 5, A, 2), (6, 9, A, 1)]),
        ([(0, 9, A, 1)], [(5, 9, R, 1)], -1, [(0, 4, A, 1), (5, 9, R, 1)]),
        ([(3, 5, A, 1)], [(0, 9, A, 2)], -1, [(0, 9, A, 2)]),
        # the weaker one gets only the offsets of no other batch
        ([(3, 5, D, 2)], [(0, 9, A, 1)], -1, [(0, 2, A, 1), (3, 5, D, 2), (6, 9, A, 1)]),
        ([(0, 5, D, 1)], [(4, 9, A, 1)], -1, [(0, 5, D, 1), (6, 9, A, 1)]),
        # no batch before the start
        ([(0, 9, A, 1), (12, 13, D, 1)], [], 5, [(5, 9, A, 1), (12, 13, D, 1)]),
        ([(0, 4, A, 1)], [(2, 3, D, 1)], 5, []),
        # a batch that ends before it begins is ignored
        ([(5, 4, A, 1)], [(9, 9, A, 1)], -1, [(9, 9, A, 1)]),
    ],
)
def test_pictures(
    so_far: list[tuple[int, int, int, int]],
    newer: list[tuple[int, int, int, int]],
    start: int,
    combined: list[tuple[int, int, int, int]],
) -> None:
    assert combine(batches(*so_far), batches(*newer), start) == batches(*combined)


RANGES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.sampled_from((A, D, R)), st.integers(1, 4)).map(
        lambda each: StateBatch(each[0], each[0] + each[1], each[2], each[3])
    ),
    max_size=12,
)


@given(so_far=RANGES, newer=RANGES, start=st.integers(-1, 40))
def test_each_offset_has_the_strongest_of_its_states(
    so_far: list[StateBatch], newer: list[StateBatch], start: int
) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for batch in (*so_far, *newer):
        for offset in range(max(start, batch.first_offset), batch.last_offset + 1):
            rank = (batch.delivery_count, batch.delivery_state)
            expected[offset] = max(expected.get(offset, rank), rank)
    found = combine(so_far, newer, start)
    assert {
        offset: (batch.delivery_count, batch.delivery_state)
        for batch in found
        for offset in range(batch.first_offset, batch.last_offset + 1)
    } == expected
    assert all(one.last_offset < other.first_offset for one, other in itertools.pairwise(found))
