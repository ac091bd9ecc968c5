"""The contract between a task that copies and what writes its offset syncs.

The task calls `copied` after each commit: with exactly once after the transaction's end, with at least once
after the records were acknowledged. So no sync ever names a record that an abort could take back. What a kill
leaves unsaid comes with the next commit: a sync that is missing lets a consumer read records again, a false
one would let it lose some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import TopicPartition


@dataclass(frozen=True, slots=True)
class CopiedRun:
    """Records of one partition that were copied one behind the other, in the order of their offsets.

    source: the partition in the source cluster, by the topic's name there. first_, last_: offsets of the
    first and of the last record of the run. On the target the records lie without holes between them; on
    the source there may be holes (`dense` is False): then only the ends are known to correspond.
    Runs of a partition come in order. A downstream offset is never -1: a run whose place the target did not
    tell (an acknowledged duplicate) is left out.
    """

    source: TopicPartition
    first_upstream: int
    last_upstream: int
    first_downstream: int
    last_downstream: int

    @property
    def dense(self) -> bool:
        """Whether upstream and downstream offsets go side by side through the run."""
        return self.last_upstream - self.first_upstream == self.last_downstream - self.first_downstream


class OffsetSyncs(Protocol):
    """What a copying task tells of its commits. One object a task, used on the task's event loop alone."""

    async def copied(self, runs: Sequence[CopiedRun]) -> None:
        """These records are committed on the target.

        Returns soon: what can't be written now (the cluster with the syncs is away) is kept, bounded in
        number, or dropped, and never ends the task. Called with at most some thousand runs a second.
        """

    async def forget(self, sources: Sequence[TopicPartition]) -> None:
        """The source partitions were made again, or lost records: what was said of them before is void."""

    async def close(self) -> None:
        """Write what is kept, for a moment, and give everything up."""


@dataclass(frozen=True, slots=True)
class SyncPlace:
    """Where the syncs of a flow go.

    access: the cluster with the syncs' topic (the source's, or the target's: offset-syncs.topic.location).
    config: the connector's whole configuration (offset.lag.max, offset-syncs.topic.replication.factor, …).
    client_id: for the clients that are made.
    """

    access: ClusterAccess
    topic: str
    config: Mapping[str, str]
    client_id: str


OpenOffsetSyncs = Callable[[SyncPlace], OffsetSyncs]
"""Makes the syncs of a task; does no I/O itself. `ottla.mirror.checkpoints` has the real one."""


class NoOffsetSyncs:
    """For `emit.offset-syncs.enabled=false`."""

    async def copied(self, runs: Sequence[CopiedRun]) -> None:
        """See OffsetSyncs."""

    async def forget(self, sources: Sequence[TopicPartition]) -> None:
        """See OffsetSyncs."""

    async def close(self) -> None:
        """See OffsetSyncs."""
