"""Idempotent and transactional producers in a log's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from ottla.protocol.record_batch import BatchHeader, encode_end_transaction_marker, parse_batch_header
from ottla.protocol.records.producer_snapshot import ProducerEntry, ProducerSnapshot
from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.errors import StorageError
from ottla.storage.producer_states import ProducerSnapshots, ProducerStates, TransactionMarker, Verification
from support.storage.logs import NOW_MS, append, open_log

DAY_MS = 86_400_000
MAX_SEQUENCE = 2**31 - 1


def batch(
    sequence: int,
    *,
    records: int = 1,
    offset: int = 0,
    epoch: int = 0,
    producer_id: int = 9,
    transactional: bool = False,
    control: bool = False,
    timestamp: int = NOW_MS,
) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=(0x10 if transactional else 0) | (0x20 if control else 0),
        last_offset_delta=records - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=records,
    )


def states_after(*batches: BatchHeader) -> ProducerStates:
    states = ProducerStates(DAY_MS)
    for header in batches:
        states.update(header)
    return states


# --- check ------------------------------------------------------------------------------------------------


def test_an_unknown_producer_may_begin_with_any_sequence() -> None:
    assert ProducerStates(DAY_MS).check(batch(1234)) is None


def test_the_next_sequence_follows_the_last_one() -> None:
    states = states_after(batch(0, records=10))

    assert states.check(batch(10)) is None
    with pytest.raises(OutOfOrderSequenceNumber, match="sequence 11, expected 10"):
        states.check(batch(11))
    with pytest.raises(OutOfOrderSequenceNumber):
        states.check(batch(9))


def test_a_repeated_batch_is_answered_with_its_first_offset() -> None:
    states = states_after(batch(0, records=10, offset=100), batch(10, records=5, offset=200))

    duplicate = states.check(batch(0, records=10))

    assert duplicate is not None
    assert (duplicate.base_offset, duplicate.last_offset, duplicate.timestamp) == (100, 109, NOW_MS)


def test_only_the_last_five_batches_are_known_as_duplicates() -> None:
    states = states_after(*(batch(sequence, offset=sequence) for sequence in range(7)))

    assert states.check(batch(2)) is not None
    with pytest.raises(OutOfOrderSequenceNumber):
        states.check(batch(1))


def test_a_part_of_a_known_batch_is_no_duplicate() -> None:
    states = states_after(batch(0, records=10))

    with pytest.raises(OutOfOrderSequenceNumber):
        states.check(batch(0, records=5))


def test_sequences_wrap_after_the_largest() -> None:
    states = states_after(batch(MAX_SEQUENCE - 1, records=2))
    assert states.check(batch(0)) is None

    states = states_after(batch(MAX_SEQUENCE - 1, records=4, offset=50))  # ends with sequence 1
    assert states.check(batch(2)) is None
    duplicate = states.check(batch(MAX_SEQUENCE - 1, records=4))
    assert duplicate is not None and duplicate.base_offset == 50


def test_an_older_epoch_is_fenced() -> None:
    states = states_after(batch(0, epoch=3))

    with pytest.raises(InvalidProducerEpoch, match="epoch 2 is older than 3"):
        states.check(batch(1, epoch=2))


def test_a_new_epoch_begins_with_sequence_0_and_forgets_the_old_batches() -> None:
    states = states_after(batch(0), batch(1))

    with pytest.raises(OutOfOrderSequenceNumber, match="epoch 1 begins with 0"):
        states.check(batch(2, epoch=1))
    assert states.check(batch(0, epoch=1)) is None
    states.update(batch(0, epoch=1, offset=30))
    duplicate = states.check(batch(0, epoch=1))
    assert duplicate is not None and duplicate.base_offset == 30


def test_batches_without_sequence_are_checked_for_their_epoch_only() -> None:
    """The group coordinator writes such batches for a producer."""
    states = states_after(batch(-1, epoch=2))

    assert states.check(batch(-1, epoch=2)) is None
    with pytest.raises(InvalidProducerEpoch):
        states.check(batch(-1, epoch=1))


def test_producers_do_not_see_each_other() -> None:
    states = states_after(batch(0, producer_id=1), batch(0, producer_id=2, epoch=5))

    assert states.check(batch(1, producer_id=1)) is None
    assert states.check(batch(1, producer_id=2, epoch=5)) is None


def test_inside_a_transaction_every_batch_is_transactional() -> None:
    states = states_after(batch(0, transactional=True))

    assert states.check(batch(1, transactional=True)) is None
    with pytest.raises(InvalidTxnState):
        states.check(batch(1))


def test_idle_producers_expire_unless_their_transaction_is_open() -> None:
    states = states_after(
        batch(0, producer_id=1, timestamp=NOW_MS),
        batch(0, producer_id=2, timestamp=NOW_MS + 1),
        batch(0, producer_id=3, timestamp=NOW_MS, transactional=True),
    )

    assert states.expire(NOW_MS + DAY_MS) == 1

    assert [state.producer_id for state in states] == [2, 3]
    assert states.check(batch(77, producer_id=1)) is None


# --- transactions -----------------------------------------------------------------------------------------


def test_the_first_unstable_offset_is_that_of_the_oldest_open_transaction() -> None:
    states = ProducerStates(DAY_MS)
    assert states.first_unstable_offset is None

    states.update(batch(0, producer_id=1, offset=10, transactional=True))
    states.update(batch(0, producer_id=2, offset=20, transactional=True))
    assert states.first_unstable_offset == 10

    ended = states.update(
        batch(-1, producer_id=1, offset=30, control=True, transactional=True), TransactionMarker(True, 4)
    )
    assert ended is not None
    assert (ended.first_offset, ended.last_offset, ended.aborted, ended.last_stable_offset) == (
        10,
        30,
        False,
        20,
    )
    # the marker is not replicated yet
    assert states.first_unstable_offset == 10
    states.on_high_watermark(30)
    assert states.first_unstable_offset == 10
    states.on_high_watermark(31)
    assert states.first_unstable_offset == 20


def test_a_marker_may_bring_a_newer_epoch() -> None:
    """Transactions v2 (KIP-890): the marker fences late producers."""
    states = states_after(batch(0, transactional=True))

    states.update(batch(-1, epoch=1, control=True), TransactionMarker(False, 2))

    state = states.get(9)
    assert state is not None
    assert (state.epoch, state.coordinator_epoch, state.current_txn_first_offset) == (1, 2, -1)
    with pytest.raises(InvalidProducerEpoch):
        states.check(batch(1))
    assert states.check(batch(0, epoch=1)) is None


def test_a_marker_without_a_transaction_has_no_effect() -> None:
    assert states_after().update(batch(-1, control=True), TransactionMarker(True, 1)) is None


def test_a_log_reads_the_markers_that_are_appended(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    assert log.producers.first_unstable_offset == 0
    marker = encode_end_transaction_marker(
        committed=False, coordinator_epoch=6, producer_id=9, producer_epoch=1, timestamp=NOW_MS, base_offset=1
    )

    log.append(marker, [parse_batch_header(marker)], now_ms=NOW_MS)
    log.producers.on_high_watermark(2)

    assert log.producers.first_unstable_offset is None
    for again in (log, open_log(tmp_path)):
        state = again.producers.get(9)
        assert state is not None and (state.epoch, state.coordinator_epoch) == (1, 6)


# --- snapshots --------------------------------------------------------------------------------------------


def test_a_snapshot_restores_the_last_batch_of_every_producer() -> None:
    states = states_after(
        batch(0, producer_id=1, offset=0, records=3),
        batch(3, producer_id=1, offset=3, records=2),
        batch(0, producer_id=2, offset=5, epoch=7, transactional=True),
    )

    restored = ProducerStates(DAY_MS)
    restored.load(states.encode(), NOW_MS)

    assert restored.first_unstable_offset == 5
    assert restored.encode() == states.encode()
    duplicate = restored.check(batch(3, producer_id=1, records=2))
    assert duplicate is not None and (duplicate.base_offset, duplicate.last_offset) == (3, 4)
    assert restored.check(batch(5, producer_id=1)) is None


def test_the_snapshot_is_kafkas_message() -> None:
    states = states_after(batch(4, producer_id=2, offset=5, records=3, epoch=7, transactional=True))

    content = states.encode()
    message = ProducerSnapshot.decode(content[2:], 1)

    assert content[:2] == b"\0\1"
    assert message.producer_entries == [
        ProducerEntry(
            producer_id=2,
            epoch=7,
            last_sequence=6,
            last_offset=7,
            offset_delta=2,
            timestamp=NOW_MS,
            coordinator_epoch=-1,
            current_txn_first_offset=5,
        )
    ]


@pytest.mark.parametrize("position", range(56))
def test_a_damaged_snapshot_is_refused(position: int) -> None:
    content = bytearray(states_after(batch(0)).encode())
    content[position] ^= 0x40

    with pytest.raises(StorageError):
        ProducerStates(DAY_MS).load(bytes(content), NOW_MS)


@pytest.mark.parametrize("length", [0, 1, 9, 10, 55])
def test_a_shortened_snapshot_is_refused(length: int) -> None:
    content = states_after(batch(0)).encode()

    with pytest.raises(StorageError):
        ProducerStates(DAY_MS).load(content[:length], NOW_MS)


def test_the_newest_snapshot_that_is_whole_is_loaded(tmp_path: Path) -> None:
    snapshots = ProducerSnapshots(DirectoryFiles(tmp_path), [])
    snapshots.write(10, states_after(batch(0)), sync=True)
    snapshots.write(20, states_after(batch(0), batch(1)), sync=False)
    snapshots.write(30, states_after(batch(0), batch(1), batch(2)), sync=False)
    snapshots.path(20).write_bytes(b"damaged")
    states = ProducerStates(DAY_MS)

    assert snapshots.load_newest(states, at_most=29, now_ms=NOW_MS) == 10

    state = states.get(9)
    assert state is not None and state.last_sequence == 0
    assert snapshots.offsets == [10, 30]


def test_snapshots_without_a_segment_go_except_the_newest(tmp_path: Path) -> None:
    snapshots = ProducerSnapshots(DirectoryFiles(tmp_path), [])
    for offset in (5, 10, 12, 30, 40):
        snapshots.write(offset, ProducerStates(DAY_MS), sync=False)

    snapshots.remove_strays({0, 10}, log_end_offset=30)

    assert snapshots.offsets == [10, 30]


# --- verification (KIP-890) -------------------------------------------------------------------------------


def first_of_transaction(sequence: int = 0, *, offset: int = 0, epoch: int = 0) -> BatchHeader:
    return batch(sequence, offset=offset, epoch=epoch, transactional=True)


def abort(states: ProducerStates, offset: int, *, epoch: int = 0, coordinator_epoch: int = 0) -> None:
    states.update(
        batch(-1, offset=offset, epoch=epoch, control=True, transactional=True),
        TransactionMarker(False, coordinator_epoch),
    )


def verify(states: ProducerStates, sequence: int = 0, *, epoch: int = 0, v2: bool = False) -> Verification:
    verification = states.begin_verification(9, epoch, sequence, now_ms=NOW_MS, transactions_v2=v2)
    assert verification is not None
    return verification


def test_the_first_batch_of_a_transaction_needs_a_verification() -> None:
    states = ProducerStates(DAY_MS)
    with pytest.raises(InvalidTxnState):
        states.check(first_of_transaction(), must_verify=True)

    assert states.check(first_of_transaction(), verify(states), must_verify=True) is None
    assert states.check(first_of_transaction()) is None


def test_further_batches_of_an_open_transaction_need_none() -> None:
    states = states_after(first_of_transaction())

    assert states.begin_verification(9, 0, 1, now_ms=NOW_MS, transactions_v2=False) is None
    assert states.check(first_of_transaction(1, offset=1), must_verify=True) is None


def test_an_open_transaction_of_an_older_epoch_does_not_count() -> None:
    states = states_after(first_of_transaction())

    with pytest.raises(InvalidTxnState):
        states.check(first_of_transaction(0, offset=1, epoch=1), must_verify=True)


def test_a_duplicate_of_an_ended_transaction_is_answered_without_verification() -> None:
    states = states_after(first_of_transaction())
    abort(states, 1)

    found = states.check(first_of_transaction(), must_verify=True)

    assert found is not None and found.base_offset == 0


def test_a_marker_between_question_and_answer_voids_the_verification() -> None:
    states = ProducerStates(DAY_MS)
    verification = verify(states)
    abort(states, 0)

    with pytest.raises(InvalidTxnState):
        states.check(first_of_transaction(), verification, must_verify=True)
    with pytest.raises(InvalidTxnState):  # nor does the one that was begun after it allow the old one
        verify(states)
        states.check(first_of_transaction(), verification, must_verify=True)


def test_questions_at_a_time_share_a_verification_and_the_lowest_sequence_goes_first() -> None:
    states = ProducerStates(DAY_MS)
    verification = verify(states, 5)
    assert verify(states, 3) is verification

    with pytest.raises(OutOfOrderSequenceNumber):
        states.check(first_of_transaction(5), verification, must_verify=True)
    assert states.check(first_of_transaction(3), verification, must_verify=True) is None


def test_a_newer_epoch_sets_the_lowest_sequence_anew() -> None:
    states = ProducerStates(DAY_MS)
    verify(states, 0)
    verification = verify(states, 4, epoch=1)

    assert states.check(first_of_transaction(4, epoch=1), verification, must_verify=True) is None


def test_in_transactions_v2_an_unknown_producer_begins_with_sequence_0() -> None:
    states = ProducerStates(DAY_MS)
    verification = verify(states, 7, v2=True)

    with pytest.raises(OutOfOrderSequenceNumber):
        states.check(first_of_transaction(7), verification, must_verify=True)
    assert ProducerStates(DAY_MS).check(first_of_transaction(7)) is None  # without a verification


def test_an_old_epoch_is_not_verified() -> None:
    states = states_after(batch(0, epoch=3))

    with pytest.raises(InvalidProducerEpoch):
        states.begin_verification(9, 2, 0, now_ms=NOW_MS, transactions_v2=False)
    with pytest.raises(InvalidProducerEpoch):
        states.check(first_of_transaction(0, epoch=2), must_verify=True)


def test_a_verification_expires_with_the_producer_ids() -> None:
    states = ProducerStates(DAY_MS)
    verification = verify(states)

    states.expire(NOW_MS + DAY_MS)

    with pytest.raises(InvalidTxnState):
        states.check(first_of_transaction(), verification, must_verify=True)


# --- markers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "epoch", "allowed"),
    [(0, 2, False), (0, 3, True), (0, 4, True), (1, 3, True), (2, 2, False), (2, 3, False), (2, 4, True)],
)
def test_the_epoch_of_a_marker_by_the_transactions_version(version: int, epoch: int, allowed: bool) -> None:
    states = states_after(first_of_transaction(epoch=3))

    if allowed:
        states.check_marker(9, epoch, 0, version)
    else:
        with pytest.raises(InvalidProducerEpoch):
            states.check_marker(9, epoch, 0, version)


def test_in_transactions_v2_a_marker_may_be_repeated() -> None:
    states = states_after(first_of_transaction(epoch=3))
    states.check_marker(9, 4, 0, 2)
    abort(states, 1, epoch=4)

    states.check_marker(9, 4, 0, 2)
    with pytest.raises(InvalidProducerEpoch):
        states.check_marker(9, 3, 0, 2)


def test_the_last_epoch_of_all_ends_its_own_transactions() -> None:
    states_after(first_of_transaction(epoch=2**15 - 1)).check_marker(9, 2**15 - 1, 0, 2)


def test_an_older_coordinator_is_fenced() -> None:
    states = states_after(first_of_transaction())
    abort(states, 1, coordinator_epoch=6)

    states.check_marker(9, 0, 6, 1)
    with pytest.raises(TransactionCoordinatorFenced):
        states.check_marker(9, 0, 5, 1)


def test_a_marker_of_an_unknown_producer_is_allowed() -> None:
    ProducerStates(DAY_MS).check_marker(9, 0, 0, 2)


def test_after_a_marker_with_a_newer_epoch_sequences_begin_with_0() -> None:
    states = states_after(first_of_transaction())
    abort(states, 1, epoch=1)

    with pytest.raises(OutOfOrderSequenceNumber):
        states.check(first_of_transaction(1, epoch=1))
    with pytest.raises(InvalidProducerEpoch):
        states.check(first_of_transaction(1))
    assert states.check(first_of_transaction(0, epoch=1)) is None


def test_an_empty_control_batch_changes_nothing() -> None:
    states = states_after(first_of_transaction())

    assert states.update(batch(-1, offset=5, epoch=7, control=True, transactional=True)) is None

    state = states.get(9)
    assert state is not None and (state.epoch, state.current_txn_first_offset) == (0, 0)


def test_a_snapshot_keeps_open_transactions_in_the_order_of_the_log() -> None:
    states = ProducerStates(DAY_MS)
    states.update(batch(0, producer_id=1, offset=0))
    states.update(batch(0, producer_id=2, offset=1, transactional=True))
    states.update(batch(1, producer_id=1, offset=2, transactional=True))
    restored = ProducerStates(DAY_MS)

    restored.load(states.encode(), NOW_MS)

    assert restored.first_unstable_offset == 1
    ended = restored.update(
        batch(-1, producer_id=2, offset=3, control=True, transactional=True), TransactionMarker(False, 0)
    )
    assert ended is not None and ended.last_stable_offset == 2
