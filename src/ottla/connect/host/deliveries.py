"""How a source task's records reach Kafka: at least once, or exactly once in transactions (KIP-618).

At least once: offsets are written when every record before them is acknowledged, never before; a kill between
the two repeats records. Exactly once: records and offsets are one transaction, so that a kill leaves both or
neither, and the next producer of the transactional id ends what was left open.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla.connect.data.record import SourceOffset, SourcePartition
from ottla.connect.host.control import Control
from ottla.connect.host.errors import Stopped, TaskFailed
from ottla.connect.host.offset_records import key_bytes, value_bytes
from ottla.connect.host.producing import NOW, Outgoing, QueueFull, drain, produced
from ottla.connect.plugins.api import TransactionEnd

COMMIT_SECONDS: Final = 10.0
"""Of one attempt at a commit; it is repeated until it is known how it ended."""
ABORT_SECONDS: Final = 5.0

_EXPIRED: Final = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)
_EXPIRED_TEXT: Final = (
    "the transaction is lost: another run of the task took its transactional id over, or the transaction was "
    "open for longer than transaction.timeout.ms. In the latter case raise that "
    "(producer.override.transaction.timeout.ms), or end transactions sooner (transaction.boundary)"
)

Placed = tuple[SourcePartition, SourceOffset]
Committed = Callable[[SourcePartition, SourceOffset], None]

_log = logging.getLogger(__name__)


class Delivery(Protocol):
    """Takes a source task's records and the places behind them, in order."""

    figures: Counter[str]

    def send(self, record: Outgoing) -> None:
        """Hand a record over. Raises TaskFailed, Stopped, KafkaException."""

    def send_columns(
        self,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        timestamps_ms: Sequence[int] | None,
    ) -> None:
        """Hand records over. Raises TaskFailed, Stopped, KafkaException."""

    def reached(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """All records of a source partition up to this offset were handed over, or skipped."""

    def after_batch(self, end: TransactionEnd | None) -> None:
        """A batch is complete; `end` is what its connector says of the transaction. Raises TaskFailed."""

    def tick(self) -> None:
        """Commit if it is time to. Raises TaskFailed."""

    def rest(self) -> None:
        """Commit all that was reached, before a pause or the end. Raises TaskFailed."""

    def abandon(self) -> None:
        """The task has failed: commit what can be, and give the rest up. Does not raise."""

    def close(self) -> None:
        """Give the producer up."""


class Sending:
    """A producer that hands over records quickly, and remembers the first that was refused.

    tolerated: told of each refused record; returns whether the task goes on without it.
    """

    def __init__(self, tolerated: Callable[[KafkaError, Message], bool], control: Control) -> None:
        self._tolerated = tolerated
        self._control = control
        self._refused: TaskFailed | None = None
        self.producer: Producer
        self.sent = 0

    def on_error(self, problem: KafkaError, message: Message) -> None:
        """A record was not delivered: called by the producer, in the task's thread."""
        if problem.code() == KafkaError._PURGE_QUEUE or problem.code() == KafkaError._PURGE_INFLIGHT:
            return
        try:
            if not self._tolerated(problem, message) and self._refused is None:
                self._refused = _refusal(problem, message)
        except TaskFailed as failed:
            self._refused = self._refused or failed

    def require(self) -> None:
        """Raises TaskFailed for a record that was refused."""
        if self._refused is not None:
            raise self._refused

    @property
    def failed(self) -> bool:
        """Whether a record was refused."""
        return self._refused is not None

    def send(self, record: Outgoing) -> None:
        """Hand one record over. Raises Stopped, KafkaException."""
        try:
            produced(self.producer, record, self._goes_on)
        except QueueFull:
            raise Stopped from None
        self.sent += 1

    def send_columns(
        self,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        timestamps_ms: Sequence[int] | None,
    ) -> None:
        """Hand many records over: one call of the client a record, and no more.

        Raises Stopped, KafkaException.
        """
        if keys is not None or timestamps_ms is not None:
            for key, value, timestamp_ms in zip(
                keys or [None] * len(values), values, timestamps_ms or [NOW] * len(values), strict=True
            ):
                self.send(Outgoing(topic, value, key, timestamp_ms=timestamp_ms))
            return
        produce = self.producer.produce
        for value in values:
            try:
                produce(topic, value)
            except BufferError:
                self.send(Outgoing(topic, value, None))
                self.sent -= 1  # counted with the others
        self.sent += len(values)

    def _goes_on(self) -> bool:
        return not self._control.stopping


def _refusal(problem: KafkaError, message: Message) -> TaskFailed:
    return TaskFailed(
        f"Unrecoverable exception from producer send callback: a record for topic {message.topic()} "
        f"was refused: {problem.str()}"
    )


class _Reached:
    """The last offset of each source partition, since it was last taken."""

    def __init__(self, connector: str) -> None:
        self._connector = connector
        self._places: dict[bytes, Placed] = {}

    def add(self, partition: SourcePartition, offset: SourceOffset) -> None:
        self._places[key_bytes(self._connector, partition)] = (partition, offset)

    def take(self) -> dict[bytes, Placed]:
        found, self._places = self._places, {}
        return found

    def put_back(self, places: dict[bytes, Placed]) -> None:
        self._places = places | self._places

    def __bool__(self) -> bool:
        return bool(self._places)


class AtLeastOnce:
    """Offsets every offset.flush.interval.ms, once all records before them are acknowledged.

    store: writes offsets durably, or raises.
    """

    def __init__(
        self,
        connector: str,
        sending: Sending,
        control: Control,
        interval_ms: int,
        timeout_ms: int,
        store: Callable[[Sequence[Placed]], None],
        committed: Committed,
    ) -> None:
        """timeout_ms: for what is not acknowledged yet when the task ends."""
        self.figures: Counter[str] = Counter()
        self._sending = sending
        self._control = control
        self._interval = interval_ms / 1000
        self._timeout = timeout_ms / 1000
        self._store = store
        self._committed = committed
        self._reached = _Reached(connector)
        self._next = time.monotonic() + self._interval
        self.send = sending.send
        self.send_columns = sending.send_columns
        self.reached = self._reached.add

    def after_batch(self, end: TransactionEnd | None) -> None:
        """See Delivery."""
        self._sending.producer.poll(0)
        self._sending.require()
        self.tick()

    def tick(self) -> None:
        """See Delivery."""
        if time.monotonic() >= self._next:
            self._commit()
            self._next = time.monotonic() + self._interval

    def rest(self) -> None:
        """See Delivery."""
        self._commit(self._timeout)

    def abandon(self) -> None:
        """See Delivery."""
        try:
            if not self._sending.failed:
                self._commit(self._timeout)
        except Exception as problem:
            _log.warning("the offsets of the failed task are not committed: %s", problem)

    def close(self) -> None:
        """See Delivery."""
        self._sending.producer.purge()

    def _commit(self, seconds: float | None = None) -> None:
        places = self._reached.take()
        try:
            goes_on = (lambda: True) if seconds is not None else (lambda: not self._control.stopping)
            acknowledged = drain(self._sending.producer, goes_on, seconds)
            self._sending.require()
            if not acknowledged:
                _log.warning(
                    "%d records are not acknowledged yet: no offsets are committed",
                    len(self._sending.producer),
                )
                self._reached.put_back(places)
                return
            if places:
                self._store(list(places.values()))
        except BaseException:
            self._reached.put_back(places)
            self.figures["offset-commit-failures"] += 1
            raise
        self.figures["offset-commits"] += 1
        for partition, offset in places.values():
            self._committed(partition, offset)


class ExactlyOnce:
    """Records and offsets in transactions.

    interval_ms: of transactions that end by time; 0 ends one after each batch, None leaves it to the
    connector.
    """

    def __init__(
        self,
        connector: str,
        sending: Sending,
        control: Control,
        offsets_topic: str,
        interval_ms: int | None,
        committed: Committed,
    ) -> None:
        self.figures: Counter[str] = Counter()
        self._sending = sending
        self._control = control
        self._topic = offsets_topic
        self._interval = None if interval_ms is None else interval_ms / 1000
        self._committed = committed
        self._reached = _Reached(connector)
        self.reached = self._reached.add
        self._open = False
        self._end_at = time.monotonic()

    def send(self, record: Outgoing) -> None:
        """See Delivery."""
        self._require_foreign(record.topic)
        self._begin()
        self._sending.send(record)

    def send_columns(
        self,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        timestamps_ms: Sequence[int] | None,
    ) -> None:
        """See Delivery."""
        self._require_foreign(topic)
        self._begin()
        self._sending.send_columns(topic, values, keys, timestamps_ms)

    def after_batch(self, end: TransactionEnd | None) -> None:
        """See Delivery."""
        self._sending.producer.poll(0)
        self._sending.require()
        if end is TransactionEnd.ABORT:
            self._abort()
        if end is not None or self._interval == 0:
            self._commit()
        else:
            self.tick()

    def tick(self) -> None:
        """See Delivery."""
        if self._interval is not None and (self._open or self._reached) and time.monotonic() >= self._end_at:
            self._commit()

    def rest(self) -> None:
        """See Delivery. What a connector has not ended itself is left to the abort."""
        if self._interval is not None:
            self._commit()

    def abandon(self) -> None:
        """See Delivery."""
        try:
            if self._open:
                self._sending.producer.abort_transaction(ABORT_SECONDS)
                self._open = False
        except KafkaException as problem:
            _log.warning("the transaction of the failed task is left to be aborted: %s", problem)

    def close(self) -> None:
        """See Delivery."""
        self.abandon()
        self._sending.producer.purge()

    def _require_foreign(self, topic: str) -> None:
        if topic == self._topic:
            raise TaskFailed(
                "Source tasks may not produce to their own offsets topics when exactly-once support is "
                "enabled"
            )

    def _begin(self) -> None:
        if not self._open:
            self._sending.producer.begin_transaction()
            self._open = True
            if self._interval:
                self._end_at = time.monotonic() + self._interval

    def _abort(self) -> None:
        if not self._open:
            _log.warning("Ignoring request by task to abort transaction as the current transaction is empty")
            return
        self._sending.producer.abort_transaction(COMMIT_SECONDS)
        self._open = False
        self.figures["transactions-aborted"] += 1

    def _commit(self) -> None:
        places = self._reached.take()
        if not places and not self._open:
            return
        self._begin()
        for key, (_, offset) in places.items():
            own = Outgoing(self._topic, value_bytes(offset), key)
            produced(self._sending.producer, own, is_own=True)
        while True:
            try:
                self._sending.producer.commit_transaction(COMMIT_SECONDS)
                break
            except KafkaException as problem:
                error: KafkaError = problem.args[0]
                self._sending.require()
                if error.code() in _EXPIRED:
                    raise TaskFailed(_EXPIRED_TEXT) from problem
                if not error.retriable() or self._control.stopping:
                    raise
                _log.warning("the transaction is not committed yet: %s", error.str())
        self._sending.require()
        self._open = False
        self.figures["transactions-committed"] += 1
        for partition, offset in places.values():
            self._committed(partition, offset)
