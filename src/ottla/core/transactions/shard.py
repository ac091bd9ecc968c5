"""The coordinator of the transactional ids in one partition of `__transaction_state`.

Theory of operation. A shard is loaded by replaying its partition, and from then on every change goes the same
way: decide, append, and when the append is committed, replay the record and then answer. One decision at a
time is on its way for each transactional id; requests that come meanwhile are answered
CONCURRENT_TRANSACTIONS and retried, as with Apache Kafka.

The end of a transaction, and its state after a crash at each step:

    1. PrepareCommit or PrepareAbort is appended       before: the transaction runs on, or times out
    2. the client is answered, markers are written     after: a new leader finds Prepare*, writes them again
    3. Complete* is appended after the last marker     after: nothing is left to do

A marker that is written twice does no harm: a partition ignores the end of a transaction that is not open in
it. The producer may be answered at 2, before its markers are written, because from 1 on only that end can
follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from ottla.core.coordination.api import (
    AppendDone,
    AppendFailed,
    Loaded,
    ProducerStamp,
    RequestReceived,
    Resigned,
    Tick,
)
from ottla.core.coordination.outbox import Outbox, answer_for
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.coordination.timers import TimerKey
from ottla.core.coordination.turns import Turns
from ottla.core.transactions import listing, log_records
from ottla.core.transactions import transaction as transitions
from ottla.core.transactions.api import (
    Effect,
    Event,
    MarkersWritten,
    ObtainProducerId,
    ProducerIdObtained,
    SettingsChanged,
    WriteMarkers,
)
from ottla.core.transactions.ending import Verdict, decide_end
from ottla.core.transactions.initialising import (
    Expected,
    Need,
    check_initialisation,
    decide_initialisation,
)
from ottla.core.transactions.responses import (
    coordinator_error,
    partitions_of,
    partitions_result,
    producer_id_refused,
)
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.states import ENDED, ENDING, TransactionState
from ottla.core.transactions.transaction import (
    FIRST_VERSION_WITH_EPOCH_BUMP,
    NO_TIMEOUT_MS,
    TopicPartition,
    Transaction,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.end_txn_response import EndTxnResponse
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse
from ottla.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.protocol.records.transaction_log_key import TransactionLogKey
from ottla.protocol.records.transaction_log_value import TransactionLogValue

FIRST_ADD_PARTITIONS_VERSION_WITH_EPOCH_BUMP = 4
FIRST_END_VERSION_WITH_EPOCH_BUMP = 5
COMPLETION_RETRY_MS = 1_000
"""The pause between a failed append of Complete* and the next attempt."""

Failed: TypeAlias = Callable[[ErrorCode], None]


class Shard:
    """One partition's transactional ids. Single-threaded; once it is loaded, all events go through `step`."""

    def __init__(self, settings: TransactionSettings) -> None:
        self._settings = settings
        self._outbox = Outbox(settings.commit_timeout_ms, coordinator_error)
        self._turns = Turns(self._outbox)
        self._transactions: dict[str, Transaction] = {}
        self._unmarked: dict[str, set[TopicPartition]] = {}
        """Transactional id -> the partitions whose marker is
        not written, of each transaction that is being ended.
        """
        self._timing_out: set[str] = set()
        """The ids whose abort is under way; it may have to wait for a producer id."""
        self._tickets: dict[int, tuple[Callable[[int], None], Failed]] = {}
        """The decisions that wait for a fresh producer id;
        at most one a request or a timed-out transaction.
        """
        self._next_ticket = 0
        self._strays: frozenset[str] = frozenset()
        """Ids that belong to another partition: their open
        transactions are ended here, then they are moved.
        """

    @property
    def transactions(self) -> dict[str, Transaction]:
        return self._transactions

    def next_wake_ms(self) -> int | None:
        """The time of the next `Tick` at the latest; None if nothing is due."""
        return self._outbox.timers.next_wake_ms()

    def replay(self, record: CoordinatorRecord, producer: ProducerStamp | None = None) -> None:
        """Apply one record of the log, in the log's order."""
        match record.key, record.value:
            case TransactionLogKey() as key, TransactionLogValue() as value:
                try:
                    transaction = log_records.transaction_of(value)
                except ValueError as problem:
                    self._outbox.note(
                        "transaction of an unknown state transactional_id=%s: %s",
                        key.transactional_id,
                        problem,
                    )
                    return
                self._transactions[key.transactional_id] = transaction
                if transaction.state not in ENDING:
                    self._unmarked.pop(key.transactional_id, None)
            case TransactionLogKey() as key, None:
                self._transactions.pop(key.transactional_id, None)

    def replay_transaction_end(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """This topic has no transactions of its own: an end has no effect."""

    def step(self, event: Event) -> list[Effect]:
        """Handle one event; return the effects."""
        self._outbox.now = event.at
        match event:
            case RequestReceived():
                self._outbox.open(event)
                self._handle(event)
            case Tick():
                pass
            case AppendDone():
                self._append_done(event.append_id)
            case AppendFailed():
                self._append_failed(event.append_id, event.error)
            case ProducerIdObtained():
                self._obtained(event)
            case MarkersWritten():
                self._markers_written(event)
            case SettingsChanged():
                self._settings = event.settings
            case Loaded():
                self._strays = event.strays
                self._loaded()
            case Resigned():
                self._outbox.reply_all(ErrorCode.NOT_COORDINATOR)
                return self._outbox.take_effects()
        self._run_timers()
        return self._outbox.take_effects()

    def _handle(self, event: RequestReceived) -> None:
        match event.request:
            case AddPartitionsToTxnRequest() as request:
                (transaction,) = request.transactions
                self._add_partitions(event, transaction)
            case EndTxnRequest() as request:
                self._end(event, request)
            case InitProducerIdRequest() as request:
                self._initialise(event, request, None)
            case DescribeTransactionsRequest() as request:
                self._describe(event, request)
            case ListTransactionsRequest() as request:
                self._list(event, request)
            case _:
                raise TypeError(
                    f"{type(event.request).__name__} is not a request to a transaction coordinator"
                )

    def _is_pending(self, name: str) -> bool:
        """Whether a decision is on its way to the log, or an end to its markers."""
        transaction = self._transactions.get(name)
        return self._turns.is_taken(name) or (transaction is not None and transaction.state in ENDING)

    # InitProducerId

    def _initialise(
        self, event: RequestReceived, request: InitProducerIdRequest, fresh_producer_id: int | None
    ) -> None:
        refusal = check_initialisation(request, self._settings)
        name = request.transactional_id or ""
        if not refusal and self._is_pending(name):
            refusal = ErrorCode.CONCURRENT_TRANSACTIONS
        if refusal:
            self._outbox.reply(event.request_id, producer_id_refused(refusal))
            return
        now_ms = self._outbox.now.wall_ms
        timeout_ms = NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms
        transaction = self._transactions.get(name)
        if transaction is None and fresh_producer_id is not None:
            transaction = transitions.created(fresh_producer_id, timeout_ms, now_ms)
        decision: Transaction | ErrorCode | Need = Need.PRODUCER_ID
        if transaction is not None:
            decision = decide_initialisation(
                transaction, _expected(request), timeout_ms, now_ms, fresh_producer_id
            )

        def failed(error: ErrorCode) -> None:
            self._outbox.reply(event.request_id, producer_id_refused(answer_for(error)))

        match decision:
            case Need.PRODUCER_ID:
                self._obtain(lambda fresh: self._initialise(event, request, fresh), failed)
            case Need.ABORT:
                # The producer retries, and gets the epoch after the one that fences.
                self._fence(name, lambda: failed(ErrorCode.CONCURRENT_TRANSACTIONS), failed)
            case Transaction() as following:
                self._append(name, following, lambda: self._initialised(event, following), failed)
            case ErrorCode() as error:
                self._outbox.reply(event.request_id, producer_id_refused(error))

    def _initialised(self, event: RequestReceived, transaction: Transaction) -> None:
        self._outbox.reply(
            event.request_id,
            InitProducerIdResponse(
                producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch
            ),
        )

    # AddPartitionsToTxn

    def _add_partitions(self, event: RequestReceived, request: AddPartitionsToTxnTransaction) -> None:
        def answer(error: ErrorCode, errors: dict[TopicPartition, ErrorCode] | None = None) -> None:
            result = partitions_result(request, errors or {}, error)
            self._outbox.reply(event.request_id, AddPartitionsToTxnResponse(results_by_transaction=[result]))

        name = request.transactional_id
        partitions = partitions_of(request)
        transaction = self._transactions.get(name)
        if not name:
            answer(ErrorCode.INVALID_REQUEST)
        elif transaction is None:
            answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        elif self._is_pending(name) and not request.verify_only:
            # Before the check of the epoch: the producer may already know the coming one.
            answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif transaction.producer_id != request.producer_id:
            answer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        elif transaction.producer_epoch != request.producer_epoch:
            answer(ErrorCode.PRODUCER_FENCED)
        elif transaction.state in ENDING:
            answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif request.verify_only:
            # A decision on its way to the log is ignored: the append checks again.
            missing = partitions - transaction.partitions
            answer(ErrorCode.NONE, dict.fromkeys(missing, ErrorCode.TRANSACTION_ABORTABLE))
        elif transaction.state is TransactionState.ONGOING and partitions <= transaction.partitions:
            answer(ErrorCode.NONE)
        else:
            bumps_epoch = event.client.api_version >= FIRST_ADD_PARTITIONS_VERSION_WITH_EPOCH_BUMP
            following = transitions.with_partitions(
                transaction,
                partitions,
                self._outbox.now.wall_ms,
                FIRST_VERSION_WITH_EPOCH_BUMP if bumps_epoch else 0,
            )
            self._append(
                name, following, lambda: answer(ErrorCode.NONE), lambda error: answer(answer_for(error))
            )

    # EndTxn

    def _end(
        self, event: RequestReceived, request: EndTxnRequest, fresh_producer_id: int = NO_PRODUCER_ID
    ) -> None:
        def failed(error: ErrorCode) -> None:
            self._outbox.reply(event.request_id, EndTxnResponse(error_code=answer_for(error)))

        bumps_epoch = event.client.api_version >= FIRST_END_VERSION_WITH_EPOCH_BUMP
        name = request.transactional_id
        transaction = self._transactions.get(name)
        if not name:
            failed(ErrorCode.INVALID_REQUEST)
            return
        if transaction is None:
            failed(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return
        verdict = decide_end(
            transaction,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            bumps_epoch=bumps_epoch,
            is_pending=self._is_pending(name),
        )
        match verdict:
            case Verdict.DONE_BEFORE:
                self._answer_end(event, transaction, bumps_epoch)
            case Verdict.PREPARE:
                if bumps_epoch and transaction.is_exhausted and fresh_producer_id == NO_PRODUCER_ID:
                    self._obtain(lambda fresh: self._end(event, request, fresh), failed)
                    return
                following = transitions.prepared(
                    transaction,
                    committed=request.committed,
                    client_version=FIRST_VERSION_WITH_EPOCH_BUMP if bumps_epoch else 0,
                    next_producer_id=fresh_producer_id if transaction.is_exhausted else NO_PRODUCER_ID,
                    now_ms=self._outbox.now.wall_ms,
                )
                complete = transitions.completed(following, self._outbox.now.wall_ms)
                self._append(name, following, lambda: self._answer_end(event, complete, bumps_epoch), failed)
            case ErrorCode() as error:
                failed(error)

    def _answer_end(self, event: RequestReceived, transaction: Transaction, bumps_epoch: bool) -> None:
        """Answer with success; since KIP-890 with the producer id and epoch to go on with."""
        self._outbox.reply(
            event.request_id,
            EndTxnResponse(
                producer_id=transaction.producer_id if bumps_epoch else NO_PRODUCER_ID,
                producer_epoch=transaction.producer_epoch if bumps_epoch else NO_PRODUCER_EPOCH,
            ),
        )

    def _fence(
        self,
        name: str,
        done: Callable[[], None],
        failed: Failed,
        fresh_producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Abort the ongoing transaction against its producer, by the cluster's transaction version."""
        transaction = self._transactions.get(name)
        if (
            transaction is None
            or transaction.state is not TransactionState.ONGOING
            or self._turns.is_taken(name)
        ):
            # The state has changed while a producer id was on its way.
            failed(ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        version = self._settings.transaction_version
        if (
            version >= FIRST_VERSION_WITH_EPOCH_BUMP
            and transaction.is_exhausted
            and fresh_producer_id == NO_PRODUCER_ID
        ):
            self._obtain(lambda fresh: self._fence(name, done, failed, fresh), failed)
            return
        next_producer_id = fresh_producer_id if transaction.is_exhausted else NO_PRODUCER_ID
        following = transitions.fenced(transaction, version, next_producer_id, self._outbox.now.wall_ms)
        self._append(name, following, done, failed)

    # Markers

    def _write_markers(self, name: str) -> None:
        """A transaction's end is in the log: write its marker to every partition of the transaction."""
        transaction = self._transactions[name]
        self._unmarked[name] = set(transaction.partitions)
        if not transaction.partitions:
            self._complete(name)
            return
        self._outbox.emit(
            WriteMarkers(
                name,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.state is TransactionState.PREPARE_COMMIT,
                transaction.client_version,
                tuple(sorted(transaction.partitions)),
                transaction.coordinator_epoch_lead,
            )
        )

    def _markers_written(self, event: MarkersWritten) -> None:
        transaction = self._transactions.get(event.transactional_id)
        unmarked = self._unmarked.get(event.transactional_id)
        if transaction is None or unmarked is None:
            return
        if (transaction.producer_id, transaction.producer_epoch) != (event.producer_id, event.producer_epoch):
            return
        unmarked.difference_update(event.partitions)
        if not unmarked:
            self._complete(event.transactional_id)

    def _complete(self, name: str) -> None:
        """Every marker is written: append Complete*, and retry until that succeeds."""
        if self._unmarked.get(name) != set():
            return  # a late timer: this end is complete, and another one may be under way
        if self._turns.is_taken(name):
            self._outbox.set_timer(TimerKey("complete", name), COMPLETION_RETRY_MS)
            return
        transaction = self._transactions[name]
        following = transitions.completed(transaction, self._outbox.now.wall_ms)

        def failed(_: ErrorCode) -> None:
            self._outbox.set_timer(TimerKey("complete", name), COMPLETION_RETRY_MS)

        self._append(name, following, lambda: None, failed)

    # Describing and listing

    def _describe(self, event: RequestReceived, request: DescribeTransactionsRequest) -> None:
        states = []
        for name in request.transactional_ids:
            transaction = self._transactions.get(name)
            partitions = transaction.partitions if transaction is not None else frozenset()
            states.append(listing.described(name, transaction, self._unmarked.get(name, partitions)))
        self._outbox.reply(event.request_id, DescribeTransactionsResponse(transaction_states=states))

    def _list(self, event: RequestReceived, request: ListTransactionsRequest) -> None:
        try:
            filters = listing.filters_of(request)
        except KafkaError as error:
            self._outbox.reply(event.request_id, ListTransactionsResponse(error_code=error.code))
            return
        now_ms = self._outbox.now.wall_ms
        self._outbox.reply(event.request_id, listing.list_transactions(self._transactions, filters, now_ms))

    # Time

    def _run_timers(self) -> None:
        outbox = self._outbox
        while (key := outbox.timers.pop_due(outbox.now.steady_ms)) is not None:
            match key.kind:
                case "append":
                    outbox.on_append_timeout(key.number)
                case "abort":
                    self._abort_timed_out()
                case "expire":
                    self._expire()
                case "complete":
                    self._complete(key.group_id)
                case _:
                    raise AssertionError(f"unknown timer {key}")

    def _abort_timed_out(self) -> None:
        self._outbox.set_timer(TimerKey("abort"), self._settings.abort_interval_ms)
        now_ms = self._outbox.now.wall_ms
        timed_out = [
            name
            for name, transaction in self._transactions.items()
            if transaction.has_timed_out(now_ms)
            and not self._turns.is_taken(name)
            and name not in self._timing_out
        ]
        for name in timed_out:
            self._outbox.note("transaction timed out transactional_id=%s", name)
            self._time_out(name)
        self._end_strays()

    def _time_out(self, name: str) -> None:
        self._timing_out.add(name)

        def ended() -> None:
            self._timing_out.discard(name)

        # If it fails, the next check finds it again.
        self._fence(name, ended, lambda _: ended())

    def _expire(self) -> None:
        """Forget transactional ids that have not been used for long."""
        self._outbox.set_timer(TimerKey("expire"), self._settings.expiry_interval_ms)
        before_ms = self._outbox.now.wall_ms - self._settings.expiration_ms
        expired = [
            name
            for name, transaction in self._transactions.items()
            if transaction.state in ENDED
            and transaction.last_update_ms <= before_ms
            and not self._turns.is_taken(name)
        ]
        for name in expired:
            self._turns.append(name, [log_records.tombstone(name)], lambda: None, lambda error: None)
        if expired:
            self._outbox.note("expired transactional_ids=%d", len(expired))

    # Producer ids, appends, loading

    def _obtain(self, done: Callable[[int], None], failed: Failed) -> None:
        """Request a fresh producer id; decisions that lacked one are then made anew."""
        ticket = self._next_ticket
        self._next_ticket += 1
        self._tickets[ticket] = (done, failed)
        self._outbox.emit(ObtainProducerId(ticket))

    def _obtained(self, event: ProducerIdObtained) -> None:
        done, failed = self._tickets.pop(event.ticket)
        if event.error:
            failed(event.error)
        else:
            done(event.producer_id)

    def _append(self, name: str, transaction: Transaction, done: Callable[[], None], failed: Failed) -> None:
        """Append the id's next value; once it is replayed,
        run `done` and the steps that follow from its state.
        """
        record = log_records.transaction_record(name, transaction, self._settings.transaction_version)

        def in_log() -> None:
            self._transactions[name] = replace(
                self._transactions[name], last_producer_epoch=transaction.last_producer_epoch
            )
            done()

        append_id = self._turns.append(name, [record], in_log, failed)
        if transaction.state in ENDING:
            self._outbox.at_end(append_id, lambda: self._after_prepare(name, transaction))

    def _after_prepare(self, name: str, prepared: Transaction) -> None:
        """The append of Prepare* has ended: only if it is in the log, write its markers."""
        current = self._transactions.get(name)
        if current is not None and current.state is prepared.state:
            self._write_markers(name)

    def _append_done(self, append_id: int) -> None:
        pending = self._outbox.take_append(append_id)
        for record in pending.records:
            self.replay(record)
        pending.succeed()
        if self._strays:
            self._end_strays()

    def _append_failed(self, append_id: int, error: ErrorCode) -> None:
        pending = self._outbox.take_append(append_id)
        self._outbox.note("append of a transaction failed append_id=%d error=%s", append_id, error.name)
        pending.fail(error)

    def _loaded(self) -> None:
        self._outbox.set_timer(TimerKey("abort"), self._settings.abort_interval_ms)
        self._outbox.set_timer(TimerKey("expire"), self._settings.expiry_interval_ms)
        for name, transaction in list(self._transactions.items()):
            if transaction.state in ENDING:
                self._write_markers(name)
        self._end_strays()

    def _end_strays(self) -> None:
        """Abort the open transactions of strays: no client finds them here, and their partitions wait for an
        end.

        A transaction without a timeout (KIP-939) is ended only by its owner, at home.
        """
        for name in self._strays & self._transactions.keys():
            transaction = self._transactions[name]
            if transaction.state is TransactionState.ONGOING and transaction.timeout_ms != NO_TIMEOUT_MS:
                if not self._turns.is_taken(name) and name not in self._timing_out:
                    self._outbox.note("transaction ended before its id is moved transactional_id=%s", name)
                    self._time_out(name)
            elif transaction.state not in ENDING and not self._turns.is_taken(name):
                del self._transactions[name]


def _expected(request: InitProducerIdRequest) -> Expected | None:
    if request.producer_id == NO_PRODUCER_ID and request.producer_epoch == NO_PRODUCER_EPOCH:
        return None
    return Expected(request.producer_id, request.producer_epoch)
