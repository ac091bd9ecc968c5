"""The decision on an EndTxn (KIP-98, KIP-890).

Under versions 0 and 1 the epoch stays, so a repeated EndTxn looks like the first: the same end again is a
success once it is complete. Under version 2 every end raises the epoch; a repeated EndTxn has the epoch
before, and one with the current epoch is about the next transaction:

                     abort                commit
                     repeated   current   repeated   current
    Empty            fenced     abort     fenced     INVALID_TXN_STATE
    CompleteAbort    success    abort     invalid    invalid
    CompleteCommit   invalid    abort     success    invalid

An abort of a transaction that never began is for clients whose first produce request was lost: they can't
know.
"""

from __future__ import annotations

import enum

from ottla.core.transactions.states import ENDING, TransactionState
from ottla.core.transactions.transaction import MAX_CLIENT_EPOCH, Transaction
from ottla.protocol.errors import ErrorCode


class Verdict(enum.Enum):
    """The decision on an EndTxn that is not refused."""

    PREPARE = "prepare"
    DONE_BEFORE = "done before"


def decide_end(
    transaction: Transaction,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    *,
    bumps_epoch: bool,
    is_pending: bool,
) -> Verdict | ErrorCode:
    """Decide on a client's EndTxn; `is_pending` says that a decision or an end is under way."""
    if bumps_epoch:
        return _decide_v2(transaction, producer_id, producer_epoch, committed, is_pending)
    return _decide_v1(transaction, producer_id, producer_epoch, committed, is_pending)


def _decide_v1(
    transaction: Transaction, producer_id: int, producer_epoch: int, committed: bool, is_pending: bool
) -> Verdict | ErrorCode:
    if transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is TransactionState.ONGOING:
        return Verdict.PREPARE
    return Verdict.DONE_BEFORE if _ended_so(transaction, committed) else ErrorCode.INVALID_TXN_STATE


def _decide_v2(
    transaction: Transaction, producer_id: int, producer_epoch: int, committed: bool, is_pending: bool
) -> Verdict | ErrorCode:
    state = transaction.state
    repeats_before_new_id = (
        producer_id == transaction.previous_producer_id
        and producer_epoch == MAX_CLIENT_EPOCH
        and transaction.producer_epoch == 0
    )
    is_repeated = producer_epoch + 1 == transaction.producer_epoch or repeats_before_new_id
    is_current = producer_epoch == transaction.producer_epoch
    if state in ENDING and producer_id == transaction.next_producer_id:
        return ErrorCode.CONCURRENT_TRANSACTIONS  # it has its new id, which counts after the markers
    if transaction.producer_id != producer_id and not repeats_before_new_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not _epoch_fits(state, is_repeated=is_repeated, is_current=is_current):
        return ErrorCode.PRODUCER_FENCED
    if is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if state is TransactionState.ONGOING:
        return Verdict.PREPARE
    if is_repeated:
        return Verdict.DONE_BEFORE if _ended_so(transaction, committed) else ErrorCode.INVALID_TXN_STATE
    return ErrorCode.INVALID_TXN_STATE if committed else Verdict.PREPARE


def _epoch_fits(state: TransactionState, *, is_repeated: bool, is_current: bool) -> bool:
    match state:
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            return is_repeated
        case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT:
            return is_repeated or is_current
        case _:
            return is_current


def _ended_so(transaction: Transaction, committed: bool) -> bool:
    """Whether the last transaction is over and ended this way."""
    wanted = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
    return transaction.state is wanted
