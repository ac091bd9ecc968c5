"""A member of a consumer group for threads: reads within bounds, and goes back over unanswered records.

Theory of operation. Methods block; the caller sees to it that one thread at a time calls them.

Records that `collect` returns count as read once `settle` says that they were answered. Then their offsets
are stored for librdkafka's automatic commits, and become the positions that a commit without offsets commits.
`go_back` seeks to the first record that was not answered: it comes again. A seek that can't be done yet
(librdkafka has not begun to fetch) waits in `_seeks`; until then records of that partition are dropped.
Records that were polled and did not fit into a read, a batch at most, are `_left` for the next.

Rebalances are served only by polls, and a member that does not serve them holds up its group. So `tend` polls
between reads. It must not take records: partitions are paused first, which also frees records that were
fetched ahead. The next read resumes them.
"""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from ottla.client.offsets import metadata_of
from ottla.rest.consumers.consumer_errors import PASSING, illegal_state, of_kafka

log = logging.getLogger("ottla.rest")
clients_log = logging.getLogger("ottla.client.rest")

Partition = tuple[str, int]

STEP_SECONDS: Final = 0.05
"""How soon a read notices that it should stop."""
BATCH: Final = 500
MAX_RECORDS: Final = 100_000
"""Records of one read: many small records hold more memory than their bytes."""
RECORD_OVERHEAD_BYTES: Final = 500
"""Roughly what a record costs beside its key and value while it is being answered."""
LOOKUP_SECONDS: Final = 10.0
"""The timeout of a question to the cluster: committed offsets, ends of partitions."""
EXCLUSIVE: Final = "Subscription to topics, partitions and pattern are mutually exclusive"


class Source(enum.Enum):
    """The source of an instance's partitions."""

    NONE = enum.auto()
    TOPICS = enum.auto()
    PATTERN = enum.auto()
    PARTITIONS = enum.auto()


class Room:
    """The memory that all reads share: a read that finds it full ends with what it has."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._taken_bytes = 0
        self._lock = threading.Lock()

    @property
    def capacity_bytes(self) -> int:
        return self._capacity_bytes

    @property
    def taken_bytes(self) -> int:
        return self._taken_bytes

    def take(self, size: int, *, anyway: bool = False) -> bool:
        """Take `size` bytes of room, if there is, or `anyway` (for a first record); whether it was taken."""
        with self._lock:
            if not anyway and self._taken_bytes + size > self._capacity_bytes:
                return False
            self._taken_bytes += size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._taken_bytes -= size


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """When a read ends: with its time, before `max_bytes`, or with more than `min_bytes` (-1: not so)."""

    timeout_seconds: float
    max_bytes: int
    min_bytes: int


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset that a group will read of a partition, and the metadata committed with it."""

    topic: str
    partition: int
    offset: int
    metadata: str


class GroupConsumer:
    """One confluent-kafka consumer. Methods raise ApiError and KafkaException."""

    def __init__(self, properties: Mapping[str, Any], room: Room) -> None:
        """Raises KafkaException for a property that librdkafka does not know."""
        self._consumer = Consumer(dict(properties), logger=clients_log)
        self._stores_offsets = bool(properties.get("enable.auto.commit"))
        self._room = room
        self._source = Source.NONE
        self._topics: list[str] = []
        self._joined = False
        self._positions: dict[Partition, int] = {}
        self._seeks: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._some_paused = False
        self._collected: list[Message] = []
        self._left: list[Message] = []
        self._size = 0
        self._problem: KafkaError | None = None

    @property
    def joining(self) -> bool:
        """Whether the group has yet to give this member its partitions."""
        return self._source in (Source.TOPICS, Source.PATTERN) and not self._joined

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    # --- Subscription and assignment ---

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to these topics as a member of the group; without topics as `unsubscribe`."""
        if not topics:
            return self.unsubscribe()
        self._claim(Source.TOPICS)
        self._join(list(topics))
        return None

    def subscribe_pattern(self, pattern: str) -> None:
        """Subscribe to the topics whose whole names match, later ones included."""
        self._claim(Source.PATTERN)
        self._join([f"^({pattern})$"])

    def subscription(self) -> list[str]:
        """The subscribed topics; for a pattern, those of the partitions that this instance has."""
        match self._source:
            case Source.TOPICS:
                return list(self._topics)
            case Source.PATTERN:
                return sorted({topic for topic, _ in self.assignment()})
        return []

    def unsubscribe(self) -> None:
        """End the subscription or assignment."""
        if self._source is Source.PARTITIONS:
            self._consumer.unassign()
        elif self._source is not Source.NONE:
            self._consumer.unsubscribe()
            self._await_revocation()
        self._source = Source.NONE
        self._forget_all()

    def _await_revocation(self) -> None:
        """Poll until the partitions are taken away: then the group is left."""
        deadline = time.monotonic() + LOOKUP_SECONDS
        while self._consumer.assignment() and time.monotonic() < deadline:
            self._consumer.consume(1, STEP_SECONDS)

    def assign(self, partitions: Sequence[Partition]) -> None:
        """Read these partitions without the group's assignment; without partitions as `unsubscribe`."""
        if not partitions:
            return self.unsubscribe()
        self._claim(Source.PARTITIONS)
        kept = {
            partition: self._positions[partition] for partition in partitions if partition in self._positions
        }
        self._consumer.assign(
            [TopicPartition(*partition, kept.get(partition, OFFSET_INVALID)) for partition in partitions]
        )
        self._source = Source.PARTITIONS
        self._forget_all()
        self._positions = kept
        return None

    def assignment(self) -> list[Partition]:
        """The partitions that this instance has, sorted."""
        return sorted((each.topic, each.partition) for each in self._consumer.assignment())

    def _claim(self, source: Source) -> None:
        if self._source not in (Source.NONE, source):
            raise illegal_state(EXCLUSIVE)

    def _join(self, topics: list[str]) -> None:
        self._consumer.subscribe(
            topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        self._source = Source.PATTERN if topics[0].startswith("^") else Source.TOPICS
        self._topics = topics
        self._joined = False
        self._problem = None

    def _forget_all(self) -> None:
        self._topics = []
        self._joined = False
        self._positions.clear()
        self._seeks.clear()
        self._left.clear()
        self._paused.clear()
        self._problem = None

    def _on_assign(self, _consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        self._joined = True
        # A partition that was paused, taken away and given back is still paused.
        self._some_paused = True
        self._forget(partitions)

    def _on_revoke(self, _consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the positions of partitions: the next owner reads on from the committed offset."""
        gone = {(each.topic, each.partition) for each in partitions}
        for partition in gone:
            self._positions.pop(partition, None)
            self._seeks.pop(partition, None)
            self._paused.discard(partition)
        self._left = [message for message in self._left if _partition(message) not in gone]
        kept = [message for message in self._collected if _partition(message) not in gone]
        if len(kept) < len(self._collected):
            lost = [message for message in self._collected if _partition(message) in gone]
            self.release(lost)
            self._size -= sum(map(_length, lost))
            # in place: `collect` holds the same list
            self._collected[:] = kept

    # --- Reading ---

    def collect(self, bounds: ReadBounds, stop: threading.Event) -> list[Message]:
        """Records in the order of arrival, until the bounds or `stop` end the read; one at least if any.

        They take room: give it back with `release`. A partition that is taken away meanwhile takes its
        records along.
        """
        if self._source is Source.NONE:
            raise illegal_state("Consumer is not subscribed to any topics or assigned any partitions")
        self._collected = []
        self._size = 0
        try:
            self._fill(bounds, stop)
            if self._problem is not None and not self._collected:
                problem, self._problem = self._problem, None
                raise of_kafka(problem)
        except BaseException:
            self.release(self._collected)
            self.go_back(self._collected)
            raise
        collected, self._collected = self._collected, []
        return collected

    def _fill(self, bounds: ReadBounds, stop: threading.Event) -> None:
        deadline = time.monotonic() + bounds.timeout_seconds
        waiting, self._left = self._left, []
        full = self._take(waiting, bounds.max_bytes)
        while not full:
            left = deadline - time.monotonic()
            ending = left <= 0 or stop.is_set()
            self._resume()
            self._try_seeks()
            full = self._take(
                self._consumer.consume(1, 0 if ending else min(left, STEP_SECONDS)), bounds.max_bytes
            )
            # take the records that are fetched already in larger steps
            more = bool(self._collected) and not full
            while more:
                wanted = max(1, min(BATCH, (bounds.max_bytes - self._size) // 1_024))
                messages = self._consumer.consume(wanted, 0)
                full = self._take(messages, bounds.max_bytes)
                late = bounds.timeout_seconds > 0 and deadline < time.monotonic()
                more = bool(messages) and not full and not late
            if ending or self._enough(bounds) or self._problem is not None:
                break

    def _enough(self, bounds: ReadBounds) -> bool:
        return 0 <= bounds.min_bytes < self._size

    def _take(self, messages: list[Message], max_bytes: int) -> bool:
        """Collect messages; whether the read ends."""
        if self._take_all(messages, max_bytes):
            return False
        for index, message in enumerate(messages):
            error = message.error()
            if error is not None:
                self._note(error)
                continue
            if _partition(message) in self._seeks:
                continue
            length = _length(message)
            first = not self._collected
            fits = first or (self._size + length <= max_bytes and len(self._collected) < MAX_RECORDS)
            if not fits or not self._room.take(cost(message), anyway=first):
                self._leave(messages[index:])
                return True
            self._collected.append(message)
            self._size += length
        return False

    def _take_all(self, messages: list[Message], max_bytes: int) -> bool:
        """Collect all messages at once in the common case: no errors among them, and room for all."""
        if self._seeks or any(message.error() is not None for message in messages):
            return False
        length = sum(map(_length, messages))
        fits = self._size + length <= max_bytes and len(self._collected) + len(messages) <= MAX_RECORDS
        if not fits or not self._room.take(length + RECORD_OVERHEAD_BYTES * len(messages)):
            return False
        self._collected += messages
        self._size += length
        return True

    def _leave(self, messages: Iterable[Message]) -> None:
        """Keep messages for the next read."""
        for message in messages:
            if message.error() is None and _partition(message) not in self._seeks:
                self._left.append(message)
                self._positions.setdefault(_partition(message), _offset(message))

    def release(self, messages: Sequence[Message]) -> None:
        """Give back the room that these records took."""
        self._room.give_back(sum(map(_length, messages)) + RECORD_OVERHEAD_BYTES * len(messages))

    def settle(self, messages: Sequence[Message]) -> None:
        """Count these records, which were answered, as read."""
        last: dict[Partition, int] = {}
        for message in messages:
            last[_partition(message)] = _offset(message) + 1
        self._positions.update(last)
        if self._stores_offsets:
            for (topic, partition), offset in last.items():
                try:
                    self._consumer.store_offsets(offsets=[TopicPartition(topic, partition, offset)])
                except KafkaException as problem:
                    log.debug("offset of %s-%d not stored: %s", topic, partition, problem)

    def go_back(self, messages: Iterable[Message]) -> None:
        """Seek back to these records, which were not answered."""
        for message in messages:
            if message.error() is None:
                partition, offset = _partition(message), _offset(message)
                self._seeks[partition] = min(offset, self._seeks.get(partition, offset))
                self._positions.setdefault(partition, offset)
        self._left = [message for message in self._left if _partition(message) not in self._seeks]
        self._try_seeks()

    def tend(self, *, idle: bool) -> None:
        """Serve the group between reads; `idle`: there was no read for a while."""
        if idle:
            self.go_back(self._left)
            fetching = [each for each in self.assignment() if each not in self._paused]
            if fetching:
                self._consumer.pause([TopicPartition(*each) for each in fetching])
                self._paused.update(fetching)
                self._some_paused = True
        self._try_seeks()
        messages = self._consumer.consume(1, 0)
        for message in messages:
            if (error := message.error()) is not None:
                self._note(error)
        if self._source is not Source.NONE:
            self.go_back(each for each in messages if _partition(each) not in self._seeks)

    def _note(self, error: KafkaError) -> None:
        """Keep an error for the next read, if a client must know of it."""
        if error.code() in PASSING or error.retriable():
            log.debug("consumer: %s", error)
        else:
            self._problem = error

    def _resume(self) -> None:
        if self._some_paused and (owned := self._consumer.assignment()):
            self._consumer.resume(owned)
            self._paused.clear()
            self._some_paused = False

    def _try_seeks(self) -> None:
        for partition, offset in list(self._seeks.items()):
            try:
                self._consumer.seek(TopicPartition(*partition, offset))
            except KafkaException as problem:
                if problem.args[0].code() == KafkaError._STATE:
                    continue
                log.warning("no seek to %s-%d@%d: %s", *partition, offset, problem)
            del self._seeks[partition]

    # --- Positions and offsets ---

    def seek(self, offsets: Mapping[Partition, int], wait_seconds: float, stop: threading.Event) -> None:
        """Move positions to these offsets; waits for the group's assignment if there is none yet."""
        self._await_ownership(offsets, wait_seconds, stop)
        self._seek_to(offsets)

    def seek_to_ends(
        self, partitions: Sequence[Partition], wait_seconds: float, stop: threading.Event, *, beginning: bool
    ) -> None:
        """Move positions to the beginnings or the present ends of partitions; of all, if none are given."""
        self._await_ownership(partitions, wait_seconds, stop)
        offsets: dict[Partition, int] = {}
        for partition in partitions or self.assignment():
            found = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=LOOKUP_SECONDS)
            if found is None:
                raise of_kafka(KafkaError(KafkaError._TIMED_OUT))
            offsets[partition] = found[0] if beginning else found[1]
        self._seek_to(offsets)

    def offsets_at(self, timestamps: Mapping[Partition, int]) -> dict[Partition, int]:
        """The offset of the first record at or after a time (ms since 1970); the end where there is none."""
        asked = [TopicPartition(*partition, at) for partition, at in timestamps.items()]
        found: dict[Partition, int] = {}
        for each in self._consumer.offsets_for_times(asked, timeout=LOOKUP_SECONDS):
            if each.error is not None:
                raise of_kafka(each.error)
            partition = (each.topic, each.partition)
            if each.offset < 0:
                ends = self._consumer.get_watermark_offsets(
                    TopicPartition(*partition), timeout=LOOKUP_SECONDS
                )
                if ends is None:
                    raise of_kafka(KafkaError(KafkaError._TIMED_OUT))
                found[partition] = ends[1]
            else:
                found[partition] = each.offset
        return found

    def commit(self, offsets: Sequence[CommittedOffset]) -> None:
        """Commit the next offsets to read; without offsets, all positions of this instance."""
        wanted = [TopicPartition(each.topic, each.partition, each.offset, each.metadata) for each in offsets]
        if not offsets:
            owned = set(self.assignment())
            wanted = [
                TopicPartition(*partition, offset)
                for partition, offset in self._positions.items()
                if partition in owned
            ]
        if not wanted:
            return
        committed = self._consumer.commit(offsets=wanted, asynchronous=False)
        for each in committed or ():
            if each.error is not None:
                raise of_kafka(each.error)

    def committed(self, partitions: Sequence[Partition]) -> list[CommittedOffset]:
        """The group's committed offsets of these partitions, where there are any.

        Stray characters may follow their metadata, see `metadata_of`.
        """
        if not partitions:
            return []
        asked = [TopicPartition(*partition) for partition in partitions]
        found: list[CommittedOffset] = []
        for each in self._consumer.committed(asked, timeout=LOOKUP_SECONDS):
            if each.error is not None:
                raise of_kafka(each.error)
            if each.offset >= 0:
                found.append(CommittedOffset(each.topic, each.partition, each.offset, metadata_of(each)))
        return found

    def _await_ownership(
        self, partitions: Iterable[Partition], wait_seconds: float, stop: threading.Event
    ) -> None:
        deadline = time.monotonic() + wait_seconds
        while self.joining and not stop.is_set() and time.monotonic() < deadline:
            self.tend(idle=False)
            stop.wait(STEP_SECONDS)
        owned = set(self.assignment())
        for topic, partition in partitions:
            if (topic, partition) not in owned:
                raise illegal_state(f"No current assignment for partition {topic}-{partition}")

    def _seek_to(self, offsets: Mapping[Partition, int]) -> None:
        self._problem = None
        self._seeks.update(offsets)
        self._positions.update(offsets)
        self._left = [message for message in self._left if _partition(message) not in offsets]
        self._try_seeks()


def cost(message: Message) -> int:
    """The room that a record takes while it is being answered, in bytes."""
    return _length(message) + RECORD_OVERHEAD_BYTES


def _length(message: Message) -> int:
    return len(message.key() or b"") + len(message.value() or b"")


def _partition(message: Message) -> Partition:
    return message.topic() or "", message.partition() or 0


def _offset(message: Message) -> int:
    return message.offset() or 0
