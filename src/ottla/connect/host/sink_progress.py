"""How far a sink task is in each of its partitions: consumed, written, durable, committed. Plain arithmetic.

Offsets are the next one to read, as in a group's commits. Records that transforms dropped or errors skipped
move a partition on as well, but only behind the records before them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from ottla.connect.data.record import SinkRecord, TopicPartition

_log = logging.getLogger(__name__)


class Consumed(Protocol):
    """A consumed record: confluent-kafka's Message."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...


class SinkProgress:
    """The partitions of a task, from their assignment on.

    positions: the offset behind the last complete batch of each; None before the first.
    """

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int | None] = {}
        self.sent = 0
        self._batch: dict[TopicPartition, int] = {}
        self._written: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}

    def gained(self, places: Iterable[TopicPartition]) -> None:
        """Partitions are the task's from now on."""
        for place in places:
            self.positions[place] = None

    def lost(self, places: Iterable[TopicPartition]) -> None:
        """Partitions are another task's."""
        for place in places:
            self.positions.pop(place, None)
            for each in (self._batch, self._written, self._committed):
                each.pop(place, None)

    def consumed(self, messages: Iterable[Consumed]) -> None:
        """A batch has come, in each partition's order."""
        for message in messages:
            place = TopicPartition(message.topic() or "", message.partition() or 0)
            self._batch[place] = (message.offset() or 0) + 1

    def written(self, records: Iterable[SinkRecord]) -> None:
        """The connector has taken records of the batch."""
        for record in records:
            self._written[record.place] = record.offset + 1
            self.sent += 1

    def batch_done(self) -> None:
        """Every record of the batch was written or skipped."""
        self.positions.update(self._batch)
        self._batch.clear()

    def committable(
        self, places: Iterable[TopicPartition], durable: Mapping[TopicPartition, int] | None
    ) -> dict[TopicPartition, int]:
        """The new offsets to commit.

        durable: the next offsets that the connector's flush returned; None: all that it was given.
        """
        found: dict[TopicPartition, int] = {}
        for place in places:
            offset = self._durable_to(place, durable)
            if offset is not None and offset > self._committed.get(place, -1):
                found[place] = offset
        return found

    def _durable_to(self, place: TopicPartition, durable: Mapping[TopicPartition, int] | None) -> int | None:
        written, position = self._written.get(place), self.positions.get(place)
        if written is None:
            return position
        # within a batch what was written is ahead of the last batch, else what was skipped behind it may be
        reached = written if position is None else max(written, position)
        if durable is None:
            return reached
        kept = durable.get(place)
        if kept is not None and kept > written:
            _log.warning("the connector calls %s-%d durable to %d, but was given %d", *place, kept, written)
        return reached if kept is not None and kept >= written else kept

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The group has these offsets."""
        self._committed.update(offsets)
