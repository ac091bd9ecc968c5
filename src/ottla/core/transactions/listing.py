"""DescribeTransactions and ListTransactions: descriptions of transactions (KIP-664, KIP-994, KIP-1152).

A pattern is in RE2's syntax and must match the whole transactional id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.core.coordination.regex import InvalidRegex, Regex
from ottla.core.transactions.states import BY_LABEL, TransactionState
from ottla.core.transactions.transaction import TopicPartition, Transaction
from ottla.protocol.errors import ErrorCode, InvalidRegularExpression
from ottla.protocol.messages.describe_transactions_response import TopicData
from ottla.protocol.messages.describe_transactions_response import (
    TransactionState as DescribedTransaction,
)
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse
from ottla.protocol.messages.list_transactions_response import TransactionState as ListedTransaction


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a ListTransactions request; empty and None let everything pass."""

    states: frozenset[TransactionState]
    has_states: bool
    producer_ids: frozenset[int]
    min_duration_ms: int
    pattern: Regex | None
    unknown_states: tuple[str, ...]

    def pass_through(self, transactional_id: str, transaction: Transaction, now_ms: int) -> bool:
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.has_states and transaction.state not in self.states:
            return False
        if self.min_duration_ms >= 0 and now_ms - transaction.start_ms <= self.min_duration_ms:
            return False
        return self.pattern is None or self.pattern.matches(transactional_id)


def filters_of(request: ListTransactionsRequest) -> Filters:
    """The request's filters. Raises InvalidRegularExpression."""
    names = dict.fromkeys(request.state_filters)
    return Filters(
        states=frozenset(BY_LABEL[name] for name in names if name in BY_LABEL),
        has_states=bool(names),
        producer_ids=frozenset(request.producer_id_filters),
        min_duration_ms=request.duration_filter,
        pattern=_compiled(request.transactional_id_pattern) if request.transactional_id_pattern else None,
        unknown_states=tuple(name for name in names if name not in BY_LABEL),
    )


def list_transactions(
    transactions: Mapping[str, Transaction], filters: Filters, now_ms: int
) -> ListTransactionsResponse:
    """The transactions that pass the filters."""
    return ListTransactionsResponse(
        unknown_state_filters=list(filters.unknown_states),
        transaction_states=[
            ListedTransaction(
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.label,
            )
            for transactional_id, transaction in transactions.items()
            if filters.pass_through(transactional_id, transaction, now_ms)
        ],
    )


def described(
    transactional_id: str, transaction: Transaction | None, open_partitions: Iterable[TopicPartition]
) -> DescribedTransaction:
    """The description of one id; `open_partitions` are those that the transaction still holds."""
    if transaction is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return DescribedTransaction(transactional_id=transactional_id, error_code=error)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(open_partitions):
        by_topic.setdefault(topic, []).append(partition)
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=topic, partitions=indices) for topic, indices in by_topic.items()],
    )


def _compiled(text: str) -> Regex:
    try:
        return Regex(text)
    except InvalidRegex as problem:
        raise InvalidRegularExpression(
            f"Transaction ID pattern `{text}` is not a valid regular expression: {problem}."
        ) from problem
