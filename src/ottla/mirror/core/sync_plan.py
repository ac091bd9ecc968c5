"""Decides which offset syncs are written of records that were copied (offset.lag.max).

A group at any copied record goes on one record behind the last sync before it, so at most `lag_max` of the
target's records are read again if syncs lie no further apart. Written at once are therefore: the first record
of a partition in this life (of the task, or of the source topic), the first one that lies further than
`lag_max` behind the last sync, and the first one after the target's offsets went back. The end of what was
copied is kept as the partition's tail, and written when nothing better has come for a moment: a group that
has read everything goes on at exactly the end. (MirrorMaker 2 writes a sync at once after each hole, too: a
marker of a transaction is one. Here that is left to the tail.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.mirror.core.record_formats import OffsetSync


class Run(Protocol):
    """The part of CopiedRun that is used here."""

    @property
    def source(self) -> tuple[str, int]:
        """The source partition."""

    @property
    def first_upstream(self) -> int:
        """See CopiedRun."""

    @property
    def last_upstream(self) -> int:
        """See CopiedRun."""

    @property
    def first_downstream(self) -> int:
        """See CopiedRun."""

    @property
    def last_downstream(self) -> int:
        """See CopiedRun."""


@dataclass(slots=True)
class _Synced:
    """The last sync of a partition, and the end of what was copied."""

    downstream: int
    upstream_end: int
    downstream_end: int

    @property
    def has_tail(self) -> bool:
        return self.downstream_end != self.downstream


class SyncPlan:
    """The plan of one task. lag_max: offset.lag.max, in records of the target."""

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._partitions: dict[tuple[str, int], _Synced] = {}

    def copied(self, runs: Sequence[Run]) -> list[OffsetSync]:
        """The syncs that have to be written now."""
        return [sync for run in runs for sync in self._of_run(run)]

    def tails(self) -> list[OffsetSync]:
        """The ends of partitions that no sync names yet; they count as written."""
        found = []
        for (topic, partition), synced in self._partitions.items():
            if synced.has_tail:
                synced.downstream = synced.downstream_end
                found.append(OffsetSync(topic, partition, synced.upstream_end, synced.downstream_end))
        return found

    @property
    def has_tails(self) -> bool:
        """Whether `tails` would say something."""
        return any(each.has_tail for each in self._partitions.values())

    def forget(self, topic: str, partition: int) -> None:
        """The source partition was made again: its next record is a first one."""
        self._partitions.pop((topic, partition), None)

    def _of_run(self, run: Run) -> Iterator[OffsetSync]:
        topic, partition = run.source
        synced = self._partitions.get((topic, partition))
        upstream, downstream = run.first_upstream, run.first_downstream
        if synced is None or downstream <= synced.downstream or upstream <= synced.upstream_end:
            yield OffsetSync(topic, partition, upstream, downstream)
            synced = self._partitions[topic, partition] = _Synced(downstream, upstream, downstream)
        step = self._lag_max + 1
        if run.last_upstream - upstream == run.last_downstream - downstream:
            for at in range(max(downstream, synced.downstream + step), run.last_downstream + 1, step):
                yield OffsetSync(topic, partition, upstream + at - downstream, at)
                synced.downstream = at
        else:  # only the ends are known to correspond
            for at, of in ((downstream, upstream), (run.last_downstream, run.last_upstream)):
                if at >= synced.downstream + step:
                    yield OffsetSync(topic, partition, of, at)
                    synced.downstream = at
        synced.upstream_end, synced.downstream_end = run.last_upstream, run.last_downstream
