"""What a copying task counts and measures: of each partition, and of all together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.cluster_requests import TopicPartition
from ottla.mirror.core.gaps import Break, Loss
from ottla.mirror.offset_sync_hook import CopiedRun


@dataclass(slots=True)
class PartitionFigures:
    """Of one partition of the source. newest_ms: the timestamp of the newest record that was added."""

    records: int = 0
    bytes: int = 0
    batches_copied: int = 0
    batches_encoded: int = 0
    dead_letters: int = 0
    breaks: int = 0
    lost_offsets: int = 0
    position: int = 0
    end: int = 0
    newest_ms: int = -1

    def lag(self, now_ms: int) -> tuple[int, float]:
        """The lag in offsets, and in seconds: the age of the newest record that was copied."""
        behind = max(self.end - self.position, 0)
        seconds = max(now_ms - self.newest_ms, 0) / 1_000 if behind and self.newest_ms >= 0 else 0.0
        return behind, seconds


class TaskFigures:
    """Of a task. Records count when they are committed."""

    def __init__(self, partitions: list[TopicPartition], *, exactly_once: bool) -> None:
        self.of = {each: PartitionFigures() for each in partitions}
        self.commits = 0
        self.restarts = 0
        self.latency_ms = 0.0
        """Of the last commit: from the newest record's timestamp to the end of the transaction."""
        self._exactly_once = exactly_once
        self._before: tuple[float, int, int] | None = None

    def copied(self, runs: list[CopiedRun], now_ms: int) -> None:
        """Records were committed."""
        self.commits += 1
        for run in runs:
            found = self.of[run.source]
            found.records += run.last_downstream - run.first_downstream + 1
            if found.newest_ms >= 0:
                self.latency_ms = max(now_ms - found.newest_ms, 0)

    def broken(self, found: Break) -> None:
        """The source has lost records, or the topic."""
        figures = self.of[found.partition]
        figures.breaks += 1
        if found.loss is Loss.OVERTAKEN:
            figures.lost_offsets += found.size

    def told(self, now: float, now_ms: int) -> tuple[Mapping[str, float], Mapping[str, Mapping[str, float]]]:
        """The figures of the task, and of its partitions. now: of a clock that never goes back."""
        partitions: dict[str, dict[str, float]] = {}
        lag_records, lag_seconds = 0, 0.0
        for partition, each in self.of.items():
            behind, seconds = each.lag(now_ms)
            lag_records += behind
            lag_seconds = max(lag_seconds, seconds)
            partitions[str(partition)] = {
                "position": each.position,
                "lag-records": behind,
                "lag-seconds": seconds,
                "record-count": each.records,
                "byte-count": each.bytes,
                "batches-copied": each.batches_copied,
                "batches-encoded": each.batches_encoded,
                "dead-letters": each.dead_letters,
                "breaks": each.breaks,
                "lost-offsets": each.lost_offsets,
            }
        all_of = self.of.values()
        records, size = sum(each.records for each in all_of), sum(each.bytes for each in all_of)
        record_rate = byte_rate = 0.0
        if self._before is not None and now > self._before[0]:
            seconds = now - self._before[0]
            record_rate, byte_rate = (records - self._before[1]) / seconds, (size - self._before[2]) / seconds
        self._before = (now, records, size)
        own: dict[str, float] = {
            "exactly-once": float(self._exactly_once),
            "lag-records": lag_records,
            "lag-seconds": lag_seconds,
            "record-count": records,
            "byte-count": size,
            "record-rate": record_rate,
            "byte-rate": byte_rate,
            "replication-latency-ms": self.latency_ms,
            "batches-copied": sum(each.batches_copied for each in all_of),
            "batches-encoded": sum(each.batches_encoded for each in all_of),
            "dead-letters": sum(each.dead_letters for each in all_of),
            "breaks": sum(each.breaks for each in all_of),
            "lost-offsets": sum(each.lost_offsets for each in all_of),
            "commits": self.commits,
            "restarts": self.restarts,
        }
        return own, partitions
