"""Reads what comes into Kafka topics from now on, whoever writes it, for clients that subscribe.

Theory of operation. A consumer in no group runs in a thread, from the first subscription on. It begins at the
ends of the topics as they are then: `ready` returns once these are known, so nothing is missed that is
written after a SUBACK. A topic or partition that appears later is read from its begin. The thread gives each
batch to the loop and waits until that has handled it, so one batch is held besides librdkafka's queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from ottla.client.access import ClusterAccess
from ottla.mqtt.core.subscriptions import At, Place

clients_log = logging.getLogger("ottla.client.mqtt")
log = logging.getLogger("ottla.mqtt")

BATCH: Final = 500
POLL_SECONDS: Final = 0.1
ASK_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 10.0
LOOK_FOR_MISSING_SECONDS: Final = 1.0
READY_SECONDS: Final = 15.0
"""How long a subscription waits for the cluster."""

_SETTINGS: Final[dict[str, Any]] = {
    "group.id": "ottla-mqtt",  # librdkafka asks for one; nothing is committed, and no group joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": 16 << 10,
    "fetch.wait.max.ms": 50,
    "allow.auto.create.topics": False,
}


class ReadRecord(NamedTuple):
    """A record. timestamp_ms: when it was written, 0 where that is not known."""

    at: At
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp_ms: int


_MISSING: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})

Handle = Callable[[Sequence[ReadRecord]], Awaitable[None]]


class RecordReading:
    """The reading of one service. handle: takes each batch, on the loop."""

    def __init__(self, access: ClusterAccess, topics: Sequence[str], handle: Handle) -> None:
        self._properties = access.librdkafka(_SETTINGS)
        self._topics = topics
        self._handle = handle
        self._thread: threading.Thread | None = None
        self._stops = threading.Event()
        self._ready: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._known: set[tuple[str, int]] = set()
        self._ended = asyncio.Event()
        self._problem = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self.begins: dict[Place, int] = {}
        """Where the reading of each partition has begun; changed on the loop alone."""

    async def ready(self) -> bool:
        """Begin to read, if that is not done yet; whether it has begun. False while the cluster is away."""
        if self._ready is None:
            self._loop = asyncio.get_running_loop()
            self._ready = self._loop.create_future()
            self._thread = threading.Thread(target=self._run, name="mqtt-reading", daemon=True)
            self._thread.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READY_SECONDS):
                await asyncio.shield(self._ready)
        return self._ready.done()

    async def failed(self) -> str:
        """Wait until the reading has ended by a fault; returns it."""
        await self._ended.wait()
        return self._problem

    async def stop(self) -> None:
        """Read no more."""
        self._stops.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, ASK_SECONDS)

    # -- in the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._read()
        except Exception as problem:  # the service must not go on without it
            log.exception("the reading of records has ended")
            self._problem = f"the reading of records has ended: {problem!r}"
            self._on_loop(self._ended.set)

    def _read(self) -> None:
        consumer = Consumer(self._properties, logger=clients_log)
        try:
            is_new = True
            next_look = 0.0
            while not self._stops.is_set():
                if time.monotonic() >= next_look:
                    try:
                        everything = self._look(consumer, is_new=is_new)
                        if is_new:
                            self._tell_ready()
                        is_new = False
                        pause = LOOK_SECONDS if everything else LOOK_FOR_MISSING_SECONDS
                    except KafkaException as problem:
                        log.warning("the topics can't be looked at: %s", problem.args[0].str())
                        pause = LOOK_FOR_MISSING_SECONDS
                    next_look = time.monotonic() + pause
                if self._known:
                    self._take(consumer)
                else:
                    self._stops.wait(POLL_SECONDS)
        finally:
            consumer.close()

    def _look(self, consumer: Consumer, *, is_new: bool) -> bool:
        """Read partitions that are new, too; whether all topics are there. Raises KafkaException."""
        everything = True
        found: list[TopicPartition] = []
        for topic in self._topics:
            described = consumer.list_topics(topic, ASK_SECONDS).topics[topic]
            if described.error is not None and described.error.code() not in _MISSING:
                raise KafkaException(described.error)  # not to be taken for a topic that appears later
            everything &= bool(described.partitions)
            for partition in described.partitions:
                if (topic, partition) not in self._known:
                    place = TopicPartition(topic, partition)
                    place.offset = OFFSET_BEGINNING
                    if is_new:
                        place.offset = consumer.get_watermark_offsets(place, ASK_SECONDS)[1]
                    found.append(place)
        if found:
            consumer.incremental_assign(found)
            begins = {(each.topic, each.partition): max(each.offset, 0) for each in found}
            self._on_loop(lambda: self.begins.update(begins))
            self._known |= {(each.topic, each.partition) for each in found}
        return everything

    def _tell_ready(self) -> None:
        loop, ready = self._loop, self._ready
        assert loop is not None and ready is not None
        self._on_loop(lambda: None if ready.done() else ready.set_result(None))

    def _on_loop(self, call: Callable[[], None]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed: the service has ended
            self._loop.call_soon_threadsafe(call)

    def _take(self, consumer: Consumer) -> None:
        try:
            # in two steps: one alone would hold back what is there until the batch or the time is full
            messages = consumer.consume(1, POLL_SECONDS)
            if messages:
                messages += consumer.consume(BATCH - 1, 0)
        except KafkaException as problem:
            log.warning("records can't be read: %s", problem.args[0].str())
            self._stops.wait(LOOK_FOR_MISSING_SECONDS)
            return
        batch: list[ReadRecord] = []
        for each in messages:
            error = each.error()
            if error is not None:
                log.warning("a partition can't be read: %s", error.str())
                continue
            batch.append(read_record(each))
        if batch:
            self._hand_over(batch)

    def _hand_over(self, batch: Sequence[ReadRecord]) -> None:
        handled = threading.Event()

        def begin() -> None:
            assert self._loop is not None
            task = self._loop.create_task(self._handled(batch, handled), name="delivering records")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._on_loop(begin)
        while not handled.wait(POLL_SECONDS) and not self._stops.is_set():
            pass

    async def _handled(self, batch: Sequence[ReadRecord], handled: threading.Event) -> None:
        try:
            await self._handle(batch)
        finally:
            handled.set()


def read_record(message: Message) -> ReadRecord:
    """A record as it came, without an error."""
    at: Any = ((message.topic(), message.partition()), message.offset())
    given: Any = message.headers() or ()
    key, value = _bytes(message.key()), _bytes(message.value())
    return ReadRecord(at, key, value, given, max(message.timestamp()[1], 0))


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
