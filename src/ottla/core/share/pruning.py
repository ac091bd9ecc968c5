"""The offset before which a share coordinator's log is no longer needed.

Every share partition's newest snapshot replaces all records about it before. So the log is needed from the
oldest of the newest snapshots on. That offset only grows while the shard lives; once the last share partition
has been deleted, the log is needed from its tombstone on.
"""

from __future__ import annotations

from ottla.core.share.keys import SharePartitionKey


class SnapshotOffsets:
    """The offset of the newest snapshot of each share partition."""

    __slots__ = ("_offsets", "_pruned_to", "_tombstone_offset")

    def __init__(self) -> None:
        self._offsets: dict[SharePartitionKey, int] = {}
        self._tombstone_offset = 0
        self._pruned_to = 0

    def on_snapshot(self, key: SharePartitionKey, offset: int, *, is_tombstone: bool) -> None:
        """A snapshot or a tombstone at `offset` was replayed."""
        if is_tombstone:
            self._offsets.pop(key, None)
        else:
            self._offsets[key] = offset
        self._tombstone_offset = offset if not self._offsets else 0

    def take_redundant_offset(self) -> int | None:
        """The first offset that is needed, or None if no records before it are left to delete."""
        needed_from = min(self._offsets.values(), default=self._tombstone_offset)
        if needed_from <= self._pruned_to:
            return None
        self._pruned_to = needed_from
        return needed_from
