"""How often each sequence of one bucket was seen: a byte for each, in pages that are there when needed.

A byte counts to 255 and stays there. Almost all pages of a healthy bucket are all ones, and share one object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

PAGE: Final = 4_096
MOST: Final = 255
ONES: Final = b"\1" * PAGE
ZEROS: Final = bytes(PAGE)
_FEW: Final = b"\0\1"
"""What almost all pages are made of: found many times as fast as sums and maxima are."""
_RUN: Final = re.compile(rb"\0+", re.DOTALL)
_SEVERAL: Final = re.compile(rb"[^\0\1]+", re.DOTALL)

Range = tuple[int, int]
"""The first and the last of some sequences that follow each other."""


class IdCounts:
    """Counts by sequence. pages: bytearrays while they change, or bytes."""

    __slots__ = ("pages",)

    def __init__(self) -> None:
        self.pages: dict[int, bytes | bytearray] = {}

    def add(self, sequences: list[int]) -> None:
        """Count each of these once more."""
        first, count = sequences[0], len(sequences)
        if sequences[-1] - first + 1 == count and sequences == list(range(first, first + count)):
            self._add_run(first, count)
            return
        for sequence in sequences:
            page = self._page(sequence // PAGE)
            at = sequence % PAGE
            if page[at] < MOST:
                page[at] += 1

    def add_page(self, number: int, counts: bytes) -> None:
        """Add a page of counts."""
        mine = self.pages.get(number)
        if mine is None or mine == ZEROS:
            self.pages[number] = ONES if counts == ONES else counts
            return
        if (
            not (mine.translate(None, _FEW) or counts.translate(None, _FEW))
            or max(mine) + max(counts) <= MOST
        ):
            # no byte carries into the next one
            total = int.from_bytes(mine, "big") + int.from_bytes(counts, "big")
            added = total.to_bytes(PAGE, "big")
        else:
            added = bytes(min(a + b, MOST) for a, b in zip(mine, counts, strict=True))
        self.pages[number] = ONES if added == ONES else added

    @property
    def end(self) -> int:
        """One more than the largest sequence that was seen; 0 without any."""
        for number in sorted(self.pages, reverse=True):
            used = len(self.pages[number].rstrip(b"\0"))
            if used:
                return number * PAGE + used
        return 0

    def seen(self) -> int:
        """How many were seen at least once."""
        return sum(PAGE - page.count(0) for page in self.pages.values())

    def occurrences(self) -> int:
        """How often any was seen."""
        return sum(
            PAGE if page is ONES else page.count(1) + sum(page.translate(None, _FEW))
            for page in self.pages.values()
        )

    def doubled(self) -> int:
        """How many are too many."""
        return self.occurrences() - self.seen()

    def missing(self, until: int) -> Iterator[Range]:
        """The ranges below `until` that were never seen, in order."""
        pending: Range | None = None
        for number in range((until + PAGE - 1) // PAGE):
            base = number * PAGE
            page = self.pages.get(number, ZEROS)
            if page is ONES:
                continue
            for run in _RUN.finditer(page):
                first, last = base + run.start(), min(base + run.end(), until) - 1
                if first > last:
                    break
                if pending is not None and pending[1] + 1 == first:
                    pending = (pending[0], last)
                else:
                    if pending is not None:
                        yield pending
                    pending = (first, last)
        if pending is not None:
            yield pending

    def repeated(self) -> Iterator[Range]:
        """The ranges that were seen more than once, in order."""
        for number in sorted(self.pages):
            page = self.pages[number]
            if page is ONES:
                continue
            for run in _SEVERAL.finditer(page):
                yield number * PAGE + run.start(), number * PAGE + run.end() - 1

    def times(self, sequence: int) -> int:
        """How often this one was seen."""
        page = self.pages.get(sequence // PAGE)
        return 0 if page is None else page[sequence % PAGE]

    def _page(self, number: int) -> bytearray:
        page = self.pages.get(number)
        if isinstance(page, bytearray):
            return page
        page = self.pages[number] = bytearray(PAGE if page is None else page)
        return page

    def _add_run(self, first: int, count: int) -> None:
        end = first + count
        while first < end:
            page = self._page(first // PAGE)
            at = first % PAGE
            size = min(PAGE - at, end - first)
            if page.count(0, at, at + size) == size:
                page[at : at + size] = ONES[:size]
            else:
                for place in range(at, at + size):
                    if page[place] < MOST:
                        page[place] += 1
            first += size


def length_of(ranges: Iterable[Range]) -> int:
    """How many sequences these ranges have."""
    return sum(last - first + 1 for first, last in ranges)
