"""Where a source log is not what the mirror had read: what that means, and where it goes on."""

from __future__ import annotations

import enum
from typing import NamedTuple

from ottla.client.cluster_requests import TopicPartition


class Loss(enum.Enum):
    """Why the source does not have what the mirror expected."""

    OVERTAKEN = "overtaken"
    """Retention, or a deletion of records, was faster: they are in neither place."""
    TRUNCATED = "truncated"
    """The source lost records that the mirror has copied: an unclean election, or a lost disk."""
    MADE_AGAIN = "made-again"
    """The topic was deleted and made again under the same name."""


class Break(NamedTuple):
    """A break in a partition's offsets, told in the log and counted.

    first, last: the offsets that are concerned; for a topic that was made again last is the last one copied
    of the topic before. goes_on: the next offset to copy.
    """

    partition: TopicPartition
    loss: Loss
    first: int
    last: int
    goes_on: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return max(self.last - self.first + 1, 0)

    def __str__(self) -> str:
        span = f"offsets {self.first} to {self.last} ({self.size})"
        match self.loss:
            case Loss.OVERTAKEN:
                what = f"the source has deleted {span} before they were copied: they are lost"
            case Loss.TRUNCATED:
                what = f"the source has lost {span}, which were copied: the target keeps them"
            case Loss.MADE_AGAIN:
                what = f"the source's topic was deleted and made again; {span} of the one before were copied"
        return f"{self.partition}: {what}; going on at offset {self.goes_on}"


def out_of_range(partition: TopicPartition, position: int, log_start: int, log_end: int) -> Break | None:
    """The break where a log does not have the position; None if it has it after all."""
    if position < log_start:
        return Break(partition, Loss.OVERTAKEN, position, log_start - 1, log_start)
    if position > log_end:
        return Break(partition, Loss.TRUNCATED, log_end, position - 1, log_end)
    return None
