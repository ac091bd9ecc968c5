"""The settings of one partition's log, under Kafka's topic configuration names."""

from __future__ import annotations

from dataclasses import dataclass

MAX_LONG = 2**63 - 1
_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """A topic's settings that `Log` uses. Defaults are Apache Kafka's.

    `retention_ms` and `retention_bytes` of -1 keep everything. `segment_jitter_ms` is the jitter already
    drawn for this log (0..segment.jitter.ms), so that many logs do not roll at once.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    file_delete_delay_ms: int = 60_000
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    producer_id_expiration_ms: int = _DAY_MS
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_LONG
    min_cleanable_dirty_ratio: float = 0.5

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy
