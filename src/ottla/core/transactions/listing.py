"""DescribeTransactions and ListTransactions: what is shown of transactions (KIP-664, KIP-994, KIP-1152).

A pattern must match the whole transactional id. Kafka compiles it with RE2, which has neither back references
nor look-around and takes linear time; Python's engine backtracks, so what could take exponential time
(a repetition inside a repetition) is refused along with what RE2 lacks.
"""

from __future__ import annotations

import re
import re._constants as pattern_codes  # type: ignore[import-not-found, unused-ignore]
import re._parser as pattern_parser  # type: ignore[import-not-found, unused-ignore]
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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

MAX_PATTERN_LENGTH = 1_000


@dataclass(frozen=True, slots=True)
class Filters:
    """What ListTransactions asks for; empty and None let everything pass."""

    states: frozenset[TransactionState]
    has_states: bool
    producer_ids: frozenset[int]
    min_duration_ms: int
    pattern: re.Pattern[str] | None
    unknown_states: tuple[str, ...]

    def pass_through(self, transactional_id: str, transaction: Transaction, now_ms: int) -> bool:
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.has_states and transaction.state not in self.states:
            return False
        if self.min_duration_ms >= 0 and now_ms - transaction.start_ms <= self.min_duration_ms:
            return False
        return self.pattern is None or self.pattern.fullmatch(transactional_id) is not None


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
    """Those that pass the filters."""
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
    """What is shown of one id; `open_partitions` are those that the transaction still holds."""
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


# --- patterns -------------------------------------------------------------------------------------------


def _compiled(text: str) -> re.Pattern[str]:
    try:
        if len(text) > MAX_PATTERN_LENGTH:
            raise re.error(f"it is longer than {MAX_PATTERN_LENGTH} characters")
        _check(pattern_parser.parse(text), inside_repetition=False)
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as problem:
        raise InvalidRegularExpression(
            f"Transaction ID pattern `{text}` is not a valid regular expression: {problem}."
        ) from problem


def _check(parsed: Any, *, inside_repetition: bool) -> None:
    """Refuse what RE2 does not know, and repetitions inside repetitions. Raises re.error."""
    for code, argument in parsed:
        if code in (pattern_codes.GROUPREF, pattern_codes.GROUPREF_EXISTS):
            raise re.error("back references are not supported")
        if code in (pattern_codes.ASSERT, pattern_codes.ASSERT_NOT):
            raise re.error("look-around is not supported")
        repeats = code in (pattern_codes.MAX_REPEAT, pattern_codes.MIN_REPEAT)
        if repeats and inside_repetition and argument[1] > 1:
            raise re.error("a repetition inside a repetition is not supported")
        for part in _parts(code, argument):
            _check(part, inside_repetition=inside_repetition or (repeats and argument[1] > 1))


def _parts(code: Any, argument: Any) -> list[Any]:
    """The patterns that an element of a parsed pattern is made of."""
    if code is pattern_codes.SUBPATTERN:
        return [argument[-1]]
    if code in (pattern_codes.MAX_REPEAT, pattern_codes.MIN_REPEAT):
        return [argument[2]]
    if code is pattern_codes.BRANCH:
        return list(argument[1])
    return []
