"""A transaction shard under a test's control: its clock, its log, its markers and the ends of its appends."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from ottla.core.coordination.api import (
    Append,
    AppendDone,
    AppendFailed,
    Client,
    Loaded,
    Moment,
    Reply,
    RequestReceived,
    Resigned,
    Tick,
)
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.transactions.api import (
    Event,
    MarkersWritten,
    ObtainProducerId,
    ProducerIdObtained,
    SettingsChanged,
    WriteMarkers,
)
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.shard import Shard
from ottla.core.transactions.transaction import TopicPartition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ottla.protocol.records.framing import (
    Coordinator,
    decode_coordinator_key,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)
from ottla.protocol.schema import Message

WALL_MINUS_STEADY_MS = 1_700_000_000_000


class TransactionDriver:
    """Feeds a shard events and keeps its effects.

    Appends, fresh producer ids and markers come at once unless `hold_appends`, `hold_producer_ids` or
    `hold_markers` is set.
    """

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self.now_ms = 0
        self.log: list[CoordinatorRecord] = []
        self.requests: dict[int, Message] = {}
        self.replies: dict[int, Message] = {}
        self.held: deque[Append] = deque()
        self.tickets: deque[int] = deque()
        self.orders: list[WriteMarkers] = []
        """Markers that are not all written; the test takes them out."""
        self.written: list[WriteMarkers] = []
        self.hold_appends = False
        self.hold_producer_ids = False
        self.hold_markers = False
        self.next_producer_id = 1_000
        self._next_request_id = 0
        self._running = False
        self.shard = self._loaded_shard(self.log)

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, self.now_ms + WALL_MINUS_STEADY_MS)

    def send(self, request: Message, version: int) -> int:
        """Give the shard a request; its answer, now or later, is in `replies` under the returned id."""
        request_id = self._next_request_id
        self._next_request_id += 1
        self.requests[request_id] = request
        self.step(RequestReceived(self.now, request_id, request, Client("client", "/127.0.0.1", version)))
        return request_id

    def advance(self, milliseconds: int) -> None:
        """Let time pass, waking the shard whenever it wants to be woken."""
        end_ms = self.now_ms + milliseconds
        while (wake_ms := self.shard.next_wake_ms()) is not None and wake_ms <= end_ms:
            self.now_ms = max(self.now_ms, wake_ms)
            self.step(Tick(self.now))
        self.now_ms = end_ms

    def append_done(self) -> None:
        """The oldest held append is committed."""
        append = self.held.popleft()
        base_offset = len(self.log)
        self.log += (through_bytes(record) for record in append.records)
        self.step(AppendDone(self.now, append.append_id, base_offset))

    def append_failed(self, error: ErrorCode) -> None:
        """The oldest held append was refused."""
        self.step(AppendFailed(self.now, self.held.popleft().append_id, error))

    def producer_id_obtained(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """The oldest question for a fresh producer id is answered."""
        ticket = self.tickets.popleft()
        producer_id = -1 if error else self.next_producer_id
        self.next_producer_id += 1
        self.step(ProducerIdObtained(self.now, ticket, producer_id, error))

    def markers_written(self, order: WriteMarkers, partitions: Sequence[TopicPartition]) -> None:
        """These partitions of an order have their marker."""
        self.step(
            MarkersWritten(
                self.now, order.transactional_id, order.producer_id, order.producer_epoch, tuple(partitions)
            )
        )

    def change_settings(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.step(SettingsChanged(self.now, settings))

    def reload(self, records: Iterable[CoordinatorRecord] | None = None) -> None:
        """A new leader loads the log, or `records` in its place, as after compaction."""
        self.step(Resigned(self.now))
        self.held.clear()
        self.tickets.clear()
        self.orders.clear()
        if records is not None:
            self.log = list(records)
        self.shard = self._loaded_shard(self.log)

    def waiting(self) -> list[int]:
        """The requests without an answer."""
        return [request_id for request_id in self.requests if request_id not in self.replies]

    def step(self, event: Event) -> None:
        self._perform(self.shard, event)
        self._run_what_is_not_held()

    def _run_what_is_not_held(self) -> None:
        if self._running:
            return
        self._running = True
        try:
            self._run_all()
        finally:
            self._running = False

    def _run_all(self) -> None:
        while True:
            if self.held and not self.hold_appends:
                self.append_done()
            elif self.tickets and not self.hold_producer_ids:
                self.producer_id_obtained()
            elif self.orders and not self.hold_markers:
                order = self.orders.pop(0)
                self.written.append(order)
                self.markers_written(order, order.partitions)
            else:
                return

    def _perform(self, shard: Shard, event: Event) -> None:
        for effect in shard.step(event):
            match effect:
                case Reply(request_id, response):
                    assert request_id in self.requests, "an answer to nobody"
                    assert request_id not in self.replies, "a second answer to one request"
                    self.replies[request_id] = response
                case Append():
                    self.held.append(effect)
                case ObtainProducerId(ticket):
                    self.tickets.append(ticket)
                case WriteMarkers():
                    self.orders.append(effect)

    def replayed(self, records: Iterable[CoordinatorRecord]) -> Shard:
        """The state of a new leader from these records, before its first action."""
        shard = Shard(self.settings)
        for record in records:
            shard.replay(record)
        return shard

    def _loaded_shard(self, records: Iterable[CoordinatorRecord]) -> Shard:
        shard = self.shard = self.replayed(records)
        self._perform(shard, Loaded(self.now))
        self._run_what_is_not_held()
        return shard


def through_bytes(record: CoordinatorRecord) -> CoordinatorRecord:
    """The record as it comes back from the log."""
    key = decode_coordinator_key(Coordinator.TRANSACTION, encode_coordinator_key(record.key))
    if record.value is None:
        return CoordinatorRecord(key)
    value = encode_coordinator_value(record.value, record.value_version)
    return CoordinatorRecord(
        key, decode_coordinator_value(Coordinator.TRANSACTION, key, value), record.value_version
    )


def add_partitions(
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
    *,
    verify_only: bool = False,
) -> AddPartitionsToTxnRequest:
    """An AddPartitionsToTxn of one transaction."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    topics = [AddPartitionsToTxnTopic(name=name, partitions=indices) for name, indices in by_topic.items()]
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                verify_only=verify_only,
                topics=topics,
            )
        ]
    )


def partition_errors(response: Message) -> set[ErrorCode]:
    """Every error that an AddPartitionsToTxn answer has."""
    assert isinstance(response, AddPartitionsToTxnResponse)
    return {
        ErrorCode(partition.partition_error_code)
        for result in response.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
