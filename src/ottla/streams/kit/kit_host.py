"""Run an operator in Python inside the test's own process, batch by batch, in place of Spark's state.

Spark starts a Python of its own for each query with such an operator, and asks its state over a socket:
seconds a test. Here the very processor that Spark would run (keyed_processor.py) runs in this process over
the very rows that Spark would give it, with its pages in a dictionary. Spark's own part is not tested: its
state store and its workers. Beside the time, a test gains breakpoints and coverage in the functions of a
topology, and a clock that stands still.

    sources -> events, as text, to the sink  ==>  operator, here  ==>  records, as text, from the source -> on

Event time is kept as Spark keeps it: the watermark that a batch sees is that of the batches before; it is
the least of its inputs'; when a batch has moved it, timers that are due fire before the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.streams.operators.operator import KeyedOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from ottla.streams.host.keyed_processor import KeyedProcessor

EVENTS = "__ottla_events"
"""The topic by which events are told from the records that a query writes."""


class InProcessHost:
    """One query's operator. `run_keyed` is the `keyed_host` of the query's inputs."""

    def __init__(self, records: Callable[[], DataFrame]) -> None:
        """records: a stream of one column `record`, into which the result of `batch` is put."""
        self._records = records
        self._processor: KeyedProcessor | None = None
        self._event_time = _EventTime([], None)
        self._alarm = _Alarm()
        self.events: DataFrame | None = None
        """The operator's events as rows of a sink; None for a query without an operator."""

    def run_keyed(
        self,
        inputs: Sequence[DataFrame],
        operator: KeyedOperator,
        *,
        name: str,
        key_type: DataType,
        value_type: DataType,
        grace_ms: int | None = None,
        heartbeats: DataFrame | None = None,
    ) -> DataFrame:
        """As keyed_host.run_keyed."""
        from pyspark import cloudpickle

        from ottla.streams.host import keyed_host
        from ottla.streams.host.keyed_processor import KeyedProcessor, OperatorCodec

        types = [(frame.schema["key"].dataType, frame.schema["value"].dataType) for frame in inputs]
        # As Spark's workers get it: it must be fit for pickle, and shares nothing with the test.
        copied = cloudpickle.loads(cloudpickle.dumps(operator))  # type: ignore[no-untyped-call]
        codec = OperatorCodec.of(name, types, key_type, value_type)
        self._processor = KeyedProcessor(name, copied, codec, grace_ms)
        self._processor.init(self._alarm)  # type: ignore[arg-type]
        self._event_time = _EventTime([0] * len(inputs), grace_ms)
        (bucket,) = keyed_host.bucket_ids(1, 1)
        frames = [keyed_host._events(frame, number, [bucket]) for number, frame in enumerate(inputs)]
        events = frames[0]
        for frame in frames[1:]:
            events = events.unionByName(frame)
        self.events = _as_sink_rows(events)
        return keyed_host._columns(self._records(), key_type, value_type)

    def batch(self, events: Iterable[bytes], heartbeat_ms: int | None, now_ms: int) -> list[str]:
        """Run one batch; the records that the operator sends. Raises the errors of its functions."""
        import pandas

        assert self._processor is not None, "the query has an operator"
        rows = [json.loads(event) for event in events]
        times = _Times(self._event_time.watermark_ms, now_ms)
        sent: list[str] = []
        if rows:
            frame = pandas.DataFrame(rows).assign(now=now_ms)
            sent += _records(self._processor.handleInputRows((0,), iter([frame]), times))
        sent += self._expired(times)
        if self._event_time.moved([(row["input"], row["timestamp"]) for row in rows], heartbeat_ms):
            sent += self._expired(_Times(self._event_time.watermark_ms, now_ms))
        return sent

    def _expired(self, times: _Times) -> list[str]:
        assert self._processor is not None
        # With timers of the clock Spark asks in every batch, and time has gone on since the last one.
        due_ms = self._alarm.due(times.now_ms + 1 if self._by_clock else times.watermark_ms)
        if due_ms is None:
            return []
        return _records(self._processor.handleExpiredTimer((0,), times, _Expired(due_ms)))

    @property
    def _by_clock(self) -> bool:
        from ottla.streams.operators.operator import TimerKind

        assert self._processor is not None
        return TimerKind.PROCESSING_TIME in self._processor._operator.timers


@dataclass(slots=True)
class _EventTime:
    """Event time as Spark keeps it. latest_ms: by input. delay_ms: of the watermark; None: there is none."""

    latest_ms: list[int]
    delay_ms: int | None
    watermark_ms: int = 0

    def moved(self, records: Iterable[tuple[int, int]], heartbeat_ms: int | None) -> bool:
        """Take in a batch's inputs and times, and its heartbeat; whether the watermark has moved."""
        for number, timestamp_ms in records:
            self.latest_ms[number] = max(self.latest_ms[number], timestamp_ms)
        if heartbeat_ms is not None:
            self.latest_ms = [max(each, heartbeat_ms) for each in self.latest_ms]
        if self.delay_ms is None:
            return False
        before_ms = self.watermark_ms
        self.watermark_ms = max(before_ms, min(self.latest_ms) - self.delay_ms)
        return self.watermark_ms > before_ms


def _as_sink_rows(events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return events.select(
        F.lit(EVENTS).alias("topic"),
        F.lit(None).cast("BINARY").alias("key"),
        F.to_json(F.struct(*(name for name in events.columns if name != "now")))
        .cast("BINARY")
        .alias("value"),
        F.lit(0).cast("TIMESTAMP").alias("timestamp"),
        F.lit(None).cast("ARRAY<STRUCT<key: STRING, value: BINARY>>").alias("headers"),
        F.lit(None).cast("INT").alias("partition"),
    )


def _records(frames: Iterator[Any]) -> list[str]:
    return [record for frame in frames for record in frame["record"] if record is not None]


class _Times:
    """Spark's TimerValues."""

    def __init__(self, watermark_ms: int, now_ms: int) -> None:
        self.watermark_ms = watermark_ms
        self.now_ms = now_ms

    def getCurrentWatermarkInMs(self) -> int:
        return self.watermark_ms

    def getCurrentProcessingTimeInMs(self) -> int:
        return self.now_ms


class _Expired:
    """Spark's ExpiredTimerInfo."""

    def __init__(self, expiry_ms: int) -> None:
        self._expiry_ms = expiry_ms

    def getExpiryTimeInMs(self) -> int:
        return self._expiry_ms


class _Alarm:
    """Spark's StatefulProcessorHandle: its map states, and the one timer that the processor sets."""

    def __init__(self) -> None:
        self._timers: set[int] = set()

    def getMapState(self, name: str, key_schema: str, value_schema: str) -> _Map:
        return _Map()

    def registerTimer(self, at_ms: int) -> None:
        self._timers.add(at_ms)

    def deleteTimer(self, at_ms: int) -> None:
        self._timers.discard(at_ms)

    def due(self, now_ms: int) -> int | None:
        """The timer if its time has come, as Spark sees it. It is gone then."""
        due = [at_ms for at_ms in self._timers if at_ms <= now_ms]
        if not due:
            return None
        self._timers.remove(min(due))
        return min(due)


class _Map:
    """Spark's map state, of rows of one field."""

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes] = {}

    def containsKey(self, key: tuple[bytes]) -> bool:
        return key[0] in self._entries

    def getValue(self, key: tuple[bytes]) -> tuple[bytes] | None:
        return (self._entries[key[0]],) if key[0] in self._entries else None

    def updateValue(self, key: tuple[bytes], value: tuple[bytes]) -> None:
        self._entries[key[0]] = value[0]

    def removeKey(self, key: tuple[bytes]) -> None:
        self._entries.pop(key[0], None)
