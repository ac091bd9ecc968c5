"""Read a view's topic into its store, in a thread of its own, for as long as the view is open."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from ottla.client.errors import ClusterError
from ottla.client.reading import ends_reading
from ottla.streams.views.followed_topic import FollowedTopic, ViewError
from ottla.streams.views.view_codec import TableKey
from ottla.streams.views.view_status import Progress, ViewState
from ottla.streams.views.view_store import Change, ViewStore

BATCH_RECORDS: Final = 5_000
CONSUME_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 1.0
"""How often the topic's end is asked for."""
RESTORING_LOOK_SECONDS: Final = 0.2
RETRY_SECONDS: Final = 1.0
KEEP_CURRENT_SECONDS: Final = 60.0
EXPIRE_ROWS: Final = 10_000
WHOLE_SECONDS: Final = 0.5
WHOLE_RECORDS: Final = 100_000
"""Of one partition's transaction: a larger one is written in parts."""
_CURRENT_AT: Final = "current at"

log = logging.getLogger("ottla.streams")


class RecordCodec(Protocol):
    """How a table's records are stored. Wrong bytes raise ValueError, LookupError or TypeError."""

    windowed: bool

    def key(self, data: bytes) -> TableKey:
        """The key that a record's bytes are."""

    def value(self, data: bytes) -> bytes:
        """What is stored of a value."""


@dataclass(slots=True)
class StoredTable:
    """A table in its store. retention_ms: of windows; None: as long as the topic has them.

    stream_time_ms: the largest time of a record so far. skips_unreadable: records that are none of the
    table's are left out; without it they end the view. whole_transactions: see `Follower`.
    """

    name: str
    store: ViewStore
    codec: RecordCodec
    retention_ms: int | None
    stream_time_ms: int = 0
    skips_unreadable: bool = False
    whole_transactions: bool = False

    def change(self, key: bytes, value: bytes | None, timestamp_ms: int) -> tuple[TableKey, Change]:
        """A record as a change of a row. Raises ValueError, LookupError or TypeError for other bytes."""
        change = Change(None if value is None else self.codec.value(value), timestamp_ms)
        found = self.codec.key(key)
        self.stream_time_ms = max(self.stream_time_ms, timestamp_ms)
        return found, change

    def expire(self) -> None:
        """Drop windows behind the retention; a bounded number for each batch that came."""
        if self.retention_ms is not None and self.codec.windowed:
            self.store.expire(self.stream_time_ms - self.retention_ms, EXPIRE_ROWS)


@dataclass(slots=True)
class _Waiting:
    """Changes of one partition that may be the first ones of a transaction."""

    next_offset: int
    since: float
    changes: dict[TableKey, Change] = field(default_factory=dict)


class Follower:
    """The work of a view's thread: `run` returns when `stop` is set, or the view has failed.

    A table with whole_transactions is changed by a transaction of a partition at once, while it runs. The
    client shows no markers, but each takes an offset: what has come is written when the next record's offset
    leaves one out, or when the partition is at its end; else after WHOLE_SECONDS or WHOLE_RECORDS, so that
    records without transactions come through.
    """

    def __init__(
        self, topic: FollowedTopic, table: StoredTable, progress: Progress, stop: threading.Event
    ) -> None:
        self._topic = topic
        self._table = table
        self._progress = progress
        self._stop = stop
        self._kept_at = 0.0
        self._waiting: dict[int, _Waiting] = {}

    def run(self) -> None:
        """Follow the topic. An error ends the view, and it answers with that."""
        consumer: Consumer | None = None
        try:
            consumer = self._topic.consumer()
            self._assign(consumer)
            looked_at = 0.0
            while not self._stop.is_set():
                restoring = self._progress.state is ViewState.RESTORING
                if time.monotonic() - looked_at >= (RESTORING_LOOK_SECONDS if restoring else LOOK_SECONDS):
                    self._look_at_end(consumer)
                    looked_at = time.monotonic()
                self._take(consumer.consume(BATCH_RECORDS, CONSUME_SECONDS), consumer)
        except Exception as error:  # of any kind: the view must not look alive
            log.error("the view %s has ended", self._table.name, exc_info=error)
            self._progress.fail(str(error) or type(error).__name__)
        finally:
            if consumer is not None:
                consumer.close()

    def _assign(self, consumer: Consumer) -> None:
        """Begin where the store ends, or from nothing where it is too old."""
        store = self._table.store
        self._waiting.clear()
        kept_at = store.fact(_CURRENT_AT)
        positions = store.positions()
        if positions and (kept_at is None or time.time() - kept_at / 1000 > self._topic.forget_seconds):
            log.info("the view %s is too old to go on: it is read anew", self._table.name)
            store.clear()
            positions = {}
        self._progress.begin(positions, (kept_at or 0) / 1000 if positions else 0.0)
        consumer.assign(
            [
                TopicPartition(self._topic.name, p, positions.get(p, OFFSET_BEGINNING))
                for p in self._partitions()
            ]
        )

    def _start_again(self, consumer: Consumer, why: str) -> None:
        log.warning("the view %s is read anew: %s", self._table.name, why)
        self._table.store.clear()
        self._assign(consumer)

    def _partitions(self) -> Sequence[int]:
        """The topic's partitions: asked for until the cluster answers or the view is closed."""
        while not self._stop.is_set():
            try:
                return self._topic.partitions()
            except ClusterError as error:
                log.warning("the view %s waits: %s", self._table.name, error)
                self._stop.wait(RETRY_SECONDS)
        return []

    def _look_at_end(self, consumer: Consumer) -> None:
        """Ask where the topic ends, and whether it is the topic that it was."""
        try:
            ends = self._topic.ends()
        except ClusterError as error:
            log.info("the view %s does not know the end: %s", self._table.name, error)
            return
        self._progress.ends_at(ends)
        self._note_whether_current()
        current_at = self._progress.current_at
        if current_at and time.time() - current_at > self._topic.forget_seconds:
            self._start_again(consumer, "it was behind for too long")

    def _note_whether_current(self) -> None:
        now = time.time()
        if self._progress.note_whether_current(now) and now - self._kept_at >= KEEP_CURRENT_SECONDS:
            self._table.store.keep_fact(_CURRENT_AT, int(now * 1000))
            self._kept_at = now

    def _take(self, messages: Sequence[Message], consumer: Consumer) -> None:
        """Write the records that have come."""
        changes: dict[TableKey, Change] = {}
        positions: dict[int, int] = {}
        without_key = 0
        holds = self._table.whole_transactions and self._progress.state is ViewState.RUNNING
        for message in messages:
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    assert partition is not None and offset is not None
                    self._let_go(partition, changes)
                    positions[partition] = offset
                elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                    self._start_again(consumer, "its offsets are not in the topic any more")
                    return
                elif ends_reading(error):
                    raise KafkaException(error)
                continue
            assert partition is not None and offset is not None
            into = changes
            if holds or partition in self._waiting:
                into = self._held(partition, offset, changes, positions)
            else:
                positions[partition] = offset + 1
            key, value = message.key(), message.value()
            if key is None:
                without_key += 1
                continue
            try:
                row, change = self._table.change(
                    bytes(key), None if value is None else bytes(value), message.timestamp()[1]
                )
            except (ValueError, LookupError, TypeError) as problem:
                place = f"{self._topic.name}-{partition} at offset {offset}"
                if self._table.skips_unreadable:
                    log.warning("%s is no record of the table %s: %s", place, self._table.name, problem)
                    continue
                raise ViewError(
                    f"{place} is no record of the table {self._table.name}: {problem}"
                ) from problem
            into[row] = change
        self._let_go_of_old(changes, positions, holds=holds)
        if not positions:
            return
        self._table.store.apply(changes, positions)
        self._table.expire()
        self._progress.read_to(positions, without_key)
        if self._progress.state is ViewState.RESTORING and self._progress.status.ends:
            self._note_whether_current()

    def _held(
        self, partition: int, offset: int, changes: dict[TableKey, Change], positions: dict[int, int]
    ) -> dict[TableKey, Change]:
        """Where a record's change goes; what waited goes to `changes` if a marker was between."""
        waiting = self._waiting.get(partition)
        if waiting is not None and offset > waiting.next_offset:
            self._let_go(partition, changes)
            positions[partition] = offset
            waiting = None
        if waiting is None:
            waiting = self._waiting[partition] = _Waiting(offset, time.monotonic())
        waiting.next_offset = offset + 1
        return waiting.changes

    def _let_go(self, partition: int, changes: dict[TableKey, Change]) -> None:
        waiting = self._waiting.pop(partition, None)
        if waiting is not None:
            changes.update(waiting.changes)

    def _let_go_of_old(
        self, changes: dict[TableKey, Change], positions: dict[int, int], *, holds: bool
    ) -> None:
        """Write what has waited for too long, or is too much; and all where nothing is to wait."""
        now = time.monotonic()
        for partition, waiting in list(self._waiting.items()):
            is_old = now - waiting.since > WHOLE_SECONDS
            if is_old or not holds or len(waiting.changes) > WHOLE_RECORDS:
                positions[partition] = waiting.next_offset
                self._let_go(partition, changes)
