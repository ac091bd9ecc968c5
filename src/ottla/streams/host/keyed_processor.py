"""Run an operator over one bucket's batch, in Spark's Python workers: the processor for transformWithState.

A bucket's batch in order: read its directory, take the timers that are due, read the pages of all keys that
events and timers need, fire the timers, run the events key by key, fire the timers that they set and that
are due already, write the pages, tell Spark the earliest timer that is left.

Spark has one timer a bucket. In event time it stands at the earliest of the bucket's own; for processing
time, which Spark looks at in every batch anyway, at the next batch for as long as any timer waits.
"""

from __future__ import annotations

import contextlib
import gc
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ottla.streams.host.keyed_state import BucketState, Timer
from ottla.streams.host.keyed_values import Convert, decoder, dumps, encoder, loads
from ottla.streams.operators.operator import (
    Event,
    KeyedOperator,
    Output,
    Store,
    TimerKind,
    Value,
)

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    InputTypes: TypeAlias = Sequence[tuple[DataType, DataType]]

ROWS_PER_FRAME = 10_000
_PIPELINED = 16
_PIPELINED_BYTES = 64 * 1024
NO_WATERMARK = -1


class BucketStore:
    """A store of the operator: the entries of the current key."""

    __slots__ = ("_context", "_number", "_state")

    def __init__(self, context: BucketContext, state: BucketState, number: int) -> None:
        self._context = context
        self._state = state
        self._number = number

    def get(self, key: Value, sub_key: int | str | bytes = b"") -> Value | None:
        if key is not self._context.key:
            self._context.check(key)
        return self._state.get(self._number, sub_key)

    def put(self, key: Value, value: Value, sub_key: int | str | bytes = b"") -> None:
        if key is not self._context.key:
            self._context.check(key)
        self._state.put(self._number, sub_key, value)

    def delete(self, key: Value, sub_key: int | str | bytes = b"") -> None:
        if key is not self._context.key:
            self._context.check(key)
        self._state.delete(self._number, sub_key)

    def entries(self, key: Value) -> Iterator[tuple[int | str | bytes, Value]]:
        if key is not self._context.key:
            self._context.check(key)
        return iter(self._state.entries(self._number))

    def size(self) -> int:
        return self._state.size(self._number)


class _Firing(NamedTuple):
    """Timers that fire now. kind, now_ms: of the one at hand. heap, pending: those that wait their turn."""

    kind: TimerKind
    now_ms: int
    heap: list[Timer]
    pending: set[Timer]


class BucketTimers:
    """The timers of an operator during one bucket's batch."""

    def __init__(self, state: BucketState, operator: KeyedOperator, times_ms: dict[TimerKind, int]) -> None:
        self._state = state
        self._text = ""
        self._hash = 0
        self._times_ms = {kind: times_ms[kind] for kind in operator.timers}
        self._firing: _Firing | None = None
        self._postponed: list[tuple[TimerKind, Timer]] = []

    def select(self, text: str, key_hash: int) -> None:
        """Make this the current key, of the state too."""
        self._state.select(text, key_hash)
        self._text, self._hash = text, key_hash

    def take_due(self) -> dict[TimerKind, list[Timer]]:
        """Remove the timers whose time has come."""
        return {kind: self._state.take_due(kind, time_ms) for kind, time_ms in self._times_ms.items()}

    def set(self, kind: TimerKind, at_ms: int) -> None:
        """Set a timer of the current key. Raises ValueError for a kind that the operator does not declare."""
        if kind not in self._times_ms:
            raise ValueError(f"the operator sets timers of {kind.value} and does not declare that")
        if self._firing is not None and self._firing.kind is kind:
            timer = (at_ms, self._text, self._hash)
            _, now_ms, heap, pending = self._firing
            if now_ms < at_ms <= self._times_ms[kind]:
                if timer not in pending:
                    pending.add(timer)
                    heapq.heappush(heap, timer)
                return
            if at_ms <= now_ms:
                self._postponed.append((kind, timer))
                return
        self._state.set_timer(kind, at_ms)

    def set_postponed(self) -> None:
        """Set the timers that a timer set for its own time or an earlier one: they wait a batch."""
        for kind, (at_ms, text, key_hash) in self._postponed:
            self._state.select(text, key_hash)
            self._state.set_timer(kind, at_ms)
        self._postponed.clear()

    def cancel(self, kind: TimerKind, at_ms: int) -> None:
        """Cancel a timer of the current key."""
        timer = (at_ms, self._text, self._hash)
        if (kind, timer) in self._postponed:
            self._postponed.remove((kind, timer))
        if self._firing is not None and self._firing.kind is kind:
            self._firing.pending.discard(timer)
        self._state.cancel_timer(kind, at_ms)

    def fire(self, kind: TimerKind, due: list[Timer]) -> Iterator[Timer]:
        """Timers in the order of time, to be fired; also those that they set for times that have come."""
        heap, pending = list(due), set(due)
        try:
            while heap:
                timer = heapq.heappop(heap)
                if timer not in pending:
                    continue
                pending.remove(timer)
                self._firing = _Firing(kind, timer[0], heap, pending)
                yield timer
        finally:
            self._firing = None


@dataclass(slots=True)
class BatchCounts:
    """Records of a batch that an operator dropped: because their window is closed, or without a meaning."""

    late: int = 0
    dropped: int = 0


class BucketContext:
    """The host as an operator sees it, during one bucket's batch."""

    def __init__(
        self, state: BucketState, operator: KeyedOperator, watermark_ms: int, processing_time_ms: int
    ) -> None:
        self.watermark_ms = watermark_ms
        self.processing_time_ms = processing_time_ms
        self.key: Value = None
        self.counts = BatchCounts()
        times_ms = {TimerKind.EVENT_TIME: watermark_ms, TimerKind.PROCESSING_TIME: processing_time_ms}
        self.timers = BucketTimers(state, operator, times_ms)
        self._stores = {name: BucketStore(self, state, at) for at, name in enumerate(operator.stores)}

    def store(self, name: str) -> Store:
        return self._stores[name]

    def select(self, key: Value, text: str, key_hash: int) -> None:
        """Make this the current key."""
        self.timers.select(text, key_hash)
        self.key = key

    def check(self, key: Value) -> None:
        """Raise ValueError for another key than the current one."""
        if key != self.key:
            raise ValueError(
                f"an operator at key {self.key!r} has only that key's state, not that of {key!r}"
            )

    def set_timer(self, kind: TimerKind, key: Value, at_ms: int) -> None:
        self.check(key)
        self.timers.set(kind, at_ms)

    def cancel_timer(self, kind: TimerKind, key: Value, at_ms: int) -> None:
        self.check(key)
        self.timers.cancel(kind, at_ms)

    def count_late(self) -> None:
        self.counts.late += 1

    def count_dropped(self) -> None:
        self.counts.dropped += 1


@dataclass(frozen=True, slots=True)
class OperatorCodec:
    """An operator's events and outputs as text. decode_key, decode_values: None where JSON says it all."""

    decode_key: Convert | None
    decode_values: Sequence[Convert | None]
    """By input."""
    encode_key: Convert
    encode_value: Convert

    @classmethod
    def of(cls, name: str, inputs: InputTypes, key_type: DataType, value_type: DataType) -> OperatorCodec:
        """The codec for these types. Raises TypeError for types without an exact form."""
        return cls(
            decoder(inputs[0][0]),
            [decoder(value) for _, value in inputs],
            encoder(key_type, f"{name}: the key"),
            encoder(value_type, f"{name}: the value"),
        )

    def key(self, text: str) -> Value:
        """The key in an event's text."""
        key = loads(text)["k"]
        return key if self.decode_key is None else self.decode_key(key)

    def encode(self, output: Output) -> str:
        """A record that the operator sends on."""
        content = {
            "k": self.encode_key(output.key),
            "v": self.encode_value(output.value),
            "t": output.timestamp_ms,
        }
        if output.headers:
            content["h"] = [{"key": name, "value": value} for name, value in _encoded(output.headers)]
        return dumps(content)


class KeyedProcessor(StatefulProcessor):
    """An operator as Spark's processor of one bucket (the grouping key)."""

    def __init__(
        self, name: str, operator: KeyedOperator, codec: OperatorCodec, watermark_delay_ms: int | None
    ) -> None:
        self._name = name
        self._operator = operator
        self._codec = codec
        self._delay_ms = watermark_delay_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._map = handle.getMapState("pages", "id BINARY", "page BINARY")

    def close(self) -> None:
        pass

    def handleInputRows(  # type: ignore[override,unused-ignore]  # frames, as transformWithStateInPandas gives
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        with _no_collection():
            groups, now_ms = _by_key(rows)
            yield from self._frames(groups, timerValues, now_ms, None)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        yield from self._frames({}, timerValues, now_ms, expiredTimerInfo.getExpiryTimeInMs())

    def _frames(
        self, groups: dict[str, _KeyEvents], times: Any, now_ms: int, expired_ms: int | None
    ) -> Iterator[pd.DataFrame]:
        watermark_ms = NO_WATERMARK
        if self._delay_ms is not None and (spark_ms := times.getCurrentWatermarkInMs()) > 0:
            watermark_ms = spark_ms + self._delay_ms
        state = BucketState(MapStorage(self._map))
        context = BucketContext(state, self._operator, watermark_ms, now_ms)
        records: list[str] = []
        encode = self._codec.encode
        for output in self._outputs(groups, state, context):
            records.append(encode(output))
            if len(records) == ROWS_PER_FRAME:
                yield pd.DataFrame({"record": records, "late": 0, "dropped": 0})
                records = []
        self._set_alarm(state, expired_ms, now_ms)
        state.flush()
        if records:
            yield pd.DataFrame({"record": records, "late": 0, "dropped": 0})
        counts = context.counts
        if counts.late or counts.dropped:
            told = {"record": [None], "late": counts.late, "dropped": counts.dropped}
            yield pd.DataFrame(told).astype({"record": object})

    def _outputs(
        self, groups: dict[str, _KeyEvents], state: BucketState, context: BucketContext
    ) -> Iterator[Output]:
        due = context.timers.take_due()
        hashes = {key_hash for timers in due.values() for _, _, key_hash in timers}
        hashes.update(each[0] for each in groups.values())
        state.prefetch(hashes)
        yield from self._fire(due, context)
        on_event, decode_values = self._operator.on_event, self._codec.decode_values
        for text, (key_hash, events) in groups.items():
            key = self._codec.key(text)
            context.select(key, text, key_hash)
            for input_number, timestamp_ms, record, _ in events:
                content = loads(record)
                value, headers = content["v"], content["h"]
                decode = decode_values[input_number]
                if decode is not None:
                    value = decode(value)
                event = Event(input_number, key, value, timestamp_ms, _headers(headers) if headers else ())
                try:
                    yield from on_event(event, context)
                except Exception as error:
                    error.add_note(f"in {self._name}, at the record with key {key!r}, time {timestamp_ms} ms")
                    raise
        if self._operator.timers:
            yield from self._fire(context.timers.take_due(), context)
            context.timers.set_postponed()

    def _fire(self, due: dict[TimerKind, list[Timer]], context: BucketContext) -> Iterator[Output]:
        for kind in sorted(due, key=lambda each: each.value):
            for at_ms, text, key_hash in context.timers.fire(kind, due[kind]):
                context.select(self._codec.key(text), text, key_hash)
                yield from self._operator.on_timer(kind, context.key, at_ms, context)

    def _set_alarm(self, state: BucketState, expired_ms: int | None, now_ms: int) -> None:
        """Have Spark call this bucket when its next timer is due.

        Never at a time that has come: Spark would call again in this batch, and then forget the timer.
        """
        kinds = self._operator.timers
        wanted_ms: int | None = None
        waiting = [at_ms for kind in kinds if (at_ms := state.earliest_ms(kind)) is not None]
        if waiting:
            if TimerKind.PROCESSING_TIME in kinds:
                wanted_ms = now_ms + 1
            else:
                wanted_ms = min(waiting) - (self._delay_ms or 0)
        if state.alarm_ms == wanted_ms and wanted_ms != expired_ms:
            return
        if state.alarm_ms is not None and state.alarm_ms != expired_ms:
            self._handle.deleteTimer(state.alarm_ms)
        if wanted_ms is not None:
            self._handle.registerTimer(wanted_ms)
        state.alarm_ms = wanted_ms


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Python's search for cycles of garbage takes a third of a batch's time and finds none in here."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_KeyEvents = tuple[int, list[list[Any]]]
"""A key's hash, and its events: input, timestamp, record, number of the partition."""
_EVENT_COLUMNS = ("key", "hash", "input", "timestamp", "record")


def _by_key(frames: Iterable[pd.DataFrame]) -> tuple[dict[str, _KeyEvents], int]:
    """The events of each key in their order, and the batch's time.

    Records of one partition stay in its order. Those of several are merged as Kafka Streams does it, always
    taking the earliest of the partitions' next records: which is the order of the latest time that each
    partition has come to.
    """
    frame = pd.concat(list(frames), ignore_index=True)
    now_ms = int(frame["now"].iloc[0])
    order = np.lexsort((frame["offset"], frame["source"], frame["input"]))
    partitions = frame.groupby(["input", "source"], sort=False).ngroup()
    columns: list[list[Any]] = [frame[name].to_numpy()[order].tolist() for name in _EVENT_COLUMNS]
    groups: dict[str, _KeyEvents] = {}
    for key, key_hash, *event in zip(*columns, partitions.to_numpy()[order].tolist(), strict=True):
        if (group := groups.get(key)) is None:
            groups[key] = (key_hash, [event])
        else:
            group[1].append(event)
    for _, events in groups.values():
        if events[0][3] != events[-1][3]:
            _merge(events)
    return groups, now_ms


def _merge(events: list[list[Any]]) -> None:
    reached: list[int] = []
    before = None
    for _, timestamp_ms, _, partition in events:
        reached.append(max(reached[-1], timestamp_ms) if partition == before else timestamp_ms)
        before = partition
    order = sorted(range(len(events)), key=reached.__getitem__)
    events[:] = [events[at] for at in order]


def _headers(headers: list[dict[str, Any]]) -> tuple[tuple[str, bytes | None], ...]:
    import base64

    return tuple(
        (each["key"], None if each["value"] is None else base64.b64decode(each["value"])) for each in headers
    )


def _encoded(headers: Iterable[tuple[str, bytes | None]]) -> Iterator[tuple[str, str | None]]:
    import base64

    for name, value in headers:
        yield name, None if value is None else base64.b64encode(value).decode()


class MapStorage:
    """Pages in Spark's map state.

    PySpark's client of the state waits for each answer before it asks again. Here some requests go out
    together: half the time of a call is waiting. Where PySpark's insides look different from those of 4.0 to
    4.2, calls are made one by one.
    """

    def __init__(self, state: Any) -> None:
        self._state = state
        self._client: Any = getattr(state, "_mapStateClient", None)
        self._api: Any = getattr(self._client, "_stateful_processor_api_client", None)
        self._name: Any = getattr(state, "_stateName", None)
        wanted = ("_serialize_to_bytes", "_deserialize_from_bytes", "_receive_proto_message", "sockfile")
        self._pipelined = all(hasattr(self._api, each) for each in wanted) and self._name is not None

    def read(self, ids: Sequence[bytes]) -> list[bytes]:
        if len(ids) < 2 or not self._pipelined:
            return [self._read_one(each) for each in ids]
        from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

        pages: list[bytes] = []
        for start in range(0, len(ids), _PIPELINED):
            part = ids[start : start + _PIPELINED]
            calls = [
                messages.MapStateCall(
                    stateName=self._name, getValue=messages.GetValue(userKey=self._key_bytes(each))
                )
                for each in part
            ]
            for each, content in zip(part, self._exchange(calls), strict=True):
                if not content:
                    raise RuntimeError(f"page {each!r} of the state is missing")
                pages.append(bytes(self._api._deserialize_from_bytes(content)[0]))
        return pages

    def write(self, pages: Sequence[tuple[bytes, bytes]]) -> None:
        if not self._pipelined:
            for page_id, page in pages:
                self._state.updateValue((page_id,), (page,))
            return
        from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

        calls: list[Any] = []
        size_bytes = 0
        for page_id, page in pages:
            value = self._api._serialize_to_bytes(self._client.value_schema, (page,))
            update = messages.UpdateValue(userKey=self._key_bytes(page_id), value=value)
            calls.append(messages.MapStateCall(stateName=self._name, updateValue=update))
            size_bytes += len(page)
            if len(calls) == _PIPELINED or size_bytes > _PIPELINED_BYTES:
                self._exchange(calls)
                calls, size_bytes = [], 0
        if calls:
            self._exchange(calls)

    def remove(self, ids: Sequence[bytes]) -> None:
        for each in ids:
            self._state.removeKey((each,))

    def _read_one(self, page_id: bytes) -> bytes:
        if page_id == b"m" and not self._state.containsKey((page_id,)):
            return b""  # asking for what is missing leaves a warning in Spark's log
        found = self._state.getValue((page_id,))
        if found is None:
            raise RuntimeError(f"page {page_id!r} of the state is missing")
        return bytes(found[0])

    def _key_bytes(self, page_id: bytes) -> bytes:
        content: bytes = self._api._serialize_to_bytes(self._client.user_key_schema, (page_id,))
        return content

    def _exchange(self, calls: Sequence[Any]) -> list[bytes]:
        """Send all requests, then read all answers: few and small enough that no side's buffers fill."""
        from pyspark.serializers import write_int
        from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

        file = self._api.sockfile
        for call in calls:
            request = messages.StateRequest(
                stateVariableRequest=messages.StateVariableRequest(mapStateCall=call)
            )
            content = request.SerializeToString()
            write_int(0, file)  # type: ignore[no-untyped-call]
            write_int(len(content), file)  # type: ignore[no-untyped-call]
            file.write(content)
        file.flush()
        answers: list[bytes] = []
        errors: list[str] = []
        for _ in calls:
            status, message, content = self._api._receive_proto_message()
            answers.append(content)
            if status != 0:
                errors.append(message)
        if errors:
            raise RuntimeError(f"Spark's state failed: {errors[0]}")
        return answers
