"""The processor API: a user's class with stores and punctuators, run as an operator.

    class Alarm(Processor):
        stores = ("last",)

        def process(self, record: ProcessorRecord, context: ProcessorContext) -> None:
            last = context.store("last")
            if last.get() is not None and record.value > 2 * last.get():
                context.forward(record.key, {"rose_to": record.value})
            last.put(record.value)
            context.schedule_event_time(record.timestamp_ms + 60_000)

        def punctuate(self, key: Any, at_ms: int, context: ProcessorContext) -> None:
            context.store("last").delete()

Everything belongs to one key: a store holds the values of that key, a punctuator is called for the key that
scheduled it. The instance goes to Spark's workers by pickle and must hold configuration only: values in its
own attributes are lost, in ways that differ from run to run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ottla.streams.operators.described import OperatorText, StateText
from ottla.streams.operators.operator import (
    Context,
    Event,
    Output,
    Store,
    TimerKind,
    Value,
)

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class ProcessorRecord:
    """A record as a processor sees it. `input` numbers the streams that it reads."""

    key: Any
    value: Any
    timestamp_ms: int
    headers: Headers = ()
    input: int = 0


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A store's values of the current key: one, or several by sub-key in their order."""

    _store: Store
    _key: Value
    _ttl_ms: int | None
    _now_ms: int

    def get(self, sub_key: int | str | bytes = b"", default: Any = None) -> Any:
        """The value, or `default` where there is none or its time to live is over."""
        held = self._store.get(self._key, sub_key)
        return default if held is None or self._expired(held) else held[0]

    def put(self, value: Any, sub_key: int | str | bytes = b"") -> None:
        """Store a plain value (numbers, text, bytes, times, decimals; lists, dicts, tuples, sets of them)."""
        self._store.put(self._key, (value, self._now_ms), sub_key)

    def delete(self, sub_key: int | str | bytes = b"") -> None:
        self._store.delete(self._key, sub_key)

    def entries(self) -> Iterator[tuple[int | str | bytes, Any]]:
        """All values with their sub-keys, in order."""
        for sub_key, held in self._store.entries(self._key):
            if not self._expired(held):
                yield sub_key, held[0]

    def _expired(self, held: Value) -> bool:
        return self._ttl_ms is not None and held[1] + self._ttl_ms <= self._now_ms


@dataclass(slots=True)
class ProcessorContext:
    """The host, as a processor sees it while it is called for one key."""

    key: Any
    timestamp_ms: int
    """The record's time; in a punctuator the time that it was scheduled for."""
    _context: Context
    _processor: Processor
    _headers: Headers = ()
    _outputs: list[Output] = field(default_factory=list)

    @property
    def watermark_ms(self) -> int:
        """The event time that all records have reached, -1 before there is one."""
        return self._context.watermark_ms

    @property
    def processing_time_ms(self) -> int:
        """The batch's time: the same when the batch is repeated after a failure."""
        return self._context.processing_time_ms

    def store(self, name: str) -> KeyStore:
        """The current key's store of that name. Raises KeyError for one that is not declared."""
        stores, ttl_ms = self._processor.stores, self._processor.ttl_ms.get(name)
        if name not in stores:
            raise KeyError(f"no store {name!r}: this processor declares {', '.join(stores) or 'none'}")
        return KeyStore(self._context.store(name), self.key, ttl_ms, self._context.processing_time_ms)

    def forward(
        self, key: Any, value: Any, *, timestamp_ms: int | None = None, headers: Headers | None = None
    ) -> None:
        """Send a record on, with the time and the headers of the one at hand unless others are given."""
        self._outputs.append(
            Output(
                key,
                value,
                self.timestamp_ms if timestamp_ms is None else timestamp_ms,
                self._headers if headers is None else headers,
            )
        )

    def schedule_event_time(self, at_ms: int) -> None:
        """Have `punctuate` called for this key when the watermark has reached that time."""
        self._context.set_timer(TimerKind.EVENT_TIME, self.key, at_ms)

    def schedule_processing_time(self, at_ms: int) -> None:
        """Have `punctuate` called for this key with the first batch at that time or later."""
        self._context.set_timer(TimerKind.PROCESSING_TIME, self.key, at_ms)

    def cancel_event_time(self, at_ms: int) -> None:
        self._context.cancel_timer(TimerKind.EVENT_TIME, self.key, at_ms)

    def cancel_processing_time(self, at_ms: int) -> None:
        self._context.cancel_timer(TimerKind.PROCESSING_TIME, self.key, at_ms)


class Processor(ABC):
    """Base of a user's processor. Class attributes declare its stores and timers.

    stores: their names. ttl_ms: by store, for how long a value is seen after it was put, in processing time
    (it is removed when its key is punctuated or writes it). event_time, processing_time: which punctuators
    it schedules.
    """

    stores: ClassVar[tuple[str, ...]] = ()
    ttl_ms: ClassVar[Mapping[str, int]] = {}
    event_time: ClassVar[bool] = True
    processing_time: ClassVar[bool] = False

    def init(self) -> None:  # noqa: B027 - optional
        """Called once in each worker process before the first record of a batch."""

    @abstractmethod
    def process(self, record: ProcessorRecord, context: ProcessorContext) -> None:
        """Called for each record."""

    def punctuate(self, key: Any, at_ms: int, context: ProcessorContext) -> None:
        """Called when a time that was scheduled for `key` has come."""
        raise NotImplementedError(f"{type(self).__name__} schedules punctuators but has no punctuate()")


@dataclass(slots=True)
class ProcessorOperator:
    """Any number of inputs into a user's processor."""

    processor: Processor
    _initialized: bool = False

    def described(self, inputs: Sequence[str]) -> OperatorText:
        names = ", ".join(self.processor.stores)
        kept = f"the stores {names}" if names else "nothing"
        state = StateText(kept, "for as long as it says", None, "sends what it forwards")
        return OperatorText("process", type(self.processor).__name__, state)

    @property
    def stores(self) -> tuple[str, ...]:
        return tuple(self.processor.stores)

    @property
    def timers(self) -> frozenset[TimerKind]:
        kinds = set()
        if self.processor.event_time:
            kinds.add(TimerKind.EVENT_TIME)
        if self.processor.processing_time:
            kinds.add(TimerKind.PROCESSING_TIME)
        return frozenset(kinds)

    def __reduce__(self) -> tuple[Any, ...]:
        return ProcessorOperator, (self.processor,)

    def on_event(self, event: Event, context: Context) -> list[Output]:
        self._initialize()
        record = ProcessorRecord(event.key, event.value, event.timestamp_ms, event.headers, event.input)
        own = self._context(event.key, event.timestamp_ms, context, event.headers)
        self.processor.process(record, own)
        return own._outputs

    def on_timer(self, kind: TimerKind, key: Value, at_ms: int, context: Context) -> list[Output]:
        self._initialize()
        own = self._context(key, at_ms, context, ())
        for name in self.processor.ttl_ms:
            store = own.store(name)
            for sub_key, held in list(context.store(name).entries(key)):
                if store._expired(held):
                    store.delete(sub_key)
        self.processor.punctuate(key, at_ms, own)
        return own._outputs

    def _initialize(self) -> None:
        if not self._initialized:
            self.processor.init()
            self._initialized = True

    def _context(self, key: Value, at_ms: int, context: Context, headers: Headers) -> ProcessorContext:
        return ProcessorContext(key, at_ms, context, self.processor, headers)
