"""Asks the transaction coordinators on other brokers about the partitions of transactions (KIP-890).

Each broker has one request under way; questions that come meanwhile go into the next one, so that many
producers cost few requests. A transactional id is in a request once at most, because answers go by it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.peers.peers import PeerUnreachable
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
)

if TYPE_CHECKING:
    from ottla.broker.peers.broker_requests import AsksBrokers
    from ottla.broker.supervisor import Supervisor

log = logging.getLogger("ottla.broker.transactions")

PURPOSE: Final = "transaction-verification"
MAX_TRANSACTIONS_A_REQUEST: Final = 1000

TopicPartition = tuple[str, int]
Errors = Mapping[TopicPartition, ErrorCode]


class _Question(NamedTuple):
    transaction: AddPartitionsToTxnTransaction
    answer: asyncio.Future[Errors]


class RemoteTransactions:
    """All questions of this broker to others. Used on the event loop only."""

    def __init__(self, brokers: AsksBrokers, supervisor: Supervisor) -> None:
        self._brokers = brokers
        self._supervisor = supervisor
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, list[_Question]] = {}
        """By node id; brokers that are being asked have an entry, which may be empty."""

    async def add_partitions(self, node_id: int, transaction: AddPartitionsToTxnTransaction) -> Errors:
        """The answer of the coordinator on a broker for every partition. Raises nothing."""
        question = _Question(transaction, self._loop.create_future())
        if node_id in self._waiting:
            self._waiting[node_id].append(question)
        else:
            self._waiting[node_id] = [question]
            self._supervisor.spawn(f"verify-transactions-{node_id}", self._ask(node_id))
        return await question.answer

    async def _ask(self, node_id: int) -> None:
        """Ask until no question waits."""
        while questions := self._take(node_id):
            request = AddPartitionsToTxnRequest(transactions=[each.transaction for each in questions])
            failure, results = ErrorCode.NONE, dict[str, AddPartitionsToTxnResult]()
            try:
                response = await self._brokers.ask(PURPOSE, node_id, request)
            except PeerUnreachable as problem:
                log.info("transaction coordinator not reached broker=%d reason=%s", node_id, problem)
                failure = ErrorCode.NETWORK_EXCEPTION
            else:
                assert isinstance(response, AddPartitionsToTxnResponse)
                failure = ErrorCode(response.error_code)
                results = {each.transactional_id: each for each in response.results_by_transaction}
            for question in questions:
                if not question.answer.done():  # else the producer's request has gone
                    question.answer.set_result(_errors(question.transaction, results, failure))
        del self._waiting[node_id]

    def _take(self, node_id: int) -> list[_Question]:
        taken: dict[str, _Question] = {}
        left = []
        for question in self._waiting[node_id]:
            name = question.transaction.transactional_id
            if name in taken or len(taken) >= MAX_TRANSACTIONS_A_REQUEST:
                left.append(question)
            else:
                taken[name] = question
        self._waiting[node_id] = left
        return list(taken.values())


def _errors(
    transaction: AddPartitionsToTxnTransaction,
    results: Mapping[str, AddPartitionsToTxnResult],
    failure: ErrorCode,
) -> Errors:
    """The errors of a transaction's partitions: from its own result, or that of the request as a whole."""
    partitions = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    errors: dict[TopicPartition, ErrorCode] = dict.fromkeys(
        partitions, failure if failure is not ErrorCode.NONE else ErrorCode.UNKNOWN_SERVER_ERROR
    )
    result = results.get(transaction.transactional_id)
    if failure is ErrorCode.NONE and result is not None:
        errors.update(
            ((topic.name, each.partition_index), ErrorCode(each.partition_error_code))
            for topic in result.topic_results
            for each in topic.results_by_partition
        )
    return errors
