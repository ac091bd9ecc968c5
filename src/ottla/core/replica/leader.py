"""A partition's leader: who is in sync, and up to where the log is committed.

Theory of operation. The high watermark is the smallest log end offset among the in-sync replicas; it
never moves back within a leader epoch. The leader reports its own appends and its followers' fetches;
each report returns the high watermark, and the shell wakes whoever waited for it. The last stable
offset bounds read_committed: the high watermark, or the first offset of an open transaction below it.
"""

from __future__ import annotations

from collections.abc import Iterable


class PartitionLeader:
    """Leader state of one partition for one leader epoch."""

    __slots__ = ("_end_offsets", "_isr", "high_watermark", "leader_epoch", "local_id")

    def __init__(
        self,
        *,
        local_id: int,
        leader_epoch: int,
        isr: Iterable[int],
        log_end_offset: int,
        high_watermark: int,
    ) -> None:
        self.local_id = local_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self._isr = frozenset(isr) | {local_id}
        # A follower's log end offset is unknown (-1, so nothing commits) until its first fetch.
        self._end_offsets = dict.fromkeys(self._isr, -1)
        self.on_append(log_end_offset)

    @property
    def isr(self) -> frozenset[int]:
        """The in-sync replicas' node ids, the leader's own among them."""
        return self._isr

    def on_append(self, log_end_offset: int) -> int:
        """The leader's log now ends at `log_end_offset`; returns the high watermark."""
        if len(self._isr) == 1:  # the common single-replica case, on the produce path
            self.high_watermark = log_end_offset
            return log_end_offset
        return self.on_replica_progress(self.local_id, log_end_offset)

    def on_replica_progress(self, replica: int, log_end_offset: int) -> int:
        """`replica` holds everything below `log_end_offset`; returns the high watermark."""
        if replica in self._end_offsets:
            self._end_offsets[replica] = log_end_offset
        committed = min(self._end_offsets.values())
        self.high_watermark = max(self.high_watermark, committed)
        return self.high_watermark


def last_stable_offset(high_watermark: int, first_unstable_offset: int | None) -> int:
    """Up to where read_committed may read (exclusive)."""
    if first_unstable_offset is None or first_unstable_offset > high_watermark:
        return high_watermark
    return first_unstable_offset
