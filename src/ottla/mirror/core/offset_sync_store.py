"""Translates offsets of the source to the target's by offset syncs: never ahead, never negative.

A group that stands at the offset of a sync goes on at its counterpart; one that stands behind it goes on one
record behind the counterpart, however far it is: how many records between were copied is not known (holes,
aborted records, records of others on the target). So some records are read again, and none is lost.

MirrorMaker 2 keeps `SparseSyncs`, and a group that lags reads half of its lag again. This store has besides
the syncs of a partition in full, up to HISTORY of them; beyond that every second one of the older half goes,
so that their distances double. A translation takes the better of the two: it is never behind MirrorMaker 2's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from ottla.mirror.core.record_formats import OffsetSync
from ottla.mirror.core.sparse_syncs import SparseSyncs, SyncedOffsets

HISTORY: Final = 16_384
"""Syncs of a partition that are kept: a lag of 1.6 million records, at offset.lag.max=100."""

TopicPartitionKey = tuple[str, int]


class _History:
    """The syncs of a partition in the order of their offsets, thinned out from the old end."""

    __slots__ = ("_limit", "downstream", "upstream")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.upstream: list[int] = []
        self.downstream: list[int] = []

    def add(self, sync: SyncedOffsets) -> None:
        if self.upstream and sync.upstream < self.upstream[-1]:
            self.upstream.clear()
            self.downstream.clear()
        elif self.upstream and sync.upstream == self.upstream[-1]:
            self.downstream[-1] = sync.downstream
            return
        elif self.downstream and sync.downstream < self.downstream[-1]:
            # the target lost records or was made again: what was said of it is void
            self.upstream.clear()
            self.downstream.clear()
        self.upstream.append(sync.upstream)
        self.downstream.append(sync.downstream)
        if len(self.upstream) > self._limit:
            half = len(self.upstream) // 2
            self.upstream[:half] = self.upstream[:half:2]
            self.downstream[:half] = self.downstream[:half:2]

    def at_or_before(self, upstream: int) -> SyncedOffsets | None:
        at = bisect_right(self.upstream, upstream) - 1
        return None if at < 0 else SyncedOffsets(self.upstream[at], self.downstream[at])


class OffsetSyncStore:
    """The syncs of one flow, replayed from their topic in its order."""

    def __init__(self, history: int = HISTORY) -> None:
        self._limit = history
        self._sparse: dict[TopicPartitionKey, SparseSyncs] = {}
        self._histories: dict[TopicPartitionKey, _History] = {}

    def replay(self, sync: OffsetSync) -> None:
        """Take the next record of the topic; one with negative offsets says nothing and is passed over."""
        if sync.upstream_offset < 0 or sync.downstream_offset < 0:
            return
        key, found = (sync.topic, sync.partition), SyncedOffsets(sync.upstream_offset, sync.downstream_offset)
        sparse = self._sparse.get(key)
        if sparse is None:
            self._sparse[key] = SparseSyncs(found)
        elif found.upstream >= sparse.slots[0].upstream and found.downstream < sparse.slots[0].downstream:
            self._sparse[key] = SparseSyncs(found)  # as in a history
        else:
            sparse.add(found)
        self._histories.setdefault(key, _History(self._limit)).add(found)

    def forget(self, topic: str, partition: int) -> None:
        """A tombstone: the partition's syncs are void."""
        self._sparse.pop((topic, partition), None)
        self._histories.pop((topic, partition), None)

    def partitions(self) -> Iterable[TopicPartitionKey]:
        """The source partitions with syncs."""
        return self._sparse.keys()

    def latest(self, topic: str, partition: int) -> SyncedOffsets | None:
        """The newest sync of a source partition."""
        sparse = self._sparse.get((topic, partition))
        return None if sparse is None else sparse.slots[0]

    def translate(self, topic: str, partition: int, upstream_offset: int) -> int | None:
        """The target's offset at which a group goes on, that stands at this one in the source.

        None: no sync is at or before the offset, so nothing can be said.
        """
        key = (topic, partition)
        sparse = self._sparse.get(key)
        if sparse is None or upstream_offset < 0:
            return None
        candidates = (
            sparse.at_or_before(upstream_offset),
            self._histories[key].at_or_before(upstream_offset),
        )
        known = [each for each in candidates if each is not None]
        if not known:
            return None
        best = max(known)
        return best.downstream + (upstream_offset > best.upstream)

    def translate_back(self, topic: str, partition: int, downstream_offset: int) -> int | None:
        """The source's offset at which a group goes on, that stands at this one in the copy (failback).

        topic: its name on the source. All records of the copy before the group's are read, so all records of
        the source before the sync's are.
        """
        history = self._histories.get((topic, partition))
        if history is None or downstream_offset < 0:
            return None
        at = bisect_right(history.downstream, downstream_offset) - 1
        if at < 0:
            return None
        return history.upstream[at] + (downstream_offset > history.downstream[at])
