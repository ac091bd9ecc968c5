"""One mirrored partition that this broker leads: its mirror state, and what is counted of it."""

from __future__ import annotations

from ottla.broker.replication.partition import Partition
from ottla.core.links.mirror import MirrorPosition, PartitionMirror

Key = tuple[str, int]


class Mirrored:
    """A partition in one leader epoch; `is_current` ends with it."""

    __slots__ = (
        "bytes_in",
        "caught_up_at",
        "failures",
        "is_copied",
        "mirror",
        "misses",
        "partition",
        "records_in",
        "resume_at",
        "sent",
        "source_id",
    )

    def __init__(self, partition: Partition, source_id: str, now_seconds: float) -> None:
        self.partition = partition
        self.source_id = source_id
        self.mirror = PartitionMirror(leader_epoch=partition.leader_epoch, log=partition.log)
        self.is_copied = True
        """Until it is stopped, or led no more."""
        self.sent: MirrorPosition | None = None
        self.failures = 0
        self.misses = 0
        """How often in a row the source did not know the topic."""
        self.resume_at = 0.0
        self.records_in = 0
        self.bytes_in = 0
        self.caught_up_at = now_seconds
        """When nothing was left to copy, by the loop's clock; the begin of this leader epoch before that."""

    @property
    def key(self) -> Key:
        """Topic and partition."""
        return self.partition.topic, self.partition.index

    @property
    def is_current(self) -> bool:
        """Whether this broker still leads the partition in this leader epoch, to be copied."""
        return (
            self.is_copied
            and self.partition.is_leader
            and self.partition.leader_epoch == self.mirror.leader_epoch
        )

    def lag_seconds(self, now_seconds: float) -> float:
        """Since when there has always been something left to copy, as far as is known here."""
        return 0.0 if self.mirror.lag == 0 else max(0.0, now_seconds - self.caught_up_at)
