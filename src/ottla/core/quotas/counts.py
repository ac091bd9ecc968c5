"""A bounded number of counts, the least recently used go first; those that are as good as new go before.

So clients that draw a new client id each time, or a new address, grow nothing without bound.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
C = TypeVar("C")

MAX_COUNTS: Final = 10_000
"""The most counts of one kind of quota: 5 MB for clients that come once, 25 MB at the most."""
LOOKED_AT: Final = 2
"""How many of the least recently used counts are looked at for each new one, so that they can't pile up."""


class Counts(Generic[K, C]):
    """The counts of clients by key, least recently used first."""

    __slots__ = ("_counts", "_fresh", "_is_spent")

    def __init__(self, fresh: Callable[[], C], is_spent: Callable[[C, float, int], bool]) -> None:
        """`is_spent` says of a count, its limit and the time whether a new count would be the same."""
        self._fresh = fresh
        self._is_spent = is_spent
        self._counts: OrderedDict[K, tuple[C, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def use(self, key: K, limit: float, now_ms: int) -> C:
        """The count of a key, a new one if there is none."""
        known = self._counts.get(key)
        if known is None:
            self._make_room(now_ms)
            count = self._fresh()
            self._counts[key] = (count, limit)
            return count
        self._counts.move_to_end(key)
        return known[0]

    def limits_changed(self, limit_of: Callable[[K], float | None]) -> None:
        """Forget the counts that no limit holds for any more."""
        for key, (count, _) in list(self._counts.items()):
            limit = limit_of(key)
            if limit is None:
                del self._counts[key]
            else:
                self._counts[key] = (count, limit)

    def _make_room(self, now_ms: int) -> None:
        for _ in range(min(LOOKED_AT, len(self._counts))):
            key = next(iter(self._counts))
            count, limit = self._counts[key]
            if not self._is_spent(count, limit, now_ms) and len(self._counts) < MAX_COUNTS:
                return
            del self._counts[key]
