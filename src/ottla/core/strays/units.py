"""What a partition's log says of some names, in the units in which they move: all of a unit, or nothing.

A unit is a group (all records of it but its offsets), one committed offset, a transactional id, or a share
partition's state. Records are kept as they are in the log, key and value and timestamp; only a share state is
put together to one snapshot, because its updates have one key and count one after the other. An offset that
was committed in a transaction counts from its marker on, at its place in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from ottla.core.share.keys import SharePartitionKey
from ottla.core.share.state_records import (
    ShareState,
    snapshot_record,
    state_of_snapshot,
    updated,
)
from ottla.core.strays.naming import name_of, share_partition_of
from ottla.core.transactions.log_records import (
    FLEXIBLE_VERSION,
    coordinator_epoch_lead,
    set_coordinator_epoch_lead,
    transaction_of,
)
from ottla.core.transactions.states import ENDED, TransactionState
from ottla.core.transactions.transaction import NO_TIMEOUT_MS, Transaction
from ottla.protocol.errors import ProtocolError
from ottla.protocol.record_batch import (
    BatchHeader,
    ControlRecordType,
    NewRecord,
    Record,
    control_record_type,
)
from ottla.protocol.records.framing import (
    Coordinator,
    decode_coordinator_key,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)
from ottla.protocol.records.legacy_offset_commit_key import LegacyOffsetCommitKey
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.share_snapshot_value import ShareSnapshotValue
from ottla.protocol.records.share_update_value import ShareUpdateValue
from ottla.protocol.records.transaction_log_key import TransactionLogKey
from ottla.protocol.records.transaction_log_value import TransactionLogValue

NO_EPOCH: Final = -1
_OFFSET_KINDS = (0, 1)
"""The record types of a group's offsets, see framing.py."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a log holds of one unit now; without `records` it is deleted there."""

    name: str
    records: tuple[NewRecord, ...]
    changed_ms: int
    """When it was written last, or deleted, by the clock of the broker that did."""
    is_settled: bool = True
    """False while a transaction may still change it."""
    has_priority: bool = False
    """Whether it stays what it is, however new another one is."""
    coordinator_epoch: int = NO_EPOCH
    """The highest one that transaction markers of its producer may have."""


class _Units(Protocol):
    """The units of one coordinator's records, fed in the log's order."""

    def take(self, name: str, record: Record, header: BatchHeader) -> None:
        """One record with a key, and its batch's header."""

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """A transaction marker."""

    def units(self) -> dict[Hashable, Unit]:
        """Everything that was ever mentioned."""


class LogUnits:
    """Reads a partition's log, batch after batch, for the records whose keys `wanted` says yes to."""

    def __init__(self, coordinator: Coordinator, wanted: Callable[[bytes], bool]) -> None:
        self._coordinator = coordinator
        self._wanted = wanted
        self._units = _KINDS[coordinator]()

    def take_batch(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """The next batch of the log."""
        if header.is_control:
            kind = control_record_type(records[0]) if records else None
            if kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
                self._units.end_transaction(header.producer_id, kind is ControlRecordType.COMMIT)
            return
        for record in records:
            if record.key is not None and self._wanted(record.key):
                name = name_of(self._coordinator, record.key)
                if name is not None:
                    self._units.take(name, record, header)

    def units(self) -> dict[Hashable, Unit]:
        """What the log says of these names, by the unit's key."""
        return self._units.units()


class _Held(NamedTuple):
    """The last record of a key."""

    name: str
    record: Record


@dataclass(slots=True)
class _GroupUnits:
    """Groups and their offsets."""

    offsets: dict[Hashable, _Held] = field(default_factory=dict)
    waiting: dict[int, dict[Hashable, _Held]] = field(default_factory=dict)
    """Producer id -> what its open transaction would commit."""
    groups: dict[str, dict[bytes, Record]] = field(default_factory=dict)
    """Group -> key -> its last record, in the log's order."""

    def take(self, name: str, record: Record, header: BatchHeader) -> None:
        assert record.key is not None
        if int.from_bytes(record.key[:2], "big") not in _OFFSET_KINDS:
            records = self.groups.setdefault(name, {})
            records.pop(record.key, None)  # The last record stands where it is in the log.
            records[record.key] = record
            return
        try:
            key = decode_coordinator_key(Coordinator.GROUP, record.key)
        except ProtocolError:
            return  # Who loads the partition passes over it as well, with a line.
        assert isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey)
        unit = (key.group, key.topic, key.partition)
        if not header.is_transactional or record.value is None:
            self.offsets[unit] = _Held(name, record)
            if record.value is None:
                for waiting in self.waiting.values():
                    waiting.pop(unit, None)
        else:
            self.waiting.setdefault(header.producer_id, {})[unit] = _Held(name, record)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        for unit, held in self.waiting.pop(producer_id, {}).items():
            before = self.offsets.get(unit)
            if committed and (before is None or before.record.offset < held.record.offset):
                self.offsets[unit] = held

    def units(self) -> dict[Hashable, Unit]:
        found: dict[Hashable, Unit] = {}
        for name, records in self.groups.items():
            live = _written(records.values())
            changed_ms = max(record.timestamp for record in records.values())
            # Two halves of a group would not fit together, and its members come back by themselves.
            found[name] = Unit(name, live, changed_ms, has_priority=bool(live))
        for unit, (name, record) in self.offsets.items():
            found[unit] = Unit(name, _written((record,)), record.timestamp)
        for waiting in self.waiting.values():
            for unit, (name, record) in waiting.items():
                before = found.get(unit, Unit(name, (), record.timestamp))
                found[unit] = replace(
                    before, changed_ms=max(before.changed_ms, record.timestamp), is_settled=False
                )
        return found


@dataclass(slots=True)
class _TransactionUnits:
    """Transactional ids."""

    held: dict[str, tuple[Record, int]] = field(default_factory=dict)
    """Its last record, and the leader epoch that this was written in."""

    def take(self, name: str, record: Record, header: BatchHeader) -> None:
        self.held[name] = record, header.partition_leader_epoch

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Nobody writes transactions into this topic."""

    def units(self) -> dict[Hashable, Unit]:
        found: dict[Hashable, Unit] = {}
        for name, (record, leader_epoch) in self.held.items():
            unit = Unit(name, _written((record,)), record.timestamp)
            value = _transaction_value(record.value)
            if value is not None:
                is_open = _is_open(transaction_of(value))
                unit = replace(
                    unit,
                    is_settled=not is_open,
                    has_priority=is_open,
                    # All markers before the record were of its writer's leader epoch or an earlier one.
                    coordinator_epoch=leader_epoch + coordinator_epoch_lead(value),
                )
            found[name] = unit
        return found


def _transaction_value(data: bytes | None) -> TransactionLogValue | None:
    """What a record says of an id; None for a tombstone, and for one that can't be read."""
    if data is None:
        return None
    try:
        value = decode_coordinator_value(Coordinator.TRANSACTION, TransactionLogKey(), data)
        assert isinstance(value, TransactionLogValue)
        transaction_of(value)
    except (ProtocolError, ValueError):
        return None
    return value


def _is_open(transaction: Transaction) -> bool:
    """Whether the id's transaction is still to be ended by whoever holds it.

    One without a timeout (KIP-939) is ended by its owner alone, who finds it where it belongs.
    """
    is_owners = transaction.state is TransactionState.ONGOING and transaction.timeout_ms == NO_TIMEOUT_MS
    return transaction.state not in ENDED and not is_owners


def at_home(unit: Unit, leader_epoch: int) -> Unit:
    """The unit as it is written where the leader epoch is `leader_epoch`.

    Partitions refuse a marker of a lower coordinator epoch than the last one of the producer, and that is the
    leader epoch of the partition that holds the id. So an id that comes from a higher one keeps its lead.
    """
    if unit.coordinator_epoch <= leader_epoch:
        return unit
    (record,) = unit.records
    value = _transaction_value(record.value)
    assert value is not None, "its epoch was read from it"
    set_coordinator_epoch_lead(value, unit.coordinator_epoch - leader_epoch)
    encoded = encode_coordinator_value(value, FLEXIBLE_VERSION)
    return replace(unit, records=(replace(record, value=encoded),))


class _HeldState(NamedTuple):
    name: str
    state: ShareState | None
    changed_ms: int


@dataclass(slots=True)
class _ShareUnits:
    """The states of share partitions.

    A snapshot that is written for its age alone says nothing new: what counts is when its contents were
    decided.
    """

    held: dict[SharePartitionKey, _HeldState] = field(default_factory=dict)

    def take(self, name: str, record: Record, header: BatchHeader) -> None:
        assert record.key is not None
        unit = share_partition_of(record.key)
        assert unit is not None, "it has a name"
        if record.value is None:
            self.held[unit] = _HeldState(name, None, record.timestamp)
            return
        try:
            key = decode_coordinator_key(Coordinator.SHARE, record.key)
            value = decode_coordinator_value(Coordinator.SHARE, key, record.value)
        except ProtocolError:
            return
        before = self.held.get(unit)
        if isinstance(value, ShareSnapshotValue):
            state, changed_ms = state_of_snapshot(value), value.create_timestamp or record.timestamp
        else:
            assert isinstance(value, ShareUpdateValue)
            state, changed_ms = updated(before.state if before else None, value), record.timestamp
        if before is not None:
            changed_ms = max(changed_ms, before.changed_ms)
            if before.state is not None:  # The highest epoch ever seen keeps writers of the past out.
                highest = max(state.leader_epoch, before.state.leader_epoch)
                state = replace(state, leader_epoch=highest)
        self.held[unit] = _HeldState(name, state, changed_ms)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Nobody writes transactions into this topic."""

    def units(self) -> dict[Hashable, Unit]:
        return {
            unit: Unit(name, () if state is None else _anew(unit, state, changed_ms), changed_ms)
            for unit, (name, state, changed_ms) in self.held.items()
        }


def _anew(unit: SharePartitionKey, state: ShareState, changed_ms: int) -> tuple[NewRecord, ...]:
    """A snapshot that stands for itself: the epochs of a state that it replaces must not fence writers."""
    written = replace(state, create_timestamp_ms=changed_ms, write_timestamp_ms=changed_ms)
    record = snapshot_record(unit, written)
    assert record.value is not None
    key = encode_coordinator_key(record.key)
    value = encode_coordinator_value(record.value, record.value_version)
    return NewRecord(key, None, changed_ms), NewRecord(key, value, changed_ms)


def _written(records: Iterable[Record]) -> tuple[NewRecord, ...]:
    """The records that are no tombstones, to be written as they are."""
    return tuple(
        NewRecord(record.key, record.value, record.timestamp)
        for record in records
        if record.value is not None
    )


_KINDS: dict[Coordinator, Callable[[], _Units]] = {
    Coordinator.GROUP: _GroupUnits,
    Coordinator.TRANSACTION: _TransactionUnits,
    Coordinator.SHARE: _ShareUnits,
}
