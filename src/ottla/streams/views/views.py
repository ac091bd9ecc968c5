"""Follow a materialized table's topic into a local store, so that it can be asked by key.

A view reads committed records only, in a thread of its own, and needs nothing but the topic: any process can
have one, beside the application or far from it. Theory of operation:

- *restoring* until it has once reached the end that the topic had when it was asked; no question is answered
  till then, because a half-read table is no table. Then *running*, and behind by the lag that `status` tells.
- Rows and positions are written together (view_store.py). A start goes on from there.
- A topic forgets deletions `delete.retention.ms` after it was compacted. A view that has been away from the
  end for half of that, or whose offsets are no longer in the topic, starts again from nothing, as does one
  whose topic was made anew.
- A broker that is away is waited for; the view answers meanwhile and says how old it is. An error that
  can't heal (the topic is gone, bytes that are no record of the table) ends the view: *failed*, and it
  answers with that.

Memory is bounded: librdkafka's queues, one batch of changes, SQLite's cache.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.pipeline.file_lock import FileLock
from ottla.streams.views.followed_topic import FollowedTopic, ViewError
from ottla.streams.views.follower import Follower, StoredTable
from ottla.streams.views.view_codec import Stored, TableCodec, TableKey
from ottla.streams.views.view_status import Progress, ViewStatus
from ottla.streams.views.view_store import Row, ViewStore

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

LOCK_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 30.0

log = logging.getLogger("ottla.streams")


@dataclass(frozen=True, slots=True)
class RowTypes:
    """The rows of a table: the types that its queries were compiled to.

    retention_ms: windows are kept until event time is so far past their end; None: for as long as the topic
    has them.
    """

    key: DataType
    value: DataType
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ViewSettings:
    """One view. directory: where its file lies; one process a directory."""

    name: str
    topic: str
    cluster: ClusterAccess
    directory: Path
    rows: RowTypes


@dataclass(frozen=True, slots=True)
class _Open:
    """An open view: its file, and the thread that reads the topic until `stop` is set."""

    store: ViewStore
    thread: threading.Thread
    stop: threading.Event


class View:
    """A materialized table that can be asked. `start` it, `close` it."""

    def __init__(self, settings: ViewSettings) -> None:
        self.settings = settings
        self.codec = TableCodec(settings.rows.key, settings.rows.value)
        self._lock = FileLock(settings.directory / f"{settings.name}.lock")
        self._progress = Progress()
        self._open: _Open | None = None

    def start(self) -> None:
        """Open the file and begin to read. Raises ViewError, ClusterError."""
        settings = self.settings
        cluster = KafkaCluster(settings.cluster.bootstrap, settings.cluster.properties)
        topic = FollowedTopic.found(cluster, settings.topic)
        settings.directory.mkdir(parents=True, exist_ok=True)
        if not self._lock.acquire(LOCK_SECONDS):
            raise ViewError(f"another process serves {settings.name} from {settings.directory}")
        try:
            store = self._opened(topic.id)
        except (OSError, sqlite3.Error) as error:
            self._lock.release()
            raise ViewError(
                f"can't keep the table {settings.name} in {settings.directory}: {error}"
            ) from error
        stop = threading.Event()
        table = StoredTable(settings.name, store, self.codec, settings.rows.retention_ms)
        follower = Follower(topic, table, self._progress, stop)
        thread = threading.Thread(target=follower.run, name=f"view-{settings.name}", daemon=True)
        self._open = _Open(store, thread, stop)
        thread.start()

    def close(self) -> None:
        """Stop reading and close the file. Safe to call twice."""
        if self._open is not None:
            self._open.stop.set()
            self._open.thread.join(CLOSE_SECONDS)
            if self._open.thread.is_alive():
                log.warning("the view %s does not stop", self.settings.name)
                return
            self._open.store.close()
            self._open = None
        self._lock.release()

    @property
    def status(self) -> ViewStatus:
        """Its progress now."""
        return self._progress.status

    def wait_until(self, positions: Mapping[int, int], timeout_seconds: float) -> bool:
        """Wait until the view has read up to these offsets, or has failed; whether it has read them."""
        return self._progress.wait_until_read(positions, timeout_seconds)

    def wait_until_running(self, timeout_seconds: float) -> bool:
        """Wait until it can be asked, or has failed; whether it can be asked."""
        return self._progress.wait_until_running(timeout_seconds)

    # The questions; callers look at `status` first.

    def get(self, key: Stored) -> Row | None:
        """A key's row, of a table without windows."""
        return self._rows.get(key)

    def windows(self, key: Stored, from_ms: int, to_ms: int, limit: int) -> list[Row]:
        """A key's windows that start from `from_ms` to `to_ms`, oldest first."""
        return self._rows.windows(key, from_ms, to_ms, limit)

    def range(self, low: Stored | None, high: Stored | None, after: TableKey | None, limit: int) -> list[Row]:
        """Rows in the order of keys, both ends inclusive."""
        return self._rows.range(low, high, after, limit)

    def count(self) -> int:
        """How many rows there are, windows counted each."""
        return self._rows.count()

    @property
    def _rows(self) -> ViewStore:
        if self._open is None:
            raise ViewError(f"the view {self.settings.name} is closed")
        return self._open.store

    def _opened(self, topic_id: str) -> ViewStore:
        settings, rows = self.settings, self.settings.rows
        identity = json.dumps([settings.topic, topic_id, rows.key.json(), rows.value.json()])
        path = settings.directory / f"{settings.name}.sqlite3"
        return ViewStore(path, identity, windowed=self.codec.windowed)
