"""A transactional id's record in `__transaction_state`, in Kafka 4.4's versions.

The value is version 0 below transaction.version 1, and version 1 (flexible, with the previous and the next
producer id and the client's transaction version as tagged fields) from there on. A client that does not know
of a downgrade yet still ends its transaction by version 2, which value version 0 can't hold, so version 1 is
used.

One tagged field is ottla's own, COORDINATOR_EPOCH_LEAD_TAG with an int32: Kafka ignores it and does not
write it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.transactions.states import TransactionState
from ottla.core.transactions.transaction import (
    FIRST_VERSION_WITH_FLEXIBLE_RECORDS,
    TopicPartition,
    Transaction,
)
from ottla.protocol.records.transaction_log_key import TransactionLogKey
from ottla.protocol.records.transaction_log_value import PartitionsSchema, TransactionLogValue

FLEXIBLE_VERSION: Final = 1
"""Of the record's value."""
COORDINATOR_EPOCH_LEAD_TAG: Final = 10_000
"""Far from Kafka's, which are given in order from 0."""
_LEAD_BYTES: Final = 4


def transaction_record(
    transactional_id: str, transaction: Transaction, transaction_version: int
) -> CoordinatorRecord:
    """The record of a transition; `transaction_version` is the cluster's finalized level."""
    level = max(transaction_version, transaction.client_version)
    lead = transaction.coordinator_epoch_lead
    version = FLEXIBLE_VERSION if level >= FIRST_VERSION_WITH_FLEXIBLE_RECORDS or lead else 0
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
    if version >= FLEXIBLE_VERSION:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
    if lead:
        set_coordinator_epoch_lead(value, lead)
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), value, version)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that deletes a transactional id."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id))


def coordinator_epoch_lead(value: TransactionLogValue) -> int:
    """How far the coordinator epoch of the id's markers is ahead; 0 if the record has no such field."""
    data = (value.unknown_tagged_fields or {}).get(COORDINATOR_EPOCH_LEAD_TAG, b"")
    return int.from_bytes(data, "big") if len(data) == _LEAD_BYTES else 0


def set_coordinator_epoch_lead(value: TransactionLogValue, lead: int) -> None:
    """Set the lead in a record, which has to be written in FLEXIBLE_VERSION then."""
    others = value.unknown_tagged_fields or {}
    value.unknown_tagged_fields = {**others, COORDINATOR_EPOCH_LEAD_TAG: lead.to_bytes(_LEAD_BYTES, "big")}


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
        coordinator_epoch_lead=coordinator_epoch_lead(value),
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
