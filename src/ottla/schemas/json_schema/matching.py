"""Pairs items of two lists: as many pairs as fit, and those in the same place first."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain


def maximum_matching(left: int, right: int, fits: Callable[[int, int], bool]) -> dict[int, int]:
    """The largest possible set of fitting pairs of `left` and `right` items: Kuhn's algorithm."""
    taken: dict[int, int] = {}

    def place(item: int, tried: set[int]) -> bool:
        # The same position first, so that items in the same order stay together.
        for other in chain((item,) if item < right else (), range(right)):
            if other not in tried and fits(item, other):
                tried.add(other)
                if other not in taken or place(taken[other], tried):
                    taken[other] = item
                    return True
        return False

    for item in range(left):
        place(item, set())
    return {item: other for other, item in taken.items()}
