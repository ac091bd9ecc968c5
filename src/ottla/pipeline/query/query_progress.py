"""Spark's report after each batch of a query, as plain values for metrics, screens and lag tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ottla.pipeline.query.checkpoints import Offsets, parse_source_offset

OBSERVATION_PREFIX = "ottla_"
"""How ottla's observations (`DataFrame.observe`) are named; fields: `dead_letters`, `late`, `dropped`."""
WRITTEN_OBSERVATION = f"{OBSERVATION_PREFIX}written"
"""The observation of the records that a batch writes; fields: those of Written, times in us."""
_AFTER_COMMIT = ("commitOffsets", "commitBatch")
"""Spark's phases behind the commit of a batch's output."""


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """One Kafka source in one batch. end: the next offsets to read. latest: the topics' ends, if known."""

    description: str
    input_rows: int
    start: Offsets
    end: Offsets
    latest: Offsets

    @property
    def behind_latest(self) -> Offsets:
        """The number of offsets of each partition that were unread when the batch was planned."""
        return {
            topic: {
                partition: max(0, self.latest.get(topic, {}).get(partition, offset) - offset)
                for partition, offset in partitions.items()
            }
            for topic, partitions in self.end.items()
        }

    @property
    def read(self) -> Offsets:
        """The number of offsets of each partition that the batch has read."""
        return {
            topic: {
                partition: max(0, offset - self.start.get(topic, {}).get(partition, offset))
                for partition, offset in partitions.items()
            }
            for topic, partitions in self.end.items()
        }


@dataclass(frozen=True, slots=True)
class Written:
    """The records that a batch has written, at least one. Timestamps are theirs, in ms since 1970."""

    records: int
    earliest_ms: float
    average_ms: float
    latest_ms: float


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """One batch of a query, or a look at the sources that found nothing (then `input_rows` is 0).

    Durations are in ms, by Spark's names for the phases; `batch_ms` is the whole. watermark_ms: since 1970,
    None if the query has no watermark yet. state_memory_bytes: the memory that the state stores take.
    """

    query_id: str
    run_id: str
    name: str
    batch_id: int
    timestamp_ms: int
    input_rows: int
    input_rows_per_second: float
    processed_rows_per_second: float
    durations_ms: Mapping[str, int]
    watermark_ms: int | None
    sources: tuple[SourceProgress, ...]
    state_rows: int | None
    """None if unknown: Spark reports 0 for an empty state, and for one whose rows it does not count."""
    state_disk_bytes: int
    state_memory_bytes: int
    late_rows_of_spark: int
    observed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def batch_ms(self) -> int:
        return self.durations_ms.get("triggerExecution", 0)

    @property
    def committed_ms(self) -> int:
        """When the batch's output was committed, since 1970; a while after that at the latest."""
        after = sum(self.durations_ms.get(phase, 0) for phase in _AFTER_COMMIT)
        return self.timestamp_ms + self.batch_ms - after

    @property
    def written(self) -> Written | None:
        """The records that the batch has written; None where none were, or where they are not observed."""
        observed = self.observed.get(WRITTEN_OBSERVATION) or {}
        records = int(observed.get("records") or 0)
        times = [observed.get(name) for name in ("earliest_us", "average_us", "latest_us")]
        if not records or any(each is None for each in times):
            return None
        return Written(records, *(float(each) / 1_000 for each in times if each is not None))

    @property
    def is_batch(self) -> bool:
        """Whether a batch was run, rather than nothing found to read."""
        return "addBatch" in self.durations_ms

    @property
    def lag(self) -> int:
        """Offsets behind the latest, over all partitions."""
        return sum(
            behind
            for source in self.sources
            for partitions in source.behind_latest.values()
            for behind in partitions.values()
        )

    @property
    def dead_letters(self) -> int:
        """Records of this batch that went to dead letters, or would have."""
        return self._observed("dead_letters")

    @property
    def late_rows(self) -> int:
        """Rows of this batch that came too late and were dropped, by Spark's operators or by ottla's."""
        return self.late_rows_of_spark + self._observed("late")

    @property
    def dropped_rows(self) -> int:
        """Records of this batch that an operator of ottla could not use, such as one without a key."""
        return self._observed("dropped")

    def _observed(self, field_name: str) -> int:
        return sum(
            int(fields.get(field_name) or 0)
            for name, fields in self.observed.items()
            if name.startswith(OBSERVATION_PREFIX)
        )


def parse_progress(text: str | Mapping[str, Any]) -> QueryProgress:
    """Parse Spark's progress JSON (`StreamingQueryProgress.json`). Missing figures are zero or empty.

    Spark Connect leaves out the figures of the whole batch: they are then summed up from its sources.
    """
    raw: Mapping[str, Any] = json.loads(text) if isinstance(text, str) else text
    operators, sources = raw.get("stateOperators") or [], raw.get("sources") or []

    def of_sources(name: str) -> float:
        whole = raw.get(name)
        return _rate(whole) if whole is not None else sum(_rate(each.get(name)) for each in sources)

    return QueryProgress(
        query_id=str(raw.get("id") or ""),
        run_id=str(raw.get("runId") or ""),
        name=str(raw.get("name") or raw.get("id") or ""),
        batch_id=int(raw.get("batchId", -1)),
        timestamp_ms=_milliseconds(raw.get("timestamp")) or 0,
        input_rows=int(of_sources("numInputRows")),
        input_rows_per_second=of_sources("inputRowsPerSecond"),
        processed_rows_per_second=of_sources("processedRowsPerSecond"),
        durations_ms={str(name): int(value) for name, value in (raw.get("durationMs") or {}).items()},
        watermark_ms=_milliseconds((raw.get("eventTime") or {}).get("watermark")) or None,
        sources=tuple(_source(source) for source in sources),
        state_rows=sum(int(operator.get("numRowsTotal") or 0) for operator in operators) or None,
        state_disk_bytes=sum(
            int((operator.get("customMetrics") or {}).get("rocksdbSstFileSize") or 0)
            for operator in operators
        ),
        state_memory_bytes=sum(int(operator.get("memoryUsedBytes") or 0) for operator in operators),
        late_rows_of_spark=sum(int(operator.get("numRowsDroppedByWatermark") or 0) for operator in operators),
        observed=raw.get("observedMetrics") or {},
    )


def _source(raw: Mapping[str, Any]) -> SourceProgress:
    return SourceProgress(
        description=str(raw.get("description") or ""),
        input_rows=int(raw.get("numInputRows") or 0),
        start=_offsets(raw.get("startOffset")),
        end=_offsets(raw.get("endOffset")),
        latest=_offsets(raw.get("latestOffset")),
    )


def _offsets(value: Any) -> Offsets:
    """The offsets in a progress's JSON, which are an object or a string of JSON."""
    return parse_source_offset(value if isinstance(value, str) else json.dumps(value))


def _rate(value: Any) -> float:
    """A rate; Spark writes NaN or Infinity, as a string or a number, for one over no time."""
    try:
        rate = float(value or 0.0)
    except (TypeError, ValueError):
        return 0.0
    return rate if 0.0 <= rate < float("inf") else 0.0


def _milliseconds(text: Any) -> int | None:
    """An instant as Spark prints it, 2026-01-31T12:00:00.123Z, in ms since 1970."""
    try:
        instant = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return int(instant.replace(tzinfo=instant.tzinfo or UTC).timestamp() * 1000)
