"""Delivery states of ranges of offsets, and their combination with later ones.

If two batches have the same offset, the higher delivery count wins, and at the same count the higher state:
deliveries only move on, so the order of arrival does not matter. Neighbours with equal state and count become
one batch, and offsets below the start offset are left out.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable
from typing import NamedTuple

NO_OFFSET = -1


class RecordState(enum.IntEnum):
    """A record's delivery state, by its number on disk and on the wire."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the record is never delivered again."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


class StateBatch(NamedTuple):
    """The state of the offsets from `first_offset` to `last_offset`, both included."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def combine(
    so_far: Iterable[StateBatch], newer: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """All batches as one list in the order of offsets, without overlaps; from `start_offset`, if not -1.

    Batches whose end lies before their beginning are left out.
    """
    waiting = [
        StateBatch(max(batch.first_offset, start_offset), *batch[1:])
        for batches in (so_far, newer)
        for batch in batches
        if batch.last_offset >= max(batch.first_offset, start_offset)
    ]
    heapq.heapify(waiting)
    combined: list[StateBatch] = []
    while waiting:
        batch = heapq.heappop(waiting)
        if not combined or combined[-1].last_offset < batch.first_offset:
            _add(combined, batch)
            continue
        # `batch` begins within the last one: the stronger of the two gets the offsets that both have.
        last = combined[-1]
        if _rank(batch) <= _rank(last):
            if batch.last_offset > last.last_offset:
                heapq.heappush(waiting, batch._replace(first_offset=last.last_offset + 1))
            continue
        del combined[-1]
        if last.first_offset < batch.first_offset:
            combined.append(last._replace(last_offset=batch.first_offset - 1))
        if last.last_offset > batch.last_offset:
            heapq.heappush(waiting, last._replace(first_offset=batch.last_offset + 1))
        _add(combined, batch)
    return tuple(combined)


def _rank(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state


def _add(combined: list[StateBatch], batch: StateBatch) -> None:
    if combined:
        last = combined[-1]
        if last.last_offset + 1 == batch.first_offset and _rank(last) == _rank(batch):
            combined[-1] = last._replace(last_offset=batch.last_offset)
            return
    combined.append(batch)
