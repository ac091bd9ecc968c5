"""Which transactions a query saw (pg_current_snapshot), and those that the stream has told; no I/O.

A commit stands in the log, and is streamed, a moment before queries see it; with synchronous replication the
moment lasts until a standby answers. So places of the log alone don't say what a query saw.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

MAX_TOLD: Final = 65_536
WAL_PAGE_BYTES: Final = 8192
_LONGEST_PAGE_HEADER: Final = 40
_EPOCH: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """A snapshot. Numbers have 64 bits, as pg_current_snapshot gives them."""

    smallest: int
    next: int
    running: frozenset[int]

    @staticmethod
    def of(text: str) -> SnapshotView:
        """The view of 10:20:10,14. Raises ValueError."""
        smallest, following, running = text.split(":")
        return SnapshotView(
            int(smallest), int(following), frozenset(int(each) for each in running.split(",") if each)
        )

    def includes(self, xid: int) -> bool:
        """Whether a transaction's changes were seen. xid: of 32 bits, as the stream tells it."""
        number = self.next - self.next % _EPOCH + xid
        if number > self.next + _EPOCH // 2:
            number -= _EPOCH
        elif number < self.next - _EPOCH // 2:
            number += _EPOCH
        if number >= self.next:
            return False
        return number < self.smallest or number not in self.running


class ToldTransactions:
    """The last transactions that the stream has told."""

    def __init__(self) -> None:
        self._told: OrderedDict[int, None] = OrderedDict()

    def add(self, xid: int) -> None:
        """A transaction was told whole."""
        self._told[xid] = None
        if len(self._told) > MAX_TOLD:
            self._told.popitem(last=False)

    def overtake(self, view: SnapshotView) -> bool:
        """Whether one of them is not seen yet."""
        return any(each % _EPOCH in self._told for each in view.running)


def reachable(lsn: int) -> int:
    """The place before the header of a page, where a place is just behind one: keepalives stop before it."""
    within = lsn % WAL_PAGE_BYTES
    return lsn - within if within <= _LONGEST_PAGE_HEADER else lsn
