"""What became of the records of a batch that is given again: none that was answered is sent again."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.connect.data.record import SinkRecord, TopicPartition
from ottla.connect.plugins.api import RecordError

Place = tuple[TopicPartition, int]
"""A record's partition and offset."""


def place_of(record: SinkRecord) -> Place:
    """Where a record stands in its topic."""
    return record.place, record.offset


class AnsweredRecords:
    """Why the other system refused records, None for those that it took, until their batch is done.

    A batch ends at its first refused record; the runtime gives those behind it again, without that one.
    """

    def __init__(self) -> None:
        self._answers: dict[Place, str | None] = {}

    def __contains__(self, place: Place) -> bool:
        return place in self._answers

    def keep(self, place: Place, refusal: str | None) -> None:
        """Keep the answer for a record."""
        self._answers[place] = refusal

    def clear(self) -> None:
        """Forget all answers: other records come next."""
        self._answers.clear()

    def end_batch(self, records: Sequence[SinkRecord]) -> None:
        """Forget the answers of a batch that is done. Raises RecordError for its first refused record."""
        for position, each in enumerate(records):
            refusal = self._answers.get(place_of(each))
            if refusal is not None:
                raise RecordError(position, refusal)
        self._answers.clear()
