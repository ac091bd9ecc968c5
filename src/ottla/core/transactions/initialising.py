"""The decision on an InitProducerId for a transactional id (KIP-98, KIP-360).

A producer that starts names only its transactional id: it gets the next epoch, and the producer with the last
one is fenced. A producer that goes on after an error names its producer id and epoch (KIP-360): it gets the
next epoch only if it is still the current producer, and the same answer again if the first was lost.
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
    """The producer id and epoch that a request names as the producer's own."""

    producer_id: int
    producer_epoch: int


class Need(enum.Enum):
    """A step that is needed before the answer."""

    PRODUCER_ID = "producer id"
    ABORT = "abort"


def check_initialisation(request: InitProducerIdRequest, settings: TransactionSettings) -> ErrorCode:
    """The error of a request for a transactional id that is independent of the id's state, or NONE."""
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
    """The next value, a refusal, or a step that is needed first (a fresh producer id, an abort).

    No decision is on its way to the log, and no end has markers that are not written.
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
    """Whether a producer with that id and epoch may still be the current one."""
    if transaction.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == transaction.producer_id:
        return True
    # A repeated request whose first answer was a new producer id.
    return (
        expected.producer_id == transaction.previous_producer_id
        and expected.producer_epoch >= MAX_CLIENT_EPOCH
    )
