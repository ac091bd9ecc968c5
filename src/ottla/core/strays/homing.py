"""What is done about strays: which are copied to where they belong, and what is deleted where they were.

Every step can be repeated, so a kill at any of them is made good by the next load of the partition:

    1. what is missing at home is appended there and committed    before: all is where it was
    2. tombstones are appended where it was                       between: it is in both, home wins
                                                                  after: nothing is left to do

A copy keeps the timestamp of the record that it is made from, so it is never newer than that: a repetition
finds it at home, equally old, and leaves it alone; so it does whatever was written there since.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from ottla.core.strays.units import Unit, at_home


@dataclass(frozen=True, slots=True)
class Homing:
    """What follows from two logs."""

    copies: tuple[Unit, ...]
    """To append at home, each unit's records in one batch."""
    tombstones: tuple[bytes, ...]
    """The keys to delete where the strays were, once the copies are committed."""
    names: int
    superseded: int
    """Units that home has newer ones of."""


def unsettled(strays: Mapping[Hashable, Unit]) -> set[str]:
    """The names whose transactions have to end before they can be moved."""
    return {unit.name for unit in strays.values() if not unit.is_settled}


def decide(strays: Mapping[Hashable, Unit], home: Mapping[Hashable, Unit], leader_epoch: int) -> Homing:
    """Move what is settled, unless home has it and it is as new there, or may not be replaced.

    `leader_epoch` is home's.
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
