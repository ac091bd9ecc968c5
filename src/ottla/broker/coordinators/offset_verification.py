"""Before offsets go into a transaction: does the transaction include the partition of the group? (KIP-890)

The same question as for produced batches (transaction_verification.py), about a partition of
`__consumer_offsets`. TxnOffsetCommit below v5 comes after AddOffsetsToTxn, and the coordinator only answers
the question; from v5 on (transactions v2) the question adds the partition. Once the transaction is open in
the partition no question is asked. The answer is kept with the log's producer states: a marker that is
appended before the offsets makes it void, and `append_records` refuses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.parts import Clock, Configured
from ottla.core.settings import broker_settings
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from ottla.protocol.records.framing import Coordinator

if TYPE_CHECKING:
    from ottla.broker.coordinators.transaction_verification import TransactionGate
    from ottla.broker.replication.partitions import Partitions

FIRST_VERSION_WITH_GENERIC_ERRORS = 4
FIRST_VERSION_OF_TRANSACTIONS_V2 = 5
NO_SEQUENCE = -1


class OffsetVerificationNode(Configured, Clock, Protocol):
    """The members of a node for the verification of transactional offset commits."""

    @property
    def partitions(self) -> Partitions:
        """The partitions with a replica here."""
        ...

    @property
    def transactions(self) -> TransactionGate:
        """The way to the transaction coordinators."""
        ...


async def verify_offsets(
    node: OffsetVerificationNode, request: TxnOffsetCommitRequest, version: int, partition: int
) -> ErrorCode:
    """Whether the request's offsets may be appended to a partition of `__consumer_offsets`."""
    adds_partition = version >= FIRST_VERSION_OF_TRANSACTIONS_V2
    verifies = node.config[broker_settings.TRANSACTION_PARTITION_VERIFICATION_ENABLE]
    if not adds_partition and not verifies:
        return ErrorCode.NONE
    try:
        producers = node.partitions.partition(Coordinator.GROUP.value, partition).log.producers
        verification = producers.begin_verification(
            request.producer_id,
            request.producer_epoch,
            NO_SEQUENCE,
            now_ms=node.now_ms(),
            transactions_v2=adds_partition,
        )
    except KafkaError as error:
        return error.code
    if verification is None:
        return ErrorCode.NONE
    asked = (Coordinator.GROUP.value, partition)
    answers = await node.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [asked],
        verify_only=not adds_partition,
    )
    error_code = answers.get(asked, ErrorCode.UNKNOWN_SERVER_ERROR)
    match error_code:
        case ErrorCode.NONE:
            verification.confirmed = True
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.NETWORK_EXCEPTION:
            # Older clients don't expect it here; this one makes them repeat the request where it is.
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case ErrorCode.TRANSACTION_ABORTABLE if version < FIRST_VERSION_WITH_GENERIC_ERRORS:
            return ErrorCode.INVALID_TXN_STATE
    return error_code
