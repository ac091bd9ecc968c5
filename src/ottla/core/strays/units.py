"""Reads the records of some names from a partition's log, in the units that are moved as a whole.

A unit is a group (all its records but its offsets), one committed offset, a transactional id, or a share
partition's state. Records are kept as they are in the log: key, value and timestamp. Only a share state is
merged into one snapshot, because its updates share one key and build on each other. An offset that was
committed in a transaction counts from its marker on, at its own place in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from ottla.core.share.keys import SharePartitionKey
from ottla.core.share.state_records import (
    ShareState,
    snapshot_record,
    state_of_snapshot,
    updated,
)
from ottla.core.strays.naming import name_of, share_partition_of
from ottla.core.transactions.log_records import transaction_of
from ottla.core.transactions.states import ENDED, TransactionState
from ottla.core.transactions.transaction import NO_TIMEOUT_MS
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


class _Units(Protocol):
    """The units of one coordinator's records, fed in the log's order."""

    def take(self, name: str, record: Record, producer_id: int | None) -> None:
        """Add a record with a key; with a `producer_id` it is part of that producer's transaction."""

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
        producer_id = header.producer_id if header.is_transactional else None
        for record in records:
            if record.key is not None and self._wanted(record.key):
                name = name_of(self._coordinator, record.key)
                if name is not None:
                    self._units.take(name, record, producer_id)

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

    def take(self, name: str, record: Record, producer_id: int | None) -> None:
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
        if producer_id is None or record.value is None:
            self.offsets[unit] = _Held(name, record)
            if record.value is None:
                for waiting in self.waiting.values():
                    waiting.pop(unit, None)
        else:
            self.waiting.setdefault(producer_id, {})[unit] = _Held(name, record)

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

    held: dict[str, Record] = field(default_factory=dict)

    def take(self, name: str, record: Record, producer_id: int | None) -> None:
        self.held[name] = record

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """There are no transactions in this topic."""

    def units(self) -> dict[Hashable, Unit]:
        found: dict[Hashable, Unit] = {}
        for name, record in self.held.items():
            is_open = _is_open(record)
            found[name] = Unit(
                name, _written((record,)), record.timestamp, is_settled=not is_open, has_priority=is_open
            )
        return found


def _is_open(record: Record) -> bool:
    """Whether the coordinator has yet to end the id's transaction.

    A transaction without a timeout (KIP-939) is ended by its owner alone, which finds it at home.
    """
    if record.value is None:
        return False
    try:
        value = decode_coordinator_value(Coordinator.TRANSACTION, TransactionLogKey(), record.value)
        assert isinstance(value, TransactionLogValue)
        transaction = transaction_of(value)
    except (ProtocolError, ValueError):
        return False  # Unreadable: it is moved as it is.
    is_owners = transaction.state is TransactionState.ONGOING and transaction.timeout_ms == NO_TIMEOUT_MS
    return transaction.state not in ENDED and not is_owners


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

    def take(self, name: str, record: Record, producer_id: int | None) -> None:
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
