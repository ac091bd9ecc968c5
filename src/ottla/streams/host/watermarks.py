"""Event time of a query: give a frame its watermark, and tell in words where it stands.

**The one rule.** A query's watermark is the largest event time of the batches before, less a delay. It moves
between batches, never inside one, and never back. Windows close by the watermark that a batch begins
with. Records are late by the watermark that the batch before began with: Spark is lenient by a batch, so
that no record is dropped because of another one in its batch. When input pauses Spark runs a batch without
records, to close the windows that the last one has made ripe, and then there is no such leniency.

| operator | delay | a record is dropped, counted as late, when |
|---|---|---|
| tumbling, hopping windows | grace | window end + grace <= largest event time |
| sessions | grace + 1 ms | record time + gap + grace < largest event time |
| stream join | grace + before + after | record time + delay <= largest event time of the slower side |

A window is closed by the same comparison; with emit=WINDOW_CLOSE it is sent on then. Event time is that of
all partitions together; in Kafka Streams it is each partition's own. So a partition that is read far behind
the others loses records older than the grace. Times before 1970 are late from the start.

**Heartbeats** move the watermark without being records. They are put under the operator that takes event
times and taken out right above it. The optimizer must not take them out before, and it moves any filter below
that says nothing of the event time, also one that a join derives for its key. So heartbeats are told by a
comparison with the event time itself, which stays above, and a join behind them must not let Spark derive
that keys are not null (native_join.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORDS_BEFORE = "_records_before"
_FAR_FUTURE = "9999-12-31 00:00:00"
_FAR_PAST = "0001-01-01 00:00:00"


def with_watermark(frame: DataFrame, delay_ms: int, heartbeats: DataFrame | None) -> DataFrame:
    """The frame with event time in `timestamp`, moved on by its records and by `heartbeats` (`timestamp`)."""
    delay = f"{delay_ms} milliseconds"
    if heartbeats is None:
        return frame.withWatermark("timestamp", delay)
    from pyspark.sql import functions as F

    records = frame.withColumn(_RECORDS_BEFORE, F.lit(_FAR_FUTURE).cast("TIMESTAMP"))
    beats = heartbeats.select(
        *(
            F.col("timestamp")
            if each.name == "timestamp"
            else F.lit(None).cast(each.dataType).alias(each.name)
            for each in frame.schema.fields
        ),
        F.lit(_FAR_PAST).cast("TIMESTAMP").alias(_RECORDS_BEFORE),
    )
    both = records.unionByName(beats).withWatermark("timestamp", delay)
    return both.where(F.col("timestamp") < F.col(_RECORDS_BEFORE)).drop(_RECORDS_BEFORE)


@dataclass(frozen=True, slots=True)
class Watermark:
    """Where a query's event time stands; all in milliseconds since 1970, None before there is any.

    `watermark_ms`: windows that end at or before it are closed. `event_time_ms`: the largest event time of
    the last batch that had one. `dropped`: late rows that the last batch dropped; Spark counts an aggregate's
    after it has put together the records of one key and window that one task read, so these may be fewer than
    records.
    """

    watermark_ms: int | None
    event_time_ms: int | None
    dropped: int

    @property
    def behind_ms(self) -> int | None:
        """How far the watermark is behind the largest event time."""
        if self.watermark_ms is None or self.event_time_ms is None:
            return None
        return max(0, self.event_time_ms - self.watermark_ms)

    def in_words(self) -> str:
        """One sentence for people."""
        if self.watermark_ms is None:
            return "no event time yet: no window is closed"
        words = f"windows that end up to {_time(self.watermark_ms)} are closed"
        if self.behind_ms is not None and self.event_time_ms is not None:
            words += (
                f", {self.behind_ms / 1000:g} s behind the youngest record at {_time(self.event_time_ms)}"
            )
        return words + (f"; {self.dropped} late rows dropped" if self.dropped else "")


def watermark_of(progress: Any) -> Watermark:
    """Where event time stands after a query's progress: a StreamingQueryProgress, or its JSON as a mapping.

    `watermark_ms` grace and delay of the operator are taken off already: compare it with ends of windows.
    """
    event_time = _of(progress, "eventTime") or {}
    operators = _of(progress, "stateOperators") or ()
    watermark_ms = _milliseconds(event_time.get("watermark"))
    return Watermark(
        # A query that has seen no event time yet is at the beginning of 1970.
        watermark_ms=watermark_ms if watermark_ms else None,
        event_time_ms=_milliseconds(event_time.get("max")),
        dropped=sum(int(_of(each, "numRowsDroppedByWatermark") or 0) for each in operators),
    )


def _of(given: Any, name: str) -> Any:
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def _milliseconds(text: str | None) -> int | None:
    """Spark writes times as `2026-11-22T03:15:02.000Z`."""
    if text is None:
        return None
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _time(milliseconds: int) -> str:
    return (
        datetime.fromtimestamp(milliseconds / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
