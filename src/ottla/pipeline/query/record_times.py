"""The timestamps of a cluster's records, as `by_time` asks for them: by the brokers' index, or by reading."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.pipeline.query.by_time import Place, Span, Spans

_ANSWER_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.5
# A record that retention has removed is not missed here, Spark's source tells of it.
_AS_TIMES_ARE_READ: Final[Mapping[str, Any]] = {"auto.offset.reset": "earliest"}
# One record of each partition is wanted: no more are fetched ahead.
_FEW_RECORDS: Final[Mapping[str, Any]] = {
    **_AS_TIMES_ARE_READ,
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 65_536,
}


class RecordTimes:
    """Timestamps of committed records; used by one thread at a time. Raises ClusterError."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._consumer: Consumer | None = None
        self._next: dict[Place, tuple[int, int, int | None]] = {}
        """The last answers: the start that was asked for, the offset of the record that was found, its time.

        For a span without records: its start, its end, None.
        """

    def close(self) -> None:
        """Leave the cluster. Safe to call twice."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def next_times(self, spans: Spans) -> dict[Place, int | None]:
        """The timestamp of the first record of each span; None where it has none."""
        times: dict[Place, int | None] = {}
        asked: dict[Place, Span] = {}
        for place, span in spans.items():
            start, offset, time_ms = self._next.get(place, (-1, 0, None))
            if not span.size:
                times[place] = None
            elif start == span.start and (time_ms is not None or offset >= span.end):
                times[place] = time_ms if offset < span.end else None
            else:
                asked[place] = span
        for place, message in self._first_messages(asked).items():
            span = asked[place]
            if message is None:
                self._next[place] = (span.start, span.end, None)
            else:
                self._next[place] = (span.start, message[0], message[1])
            times[place] = None if message is None or message[0] >= span.end else message[1]
        return times

    def first_later(self, spans: Spans, time_ms: int) -> dict[Place, int]:
        """The offset of each partition's first record that is later, no later than the span's end."""
        if time_ms < -1:
            return {place: span.start for place, span in spans.items()}
        found = self._cluster.offsets_since(spans, time_ms + 1)
        return {place: min(span.end, found.get(place, span.end)) for place, span in spans.items()}

    def times(self, place: Place, span: Span) -> Iterator[tuple[int, int]]:
        """Offset and timestamp of each record of the span."""
        if not span.size:
            return
        consumer = self._cluster.consumer(_AS_TIMES_ARE_READ)
        try:
            consumer.assign([TopicPartition(place.topic, place.partition, span.start)])
            deadline = time.monotonic() + _ANSWER_SECONDS
            while True:
                for message in consumer.consume(1000, timeout=_POLL_SECONDS):
                    record = _record(message)
                    if record is None or record[0] >= span.end:
                        return
                    yield record
                    if record[0] + 1 >= span.end:
                        return
                    deadline = time.monotonic() + _ANSWER_SECONDS
                if time.monotonic() > deadline:
                    raise ClusterError(f"nothing arrives from {place.topic} at {self._cluster.bootstrap}")
        finally:
            consumer.close()

    def _first_messages(self, spans: Spans) -> dict[Place, tuple[int, int] | None]:
        """Offset and time of the first record at or behind each span's start; None at the partition's end."""
        found: dict[Place, tuple[int, int] | None] = {}
        if not spans:
            return found
        consumer = self._assigned(spans)
        try:
            deadline = time.monotonic() + _ANSWER_SECONDS
            while len(found) < len(spans):
                for message in consumer.consume(100, timeout=_POLL_SECONDS):
                    place = _place_of(message)
                    if place is not None and place in spans:
                        found.setdefault(place, _record(message))
                if time.monotonic() > deadline:
                    (topic, _), *_ = (place for place in spans if place not in found)
                    raise ClusterError(f"nothing arrives from {topic} at {self._cluster.bootstrap}")
        finally:
            consumer.unassign()
        return found

    def _assigned(self, spans: Spans) -> Consumer:
        if self._consumer is None:
            self._consumer = self._cluster.consumer(_FEW_RECORDS)
        self._consumer.assign(
            [TopicPartition(place.topic, place.partition, span.start) for place, span in spans.items()]
        )
        return self._consumer


def _place_of(message: Message) -> Place | None:
    topic, partition = message.topic(), message.partition()
    return None if topic is None or partition is None else Place(topic, partition)


def _record(message: Message) -> tuple[int, int] | None:
    """Offset and timestamp; None at the partition's end. Raises ClusterError for an error that stays."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise ClusterError(f"cannot read {message.topic()}: {error}")
    offset, time_ms = message.offset(), message.timestamp()[1]
    return None if error is not None or offset is None else (offset, max(-1, time_ms))
