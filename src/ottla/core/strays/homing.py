"""Decides which strays are copied to the right partition, their home, and which keys are deleted.

Every step can be repeated, so after a kill at any point the next load of the partition completes the move:

    1. records missing at home are appended there and committed   before: all is where it was
    2. tombstones are appended where they were                    between: they are in both, home wins
                                                                  after: nothing is left to do

A copy keeps the timestamp of its record, so it is never newer than that: a repetition finds it at home,
equally old, and leaves it alone, and so it does with records written there since.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from ottla.core.strays.units import Unit, at_home


@dataclass(frozen=True, slots=True)
class Homing:
    """The actions that follow from the strays and the home log."""

    copies: tuple[Unit, ...]
    """The units to append at home, each unit's records in one batch."""
    tombstones: tuple[bytes, ...]
    """The keys to delete where the strays are, once the copies are committed."""
    names: int
    superseded: int
    """The number of units that are as new or newer at home."""


def unsettled(strays: Mapping[Hashable, Unit]) -> set[str]:
    """The names whose transactions have to end before they can be moved."""
    return {unit.name for unit in strays.values() if not unit.is_settled}


def decide(strays: Mapping[Hashable, Unit], home: Mapping[Hashable, Unit], leader_epoch: int) -> Homing:
    """Copy every stray unit, unless home's is as new or has priority; delete all strays.

    leader_epoch: that of the partition at home.
    """
    live = {key: unit for key, unit in strays.items() if unit.records}
    copies = []
    for key, stray in live.items():
        there = home.get(key)
        if there is None or (not there.has_priority and there.changed_ms < stray.changed_ms):
            copies.append(at_home(stray, leader_epoch))
    return Homing(
        copies=tuple(copies),
        tombstones=tuple(
            dict.fromkeys(
                record.key for unit in live.values() for record in unit.records if record.key is not None
            )
        ),
        names=len({unit.name for unit in live.values()}),
        superseded=len(live) - len(copies),
    )
