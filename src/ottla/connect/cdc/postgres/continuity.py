"""Whether a server's log goes on where an offset ends; no I/O.

After a failover it may not, and nobody else tells. A promoted standby begins a timeline of its own at the
place up to which it had the primary's log. What Kafka has from behind that place never happened there, and
its later changes have the same numbers. A slot is not copied to standbys (before PostgreSQL 17, or by hand):
one that is made there begins where it is made. An offset is never behind its slot, as a slot is confirmed
only what an offset in Kafka covers: so a slot that is ahead was made anew, or moved by somebody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.connect.cdc.postgres.position import History, Position, lsn_of, lsn_text
from ottla.connect.cdc.postgres.slots import Slot

_SWITCH: Final = re.compile(r"\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+)")
Switches = Mapping[int, int]
"""By timeline, where this server's history left it."""


def switches_of(text: str) -> Switches:
    """The content of a timeline's history file; lines that are comments are left out."""
    found = {}
    for line in text.splitlines():
        matched = _SWITCH.match(line)
        if matched is not None:
            found[int(matched[1])] = lsn_of(matched[2])
    return found


def gap(position: Position, here: History, switches: Switches, slot: Slot | None, name: str) -> str | None:
    """Why changes are missing behind a position, or what Kafka has is not here; None: the stream goes on.

    name: of the slot.
    """
    return _of_history(position, here, switches) or _of_slot(position, here, slot, name)


def _of_history(position: Position, here: History, switches: Switches) -> str | None:
    then = position.history
    if then is None or then == here:
        return None
    if then.system != here.system:
        return (
            f"this is another database cluster than the offset's (system identifier {here.system}, not "
            f"{then.system}): places in its log mean something else"
        )
    if then.timeline > here.timeline:
        return (
            f"this server is on timeline {here.timeline}, and the offset on {then.timeline}: it is a primary "
            "of before a failover, or was restored from a backup"
        )
    left = switches.get(then.timeline)
    if left is None:
        return (
            f"this server (timeline {here.timeline}) does not descend from timeline {then.timeline}, on "
            "which the offset is"
        )
    if position.commit > left:
        return (
            f"this server was promoted at {lsn_text(left)}, and Kafka has changes of the former primary up "
            f"to {lsn_text(position.commit)}, which this one never had"
        )
    return None


def _of_slot(position: Position, here: History, slot: Slot | None, name: str) -> str | None:
    needed = lsn_text(position.commit)
    if slot is None:
        failed_over = position.history is not None and position.history.timeline != here.timeline
        why = " (it was not copied to this server, which was promoted)" if failed_over else ""
        return f"the slot {name} is gone{why}, and so are the changes from {needed} on"
    if slot.is_lost:
        return (
            f"the slot {name} is lost: it lagged by more than max_slot_wal_keep_size. Changes are gone from "
            f"{needed} on"
        )
    if position.history is not None and slot.confirmed > position.commit:
        return (
            f"the slot {name} begins at {lsn_text(slot.confirmed)}, but the offset is {needed}: the slot was "
            "made anew or moved, or the offset was set back, and the changes in between are gone"
        )
    return None
