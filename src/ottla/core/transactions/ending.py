"""What EndTxn decides (KIP-98, KIP-890).

Under versions 0 and 1 the epoch stays, so a repeated EndTxn looks like the first: the same end again is a
success once it is done. Under version 2 every end raises the epoch; a repeated EndTxn has the epoch before,
and one with the current epoch is about the next transaction:

                     abort                commit
                     repeated   current   repeated   current
    Empty            fenced     abort     fenced     INVALID_TXN_STATE
    CompleteAbort    success    abort     invalid    invalid
    CompleteCommit   invalid    abort     success    invalid

The abort of what was never begun is for clients whose first produce request was lost: they can't know.
"""

from __future__ import annotations

import enum

from ottla.core.transactions.states import ENDED, ENDING, TransactionState
from ottla.core.transactions.transaction import MAX_CLIENT_EPOCH, Transaction
from ottla.protocol.errors import ErrorCode


class Verdict(enum.Enum):
    """What an EndTxn that is not refused comes to."""

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
    """What a client's EndTxn comes to; `is_pending` says that a decision is on its way to the log."""
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
    state = transaction.state
    if state is TransactionState.ONGOING:
        return Verdict.PREPARE
    if state is TransactionState.EMPTY or _is_commit(state) != committed:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.CONCURRENT_TRANSACTIONS if state in ENDING else Verdict.DONE_BEFORE


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
    if transaction.producer_id != producer_id and not repeats_before_new_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not _epoch_fits(state, is_repeated, is_current, repeats_before_new_id):
        return ErrorCode.PRODUCER_FENCED
    if is_pending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if state is TransactionState.ONGOING:
        return Verdict.PREPARE
    if state in ENDING:
        same = _is_commit(state) == committed
        return ErrorCode.CONCURRENT_TRANSACTIONS if same else ErrorCode.INVALID_TXN_STATE
    if is_repeated:
        same = state is not TransactionState.EMPTY and _is_commit(state) == committed
        return Verdict.DONE_BEFORE if same else ErrorCode.INVALID_TXN_STATE
    return ErrorCode.INVALID_TXN_STATE if committed else Verdict.PREPARE


def _epoch_fits(
    state: TransactionState, is_repeated: bool, is_current: bool, repeats_before_new_id: bool
) -> bool:
    if state in ENDING:
        return is_repeated and not repeats_before_new_id
    if state in ENDED and state is not TransactionState.EMPTY:
        return is_repeated or is_current
    return is_current


def _is_commit(state: TransactionState) -> bool:
    return state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
