"""What InitProducerId decides for a transactional id (KIP-98, KIP-360).

A producer that comes up says nothing but its transactional id: it gets the next epoch, and whoever had the
last one is fenced. A producer that goes on after an error says its producer id and epoch (KIP-360): it gets
the next epoch only if it is still the current one, and the same answer again if the first was lost.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from ottla.core.transactions import transaction as transitions
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.states import TransactionState
from ottla.core.transactions.transaction import MAX_CLIENT_EPOCH, Transaction
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.record_batch import NO_PRODUCER_EPOCH


class Expected(NamedTuple):
    """The producer id and epoch that a producer says it has."""

    producer_id: int
    producer_epoch: int


class Need(enum.Enum):
    """What has to happen before an answer."""

    PRODUCER_ID = "producer id"
    ABORT = "abort"


def check_initialisation(request: InitProducerIdRequest, settings: TransactionSettings) -> ErrorCode:
    """What is wrong with a request for a transactional id, whatever the id's state."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if request.enable2_pc and not settings.two_phase_commit_enabled:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION
    if request.enable2_pc or 0 < request.transaction_timeout_ms <= settings.max_timeout_ms:
        return ErrorCode.NONE
    return ErrorCode.INVALID_TRANSACTION_TIMEOUT


def decide_initialisation(
    transaction: Transaction,
    expected: Expected | None,
    timeout_ms: int,
    now_ms: int,
    fresh_producer_id: int | None,
) -> Transaction | ErrorCode | Need:
    """The next value, a refusal, or what is needed first (a fresh producer id, the ongoing one's abort).

    Nothing is under way: no decision on its way to the log, no end whose markers are not written.
    """
    if expected is not None and not _may_go_on(transaction, expected):
        return ErrorCode.PRODUCER_FENCED
    if transaction.state is TransactionState.ONGOING:
        return Need.ABORT
    current = transaction.producer_epoch
    if transaction.is_exhausted and (expected is None or expected.producer_epoch == current):
        if fresh_producer_id is None:
            return Need.PRODUCER_ID
        return transitions.next_id(
            transaction,
            fresh_producer_id,
            timeout_ms,
            now_ms,
            keeps_last_epoch=expected is not None,
        )
    if expected is None:
        return transitions.next_epoch(transaction, timeout_ms, now_ms, NO_PRODUCER_EPOCH)
    if current == NO_PRODUCER_EPOCH or expected.producer_epoch == current:
        return transitions.next_epoch(transaction, timeout_ms, now_ms, current)
    if expected.producer_epoch == transaction.last_producer_epoch:
        return transitions.same_epoch(transaction, timeout_ms, now_ms)
    return ErrorCode.PRODUCER_FENCED


def _may_go_on(transaction: Transaction, expected: Expected) -> bool:
    """Whether a producer with that id may still be the current one."""
    if transaction.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == transaction.producer_id:
        return True
    # A repeated request whose first answer was a new producer id.
    return (
        expected.producer_id == transaction.previous_producer_id
        and expected.producer_epoch >= MAX_CLIENT_EPOCH
    )
