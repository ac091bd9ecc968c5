"""Reads for one session what its client has not had yet: pieces of the log, from its own offsets on.

Theory of operation. A few threads with a consumer each serve all sessions that are behind, a piece at a time
and in turns, so that thousands of clients that come back at once need no thousands of consumers. A piece ends
where the service's own reading was when it was asked for, or with as many messages as the session has room
for, or after PIECE_SECONDS: a session for which little of a long log matters goes on with its next turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ottla.client.access import ClusterAccess
from ottla.mqtt.core.subscriptions import Arrived, Place
from ottla.mqtt.core.topics import matches
from ottla.mqtt.record_reading import read_record
from ottla.mqtt.subscribers import arrived_of

clients_log = logging.getLogger("ottla.client.mqtt")
log = logging.getLogger("ottla.mqtt")

THREADS: Final = 2
BATCH: Final = 200
PIECE_SECONDS: Final = 2.0
POLL_SECONDS: Final = 0.05
JOIN_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 10.0
MOST_PIECE_BYTES: Final = 1 << 20
_SETTINGS: Final[dict[str, Any]] = {
    "group.id": "ottla-mqtt",  # librdkafka asks for one; nothing is committed, and no group joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": 2 << 10,
    "max.partition.fetch.bytes": 256 << 10,
    "fetch.wait.max.ms": 50,
    "allow.auto.create.topics": False,
}


@dataclass(frozen=True, slots=True)
class Piece:
    """messages: those that matter, each partition's in order. reached: where the next piece begins."""

    messages: Sequence[Arrived]
    reached: Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """reading: where each partition begins. ends: where there is no more to read for now."""

    reading: Mapping[Place, int]
    ends: Mapping[Place, int]
    filters: Sequence[Sequence[str]]
    most: int
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Piece]


@dataclass(slots=True)
class _Reading:
    """A piece that is being made."""

    wanted: _Wanted
    reached: dict[Place, int]
    left: set[Place]
    messages: list[Arrived] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def is_done(self) -> bool:
        """Whether it is as large as it may be, or complete."""
        full = len(self.messages) >= self.wanted.most or self.size_bytes >= MOST_PIECE_BYTES
        return full or not self.left

    def add(self, message: Any) -> None:
        """Take what came."""
        place = (message.topic(), message.partition())
        if place not in self.left:
            return
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self.reached[place] = max(self.reached[place], self.wanted.ends[place])
                self.left.discard(place)
            else:
                log.warning("a partition can't be read: %s", error.str())
            return
        record = read_record(message)
        offset = record.at[1]
        if offset < self.wanted.ends[place]:
            arrived = arrived_of(record)
            if arrived is not None and any(
                matches(levels, arrived.message.topic) for levels in self.wanted.filters
            ):
                self.messages.append(arrived)
                self.size_bytes += arrived.message.size_bytes
            self.reached[place] = offset + 1
        if offset + 1 >= self.wanted.ends[place]:
            self.reached[place] = max(self.reached[place], self.wanted.ends[place])
            self.left.discard(place)


class BacklogReading:
    """That of one service; its threads begin with the first piece."""

    def __init__(self, access: ClusterAccess) -> None:
        self._properties = access.librdkafka(_SETTINGS)
        self._queue: queue.SimpleQueue[_Wanted | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._stops = threading.Event()

    async def piece(
        self,
        reading: Mapping[Place, int],
        ends: Mapping[Place, int],
        filters: Sequence[Sequence[str]],
        most: int,
    ) -> Piece:
        """Read on from `reading`, at most to `ends`; what no filter (by levels) matches is passed over."""
        loop = asyncio.get_running_loop()
        wanted = _Wanted(dict(reading), dict(ends), filters, most, loop, loop.create_future())
        self._queue.put(wanted)
        if len(self._threads) < THREADS:
            thread = threading.Thread(target=self._run, name="mqtt-backlog", daemon=True)
            self._threads.append(thread)
            thread.start()
        return await wanted.answer

    async def stop(self) -> None:
        """Read no more."""
        self._stops.set()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join, JOIN_SECONDS)

    # -- in the threads -------------------------------------------------------------------------------------

    def _run(self) -> None:
        consumer: Consumer | None = None
        while not self._stops.is_set():
            try:
                wanted = self._queue.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                if consumer is not None:
                    consumer.close()
                    consumer = None
                continue
            if wanted is None:
                break
            try:
                consumer = consumer or Consumer(self._properties, logger=clients_log)
                self._answer(wanted, self._read(consumer, wanted))
            except Exception as problem:  # the session's next attempt may do better
                log.warning("what a session has missed can't be read: %r", problem)
                self._stops.wait(PIECE_SECONDS)
                self._answer(wanted, Piece((), {}))
        if consumer is not None:
            consumer.close()

    def _answer(self, wanted: _Wanted, piece: Piece) -> None:
        def tell() -> None:
            if not wanted.answer.done():
                wanted.answer.set_result(piece)

        with contextlib.suppress(RuntimeError):  # the loop is closed: the service has ended
            wanted.loop.call_soon_threadsafe(tell)

    def _read(self, consumer: Consumer, wanted: _Wanted) -> Piece:
        """Raises KafkaException."""
        begins = {place: wanted.reading.get(place, 0) for place in wanted.ends}
        left = {place for place, begin in begins.items() if begin < wanted.ends[place]}
        made = _Reading(wanted, begins, left)
        until = time.monotonic() + PIECE_SECONDS
        consumer.assign([TopicPartition(*place, begins[place]) for place in left])
        try:
            while not made.is_done and time.monotonic() < until and not self._stops.is_set():
                _add_all(made, consumer.consume(min(BATCH, wanted.most), POLL_SECONDS))
        finally:
            with contextlib.suppress(KafkaException):
                consumer.unassign()
        return Piece(made.messages, made.reached)


def _add_all(made: _Reading, messages: Sequence[Any]) -> None:
    """Take what came; what is too much for the piece is read again with the next."""
    for message in messages:
        if made.is_done:
            return
        made.add(message)
