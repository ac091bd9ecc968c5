"""Makes a plan cheaper where nothing is lost by it: replicas go back, or smaller ones go in their place.

Theory of operation. A replica that was moved goes back to the broker that it came from, if both stay within
all limits of the goals. Where it can't, its broker may have had to shed only a part of that size: then the
replica goes back, and the smallest other one that is still enough goes where it was. Each step moves fewer
bytes than before, so this comes to an end; the largest replicas are tried first, in a few passes.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from ottla.balance.core.model import Dimension
from ottla.balance.core.working import Working

PASSES: Final = 4
TRIES: Final = 12
"""Smaller replicas that are tried in place of one."""


def save_bytes(working: Working) -> None:
    """Take back what need not have moved."""
    for _ in range(PASSES):
        before = working.moved_bytes
        _pass(working)
        if working.moved_bytes >= before:
            return


def _pass(working: Working) -> None:
    moved = [
        (working.size(number), number, place)
        for number, replicas in enumerate(working.replicas)
        for place in range(len(replicas))
        if replicas[place] not in working.original[number]
    ]
    moved.sort(reverse=True)
    by_size: dict[int, list[tuple[float, int]]] = {}
    for size, number, place in moved:
        target = working.replicas[number][place]
        if size <= 0 or target in working.original[number]:
            continue
        sources = [
            one
            for one in working.original[number]
            if one not in working.replicas[number]
            and working.fits(number, target, one)
            and working.spreads(number, one)
        ]
        if not any(_goes_back(working, number, target, one) for one in sources):
            for source in sources:
                if source not in by_size:
                    held = ((working.size(one), one) for one in working.hosts[source])
                    by_size[source] = sorted(held)
                if _exchanged(working, number, target, source, by_size[source]):
                    break


def _goes_back(working: Working, number: int, target: int, source: int) -> bool:
    load = working.load_of(number, target)
    if working.takes(source, load, working.upper) and working.gives(target, load):
        working.move(number, target, source)
        return True
    return False


def _exchanged(
    working: Working, number: int, target: int, source: int, held: list[tuple[float, int]]
) -> bool:
    """Whether the smallest other replica of the source that is enough has gone in place of this one."""
    size = working.size(number)
    limit = working.strict[source][Dimension.DISK]
    least = working.load[source][Dimension.DISK] + size - limit
    tries = 0
    for place in range(bisect_left(held, (least, -1)), len(held)):
        smaller, other = held[place]
        if smaller >= size or tries == TRIES:
            return False
        if source not in working.replicas[other] or source not in working.original[other]:
            continue
        tries += 1
        if not working.fits(other, source, target) or not working.spreads(other, target):
            continue
        here, there = working.load_of(number, target), working.load_of(other, source)
        more = [back - gone for back, gone in zip(here, there, strict=True)]
        less = [-one for one in more]
        if (
            working.takes(source, more, working.upper)
            and working.takes(target, less, working.upper)
            and working.gives(source, less)
            and working.gives(target, more)
        ):
            working.move(number, target, source)
            working.move(other, source, target)
            return True
    return False
