"""Producers' transactions: their requests, and those that describe them (KIP-98, KIP-890, KIP-664).

    AddPartitionsToTxn (24)    v0-5  2 PRODUCER_FENCED (KIP-588)  3 flexible  4 several transactions at once,
                                     between brokers also whether only  5 TRANSACTION_ABORTABLE (KIP-890)
    AddOffsetsToTxn (25)       v0-4  2 PRODUCER_FENCED  3 flexible  4 TRANSACTION_ABORTABLE
    EndTxn (26)                v0-5  2 PRODUCER_FENCED  3 flexible  4 TRANSACTION_ABORTABLE  5 an end raises
                                     the epoch, the answer has the producer id and epoch to go on with
    DescribeTransactions (65)  v0
    ListTransactions (66)      v0-2  1 by duration (KIP-994)  2 by pattern of the id (KIP-1152)

All or none of a transaction's partitions are added: one that does not exist refuses the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.broker.coordinators.coordinator_routing import answer_of
from ottla.broker.handlers.coordinators.groups import may_read_group
from ottla.broker.network.context import RequestContext
from ottla.broker.network.turns import in_turns
from ottla.core.coordination.api import Client
from ottla.core.decisions.topic_names import GROUP_TOPIC, is_internal
from ottla.core.links.topic_state import is_mirror
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.core.transactions.listing import filters_of
from ottla.core.transactions.responses import partitions_of, partitions_result
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
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
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

TRANSACTIONS_AT_A_TIME = 100
"""Transactions of one AddPartitionsToTxn at a time: each is a task while it waits; they share appends."""
FIRST_VERSION_WITH_SEVERAL_TRANSACTIONS = 4
FIRST_VERSION_WITH_PRODUCER_FENCED = 2
LAST_VERSION_FROM_CLIENTS = 3
"""The last version of AddPartitionsToTxn whose transactions are not v2."""


async def add_partitions_to_txn(
    node: Node, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    if context.api_version >= FIRST_VERSION_WITH_SEVERAL_TRANSACTIONS:
        node.authorization.require_on_cluster(context, AclOperation.CLUSTER_ACTION)
        results: list[AddPartitionsToTxnResult] = []
        for first in range(0, len(request.transactions), TRANSACTIONS_AT_A_TIME):
            together = request.transactions[first : first + TRANSACTIONS_AT_A_TIME]
            results += await asyncio.gather(
                *(_add_partitions(node, context, transaction) for transaction in together)
            )
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    result = await _add_partitions(
        node,
        context,
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        ),
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)


async def _add_partitions(
    node: Node, context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> AddPartitionsToTxnResult:
    topics = node.image.topics
    errors: dict[tuple[str, int], ErrorCode] = {}
    from_client = context.api_version <= LAST_VERSION_FROM_CLIENTS
    unwritable: Collection[str] = ()
    if from_client and node.authorization.enforced:
        if not _may_write_as(node, context, transaction.transactional_id):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return partitions_result(transaction, {}, code)
        names = [name for name, _ in partitions_of(transaction) if not is_internal(name)]
        unwritable = node.authorization.refused(context, AclOperation.WRITE, ResourceType.TOPIC, names)
    for name, index in partitions_of(transaction):
        # A group's offsets join by AddOffsetsToTxn; clients may not write to its coordinator's topic itself.
        if from_client and (is_internal(name) or name in unwritable):
            errors[name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif name not in topics or index not in topics[name].partitions:
            errors[name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif is_mirror(node.image, name):
            errors[name, index] = ErrorCode.POLICY_VIOLATION
    if errors:
        return partitions_result(transaction, errors, ErrorCode.OPERATION_NOT_ATTEMPTED)
    if not transaction.transactional_id:
        return partitions_result(transaction, {}, ErrorCode.INVALID_REQUEST)
    part = AddPartitionsToTxnRequest(transactions=[transaction])
    answer = await answer_of(node.transactions.ask(transaction.transactional_id, part, _client(context)))
    assert isinstance(answer, AddPartitionsToTxnResponse)
    (result,) = answer.results_by_transaction
    for topic in result.topic_results:
        for partition in topic.results_by_partition:
            partition.partition_error_code = _known_to(
                context, ErrorCode(partition.partition_error_code), FIRST_VERSION_WITH_PRODUCER_FENCED
            )
    return result


async def add_offsets_to_txn(
    node: Node, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Make the group's partition of `__consumer_offsets` part of the transaction."""
    if not _may_write_as(node, context, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may_read_group(node, context, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    partition = node.groups.partition_for(request.group_id)
    part = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                topics=[AddPartitionsToTxnTopic(name=GROUP_TOPIC, partitions=[partition])],
            )
        ]
    )
    client = Client(context.client_id or "", f"/{context.session.client_host}", LAST_VERSION_FROM_CLIENTS)
    answer = await answer_of(node.transactions.ask(request.transactional_id, part, client))
    assert isinstance(answer, AddPartitionsToTxnResponse)
    error = answer.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code
    return AddOffsetsToTxnResponse(
        error_code=_known_to(context, ErrorCode(error), FIRST_VERSION_WITH_PRODUCER_FENCED)
    )


async def end_txn(node: Node, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    if not _may_write_as(node, context, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    answer = await answer_of(node.transactions.ask(request.transactional_id, request, _client(context)))
    assert isinstance(answer, EndTxnResponse)
    answer.error_code = _known_to(context, ErrorCode(answer.error_code), FIRST_VERSION_WITH_PRODUCER_FENCED)
    return answer


async def describe_transactions(
    node: Node, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    states = []
    ids = request.transactional_ids
    may = node.authorization
    refused = may.refused(context, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ids)
    async for transactional_id in in_turns(ids):
        if transactional_id in refused:
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            states.append(DescribedTransaction(transactional_id=transactional_id, error_code=code))
            continue
        if not transactional_id:
            states.append(DescribedTransaction(error_code=ErrorCode.INVALID_REQUEST))
            continue
        part = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = await answer_of(node.transactions.ask(transactional_id, part, _client(context)))
        assert isinstance(answer, DescribeTransactionsResponse)
        states += answer.transaction_states
    if may.enforced:
        for state in states:
            state.topics = [
                each
                for each in state.topics
                if may.allows_unnamed(context, AclOperation.DESCRIBE, ResourceType.TOPIC, each.topic)
            ]
    return DescribeTransactionsResponse(transaction_states=states)


async def list_transactions(
    node: Node, context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """The transactions that this broker coordinates; clients ask every broker."""
    try:
        unknown_states = list(filters_of(request).unknown_states)
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    shards = node.transactions.shards
    listed = []
    for partition in shards.partitions():
        answer = await answer_of(shards.ask(partition, request, _client(context)))
        assert isinstance(answer, ListTransactionsResponse)
        if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return answer
        listed += [  # a partition that was lost meanwhile has none
            state
            for state in answer.transaction_states
            if node.authorization.allows_unnamed(
                context, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, state.transactional_id
            )
        ]
    return ListTransactionsResponse(unknown_state_filters=unknown_states, transaction_states=listed)


def _may_write_as(node: Node, context: RequestContext, transactional_id: str) -> bool:
    return node.authorization.allows(
        context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )


def _client(context: RequestContext) -> Client:
    return Client(context.client_id or "", f"/{context.session.client_host}", context.api_version)


def _known_to(context: RequestContext, error: ErrorCode, first_version: int) -> ErrorCode:
    """The error, where PRODUCER_FENCED becomes the one that older clients know (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and context.api_version < first_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


HANDLERS = {
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn,
    ApiKey.END_TXN: end_txn,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
    ApiKey.LIST_TRANSACTIONS: list_transactions,
}
