"""Reads the records of some names from a partition's log, in the units that are moved as a whole.

A unit is a group (all its records but its offsets), one committed offset, a transactional id, or a share
partition's state. Records are kept as they are in the log: key, value and timestamp. Only a share state is
merged into one snapshot, because its updates share one key and build on each other. An offset that was
committed in a transaction counts from its marker on, at its own place in the log.
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
"""The record types of a group's offsets, see protocol/records/framing.py."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The present state of one unit in a log; a unit without `records` is deleted there."""

    name: str
    records: tuple[NewRecord, ...]
    changed_ms: int
    """The time of its last write or deletion, by the clock of the broker that wrote."""
    is_settled: bool = True
    """False while an open transaction may still change the unit."""
    has_priority: bool = False
    """Whether the unit stays at home even if a stray is newer."""
    coordinator_epoch: int = NO_EPOCH
    """The highest coordinator epoch that transaction markers of the unit's producer may have."""


class _Units(Protocol):
    """The units of one coordinator's records, fed in the log's order."""

    def take(self, name: str, record: Record, header: BatchHeader) -> None:
        """Add a record with a key, and the header of its batch."""

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Add a transaction marker."""

    def units(self) -> dict[Hashable, Unit]:
        """Every unit with a record, by its key."""


class LogUnits:
    """Reads a partition's log, batch after batch, for the records whose keys pass `wanted`."""

    def __init__(self, coordinator: Coordinator, wanted: Callable[[bytes], bool]) -> None:
        self._coordinator = coordinator
        self._wanted = wanted
        self._units = _KINDS[coordinator]()

    def take_batch(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """Add the next batch of the log."""
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
        """The units of the wanted names, by unit key."""
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
    """Producer id -> the offsets that its open transaction would commit."""
    groups: dict[str, dict[bytes, Record]] = field(default_factory=dict)
    """Group -> key -> the key's last record, in the log's order."""

    def take(self, name: str, record: Record, header: BatchHeader) -> None:
        assert record.key is not None
        if int.from_bytes(record.key[:2], "big") not in _OFFSET_KINDS:
            records = self.groups.setdefault(name, {})
            records.pop(record.key, None)  # The new record goes to the end, as in the log.
            records[record.key] = record
            return
        try:
            key = decode_coordinator_key(Coordinator.GROUP, record.key)
        except ProtocolError:
            return  # The loader of the partition skips it too, and logs it.
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
            # Records of two copies would not fit together, and the group's members rejoin by themselves.
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
    """Transactional id -> its last record, and the leader epoch in which it was written."""

    def take(self, name: str, record: Record, header: BatchHeader) -> None:
        self.held[name] = record, header.partition_leader_epoch

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """There are no transactions in this topic."""

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
    """The value of an id's record; None for a tombstone, and for a value that can't be read."""
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
    """Whether the coordinator has yet to end the id's transaction.

    A transaction without a timeout (KIP-939) is ended by its owner alone, which finds it at home.
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

    A snapshot that is written because of its age has no news: its time is that of its contents.
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
            if before.state is not None:  # The highest epoch ever seen fences older writers.
                highest = max(state.leader_epoch, before.state.leader_epoch)
                state = replace(state, leader_epoch=highest)
        self.held[unit] = _HeldState(name, state, changed_ms)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """There are no transactions in this topic."""

    def units(self) -> dict[Hashable, Unit]:
        return {
            unit: Unit(name, () if state is None else _anew(unit, state, changed_ms), changed_ms)
            for unit, (name, state, changed_ms) in self.held.items()
        }


def _anew(unit: SharePartitionKey, state: ShareState, changed_ms: int) -> tuple[NewRecord, ...]:
    """A snapshot preceded by a tombstone, so that the epochs of an older state do not fence writers."""
    written = replace(state, create_timestamp_ms=changed_ms, write_timestamp_ms=changed_ms)
    record = snapshot_record(unit, written)
    assert record.value is not None
    key = encode_coordinator_key(record.key)
    value = encode_coordinator_value(record.value, record.value_version)
    return NewRecord(key, None, changed_ms), NewRecord(key, value, changed_ms)


def _written(records: Iterable[Record]) -> tuple[NewRecord, ...]:
    """The records that are not tombstones, to be appended as they are."""
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
