"""How far the slot is behind, asked every few seconds while tables are copied and changes streamed.

By a connection of its own: the others are busy with COPY or the stream. A server that can't be asked is asked
again; that ends no task.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

import psycopg

from ottla.connect.cdc.postgres.catalog import Connection
from ottla.connect.cdc.postgres.slots import Slot, WalStatus, find_slot

INTERVAL_SECONDS: Final = 5.0
_log = logging.getLogger(__name__)

LAG: Final = "slot-lag-bytes"
"""The server's log behind the place that is confirmed."""
RETAINED: Final = "slot-retained-bytes"
"""The log that the server keeps for the slot: from the oldest transaction that was open there."""
SAFE: Final = "slot-safe-bytes"
"""What may still be written before the slot is in danger; not there without max_slot_wal_keep_size."""
WAL_STATUS: Final = "slot-wal-status"
"""0 reserved, 1 extended, 2 unreserved, 3 lost."""
_NUMBERS: Final = {
    WalStatus.RESERVED: 0,
    WalStatus.EXTENDED: 1,
    WalStatus.UNRESERVED: 2,
    WalStatus.LOST: 3,
}


class SlotWatch:
    """Looks at one slot. connect: makes a connection that commits by itself."""

    def __init__(self, connect: Callable[[], Connection], slot: str, database: str) -> None:
        self._connect = connect
        self._slot = slot
        self._database = database
        self._connection: Connection | None = None
        self._figures: Mapping[str, float] = {}
        self._next = 0.0
        self._told: WalStatus | None = None

    def figures(self) -> Mapping[str, float]:
        """What was seen last; the slot is looked at again where that is some seconds ago."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + INTERVAL_SECONDS
            try:
                self._look()
            except psycopg.Error as problem:
                self._figures = {}
                self.close()
                _log.debug("the slot %s can't be looked at: %s", self._slot, problem)
        return self._figures

    def _look(self) -> None:
        if self._connection is None:
            self._connection = self._connect()
        found = find_slot(self._connection, self._slot, self._database)
        if found is None:
            self._figures = {}
            return
        self._figures = figures_of(found)
        if found.wal_status is not self._told:
            self._told = found.wal_status
            warn_of_status(self._slot, found)

    def close(self) -> None:
        """Give the connection up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def figures_of(slot: Slot) -> Mapping[str, float]:
    """The figures of a slot."""
    found: dict[str, float] = {LAG: slot.lag_bytes, RETAINED: slot.retained_bytes}
    if slot.safe_bytes is not None:
        found[SAFE] = slot.safe_bytes
    if slot.wal_status is not None:
        found[WAL_STATUS] = _NUMBERS[slot.wal_status]
    return found


def warn_of_status(name: str, slot: Slot) -> None:
    """Say where the server's log is about to be thrown away that the slot needs, or is."""
    match slot.wal_status:
        case WalStatus.EXTENDED:
            _log.warning(
                "the server keeps %d bytes of its log for the slot %s, more than max_wal_size: is the "
                "connector too slow, or a transaction open for long? max_slot_wal_keep_size is its limit",
                slot.retained_bytes,
                name,
            )
        case WalStatus.UNRESERVED:
            _log.error(
                "the slot %s lags by more than max_slot_wal_keep_size: the server throws the log away at its "
                "next checkpoint, and changes with it. Raise max_slot_wal_keep_size now",
                name,
            )
        case WalStatus.LOST:
            _log.error("the slot %s is lost: the server has thrown away what it needs", name)
        case WalStatus.RESERVED | None:
            pass
