"""Decides which checkpoints are written, and which offsets of groups on the target (KIP-382, KIP-545).

A checkpoint is written where it says more than the one before: for a group that went back on the source
(its owner wants to read again), or whose place on the target has moved on. A sparser translation of the same
place is not written: checkpoints of a group never go back by themselves (KAFKA-13659).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.mirror.core.record_formats import Checkpoint

Translate = Callable[[str, int, int], "tuple[str, int] | None"]
"""Topic, partition and offset on the source -> topic and offset on the target, if they are known."""

PartitionKey = tuple[str, int]
IDLE_STATES: Final = frozenset({"Empty", "Dead"})


@dataclass(frozen=True, slots=True)
class Committed:
    """A group's commit for a partition."""

    offset: int
    metadata: str = ""


@dataclass(slots=True)
class GroupCheckpoints:
    """The last checkpoint of each partition of one group."""

    last: dict[PartitionKey, Checkpoint] = field(default_factory=dict)

    def take(self, checkpoint: Checkpoint) -> None:
        """One that stands in the topic, or was written."""
        self.last[checkpoint.topic, checkpoint.partition] = checkpoint

    def says_more(self, checkpoint: Checkpoint) -> bool:
        """Whether a checkpoint is to be written."""
        last = self.last.get((checkpoint.topic, checkpoint.partition))
        if last is None or checkpoint.upstream_offset < last.upstream_offset:
            return True
        return checkpoint.downstream_offset > last.downstream_offset

    def of(self, partitions: Iterable[PartitionKey]) -> list[Checkpoint]:
        """The last checkpoints of some partitions."""
        return [self.last[each] for each in partitions if each in self.last]

    def due(
        self, group: str, commits: Mapping[PartitionKey, Committed], translate: Translate
    ) -> list[Checkpoint]:
        """The checkpoints that are to be written of a group's commits on the source."""
        found = []
        for (topic, partition), commit in sorted(commits.items()):
            place = translate(topic, partition, commit.offset)
            if place is None:
                continue
            renamed, offset = place
            checkpoint = Checkpoint(group, renamed, partition, commit.offset, offset, commit.metadata)
            if self.says_more(checkpoint):
                found.append(checkpoint)
        return found


def offsets_to_sync(
    state: str | None, on_target: Mapping[PartitionKey, int], checkpoints: Iterable[Checkpoint]
) -> dict[PartitionKey, int]:
    """The offsets that are written for a group on the target; none while it has members there.

    state: the group's on the target in Kafka's word, None where there is no such group. on_target: its
    commits there. A partition whose commit there is as far is left alone.
    """
    if state is not None and state not in IDLE_STATES:
        return {}
    return {
        (each.topic, each.partition): each.downstream_offset
        for each in checkpoints
        if each.downstream_offset > on_target.get((each.topic, each.partition), -1)
    }
