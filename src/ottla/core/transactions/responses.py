"""Each transaction API's answer that holds only an error, in the field where the API has it."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.core.transactions.transaction import TopicPartition
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
)
from ottla.protocol.messages.describe_transactions_response import (
    TransactionState as DescribedTransaction,
)
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.end_txn_response import EndTxnResponse
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse
from ottla.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.protocol.schema import Message


def coordinator_error(request: Message, error: ErrorCode) -> Message:
    """An answer that refuses `request` (in the form that api.py describes) as a whole with `error`."""
    match request:
        case InitProducerIdRequest():
            return producer_id_refused(error)
        case EndTxnRequest():
            return EndTxnResponse(error_code=error)
        case AddPartitionsToTxnRequest():
            return AddPartitionsToTxnResponse(
                results_by_transaction=[
                    partitions_result(transaction, {}, error) for transaction in request.transactions
                ]
            )
        case DescribeTransactionsRequest():
            return DescribeTransactionsResponse(
                transaction_states=[
                    DescribedTransaction(transactional_id=transactional_id, error_code=error)
                    for transactional_id in request.transactional_ids
                ]
            )
        case ListTransactionsRequest():
            return ListTransactionsResponse(error_code=error)
        case _:
            raise TypeError(f"{type(request).__name__} is not a request to a transaction coordinator")


def producer_id_refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


def partitions_result(
    transaction: AddPartitionsToTxnTransaction, errors: Mapping[TopicPartition, ErrorCode], error: ErrorCode
) -> AddPartitionsToTxnResult:
    """Each of the transaction's partitions with its own error, or else with `error`."""
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=partition,
                        partition_error_code=errors.get((topic.name, partition), error),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )


def partitions_of(transaction: AddPartitionsToTxnTransaction) -> frozenset[TopicPartition]:
    """The partitions that the request names."""
    return frozenset((topic.name, index) for topic in transaction.topics for index in topic.partitions)
