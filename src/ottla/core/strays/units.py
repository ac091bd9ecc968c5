"""What a partition's log says of some names, in the units in which they move: all of a unit, or nothing.

A unit is a group (all records of it but its offsets), one committed offset, a transactional id, or a share
partition's state. Records are kept as they are in the log, key and value and timestamp; only a share state is
put together to one snapshot, because its updates have one key and count one after the other. An offset that
was committed in a transaction counts from its marker on, at its place in the log.
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


class _Units(Protocol):
    """The units of one coordinator's records, fed in the log's order."""

    def take(self, name: str, record: Record, producer_id: int | None) -> None:
        """One record with a key; with a `producer_id` it is part of that producer's transaction."""

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
        producer_id = header.producer_id if header.is_transactional else None
        for record in records:
            if record.key is not None and self._wanted(record.key):
                name = name_of(self._coordinator, record.key)
                if name is not None:
                    self._units.take(name, record, producer_id)

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

    def take(self, name: str, record: Record, producer_id: int | None) -> None:
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

    held: dict[str, Record] = field(default_factory=dict)

    def take(self, name: str, record: Record, producer_id: int | None) -> None:
        self.held[name] = record

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Nobody writes transactions into this topic."""

    def units(self) -> dict[Hashable, Unit]:
        found: dict[Hashable, Unit] = {}
        for name, record in self.held.items():
            is_open = _is_open(record)
            found[name] = Unit(
                name, _written((record,)), record.timestamp, is_settled=not is_open, has_priority=is_open
            )
        return found


def _is_open(record: Record) -> bool:
    """Whether the id's transaction is still to be ended by whoever holds it.

    One without a timeout (KIP-939) is ended by its owner alone, who finds it where it belongs.
    """
    if record.value is None:
        return False
    try:
        value = decode_coordinator_value(Coordinator.TRANSACTION, TransactionLogKey(), record.value)
        assert isinstance(value, TransactionLogValue)
        transaction = transaction_of(value)
    except (ProtocolError, ValueError):
        return False  # Not to be read: it moves as it is.
    is_owners = transaction.state is TransactionState.ONGOING and transaction.timeout_ms == NO_TIMEOUT_MS
    return transaction.state not in ENDED and not is_owners


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
