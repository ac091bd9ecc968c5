"""The transaction coordinator's decisions, transition by transition."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.core.transactions import log_records
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.states import PREVIOUS, TransactionState
from ottla.core.transactions.transaction import MAX_CLIENT_EPOCH, MAX_EPOCH, Transaction
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.records.transaction_log_value import TransactionLogValue
from support.core.transaction_shard import TransactionDriver, add_partitions, partition_errors

T0, T1 = ("t", 0), ("t", 1)
SECOND_MS, MINUTE_MS = 1_000, 60_000
NONE = ErrorCode.NONE


class Coordinator(TransactionDriver):
    """A driver that sends requests for the one transactional id `x`."""

    def initialise(self, producer_id: int = -1, epoch: int = -1, **fields: Any) -> Any:
        request = InitProducerIdRequest(
            transactional_id="x",
            transaction_timeout_ms=MINUTE_MS,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return self.ask(request, 5)

    def add(
        self, epoch: int, *partitions: tuple[str, int], version: int = 5, producer_id: int = 1_000
    ) -> Any:
        answer = self.ask(add_partitions("x", producer_id, epoch, partitions), version)
        return None if answer is None else partition_errors(answer)

    def end(self, epoch: int, *, committed: bool, version: int = 5, producer_id: int = 1_000) -> Any:
        request = EndTxnRequest(
            transactional_id="x", producer_id=producer_id, producer_epoch=epoch, committed=committed
        )
        return self.ask(request, version)

    def ask(self, request: Any, version: int) -> Any:
        """The answer, or None while there is none."""
        return self.replies.get(self.send(request, version))

    @property
    def transaction(self) -> Transaction:
        return self.shard.transactions["x"]

    def holds(self, **changes: Any) -> Coordinator:
        """A coordinator whose log holds this state of the transactional id."""
        given = {"producer_id": 1_000, "producer_epoch": 0, "timeout_ms": MINUTE_MS, **changes}
        given.setdefault("last_update_ms", self.now.wall_ms)
        transaction = Transaction(**given)
        version = self.settings.transaction_version
        self.next_producer_id = 1_001
        self.reload([log_records.transaction_record("x", transaction, version)])
        return self


def ongoing(epoch: int = 0, level: int = 2) -> Coordinator:
    """A transaction in two partitions."""
    coordinator = Coordinator(TransactionSettings(transaction_version=level))
    return coordinator.holds(
        producer_epoch=epoch,
        state=TransactionState.ONGOING,
        partitions=frozenset({T0, T1}),
        start_ms=coordinator.now.wall_ms,
        client_version=level,
    )


def values(coordinator: Coordinator) -> list[TransactionLogValue]:
    return [record.value for record in coordinator.log if isinstance(record.value, TransactionLogValue)]


def test_every_state_is_reached_by_the_table() -> None:
    reached = {TransactionState.EMPTY}
    while more := {state for state, before in PREVIOUS.items() if before & reached} - reached:
        reached |= more
    assert reached == set(TransactionState)


def test_a_new_id_gets_a_fresh_producer_id_and_says_so_in_the_log() -> None:
    # when
    coordinator = Coordinator()
    answer = coordinator.initialise()
    # then
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, 1_000, 0)
    (value,) = values(coordinator)
    assert value.transaction_partitions is None
    assert (value.previous_producer_id, value.next_producer_id) == (1_000, -1)
    assert coordinator.log[0].value_version == 1


def test_a_new_id_whose_record_was_not_written_leaves_no_state() -> None:
    # given
    coordinator = Coordinator()
    coordinator.hold_appends = True
    request = coordinator.send(
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=MINUTE_MS), 5
    )
    # when
    coordinator.append_failed(ErrorCode.NOT_ENOUGH_REPLICAS)
    # then
    assert coordinator.replies[request].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.shard.transactions == {}


def test_without_a_producer_id_to_be_had_the_error_is_told() -> None:
    # given
    coordinator = Coordinator()
    coordinator.hold_producer_ids = True
    request = coordinator.send(
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=MINUTE_MS), 5
    )
    # when
    coordinator.producer_id_obtained(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    # then
    assert coordinator.replies[request].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_while_a_decision_is_on_its_way_others_come_again() -> None:
    # given
    coordinator = ongoing()
    coordinator.hold_appends = True
    assert coordinator.end(0, committed=True) is None
    # then
    assert coordinator.initialise().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.add(0, T0) == {ErrorCode.CONCURRENT_TRANSACTIONS}
    assert coordinator.end(0, committed=True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_last_epochs_of_a_producer_id_lead_to_another_one(level: int) -> None:
    # given: all epochs but the last are used
    coordinator = Coordinator(TransactionSettings(transaction_version=level))
    coordinator.holds(producer_epoch=MAX_CLIENT_EPOCH - 1)
    # then
    last = coordinator.initialise()
    assert (last.producer_id, last.producer_epoch) == (1_000, MAX_CLIENT_EPOCH)
    answer = coordinator.initialise()
    assert (answer.producer_id, answer.producer_epoch) == (1_001, 0)


def test_a_repeated_request_gets_the_same_new_producer_id() -> None:
    # given
    coordinator = Coordinator().holds(producer_epoch=MAX_CLIENT_EPOCH)
    first = coordinator.initialise(1_000, MAX_CLIENT_EPOCH)
    assert (first.producer_id, first.producer_epoch) == (1_001, 0)
    # when
    again = coordinator.initialise(1_000, MAX_CLIENT_EPOCH)
    # then
    assert (again.error_code, again.producer_id, again.producer_epoch) == (NONE, 1_001, 0)


def test_under_v2_the_end_at_the_last_epoch_hands_out_another_producer_id() -> None:
    # given
    coordinator = ongoing(MAX_CLIENT_EPOCH)
    coordinator.hold_markers = True
    # when
    answer = coordinator.end(MAX_CLIENT_EPOCH, committed=True)
    # then: the markers still have the old one
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (NONE, 1_001, 0)
    (order,) = coordinator.orders
    assert (order.producer_id, order.producer_epoch) == (1_000, MAX_EPOCH)
    assert coordinator.add(0, T0, producer_id=1_001) == {ErrorCode.CONCURRENT_TRANSACTIONS}
    early = coordinator.end(0, committed=False, producer_id=1_001)
    assert early.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.markers_written(order, order.partitions)
    assert (coordinator.transaction.producer_id, coordinator.transaction.producer_epoch) == (1_001, 0)
    # and again, after a lost answer
    again = coordinator.end(MAX_CLIENT_EPOCH, committed=True)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (NONE, 1_001, 0)
    assert coordinator.end(MAX_CLIENT_EPOCH, committed=False).error_code == ErrorCode.INVALID_TXN_STATE


def test_the_end_is_answered_before_its_markers_and_done_after_them() -> None:
    # given
    coordinator = ongoing()
    coordinator.hold_markers = True
    # when
    assert coordinator.end(0, committed=True).error_code == NONE
    # then
    (order,) = coordinator.orders
    assert order.partitions == (T0, T1)
    assert (order.committed, order.producer_epoch, order.transaction_version) == (True, 1, 2)
    assert coordinator.transaction.state is TransactionState.PREPARE_COMMIT
    # when: one of two
    coordinator.markers_written(order, [T0])
    # then
    described = coordinator.ask(DescribeTransactionsRequest(transactional_ids=["x"]), 0)
    assert [each.partitions for each in described.transaction_states[0].topics] == [[1]]
    assert described.transaction_states[0].transaction_state == "PrepareCommit"
    assert coordinator.add(1, T0) == {ErrorCode.CONCURRENT_TRANSACTIONS}
    assert coordinator.end(0, committed=True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.end(0, committed=False).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.end(1, committed=True).error_code == ErrorCode.PRODUCER_FENCED
    assert coordinator.initialise(1_000, 7).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    # when
    coordinator.markers_written(order, [T1])
    # then
    assert coordinator.transaction.state is TransactionState.COMPLETE_COMMIT
    assert coordinator.transaction.partitions == frozenset()


def test_a_new_leader_writes_the_markers_of_decided_transactions() -> None:
    # given
    coordinator = ongoing()
    coordinator.hold_markers = True
    coordinator.end(0, committed=False)
    coordinator.markers_written(coordinator.orders[0], [T0])
    # when
    coordinator.reload()
    # then: of all partitions, as it is unknown which have their marker
    (order,) = coordinator.orders
    assert (order.partitions, order.committed) == ((T0, T1), False)


def test_that_all_markers_are_written_is_said_until_it_is_in_the_log() -> None:
    # given
    coordinator = ongoing()
    coordinator.hold_markers = True
    coordinator.end(0, committed=True)
    coordinator.hold_appends = True
    order = coordinator.orders.pop()
    coordinator.markers_written(order, order.partitions)
    # when
    for _ in range(3):
        coordinator.append_failed(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert coordinator.transaction.state is TransactionState.PREPARE_COMMIT
        coordinator.advance(SECOND_MS)
    coordinator.append_done()
    # then
    assert coordinator.transaction.state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize(("level", "last_epoch"), [(0, -1), (1, -1), (2, 0)])
def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(
    level: int, last_epoch: int
) -> None:
    # given
    coordinator = ongoing(level=level)
    # when
    coordinator.advance(MINUTE_MS - 10 * SECOND_MS)
    assert coordinator.transaction.state is TransactionState.ONGOING
    coordinator.advance(30 * SECOND_MS)
    # then
    transaction = coordinator.transaction
    assert (transaction.state, transaction.producer_epoch) == (TransactionState.COMPLETE_ABORT, 1)
    assert transaction.last_producer_epoch == last_epoch
    assert coordinator.add(0, T0) == {ErrorCode.PRODUCER_FENCED}
    assert coordinator.end(0, committed=True, version=4).error_code == ErrorCode.PRODUCER_FENCED


def test_while_no_producer_id_is_to_be_had_a_timed_out_transaction_asks_for_one_only() -> None:
    # given
    coordinator = ongoing(MAX_CLIENT_EPOCH)
    coordinator.hold_producer_ids = True
    # when
    coordinator.advance(30 * MINUTE_MS)
    # then
    assert len(coordinator.tickets) == 1
    coordinator.producer_id_obtained(ErrorCode.NOT_CONTROLLER)
    coordinator.advance(MINUTE_MS)
    coordinator.producer_id_obtained()
    assert coordinator.transaction.state is TransactionState.COMPLETE_ABORT
    assert (coordinator.transaction.producer_id, coordinator.transaction.producer_epoch) == (1_002, 0)


def test_a_fence_that_was_not_written_has_no_effect() -> None:
    # given
    coordinator = ongoing(level=0)
    coordinator.hold_appends = True
    coordinator.advance(MINUTE_MS + 20 * SECOND_MS)
    # when
    coordinator.append_failed(ErrorCode.NOT_ENOUGH_REPLICAS)
    # then
    assert coordinator.transaction.producer_epoch == 0
    coordinator.hold_appends = False
    assert coordinator.end(0, committed=True, version=4).error_code == NONE


def test_unused_ids_expire_unless_they_have_a_transaction() -> None:
    # given
    idle = Coordinator(TransactionSettings(expiration_ms=MINUTE_MS, expiry_interval_ms=MINUTE_MS)).holds()
    busy = Coordinator(TransactionSettings(expiration_ms=MINUTE_MS, expiry_interval_ms=MINUTE_MS)).holds(
        state=TransactionState.ONGOING,
        partitions=frozenset({T0}),
        start_ms=idle.now.wall_ms,
        timeout_ms=10 * MINUTE_MS,
    )
    # when
    for coordinator in (idle, busy):
        coordinator.advance(2 * MINUTE_MS)
    # then
    assert idle.shard.transactions == {}
    assert idle.log[-1].value is None
    assert "x" in busy.shard.transactions


def test_two_phase_commit_has_to_be_enabled() -> None:
    assert (
        Coordinator().initialise(enable2_pc=True).error_code
        == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    assert Coordinator().initialise(keep_prepared_txn=True).error_code == ErrorCode.UNSUPPORTED_VERSION
    # given
    coordinator = Coordinator(TransactionSettings(two_phase_commit_enabled=True))
    assert coordinator.initialise(enable2_pc=True).error_code == NONE
    assert coordinator.add(0, T0) == {NONE}
    # when: a very long time
    coordinator.advance(1_000 * MINUTE_MS)
    # then
    assert coordinator.transaction.state is TransactionState.ONGOING


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 1), (2, 1)])
def test_records_have_the_version_of_the_clusters_level(level: int, version: int) -> None:
    coordinator = Coordinator(TransactionSettings(transaction_version=level))
    coordinator.initialise()
    coordinator.add(0, T0, version=3)
    coordinator.end(0, committed=True, version=4)
    assert [record.value_version for record in coordinator.log] == [version] * 4
    assert [value.transaction_status for value in values(coordinator)] == [0, 1, 2, 4]


def test_a_record_of_an_unknown_state_is_passed_over() -> None:
    # given
    coordinator = ongoing()
    unknown = coordinator.log[0]
    assert isinstance(unknown.value, TransactionLogValue)
    unknown.value.transaction_status = 99
    # when
    coordinator.reload()
    # then
    assert coordinator.shard.transactions == {}


def test_a_pattern_that_engines_which_backtrack_choke_on_is_matched_at_once() -> None:
    coordinator = Coordinator()
    coordinator.ask(InitProducerIdRequest(transactional_id="a" * 5_000, transaction_timeout_ms=MINUTE_MS), 5)
    answer = coordinator.ask(ListTransactionsRequest(transactional_id_pattern="(a+)+b"), 2)
    assert (answer.error_code, answer.transaction_states) == (NONE, [])


def test_a_resigned_coordinator_answers_all_open_requests() -> None:
    # given
    coordinator = ongoing()
    coordinator.hold_appends = True
    coordinator.send(
        EndTxnRequest(transactional_id="x", producer_id=1_000, producer_epoch=0, committed=True), 5
    )
    # when
    coordinator.reload()
    # then
    assert coordinator.waiting() == []
    assert [answer.error_code for answer in coordinator.replies.values()] == [ErrorCode.NOT_COORDINATOR]
