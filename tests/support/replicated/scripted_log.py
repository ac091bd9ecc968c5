"""A topic in memory, for readers: leaders move, answers come late, partitions fail and come back."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Collection, Mapping, Sequence

from ottla.replicated.loss import TopicLost
from ottla.replicated.records import ReplayedRecord
from ottla.replicated.topic_log import Address, Fetched, FoundTopic, Unreadable

TOPIC_ID = uuid.UUID(int=7)
NODES: Sequence[Address] = (("a", 1), ("b", 2), ("c", 3))


class ScriptedLog:
    """Satisfies PartitionedLog.

    records: of each partition, by offset; offsets that are missing are those of markers and compacted ones.
    ends: of each partition. starts: the first offsets. problems: by partition, in place of an answer.
    topic_problem: in place of all answers.
    """

    topic = "topic"

    def __init__(self, partitions: int, dice: random.Random | None = None) -> None:
        self.records: list[list[ReplayedRecord]] = [[] for _ in range(partitions)]
        self.ends = [0] * partitions
        self.starts = [0] * partitions
        self.leading: list[Address | None] = [NODES[0]] * partitions
        self.problems: dict[int, Unreadable | TopicLost] = {}
        self.topic_problem: Unreadable | TopicLost | None = None
        self.fetches = 0
        self.under_way: list[Address] = []
        self._dice = dice

    @property
    def found(self) -> FoundTopic:
        return FoundTopic(TOPIC_ID, tuple(self.leading))

    def append(self, partition: int, value: bytes, gap: int = 0) -> None:
        """A record, after as many offsets without one; `gap` offsets without one follow it."""
        offset = self.ends[partition]
        self.records[partition].append(ReplayedRecord(partition, offset, offset * 10, b"key", value))
        self.ends[partition] = offset + 1 + gap

    async def leaders(self) -> Mapping[int, Address]:
        if isinstance(self.topic_problem, TopicLost):
            raise self.topic_problem
        return {one: leader for one, leader in enumerate(self.leading) if leader is not None}

    async def first_offsets(self, leader: Address, partitions: Collection[int]) -> Mapping[int, int]:
        return {partition: self.starts[partition] for partition in partitions}

    async def fetch(self, leader: Address, offsets: Mapping[int, int], wait_ms: int) -> Sequence[Fetched]:
        self.fetches += 1
        assert leader not in self.under_way, "a second fetch to one leader waits behind the first"
        if self.topic_problem is not None:
            raise self.topic_problem
        answer = [self._fetched(leader, partition, offset) for partition, offset in offsets.items()]
        # the answer is under way while the cluster changes
        self.under_way.append(leader)
        try:
            for _ in range(self._dice.randint(1, 20) if self._dice is not None else 1):
                await asyncio.sleep(0)
        finally:
            self.under_way.remove(leader)
        return answer

    def _fetched(self, leader: Address, partition: int, offset: int) -> Fetched:
        problem = self.problems.get(partition)
        if problem is None and self.leading[partition] != leader:
            problem = Unreadable("NOT_LEADER_OR_FOLLOWER")
        if problem is not None:
            return Fetched(partition, offset, (), offset, problem)
        left = [record for record in self.records[partition] if record.offset >= offset]
        count = len(left) if self._dice is None else self._dice.randint(0, len(left))
        if count == len(left):
            return Fetched(partition, offset, left, self.ends[partition], end=self.ends[partition])
        return Fetched(partition, offset, left[:count], left[count].offset, end=self.ends[partition])
