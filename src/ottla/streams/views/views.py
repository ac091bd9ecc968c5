"""Follow a materialized table's topic into a local store, so that it can be asked by key.

A view reads committed records only, in a thread of its own, and needs nothing but the topic: any process can
have one, beside the application or far from it. Theory of operation:

- *restoring* until it has once reached the end that the topic had when it was asked; nobody is answered till
  then, because a half-read table is no table. Then *running*, and behind by what `status` says.
- Rows and positions are written together (view_store.py). A start goes on from there.
- A topic forgets deletions `delete.retention.ms` after it was compacted. A view that has been away from the
  end for half of that, or whose offsets are no longer in the topic, starts again from nothing, as does one
  whose topic was made anew.
- A broker that is away is waited for; the view answers meanwhile and says how old it is. What can't heal (the
  topic is gone, bytes that are no record of the table) ends the view: *failed*, and it answers with that.

Memory is bounded: what librdkafka has fetched, one batch of changes, SQLite's cache.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.config.errors import UserError
from ottla.pipeline.file_lock import FileLock
from ottla.streams.views.view_codec import Stored, TableCodec, TableKey
from ottla.streams.views.view_store import Change, Row, ViewStore

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

BATCH_RECORDS: Final = 5_000
CONSUME_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 1.0
"""How often the topic's end is asked for."""
RESTORING_LOOK_SECONDS: Final = 0.2
RETRY_SECONDS: Final = 1.0
KEEP_CURRENT_SECONDS: Final = 60.0
EXPIRE_ROWS: Final = 10_000
LOCK_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 30.0
DEFAULT_DELETE_RETENTION_MS: Final = 86_400_000
SHORTEST_FORGET_SECONDS: Final = 60.0
"""A view that is a moment behind is not read anew, however little its topic remembers."""
_CURRENT_AT = "current at"

log = logging.getLogger("ottla.streams")


class ViewError(UserError):
    """A view can't start; the message is for the user."""


class ViewState(Enum):
    """Where a view is in its life."""

    RESTORING = "restoring"
    RUNNING = "running"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ViewSettings:
    """One view. key_type, value_type: what the table's queries were compiled to.

    directory: where its file lies; one process a directory. retention_ms: windows are kept until event time
    is so far past their end; None: for as long as the topic has them.
    """

    name: str
    topic: str
    bootstrap: str
    directory: Path
    key_type: DataType
    value_type: DataType
    retention_ms: int | None = None
    client_options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """How a view does.

    positions: the next offset by partition. lag: records (and transactions' marks) up to the topic's end when
    it was last asked for. age_ms: how long ago the view was last known to be at the end, None when it never
    was. without_key: records that were left out because a row has a key.
    """

    state: ViewState
    positions: Mapping[int, int]
    ends: Mapping[int, int]
    lag: int
    age_ms: int | None
    without_key: int
    error: str | None


class View:
    """A materialized table that can be asked. `start` it, `close` it."""

    def __init__(self, settings: ViewSettings) -> None:
        self.settings = settings
        self.codec = TableCodec(settings.key_type, settings.value_type)
        self._cluster = KafkaCluster(settings.bootstrap, settings.client_options)
        self._lock = FileLock(settings.directory / f"{settings.name}.lock")
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._state = ViewState.RESTORING
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._current_at = 0.0
        self._kept_at = 0.0
        self._without_key = 0
        self._error: str | None = None
        self._stream_time_ms = 0
        self._topic_id = ""
        self._forget_seconds = DEFAULT_DELETE_RETENTION_MS / 2_000
        self._store: ViewStore | None = None

    def start(self) -> None:
        """Open the file and begin to read. Raises ViewError, ClusterError."""
        settings = self.settings
        topic_id = self._cluster.topic_id(settings.topic)
        if topic_id is None:
            raise ViewError(
                f"there is no topic {settings.topic} at {settings.bootstrap}: has the application run?"
            )
        self._topic_id = topic_id
        retention_ms = self._cluster.topic_settings(settings.topic).get("delete.retention.ms", "")
        if retention_ms.isdecimal():
            self._forget_seconds = max(int(retention_ms) / 2_000, SHORTEST_FORGET_SECONDS)
        settings.directory.mkdir(parents=True, exist_ok=True)
        if not self._lock.acquire(LOCK_SECONDS):
            raise ViewError(f"another process serves {settings.name} from {settings.directory}")
        try:
            self._store = self._opened()
        except (OSError, sqlite3.Error) as error:
            self._lock.release()
            raise ViewError(
                f"can't keep the table {settings.name} in {settings.directory}: {error}"
            ) from error
        self._thread = threading.Thread(target=self._run, name=f"view-{settings.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading and close the file. Safe to call twice."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                log.warning("the view %s does not stop", self.settings.name)
                return
            self._thread = None
        if self._store is not None:
            self._store.close()
            self._store = None
        self._lock.release()

    @property
    def status(self) -> ViewStatus:
        """How it does now."""
        with self._changed:
            lag = sum(max(0, end - self._positions.get(p, 0)) for p, end in self._ends.items())
            age = int((time.time() - self._current_at) * 1000) if self._current_at else None
            return ViewStatus(
                self._state,
                dict(self._positions),
                dict(self._ends),
                lag,
                0 if age is None and not self._ends and self._state is ViewState.RUNNING else age,
                self._without_key,
                self._error,
            )

    def wait_until(self, positions: Mapping[int, int], timeout_seconds: float) -> bool:
        """Wait until the view has read up to these offsets, or has failed; whether it has read them."""

        def reached() -> bool:
            return all(self._positions.get(p, 0) >= offset for p, offset in positions.items())

        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or reached(), timeout_seconds)
            return self._error is None and reached()

    def wait_until_running(self, timeout_seconds: float) -> bool:
        """Wait until it can be asked, or has failed; whether it can be asked."""
        with self._changed:
            self._changed.wait_for(lambda: self._state is not ViewState.RESTORING, timeout_seconds)
            return self._state is ViewState.RUNNING

    # What it can be asked; callers look at `status` first.

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

    # -- the thread ----------------------------------------------------------------------------------------

    @property
    def _rows(self) -> ViewStore:
        if self._store is None:
            raise ViewError(f"the view {self.settings.name} is closed")
        return self._store

    def _opened(self) -> ViewStore:
        settings = self.settings
        identity = json.dumps(
            [settings.topic, self._topic_id, settings.key_type.json(), settings.value_type.json()]
        )
        return ViewStore(
            settings.directory / f"{settings.name}.sqlite3", identity, windowed=self.codec.windowed
        )

    def _run(self) -> None:
        consumer: Consumer | None = None
        try:
            consumer = self._cluster.consumer()
            self._assign(consumer)
            looked_at = 0.0
            while not self._stop.is_set():
                restoring = self._state is ViewState.RESTORING
                if time.monotonic() - looked_at >= (RESTORING_LOOK_SECONDS if restoring else LOOK_SECONDS):
                    self._look_at_end(consumer)
                    looked_at = time.monotonic()
                self._take(consumer.consume(BATCH_RECORDS, CONSUME_SECONDS), consumer)
        except Exception as error:  # whatever it is, the view must not look alive
            log.error("the view %s has ended", self.settings.name, exc_info=error)
            with self._changed:
                self._state, self._error = ViewState.FAILED, str(error) or type(error).__name__
                self._changed.notify_all()
        finally:
            if consumer is not None:
                consumer.close()

    def _assign(self, consumer: Consumer) -> None:
        """Begin where the file ends, or from nothing where it is too old."""
        store = self._rows
        kept_at = store.fact(_CURRENT_AT)
        positions = store.positions()
        if positions and (kept_at is None or time.time() - kept_at / 1000 > self._forget_seconds):
            log.info("the view %s is too old to go on: it is read anew", self.settings.name)
            store.clear()
            positions = {}
        with self._changed:
            self._positions = dict(positions)
            self._current_at = (kept_at or 0) / 1000 if positions else 0.0
            self._state = ViewState.RESTORING
        consumer.assign(
            [
                TopicPartition(self.settings.topic, p, positions.get(p, OFFSET_BEGINNING))
                for p in self._patiently(lambda: self._cluster.partitions(self.settings.topic))
            ]
        )

    def _start_again(self, consumer: Consumer, why: str) -> None:
        log.warning("the view %s is read anew: %s", self.settings.name, why)
        self._rows.clear()
        self._assign(consumer)

    def _patiently(self, ask: Callable[[], Sequence[int]]) -> Sequence[int]:
        """Ask the cluster until it answers or the view is closed."""
        while not self._stop.is_set():
            try:
                return ask()
            except ClusterError as error:
                log.warning("the view %s waits: %s", self.settings.name, error)
                self._stop.wait(RETRY_SECONDS)
        return []

    def _look_at_end(self, consumer: Consumer) -> None:
        """Ask where the topic ends, and whether it is the topic that it was."""
        try:
            topic_id = self._cluster.topic_id(self.settings.topic)
            if topic_id is None:
                raise ViewError(f"the topic {self.settings.topic} was deleted")
            if topic_id != self._topic_id:
                raise ViewError(f"the topic {self.settings.topic} was deleted and made anew: start again")
            ends = self._cluster.end_positions(self.settings.topic)
        except ClusterError as error:
            log.info("the view %s does not know the end: %s", self.settings.name, error)
            return
        with self._changed:
            self._ends = ends
        self._note_whether_current(ends)
        if self._current_at and time.time() - self._current_at > self._forget_seconds:
            self._start_again(consumer, "it was behind for too long")

    def _note_whether_current(self, ends: Mapping[int, int]) -> None:
        now = time.time()
        with self._changed:
            # A partition that never had a record has no position.
            if any(self._positions.get(p, 0) < end for p, end in ends.items()):
                return
            self._current_at = now
            self._state = ViewState.RUNNING
            self._changed.notify_all()
        if now - self._kept_at >= KEEP_CURRENT_SECONDS:
            self._rows.keep_fact(_CURRENT_AT, int(now * 1000))
            self._kept_at = now

    def _take(self, messages: Sequence[Message], consumer: Consumer) -> None:
        """Write what has come."""
        changes: dict[TableKey, Change] = {}
        positions: dict[int, int] = {}
        for message in messages:
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    assert partition is not None and offset is not None
                    positions[partition] = offset
                elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                    self._start_again(consumer, "its offsets are not in the topic any more")
                    return
                elif error.fatal() or error.code() in _HOPELESS:
                    raise KafkaException(error)
                continue
            assert partition is not None and offset is not None
            positions[partition] = offset + 1
            if (key := message.key()) is None:
                self._without_key += 1
                continue
            value, (_, timestamp_ms) = message.value(), message.timestamp()
            try:
                changes[self.codec.key(bytes(key))] = Change(
                    None if value is None else self.codec.value(bytes(value)), timestamp_ms
                )
            except (ValueError, LookupError, TypeError) as problem:
                place = f"{self.settings.topic}-{partition} at offset {offset}"
                raise ViewError(
                    f"{place} is no record of the table {self.settings.name}: {problem}"
                ) from problem
            self._stream_time_ms = max(self._stream_time_ms, timestamp_ms)
        if not positions:
            return
        self._rows.apply(changes, positions)
        self._expire()
        with self._changed:
            self._positions |= positions
            self._changed.notify_all()
            ends = dict(self._ends)
        if self._state is ViewState.RESTORING and ends:
            self._note_whether_current(ends)

    def _expire(self) -> None:
        """Drop windows behind the retention; a bounded number for each batch that came."""
        retention_ms = self.settings.retention_ms
        if retention_ms is None or not self.codec.windowed:
            return
        self._rows.expire(self._stream_time_ms - retention_ms, EXPIRE_ROWS)


_HOPELESS: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
    }
)
