"""Any interleaving of producers, time, failures and reloads keeps the promises of transactions.

Producers of transactions v1 and v2, with the same and with different transactional ids, send requests, lose
answers and repeat old requests at any later moment; appends and markers are delayed or fail; the coordinator
is loaded anew from its log, or from a compacted one.

Checked after every step: a request is answered once; states follow the table; a reload gives the same state
(also from a compacted log); epochs never go back; no two transactional ids share a producer id; a decision is
never reversed; under v2, an end of a transaction ends only that one (its records have the epoch before its
marker's), and an EndTxn that was answered with success has happened. At the end, without further failures,
every transaction has ended in every partition and no request waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.transactions import log_records
from ottla.core.transactions.api import WriteMarkers
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.states import ENDING, PREVIOUS, TransactionState
from ottla.core.transactions.transaction import MAX_CLIENT_EPOCH, TopicPartition, Transaction
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.end_txn_response import EndTxnResponse
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.records.transaction_log_key import TransactionLogKey
from ottla.protocol.records.transaction_log_value import TransactionLogValue
from ottla.protocol.schema import Message
from support.core.durable_state import transactions
from support.core.transaction_shard import TransactionDriver, add_partitions, partition_errors
from support.exploration import examples

NAMES = ("red", "blue")
PARTITIONS: tuple[TopicPartition, ...] = (("t", 0), ("t", 1), ("u", 0))
TIMEOUT_MS = 20_000
APPEND_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
FIRST_ADD_VERSION_OF_V2 = 4
FIRST_END_VERSION_OF_V2 = 5

Position = tuple[int, int]
"""A producer id and an epoch."""


@dataclass
class Producer:
    """A client; its own state may be outdated."""

    name: str
    is_v2: bool
    producer_id: int = -1
    epoch: int = -1

    @property
    def add_version(self) -> int:
        return 5 if self.is_v2 else 3

    @property
    def end_version(self) -> int:
        return 5 if self.is_v2 else 4


@dataclass
class DataPartition:
    """A partition of a topic, as its leader treats transactional batches and markers."""

    epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    """Producer id with an open transaction -> the epoch of its records."""
    markers: int = 0
    """The number of markers written: a verification that began before one is void after it."""


@dataclass
class Sent:
    """A request that is or was on its way."""

    producer: Producer
    request: Message
    version: int
    on_reply: Callable[[Message], None]


class Transactions(RuleBasedStateMachine):
    @initialize(
        level=st.sampled_from([0, 1, 2, 2, 2]),
        first_epoch=st.sampled_from([None, None, MAX_CLIENT_EPOCH - 2, MAX_CLIENT_EPOCH - 1]),
        appends_take_time=st.sampled_from([False, False, True]),
        producer_ids_take_time=st.sampled_from([False, False, True]),
    )
    def start(
        self,
        level: int,
        first_epoch: int | None,
        appends_take_time: bool,
        producer_ids_take_time: bool,
    ) -> None:
        self.driver = TransactionDriver(
            TransactionSettings(
                transaction_version=level, max_timeout_ms=TIMEOUT_MS, expiration_ms=40 * TIMEOUT_MS
            )
        )
        self.producers: list[Producer] = []
        self.history: list[Sent] = []
        self.asked: dict[int, Sent] = {}
        self.data = {partition: DataPartition() for partition in PARTITIONS}
        self.seen = 0
        self.latest: dict[str, Transaction | None] = {}
        self.owners: dict[int, str] = {}
        self.decisions: dict[Position, bool] = {}
        """For each end that raised the epoch, the position of its marker and whether it was a commit."""
        self.begun: set[Position] = set()
        """The partitions in which v2 producers have begun a transaction, as far as they know."""
        self.acknowledged: dict[Position, bool] = {}
        if first_epoch is not None:
            for number, name in enumerate(NAMES):
                used_up = Transaction(number, first_epoch, TIMEOUT_MS, last_update_ms=self.driver.now.wall_ms)
                self.driver.log.append(log_records.transaction_record(name, used_up, level))
            self.driver.reload()
        self.driver.hold_appends = appends_take_time
        self.driver.hold_producer_ids = producer_ids_take_time
        self.driver.hold_markers = True

    # Producers

    @rule(name=st.sampled_from(NAMES), is_v2=st.booleans())
    def another_producer(self, name: str, is_v2: bool) -> None:
        if len(self.producers) < 6:
            producer = Producer(name, is_v2 and self.driver.settings.transaction_version >= 2)
            self.producers.append(producer)
            self.initialise(producer, goes_on=False)

    def _some(self, number: int) -> Producer:
        if not self.producers:
            self.another_producer(NAMES[number % 2], True)
        return self.producers[number % len(self.producers)]

    @rule(number=st.integers(0, 5), goes_on=st.booleans())
    def initialise_again(self, number: int, goes_on: bool) -> None:
        self.initialise(self._some(number), goes_on)

    def initialise(self, producer: Producer, goes_on: bool) -> None:
        request = InitProducerIdRequest(
            transactional_id=producer.name,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=producer.producer_id if goes_on else -1,
            producer_epoch=producer.epoch if goes_on else -1,
        )

        def on_reply(answer: Message) -> None:
            assert isinstance(answer, InitProducerIdResponse)
            if not answer.error_code:
                producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch

        self._send(Sent(producer, request, 5, on_reply))

    @rule(number=st.integers(0, 5), chosen=st.sets(st.sampled_from(PARTITIONS), min_size=1))
    def produce(self, number: int, chosen: set[TopicPartition]) -> None:
        """A v1 producer adds partitions before it produces; for a v2 one the broker does so."""
        producer = self._some(number)
        self._add(producer, tuple(sorted(chosen)), verify_only=False)

    @rule(number=st.integers(0, 5), partition=st.sampled_from(PARTITIONS))
    def produce_what_was_added(self, number: int, partition: TopicPartition) -> None:
        producer = self._some(number)
        if not producer.is_v2:
            self._add(producer, (partition,), verify_only=True)

    def _add(self, producer: Producer, chosen: tuple[TopicPartition, ...], *, verify_only: bool) -> None:
        request = add_partitions(
            producer.name, producer.producer_id, producer.epoch, chosen, verify_only=verify_only
        )
        position = (producer.producer_id, producer.epoch)
        guards = {partition: self.data[partition].markers for partition in chosen}

        def on_reply(answer: Message) -> None:
            # A batch follows only after the addition in v2, or the verification in v1.
            if partition_errors(answer) == {ErrorCode.NONE} and (verify_only or producer.is_v2):
                self.begun.add(position)
                for partition in chosen:
                    self._append_batch(partition, position, guards[partition])

        version = 5 if verify_only else producer.add_version
        self._send(Sent(producer, request, version, on_reply))

    def _append_batch(self, partition: TopicPartition, position: Position, guard: int) -> None:
        producer_id, epoch = position
        data = self.data[partition]
        if epoch < data.epochs.get(producer_id, -1):
            return
        if producer_id in data.open:
            assert data.open[producer_id] == epoch, "a batch joins a transaction of another epoch"
            return
        if guard == data.markers:
            data.epochs[producer_id] = epoch
            data.open[producer_id] = epoch

    @rule(number=st.integers(0, 5), committed=st.booleans())
    def end(self, number: int, committed: bool) -> None:
        producer = self._some(number)
        position = (producer.producer_id, producer.epoch)
        request = EndTxnRequest(
            transactional_id=producer.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=committed,
        )

        def on_reply(answer: Message) -> None:
            assert isinstance(answer, EndTxnResponse)
            if answer.error_code or not producer.is_v2:
                return
            # An end without a transaction may be answered with that of another producer's v1 transaction.
            if position in self.begun:
                self.acknowledged[position] = committed
            if position == (producer.producer_id, producer.epoch):
                producer.producer_id, producer.epoch = answer.producer_id, answer.producer_epoch

        self._send(Sent(producer, request, producer.end_version, on_reply))

    @rule(
        number=st.integers(0, 5),
        chosen=st.sets(st.sampled_from(PARTITIONS), min_size=1),
        committed=st.booleans(),
    )
    def a_transaction(self, number: int, chosen: set[TopicPartition], committed: bool) -> None:
        """A whole transaction without delays; after delays, its later steps come too early."""
        producer = self._some(number)
        self._add(producer, tuple(sorted(chosen)), verify_only=False)
        if not producer.is_v2:
            self._add(producer, tuple(sorted(chosen)), verify_only=True)
        self.end(number, committed)
        for order in list(self.driver.orders):
            self._write_some(order, len(order.partitions), is_reported=True)

    @precondition(lambda self: self.history)
    @rule(back=st.integers(0, 30))
    def an_old_request_comes_again(self, back: int) -> None:
        sent = self.history[-1 - back % len(self.history)]
        written = len(self.driver.log) + len(self.driver.held)
        # It was delayed in the network: its client no longer waits.
        answers: list[Message] = []
        self._send(Sent(sent.producer, sent.request, sent.version, answers.append), is_new=False)
        if answers and self._repeats_the_last_end(sent):
            assert isinstance(answers[0], EndTxnResponse)
            assert answers[0].error_code == ErrorCode.NONE, "who repeats an end is told that it was done"
        if self._is_of_an_ended_transaction(sent):
            assert len(self.driver.log) + len(self.driver.held) == written, "a late request does something"

    def _repeats_the_last_end(self, sent: Sent) -> bool:
        """Whether it is the EndTxn of the last transaction, which has ended, and no request came after it."""
        request = sent.request
        if not isinstance(request, EndTxnRequest) or sent.version < FIRST_END_VERSION_OF_V2:
            return False
        position = (request.producer_id, request.producer_epoch)
        now = self.driver.shard.transactions.get(request.transactional_id)
        return (
            now is not None
            and self.acknowledged.get(position) == request.committed
            and now.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
            and (now.producer_id, now.producer_epoch) == (request.producer_id, request.producer_epoch + 1)
            and not self.driver.held
        )

    def _is_of_an_ended_transaction(self, sent: Sent) -> bool:
        """Whether it is a request of transactions v2 whose transaction's end is decided."""
        match sent.request:
            case EndTxnRequest() as request if sent.version >= FIRST_END_VERSION_OF_V2:
                return (request.producer_id, request.producer_epoch + 1) in self.decisions
            case AddPartitionsToTxnRequest() as request if sent.version >= FIRST_ADD_VERSION_OF_V2:
                (part,) = request.transactions
                return (part.producer_id, part.producer_epoch + 1) in self.decisions
        return False

    def _send(self, sent: Sent, *, is_new: bool = True) -> None:
        if is_new:
            self.history.append(sent)
        self.asked[self.driver.send(sent.request, sent.version)] = sent
        self._deliver()

    def _deliver(self) -> None:
        for request_id in [each for each in self.asked if each in self.driver.replies]:
            self.asked.pop(request_id).on_reply(self.driver.replies[request_id])

    # The log, the markers, time

    @precondition(lambda self: self.driver.held)
    @rule()
    def an_append_is_committed(self) -> None:
        self.driver.append_done()
        self._deliver()

    @precondition(lambda self: self.driver.held)
    @rule(error=st.sampled_from(APPEND_ERRORS))
    def an_append_fails(self, error: ErrorCode) -> None:
        self.driver.append_failed(error)
        self._deliver()

    @precondition(lambda self: self.driver.tickets)
    @rule(error=st.sampled_from([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_CONTROLLER]))
    def a_producer_id_comes(self, error: ErrorCode) -> None:
        self.driver.producer_id_obtained(error)
        self._deliver()

    @precondition(lambda self: self.driver.orders)
    @rule(number=st.integers(0, 3), count=st.integers(1, 3), is_reported=st.booleans())
    def markers_are_written(self, number: int, count: int, is_reported: bool) -> None:
        """Some markers of an order; a crash may come before they are reported."""
        orders = self.driver.orders
        self._write_some(orders[number % len(orders)], count, is_reported)

    def _write_some(self, order: WriteMarkers, count: int, is_reported: bool) -> None:
        orders = self.driver.orders
        some = order.partitions[:count]
        for partition in some:
            self._append_marker(partition, order)
        if is_reported:
            orders.remove(order)
            if rest := order.partitions[count:]:
                orders.append(replace(order, partitions=rest))
            self.driver.markers_written(order, some)
            self._deliver()

    def _append_marker(self, partition: TopicPartition, order: WriteMarkers) -> None:
        data = self.data[partition]
        assert order.producer_epoch >= data.epochs.get(order.producer_id, -1), "a marker is out of date"
        epoch = data.open.pop(order.producer_id, None)
        if epoch is not None and order.transaction_version >= 2:
            assert epoch + 1 == order.producer_epoch, "a marker ends another transaction than its own"
        data.epochs[order.producer_id] = order.producer_epoch
        data.markers += 1

    @rule(milliseconds=st.sampled_from([10, 5_000, TIMEOUT_MS, 3 * TIMEOUT_MS]))
    def time_passes(self, milliseconds: int) -> None:
        self.driver.advance(milliseconds)
        self._deliver()

    @rule()
    def ids_expire(self) -> None:
        self.driver.advance(3_700_000)
        self._deliver()

    @rule()
    def a_new_leader_loads_the_log(self) -> None:
        self.driver.reload()
        self._deliver()

    @rule(cleaned=st.integers(0, 200), keeps_tombstones=st.booleans())
    def a_new_leader_loads_the_compacted_log(self, cleaned: int, keeps_tombstones: bool) -> None:
        self._follow_log()
        self.driver.reload(compacted(self.driver.log, cleaned, keeps_tombstones))
        self.seen = len(self.driver.log)
        self._deliver()

    @rule(level=st.sampled_from([0, 1, 2]))
    def the_cluster_changes_its_transaction_version(self, level: int) -> None:
        self.driver.change_settings(replace(self.driver.settings, transaction_version=level))

    # Invariants

    @invariant()
    def the_log_tells_a_sound_story(self) -> None:
        if hasattr(self, "driver"):
            self._follow_log()

    def _follow_log(self) -> None:
        for record in self.driver.log[self.seen :]:
            assert isinstance(record.key, TransactionLogKey)
            name = record.key.transactional_id
            before = self.latest.get(name)
            if record.value is None:
                self.latest[name] = None
                continue
            assert isinstance(record.value, TransactionLogValue)
            now = log_records.transaction_of(record.value)
            self._check_step(name, before, now)
            self.latest[name] = now
        self.seen = len(self.driver.log)

    def _check_step(self, name: str, before: Transaction | None, now: Transaction) -> None:
        assert self.owners.setdefault(now.producer_id, name) == name, "two ids share a producer id"
        if before is not None:
            assert before.state in PREVIOUS[now.state]
            if before.producer_id == now.producer_id:
                assert now.producer_epoch >= before.producer_epoch, "an epoch goes back"
            if before.state is TransactionState.ONGOING:
                assert before.partitions <= now.partitions, "a partition is forgotten"
        # An end that raises the epoch is distinguishable; under v1 only a fence raises it.
        if now.state in ENDING and (before is None or now.producer_epoch > before.producer_epoch):
            position = (now.producer_id, now.producer_epoch)
            committed = now.state is TransactionState.PREPARE_COMMIT
            assert self.decisions.setdefault(position, committed) == committed, "a decision is reversed"

    @invariant()
    def what_was_acknowledged_is_what_happened(self) -> None:
        for (producer_id, epoch), committed in getattr(self, "acknowledged", {}).items():
            assert self.decisions.get((producer_id, epoch + 1)) == committed

    @invariant()
    def a_reload_knows_the_same(self) -> None:
        if not hasattr(self, "driver"):
            return
        driver = self.driver
        known = transactions(driver.shard)
        assert transactions(driver.replayed(driver.log)) == known
        for cleaned in (len(driver.log) // 2, len(driver.log)):
            assert transactions(driver.replayed(compacted(driver.log, cleaned, False))) == known

    def teardown(self) -> None:
        """Without further failures, and with time, every transaction ends everywhere and no request waits."""
        if not hasattr(self, "driver"):
            return
        driver = self.driver
        driver.hold_appends = driver.hold_producer_ids = False
        for _ in range(4):
            pending = deque(driver.orders)
            driver.orders.clear()
            while driver.held:
                driver.append_done()
            while driver.tickets:
                driver.producer_id_obtained()
            while pending:
                order = pending.popleft()
                for partition in order.partitions:
                    self._append_marker(partition, order)
                driver.markers_written(order, order.partitions)
            self._deliver()
            driver.advance(2 * TIMEOUT_MS)
        self._follow_log()
        assert driver.waiting() == []
        assert driver.orders == []
        for transaction in driver.shard.transactions.values():
            assert transaction.state not in ENDING | {TransactionState.ONGOING}
        for partition, data in self.data.items():
            assert data.open == {}, f"a transaction hangs in {partition}"


def compacted(log: list[CoordinatorRecord], cleaned: int, keeps_tombstones: bool) -> list[CoordinatorRecord]:
    """The log with its first `cleaned` records cleaned: of each key only the last of them is left."""
    last = {}
    for position, record in enumerate(log[:cleaned]):
        assert isinstance(record.key, TransactionLogKey)
        last[record.key.transactional_id] = position
    kept = [
        log[position]
        for position in sorted(last.values())
        if keeps_tombstones or log[position].value is not None
    ]
    return kept + log[cleaned:]


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=examples(60), stateful_step_count=50, deadline=None)
