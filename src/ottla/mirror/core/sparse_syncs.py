"""The offset syncs of a partition as MirrorMaker 2 keeps them: 64, the sparser the older (KAFKA-12468).

Slot 0 has the newest sync. For slots i < j that hold different syncs:

    near      upstream[i] <= upstream[j] + 2^j - 2^i     distances to the newest grow by powers of two at most
    distinct  upstream[i] >= upstream[j] + 2^max(i-2,0)  the slots are not wasted on neighbours

So a group that is d records behind the newest sync finds one that is less than d records behind it. A sync
that is older than the newest one means that the source lost records or was made again: all others are void.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

SLOTS: Final = 64
_LONG_MAX: Final = 2**63 - 1


class SyncedOffsets(NamedTuple):
    """An offset on the source and its counterpart on the target."""

    upstream: int
    downstream: int


class SparseSyncs:
    """The syncs of one partition."""

    __slots__ = ("slots",)

    def __init__(self, first: SyncedOffsets) -> None:
        self.slots: list[SyncedOffsets] = [first] * SLOTS

    def add(self, sync: SyncedOffsets) -> None:
        """Take the next sync of the topic."""
        if sync.upstream < self.slots[0].upstream:
            self.slots = [sync] * SLOTS
            return
        former, slots = tuple(self.slots), self.slots
        slots[0] = best = sync
        candidate = 0  # in the former slots: the newest that has not found a place yet
        for at in range(1, SLOTS):
            best, candidate = self._for_slot(at, former, candidate, best)
            if _near(slots[at - 1], slots[at], at - 1, at):
                return  # this slot holds on, and so do all behind it
            slots[at] = best

    def _for_slot(
        self, at: int, former: Sequence[SyncedOffsets], candidate: int, best: SyncedOffsets
    ) -> tuple[SyncedOffsets, int]:
        """The sync that a slot gets if it needs another one, and the next candidate.

        Former syncs are preferred to repeating the one of the slot before, as long as they keep both rules.
        """
        newer = self.slots[at - 1]
        passed_over = True
        while passed_over and candidate < at:
            old = former[candidate]
            is_distinct = _distinct(newer, old, at - 1)
            fits_behind = at + 1 >= SLOTS or _distinct(old, self.slots[at + 1], at)
            fits = is_distinct and fits_behind and _near(newer, old, at - 1, at)
            if fits:
                best = old
            is_repeated = candidate + 1 < SLOTS and old is former[candidate + 1]
            passed_over = is_repeated or not is_distinct
            if fits or passed_over:
                candidate += 1
            else:
                break
        return best, candidate

    def at_or_before(self, upstream: int) -> SyncedOffsets | None:
        """The newest sync that is not behind an offset; None where all kept ones are behind it."""
        for sync in self.slots:
            if sync.upstream <= upstream:
                return sync
        return None

    def distinct(self) -> Sequence[SyncedOffsets]:
        """The different syncs, newest first."""
        return list(dict.fromkeys(self.slots))


def _near(newer: SyncedOffsets, older: SyncedOffsets, i: int, j: int) -> bool:
    bound = older.upstream + (1 << j) - (1 << i)
    return newer is older or bound > _LONG_MAX or newer.upstream <= bound


def _distinct(newer: SyncedOffsets, older: SyncedOffsets, i: int) -> bool:
    bound = older.upstream + (1 << max(i - 2, 0))
    return newer is older or (bound <= _LONG_MAX and newer.upstream >= bound)
