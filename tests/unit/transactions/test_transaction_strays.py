"""Transactional ids in the wrong partition: their open transactions are ended there, then they are moved."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ottla.core.coordination.api import Loaded
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.transactions.log_records import transaction_of, transaction_record
from ottla.core.transactions.states import TransactionState
from ottla.core.transactions.transaction import NO_TIMEOUT_MS, Transaction
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.transaction_log_value import TransactionLogValue
from support.core.transaction_shard import TransactionDriver

PARTITIONS = frozenset({("t", 0), ("t", 1)})


def record(name: str, state: TransactionState, timeout_ms: int = 60_000) -> CoordinatorRecord:
    held = Transaction(7, 3, timeout_ms, state, PARTITIONS, start_ms=0, last_update_ms=0, client_version=2)
    return transaction_record(name, held, 2)


def loaded(driver: TransactionDriver, records: Iterable[CoordinatorRecord], *strays: str) -> None:
    """A new leader of a log with these strays."""
    driver.log = list(records)
    driver.shard = driver.replayed(driver.log)
    driver.step(Loaded(driver.now, frozenset(strays)))


def last_state(driver: TransactionDriver, name: str) -> TransactionState:
    """The last state of an id in the log."""
    values = [each.value for each in driver.log if each.key.transactional_id == name]  # type: ignore[attr-defined]
    assert isinstance(values[-1], TransactionLogValue)
    return transaction_of(values[-1]).state


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TransactionState.ONGOING, TransactionState.COMPLETE_ABORT),
        (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT),
        (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT),
        (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_COMMIT),
        (TransactionState.EMPTY, TransactionState.EMPTY),
    ],
)
def test_a_stray_is_ended_and_let_go(before: TransactionState, after: TransactionState) -> None:
    driver = TransactionDriver()
    loaded(driver, [record("stray", before), record("here", TransactionState.ONGOING)], "stray")
    # then: its partitions have their marker, the log its end, and the id is unknown here
    assert last_state(driver, "stray") is after
    assert {order.partitions for order in driver.written} == (
        set() if before is after else {tuple(sorted(PARTITIONS))}
    )
    assert driver.shard.transactions.keys() == {"here"}
    assert last_state(driver, "here") is TransactionState.ONGOING


def test_a_stray_whose_end_was_refused_is_ended_later() -> None:
    driver = TransactionDriver()
    driver.hold_appends = True
    loaded(driver, [record("stray", TransactionState.ONGOING)], "stray")
    driver.append_failed(ErrorCode.NOT_ENOUGH_REPLICAS)
    driver.hold_appends = False
    driver.advance(driver.settings.abort_interval_ms)
    assert last_state(driver, "stray") is TransactionState.COMPLETE_ABORT
    assert not driver.shard.transactions


def test_a_stray_without_a_timeout_is_its_owners_to_end() -> None:
    driver = TransactionDriver()
    loaded(driver, [record("stray", TransactionState.ONGOING, NO_TIMEOUT_MS)], "stray")
    driver.advance(10_000_000)
    assert len(driver.log) == 1
    assert not driver.shard.transactions
