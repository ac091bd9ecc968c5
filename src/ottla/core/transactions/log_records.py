"""A transactional id's record in `__transaction_state`, in Kafka 4.3's versions.

The value is version 0 below transaction.version 1, and version 1 (flexible, with the previous and the next
producer id and the client's transaction version as tagged fields) from there on. A client that does not know
of a downgrade yet still ends its transaction by version 2, which value version 0 can't hold, so version 1 is
used.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.transactions.states import TransactionState
from ottla.core.transactions.transaction import (
    FIRST_VERSION_WITH_FLEXIBLE_RECORDS,
    TopicPartition,
    Transaction,
)
from ottla.protocol.records.transaction_log_key import TransactionLogKey
from ottla.protocol.records.transaction_log_value import PartitionsSchema, TransactionLogValue


def transaction_record(
    transactional_id: str, transaction: Transaction, transaction_version: int
) -> CoordinatorRecord:
    """The record of a transition; `transaction_version` is the cluster's finalized level."""
    level = max(transaction_version, transaction.client_version)
    version = 1 if level >= FIRST_VERSION_WITH_FLEXIBLE_RECORDS else 0
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=(
            None if transaction.state is TransactionState.EMPTY else _by_topic(transaction.partitions)
        ),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    if version >= 1:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), value, version)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that deletes a transactional id."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id))


def transaction_of(value: TransactionLogValue) -> Transaction:
    """The transaction in a record. Raises ValueError for a state that this version does not know."""
    return Transaction(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
