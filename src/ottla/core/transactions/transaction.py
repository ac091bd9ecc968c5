"""The state of one transactional id, and its transitions as pure functions: old value in, new value out.

The value has the fields of a record of the log, and `last_producer_epoch`, which lives in memory only (as in
Apache Kafka): after a reload a producer that repeats an InitProducerId whose answer was lost is fenced.

Epochs: a client never uses an epoch above MAX_CLIENT_EPOCH, so that there is always one left to fence it
with. Under transaction version 2 every end of a transaction raises the epoch (KIP-890); at the highest epoch
the producer goes on with the next producer id and epoch 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ottla.core.transactions.states import ENDED, PREVIOUS, TransactionState
from ottla.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

TopicPartition = tuple[str, int]

MAX_EPOCH = 32_767
MAX_CLIENT_EPOCH = MAX_EPOCH - 1
NO_TIMESTAMP = -1
NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a two-phase commit's transactions (KIP-939): they are never timed out."""
FIRST_VERSION_WITH_FLEXIBLE_RECORDS = 1
FIRST_VERSION_WITH_EPOCH_BUMP = 2
"""The levels of transaction.version."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id's producer and transaction. Times are wall-clock ms."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int = NO_TIMESTAMP
    client_version: int = 0
    """The level of transaction.version that applies to the transaction."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch_lead: int = 0
    """By how much the coordinator epoch of the producer id's markers exceeds the partition's leader epoch: an
    id that came from another partition (core/strays) may have had markers of a higher one."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left that a client may use next."""
        return self.producer_epoch >= MAX_CLIENT_EPOCH

    def has_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is TransactionState.ONGOING
            and self.timeout_ms != NO_TIMEOUT_MS
            and self.start_ms + self.timeout_ms < now_ms
        )


def created(producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A new transactional id, before its first epoch."""
    return Transaction(producer_id, NO_PRODUCER_EPOCH, timeout_ms, last_update_ms=now_ms)


def next_epoch(transaction: Transaction, timeout_ms: int, now_ms: int, last_epoch: int) -> Transaction:
    """The producer id goes on with the next epoch, which fences the producer with the last one."""
    assert not transaction.is_exhausted
    return replace(
        _entered(transaction, TransactionState.EMPTY),
        producer_epoch=transaction.producer_epoch + 1,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=now_ms,
    )


def same_epoch(transaction: Transaction, timeout_ms: int, now_ms: int) -> Transaction:
    """A repeated InitProducerId: the producer that lost the answer gets the same one again."""
    return replace(
        _entered(transaction, TransactionState.EMPTY),
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=now_ms,
    )


def next_id(
    transaction: Transaction, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_last_epoch: bool
) -> Transaction:
    """The epochs are used up: go on with another producer id, from epoch 0."""
    return replace(
        _entered(transaction, TransactionState.EMPTY),
        producer_id=producer_id,
        coordinator_epoch_lead=0,
        producer_epoch=0,
        last_producer_epoch=transaction.producer_epoch if keeps_last_epoch else NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=now_ms,
    )


def with_partitions(
    transaction: Transaction, partitions: Iterable[TopicPartition], now_ms: int, client_version: int
) -> Transaction:
    """The transaction includes these partitions too, or begins with them."""
    begins = transaction.state in ENDED
    return replace(
        _entered(transaction, TransactionState.ONGOING),
        partitions=transaction.partitions.union(partitions),
        start_ms=now_ms if begins else transaction.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def prepared(
    transaction: Transaction,
    *,
    committed: bool,
    client_version: int,
    next_producer_id: int,
    now_ms: int,
) -> Transaction:
    """The transaction's end is decided. An abort without a transaction begins one now."""
    epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
    if client_version >= FIRST_VERSION_WITH_EPOCH_BUMP:
        last_epoch = epoch
        epoch = min(epoch + 1, MAX_EPOCH)
    state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
    return replace(
        _entered(transaction, state),
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_id=next_producer_id,
        start_ms=now_ms if transaction.state in ENDED else transaction.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def fenced(transaction: Transaction, version: int, next_producer_id: int, now_ms: int) -> Transaction:
    """The ongoing transaction's abort is decided against its producer, whose epoch is thereby used up."""
    assert transaction.state is TransactionState.ONGOING
    if version < FIRST_VERSION_WITH_EPOCH_BUMP:
        transaction = replace(
            transaction,
            producer_epoch=min(transaction.producer_epoch + 1, MAX_EPOCH),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )
        version = 0
    return prepared(
        transaction, committed=False, client_version=version, next_producer_id=next_producer_id, now_ms=now_ms
    )


def completed(transaction: Transaction, now_ms: int) -> Transaction:
    """Every marker is written: the transaction is over, and a used-up producer id is replaced."""
    rotates = (
        transaction.client_version >= FIRST_VERSION_WITH_EPOCH_BUMP
        and transaction.next_producer_id != NO_PRODUCER_ID
    )
    committed = transaction.state is TransactionState.PREPARE_COMMIT
    state = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
    return replace(
        _entered(transaction, state),
        producer_id=transaction.next_producer_id if rotates else transaction.producer_id,
        producer_epoch=0 if rotates else transaction.producer_epoch,
        coordinator_epoch_lead=0 if rotates else transaction.coordinator_epoch_lead,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )


def _entered(transaction: Transaction, state: TransactionState) -> Transaction:
    assert transaction.state in PREVIOUS[state], f"{transaction.state.name} does not lead to {state.name}"
    # Every step notes its previous producer id, by which a repeated EndTxn is recognised after a new id.
    return replace(transaction, state=state, previous_producer_id=transaction.producer_id)
