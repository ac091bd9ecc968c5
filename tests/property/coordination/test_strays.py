"""The move of strays to their home, over any two logs and any kills: no record is lost, newer ones stay."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups import coordinator_records
from ottla.core.groups.coordinator_records import CommittedOffset
from ottla.core.share.keys import SharePartitionKey
from ottla.core.share.state_records import ShareState, snapshot_record, tombstone_record, update_record
from ottla.core.strays.homing import decide, unsettled
from ottla.core.strays.naming import name_of
from ottla.core.strays.units import LogUnits
from ottla.core.transactions import log_records
from ottla.core.transactions import transaction as transitions
from ottla.core.transactions.states import TransactionState
from ottla.core.transactions.transaction import MAX_CLIENT_EPOCH, NO_TIMEOUT_MS, Transaction
from ottla.protocol.record_batch import (
    NewRecord,
    decode_records,
    encode_batch,
    encode_end_transaction_marker,
    parse_batch_header,
)
from ottla.protocol.records.framing import (
    Coordinator,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)
from ottla.protocol.records.group_metadata_key import GroupMetadataKey
from ottla.protocol.records.group_metadata_value import GroupMetadataValue
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.transaction_log_key import TransactionLogKey
from ottla.protocol.records.transaction_log_value import TransactionLogValue

GROUPS = ("billing", "orders")
TOPIC_ID = uuid.UUID(int=7)
SHARE = SharePartitionKey("g", TOPIC_ID, 0)


def new(record: CoordinatorRecord, timestamp: int) -> NewRecord:
    value = record.value
    return NewRecord(
        encode_coordinator_key(record.key),
        None if value is None else encode_coordinator_value(value, record.value_version),
        timestamp,
    )


def committed(group: str, partition: int, offset: int, at: int) -> NewRecord:
    return new(
        coordinator_records.offset_commit(group, "t", partition, CommittedOffset(offset, -1, "", at)), at
    )


def forgotten(group: str, partition: int, at: int) -> NewRecord:
    return new(CoordinatorRecord(OffsetCommitKey(group=group, topic="t", partition=partition)), at)


def of_group(group: str, generation: int, at: int) -> NewRecord:
    value = GroupMetadataValue(protocol_type="consumer", generation=generation)
    return new(CoordinatorRecord(GroupMetadataKey(group=group), value, 3), at)


@dataclass
class Log:
    """A partition's batches. `leader_epoch` is that of the next one."""

    batches: list[bytes] = field(default_factory=list)
    end: int = 0
    leader_epoch: int = 0

    def append(self, *records: NewRecord, producer_id: int = -1) -> None:
        producer = {"producer_id": producer_id, "producer_epoch": 0, "transactional": True}
        self.batches.append(
            encode_batch(
                records,
                base_offset=self.end,
                leader_epoch=self.leader_epoch,
                **(producer if producer_id >= 0 else {}),  # type: ignore[arg-type]
            )
        )
        self.end += len(records)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        marker = bytearray(
            encode_end_transaction_marker(
                committed=committed,
                coordinator_epoch=0,
                producer_id=producer_id,
                producer_epoch=0,
                timestamp=0,
            )
        )
        marker[:8] = self.end.to_bytes(8, "big")
        self.batches.append(bytes(marker))
        self.end += 1

    def units(self, coordinator: Coordinator = Coordinator.GROUP) -> LogUnits:
        found = LogUnits(coordinator, lambda key: True)
        for batch in self.batches:
            found.take_batch(parse_batch_header(batch), decode_records(batch))
        return found

    def values(self, coordinator: Coordinator = Coordinator.GROUP) -> dict[object, tuple[NewRecord, ...]]:
        return {key: unit.records for key, unit in self.units(coordinator).units().items() if unit.records}


def bring_home(away: Log, home: Log, kill_at: int, coordinator: Coordinator = Coordinator.GROUP) -> bool:
    """The shell's steps in its order; False if killed before step `kill_at`."""
    homing = decide(away.units(coordinator).units(), home.units(coordinator).units(), home.leader_epoch)
    for step, unit in enumerate(homing.copies):
        if step == kill_at:
            return False
        home.append(*unit.records)
    for step, key in enumerate(homing.tombstones, len(homing.copies)):
        if step == kill_at:
            return False
        away.append(NewRecord(key, None, 10_000))
    return True


change = st.tuples(
    st.sampled_from(GROUPS),
    st.integers(0, 1),
    st.integers(0, 99),
    st.integers(0, 30),
    st.sampled_from("cccdg"),
)
changes = st.lists(change, max_size=12)


def written(drawn: list[tuple[str, int, int, int, str]]) -> Log:
    log = Log()
    for group, partition, number, at, kind in drawn:
        match kind:
            case "c":
                log.append(committed(group, partition, number, at))
            case "d":
                log.append(forgotten(group, partition, at))
            case _:
                log.append(of_group(group, number, at))
    return log


def by_time(drawn: list[tuple[str, int, int, int, str]]) -> list[tuple[str, int, int, int, str]]:
    return sorted(drawn, key=lambda each: each[3])


@given(changes.map(by_time), changes.map(by_time), changes, st.lists(st.integers(0, 8), max_size=4))
def test_every_offset_is_the_newest_of_both(
    stray: list[tuple[str, int, int, int, str]],
    own: list[tuple[str, int, int, int, str]],
    since: list[tuple[str, int, int, int, str]],
    kills: list[int],
) -> None:
    away, home = written(stray), written(own)
    before_away, before_home = away.units().units(), home.units().units()
    # when: it is killed at any steps, and repeated
    for kill in kills:
        bring_home(away, home, kill)
    assert bring_home(away, home, -1)
    # then: no stray is left
    assert away.values() == {}
    after = home.units().units()
    for key in {*before_away, *before_home}:
        there, here = before_home.get(key), before_away.get(key)
        if here is None or not here.records:
            expected = there
        elif there is None or (not there.has_priority and there.changed_ms < here.changed_ms):
            expected = here
        else:
            expected = there
        assert (after[key].records if key in after else ()) == (expected.records if expected else ())
    # and: records written at home afterwards are kept
    for group, partition, number, at, _ in since:
        home.append(committed(group, partition, number, 100 + at))
    values = home.values()
    bring_home(away, home, -1)
    assert home.values() == values


def test_an_offset_of_a_transaction_moves_when_it_counts() -> None:
    # given: offsets of two transactions, one of them older than a plain commit that follows
    away, home = Log(), Log()
    away.append(committed("g", 0, 5, 1), producer_id=1)
    away.append(committed("g", 1, 6, 1), producer_id=1)
    away.append(committed("g", 1, 7, 2))
    away.append(committed("g", 2, 8, 3), producer_id=2)
    assert unsettled(away.units().units()) == {"g"}
    # when
    away.end_transaction(1, committed=True)
    assert unsettled(away.units().units()) == {"g"}
    away.end_transaction(2, committed=False)
    # then
    assert unsettled(away.units().units()) == set()
    bring_home(away, home, -1)
    expected = {("g", "t", 0): (committed("g", 0, 5, 1),), ("g", "t", 1): (committed("g", 1, 7, 2),)}
    assert home.values() == expected


def test_an_offset_in_an_open_transaction_at_home_is_newer() -> None:
    away, home = Log(), Log()
    away.append(committed("g", 0, 5, 1))
    home.append(committed("g", 0, 9, 2), producer_id=1)
    bring_home(away, home, -1)
    home.end_transaction(1, committed=True)
    assert home.values() == {("g", "t", 0): (committed("g", 0, 9, 2),)}


def test_a_group_is_moved_as_a_whole_or_not_at_all() -> None:
    away, home = Log(), Log()
    away.append(of_group("g", 4, 9), committed("g", 0, 5, 9))
    home.append(of_group("g", 2, 1))
    bring_home(away, home, -1)
    assert home.values() == {"g": (of_group("g", 2, 1),), ("g", "t", 0): (committed("g", 0, 5, 9),)}


# -- transactional ids --------------------------------------------------------------------------------


def transaction(state: TransactionState, epoch: int, at: int, timeout_ms: int = 60_000) -> NewRecord:
    held = Transaction(7, epoch, timeout_ms, state, frozenset({("t", 0)}), start_ms=at, last_update_ms=at)
    return new(log_records.transaction_record("id", held, 2), at)


@pytest.mark.parametrize(
    "state",
    [TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT],
)
def test_an_open_transaction_is_waited_for(state: TransactionState) -> None:
    away = Log()
    away.append(transaction(state, 3, 1))
    assert unsettled(away.units(Coordinator.TRANSACTION).units()) == {"id"}
    away.append(transaction(TransactionState.COMPLETE_ABORT, 4, 2))
    assert unsettled(away.units(Coordinator.TRANSACTION).units()) == set()


def test_one_without_a_timeout_moves_open_for_its_owner_to_end() -> None:
    away, home = Log(), Log()
    away.append(transaction(TransactionState.ONGOING, 3, 1, NO_TIMEOUT_MS))
    assert unsettled(away.units(Coordinator.TRANSACTION).units()) == set()
    bring_home(away, home, -1, Coordinator.TRANSACTION)
    assert home.values(Coordinator.TRANSACTION) == {
        "id": (transaction(TransactionState.ONGOING, 3, 1, NO_TIMEOUT_MS),)
    }


def test_an_open_transaction_at_home_is_not_replaced() -> None:
    away, home = Log(), Log()
    away.append(transaction(TransactionState.COMPLETE_COMMIT, 9, 5))
    home.append(transaction(TransactionState.ONGOING, 3, 1))
    bring_home(away, home, -1, Coordinator.TRANSACTION)
    assert home.values(Coordinator.TRANSACTION) == {"id": (transaction(TransactionState.ONGOING, 3, 1),)}


def held_at(log: Log) -> Transaction:
    """What a log says of the id, read as a shard reads it."""
    (record,) = log.values(Coordinator.TRANSACTION)["id"]
    value = decode_coordinator_value(Coordinator.TRANSACTION, TransactionLogKey(), record.value or b"")
    assert isinstance(value, TransactionLogValue)
    return log_records.transaction_of(value)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=4).map(sorted),
    st.integers(0, 9),
    st.lists(st.integers(0, 3), max_size=3),
    st.integers(0, 2),
)
def test_the_markers_of_an_id_that_moved_have_no_lower_coordinator_epoch_than_before(
    epochs_away: list[int], epoch_at_home: int, later: list[int], version: int
) -> None:
    # given: the producer's markers had the leader epoch of each of its records, the last one's at most
    away, home = Log(), Log(leader_epoch=epoch_at_home)
    for at, epoch in enumerate(epochs_away):
        away.leader_epoch = epoch
        held = Transaction(7, 3, 60_000, TransactionState.COMPLETE_COMMIT, last_update_ms=at)
        away.append(new(log_records.transaction_record("id", held, version), at))
    before = held_at(away)
    # when
    bring_home(away, home, -1, Coordinator.TRANSACTION)
    # then: so have its markers at home, and nothing else has changed
    moved = held_at(home)
    lead = moved.coordinator_epoch_lead
    assert epoch_at_home + lead == max(epoch_at_home, epochs_away[-1])
    assert replace(moved, coordinator_epoch_lead=0) == before
    # and: a later leader of home is ahead of the one before, and a further move keeps it so
    last, holder = epoch_at_home + lead, home
    for number, step in enumerate(later, 100):
        holder.leader_epoch += step
        holder.append(new(log_records.transaction_record("id", held_at(holder), version), number))
        elsewhere = Log(leader_epoch=number % 7)
        bring_home(holder, elsewhere, -1, Coordinator.TRANSACTION)
        assert elsewhere.leader_epoch + held_at(elsewhere).coordinator_epoch_lead >= last + step
        last, holder = elsewhere.leader_epoch + held_at(elsewhere).coordinator_epoch_lead, elsewhere


def test_a_new_producer_id_has_no_markers_to_stay_ahead_of() -> None:
    held = Transaction(7, MAX_CLIENT_EPOCH, 60_000, TransactionState.EMPTY, coordinator_epoch_lead=4)
    assert transitions.next_id(held, 8, 1, 1, keeps_last_epoch=True).coordinator_epoch_lead == 0
    ongoing = transitions.with_partitions(held, {("t", 0)}, 1, 2)
    ending = transitions.prepared(ongoing, committed=True, client_version=2, next_producer_id=8, now_ms=2)
    assert (ongoing.coordinator_epoch_lead, ending.coordinator_epoch_lead) == (4, 4)
    assert transitions.completed(ending, 3).coordinator_epoch_lead == 0
    kept = transitions.prepared(ongoing, committed=True, client_version=2, next_producer_id=-1, now_ms=2)
    assert transitions.completed(kept, 3).coordinator_epoch_lead == 4


# -- share states -------------------------------------------------------------------------------------


def state(start_offset: int, at: int, epoch: int = 1, written_at: int | None = None) -> ShareState:
    return ShareState(0, epoch, 0, start_offset, 0, (), at, at if written_at is None else written_at)


def test_updates_are_put_together() -> None:
    away, home = Log(), Log()
    away.append(new(snapshot_record(SHARE, state(3, 1)), 1))
    away.append(new(update_record(SHARE, state(8, 2)), 2), new(update_record(SHARE, state(9, 3)), 3))
    bring_home(away, home, -1, Coordinator.SHARE)
    expected = new(snapshot_record(SHARE, state(9, 3)), 3)
    assert home.values(Coordinator.SHARE)[SHARE][-1] == expected
    assert away.values(Coordinator.SHARE) == {}


def test_a_snapshot_for_its_age_alone_is_not_newer() -> None:
    away, home = Log(), Log()
    away.append(new(snapshot_record(SHARE, state(3, 1, written_at=50)), 50))
    home.append(new(snapshot_record(SHARE, state(8, 2)), 2))
    bring_home(away, home, -1, Coordinator.SHARE)
    assert home.values(Coordinator.SHARE)[SHARE][-1] == new(snapshot_record(SHARE, state(8, 2)), 2)


def test_a_newer_state_of_a_lower_epoch_replaces_the_old_one() -> None:
    away, home = Log(), Log()
    away.append(new(snapshot_record(SHARE, state(8, 5, epoch=1)), 5))
    home.append(new(snapshot_record(SHARE, state(3, 1, epoch=6)), 1))
    bring_home(away, home, -1, Coordinator.SHARE)
    # then: a tombstone precedes it, so that the higher epoch fences no writer
    assert home.values(Coordinator.SHARE)[SHARE] == (
        new(tombstone_record(SHARE), 5),
        new(snapshot_record(SHARE, state(8, 5, epoch=1)), 5),
    )


def test_keys_give_the_name_that_decides_on_their_partition() -> None:
    assert name_of(Coordinator.GROUP, committed("größe 😀", 0, 1, 1).key or b"") == "größe 😀"
    assert name_of(Coordinator.GROUP, of_group("g", 0, 1).key or b"") == "g"
    assert name_of(Coordinator.TRANSACTION, transaction(TransactionState.EMPTY, 0, 1).key or b"") == "id"
    assert name_of(Coordinator.SHARE, new(tombstone_record(SHARE), 1).key or b"") == SHARE.coordinator_key
    # damaged keys and those of later versions have no name
    for key in (b"", b"\0", b"\0\2\0", b"\0\2\0\5ab", b"\x7f\x7f\0\1a", b"\0\2\0\1\xff"):
        assert name_of(Coordinator.GROUP, key) is None
    assert name_of(Coordinator.SHARE, b"\0\0\0\1") is None
