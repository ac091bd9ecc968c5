"""Keep global tables in memory, and read them again when their topics have grown.

Without this a join with a global table reads the table's whole topic with every batch: always the newest
state, at a price that grows with the topic. A `GlobalSnapshots` puts the table's rows into Spark's cache,
which every batch's plan finds by itself, and asks for the end of the topic every `check_ms`. When that has
moved, the cache is emptied and filled anew; a batch that is planned in between reads the topic.

So a record meets the table as it was at most `check_ms` and one reading before its batch, or newer. Kafka
Streams' global tables follow their topics in the same way, on a thread of their own. A table that changes all
the time is read again at most so often that reading takes a tenth of the time (`GlobalSnapshot.rest`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.client.errors import ClusterError
from ottla.streams.run.repeated import Repeated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("ottla.streams")


@dataclass(slots=True)
class GlobalSnapshot:
    """One table's rows in Spark's cache.

    rows: `global_table_rows` of the topic: the very frame that is in the join's plan. ends: the
    topic's end offsets now; raises ClusterError. rest: how many times as long as a reading took it is left
    alone after it, however the topic changes.
    """

    name: str
    rows: DataFrame
    ends: Callable[[], Mapping[int, int]]
    rest: float = 10
    _seen: Mapping[int, int] | None = field(default=None, init=False)
    _not_before: float = field(default=0.0, init=False)

    def refresh(self) -> bool:
        """Read the table again if its topic has grown, and it is time; whether it was read."""
        if time.monotonic() < self._not_before:
            return False
        ends = self.ends()
        if ends == self._seen:
            return False
        started = time.monotonic()
        self.rows.unpersist(blocking=False)
        self.rows.persist()
        rows = self.rows.count()
        ended = time.monotonic()
        # A row written while the topic was read may be missing: the next look at the ends tells.
        self._seen = ends
        self._not_before = ended + self.rest * (ended - started)
        log.debug("global table %s read: %d rows", self.name, rows)
        return True

    def drop(self) -> None:
        """Take the rows out of the cache."""
        self._seen = None
        self.rows.unpersist(blocking=False)


class GlobalSnapshots:
    """The thread that keeps an application's global tables fresh; `start` reads them all once.

    A cluster that is away is waited for, with the tables as they are; anything else ends the thread and is
    given to `failed`, for the owner to end the application.
    """

    def __init__(
        self, snapshots: list[GlobalSnapshot], *, check_ms: int, failed: Callable[[BaseException], None]
    ) -> None:
        if check_ms <= 0:
            raise ValueError(f"check_ms must be positive, not {check_ms}")
        self._snapshots = snapshots
        self._repeated = Repeated("global tables", check_ms / 1000, self._refresh_all, failed)

    def start(self) -> None:
        """Read all tables, then keep them fresh. Raises ClusterError, and Spark's errors of reading."""
        for each in self._snapshots:
            each.refresh()
        self._repeated.start()

    def stop(self) -> None:
        """Stop looking and give the memory back. Safe to call twice, and before `start`."""
        self._repeated.stop()
        for each in self._snapshots:
            each.drop()

    def _refresh_all(self) -> None:
        for each in self._snapshots:
            self._refresh(each)

    def _refresh(self, snapshot: GlobalSnapshot) -> None:
        try:
            snapshot.refresh()
        except ClusterError as error:
            log.warning("global table %s is as it was: %s", snapshot.name, error)
