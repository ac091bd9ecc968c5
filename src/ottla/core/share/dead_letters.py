"""The dead letters of a share group, and the decisions about the topic that is their queue (KIP-1191).

A dead letter is a record of the group's topic that no member will get again although none has accepted it.
For each of its offsets the queue gets one record, whose headers name the record and tell why it is there. It
is empty, or has the key and value of the record if the group wants that (errors.deadletterqueue.copy.record.
enable) and the record is still there and fits; the record's own headers are not copied, as in Kafka.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ottla.core.decisions.topic_names import INTERNAL_PREFIX
from ottla.core.settings import topic_settings
from ottla.protocol.record_batch import BATCH_HEADER_BYTES, NewRecord, Record, write_record

if TYPE_CHECKING:
    from ottla.core.share.in_flight import Delivery

Headers = tuple[tuple[str, bytes], ...]

NEW_TOPIC_CONFIGS = (
    (topic_settings.ERRORS_DEADLETTERQUEUE_GROUP_ENABLE.name, "true"),
    (topic_settings.MESSAGE_TIMESTAMP_TYPE.name, "CreateTime"),
)
"""The settings of a topic that is created as a queue; all others are the cluster's defaults."""


class DeadLetterReason(enum.Enum):
    """Why a record is a dead letter, in Kafka's words."""

    REJECTED = "Offset rejected by client."
    DELIVERY_COUNT_EXCEEDED = "Offset delivery count exceeded the threshold."


class DeadLetter(NamedTuple):
    """Records of one delivery that belong into the queue."""

    first_offset: int
    last_offset: int
    delivery: Delivery
    reason: DeadLetterReason


@dataclass(frozen=True, slots=True)
class QueueRules:
    """The settings that decide which topic a group may use as its queue."""

    topic: str  # errors.deadletterqueue.topic.name of the group
    prefix: str  # errors.deadletterqueue.topic.name.prefix of the brokers
    auto_create: bool  # errors.deadletterqueue.auto.create.topics.enable of the brokers


def queue_problem(rules: QueueRules, *, exists: bool, is_enabled: bool) -> str | None:
    """The reason why the group's dead letters can't be written; None if they can.

    `exists` says whether the topic is there, `is_enabled` whether its errors.deadletterqueue.group.enable is
    true. A topic that is missing, and for which there is no problem, has to be created first.
    """
    topic = rules.topic
    if not topic:
        return "the group has no topic for dead letters any more"
    if topic.startswith(INTERNAL_PREFIX):
        return f"the name of {topic} begins with {INTERNAL_PREFIX}"
    if not topic.startswith(rules.prefix):
        return f"the name of {topic} does not begin with {rules.prefix}, as the brokers demand"
    if exists and not is_enabled:
        return f"{topic} does not have {topic_settings.ERRORS_DEADLETTERQUEUE_GROUP_ENABLE.name}=true"
    if not exists and not rules.auto_create:
        return f"{topic} does not exist, and such topics are not created automatically"
    return None


def queue_partition(source_partition: int, partition_count: int) -> int:
    """The partition of the queue that gets the dead letters of a partition."""
    return source_partition % partition_count


class LetterHeaders:
    """Makes the headers of the dead letters of one share partition."""

    __slots__ = ("_after", "_before")

    def __init__(self, group_id: str, topic: str, partition: int) -> None:
        self._before = (
            ("__dlq.errors.topic", topic.encode()),
            ("__dlq.errors.partition", str(partition).encode()),
        )
        self._after = ("__dlq.errors.group", group_id.encode())

    def of(self, offset: int, letter: DeadLetter) -> Headers:
        """The headers for one offset of a letter, texts in UTF-8, numbers as decimal texts."""
        return (
            *self._before,
            ("__dlq.errors.offset", str(offset).encode()),
            self._after,
            ("__dlq.errors.delivery.count", str(letter.delivery.delivery_count).encode()),
            ("__dlq.errors.message", letter.reason.value.encode()),
        )


class LetterBatch:
    """Collects the records of one batch for the queue, as many as its topic takes at once."""

    __slots__ = ("_headers", "_max_bytes", "_now_ms", "_payload", "records")

    def __init__(self, headers: LetterHeaders, now_ms: int, max_bytes: int) -> None:
        """`now_ms` is the timestamp of all records, `max_bytes` the queue's max.message.bytes."""
        self.records: list[NewRecord] = []
        self._headers = headers
        self._now_ms = now_ms
        self._max_bytes = max_bytes
        self._payload = bytearray(BATCH_HEADER_BYTES)

    def add(self, offset: int, letter: DeadLetter, copied: Record | None) -> bool:
        """Add the record for one offset, with a copy if there is one; False if the batch is full.

        A copy that is too large for a batch of its own is left out. The first record is always taken: the
        topic refuses it if even its headers are too large.
        """
        headers = self._headers.of(offset, letter)
        if copied is not None:
            if self._fits(NewRecord(copied.key, copied.value, self._now_ms, headers)):
                return True
            if self.records:
                return False
        record = NewRecord(None, None, self._now_ms, headers)
        if not self._fits(record):
            if self.records:
                return False
            self.records.append(record)
        return True

    def _fits(self, record: NewRecord) -> bool:
        """Add the record if it fits. Whether it does."""
        size_before_bytes = len(self._payload)
        write_record(self._payload, record, len(self.records), self._now_ms)
        if len(self._payload) > self._max_bytes:
            del self._payload[size_before_bytes:]
            return False
        self.records.append(record)
        return True
