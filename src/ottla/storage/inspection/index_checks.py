"""Checks a segment's indexes against its batches, as the batches go by once from front to end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import NO_LEADER_EPOCH, ControlRecordType, control_record_type
from ottla.storage.inspection.entry_files import AbortedEntry, OffsetEntry, TimeEntry
from ottla.storage.inspection.problem import DamagedFile, Problem
from ottla.storage.inspection.segment_batches import StoredBatch

Entry = TypeVar("Entry", OffsetEntry, TimeEntry)


class BatchCheck(Protocol):
    """Something that the batches of a segment are held against."""

    def see(self, batch: StoredBatch) -> Iterator[Problem]:
        """The problems that this batch shows; batches come in the order of the file."""
        ...

    def end(self, end_position: int) -> Iterator[Problem]:
        """The problems that are left after the last batch; `end_position` is the first byte behind it."""
        ...


class OffsetIndexCheck:
    """Each entry names the first byte of a batch, and the last offset of that batch or of one soon after it.

    Apache Kafka before 4.0 made one entry for several batches that came together: position of the first, last
    offset of the last. A reader finds the same with both.
    """

    def __init__(self, path: Path, entries: Iterator[OffsetEntry]) -> None:
        self._path = path
        self._entries = _Growing(path, entries)
        self._next = next(self._entries, None)
        self._awaited: OffsetEntry | None = None

    def see(self, batch: StoredBatch) -> Iterator[Problem]:
        """As BatchCheck."""
        while self._next is not None and self._next.position < batch.position:
            yield self._problem(
                self._next, f"names byte {self._next.position} of the segment, where no batch begins"
            )
            self._take()
        if self._next is not None and self._next.position == batch.position:
            yield from self._not_found()
            self._awaited = self._next
            self._take()
        awaited = self._awaited
        if awaited is not None and batch.header.last_offset >= awaited.offset:
            if batch.header.last_offset != awaited.offset:
                last = batch.header.last_offset
                yield self._problem(
                    awaited, f"says offset {awaited.offset}, the batch there ends with {last}"
                )
            self._awaited = None

    def end(self, end_position: int) -> Iterator[Problem]:
        """As BatchCheck."""
        yield from self._not_found()
        while self._next is not None:
            yield self._problem(
                self._next,
                f"names byte {self._next.position} of the segment, whose batches end at {end_position}",
            )
            self._take()
        yield from self._entries.problems

    def _take(self) -> None:
        self._next = next(self._entries, None)

    def _not_found(self) -> Iterator[Problem]:
        if self._awaited is not None:
            yield self._problem(
                self._awaited, f"says offset {self._awaited.offset}, with which no batch there ends"
            )
            self._awaited = None

    def _problem(self, entry: OffsetEntry, reason: str) -> Problem:
        return Problem(self._path, f"the entry {reason}", entry.at, entry.offset)


class TimeIndexCheck:
    """Each entry has the largest timestamp of the batch with its offset; no batch before has a larger one."""

    def __init__(self, path: Path, entries: Iterator[TimeEntry]) -> None:
        self._path = path
        self._entries = _Growing(path, entries)
        self._next = next(self._entries, None)
        self._largest_ms = -1

    def see(self, batch: StoredBatch) -> Iterator[Problem]:
        """As BatchCheck."""
        self._largest_ms = max(self._largest_ms, batch.header.max_timestamp)
        while self._next is not None and self._next.offset <= batch.header.last_offset:
            entry = self._next
            if entry.offset < batch.header.base_offset:
                yield self._problem(entry, f"says offset {entry.offset}, which is in no batch")
            elif entry.timestamp_ms != batch.header.max_timestamp:
                yield self._problem(
                    entry,
                    f"says timestamp {entry.timestamp_ms} for offset {entry.offset},"
                    f" the largest of the batch is {batch.header.max_timestamp}",
                )
            elif entry.timestamp_ms < self._largest_ms:
                yield self._problem(
                    entry, f"says timestamp {entry.timestamp_ms}, a batch before has {self._largest_ms}"
                )
            self._next = next(self._entries, None)

    def end(self, end_position: int) -> Iterator[Problem]:
        """As BatchCheck."""
        while self._next is not None:
            yield self._problem(
                self._next, f"says offset {self._next.offset}, which the segment does not have"
            )
            self._next = next(self._entries, None)
        yield from self._entries.problems

    def _problem(self, entry: TimeEntry, reason: str) -> Problem:
        return Problem(self._path, f"the entry {reason}", entry.at, entry.offset)


class TransactionIndexCheck:
    """Each entry has version 0 and a larger offset than the last; its marker, if still there, is an abort."""

    def __init__(self, path: Path, base_offset: int, entries: Iterator[AbortedEntry]) -> None:
        self._path = path
        self._base_offset = base_offset
        self._entries = entries
        self._markers: dict[int, AbortedEntry] | None = None
        self._found: list[Problem] = []
        self._last_offset = -1

    def see(self, batch: StoredBatch) -> Iterator[Problem]:
        """As BatchCheck."""
        self._last_offset = batch.header.last_offset
        entry = self._by_marker().get(batch.header.base_offset)
        if entry is not None and (
            not batch.header.is_control or batch.header.producer_id != entry.producer_id or _commits(batch)
        ):
            reason = f"the entry has producer {entry.producer_id} abort at offset {entry.last_offset}"
            yield Problem(self._path, f"{reason}, the log does not", entry.at, entry.last_offset)

    def alone(self) -> Iterator[Problem]:
        """The problems that the entries show without the segment."""
        self._by_marker()
        yield from self._found

    def end(self, end_position: int) -> Iterator[Problem]:
        """As BatchCheck."""
        for entry in self._by_marker().values():
            if entry.last_offset > self._last_offset:
                reason = f"the entry's marker at offset {entry.last_offset} is not in the segment"
                yield Problem(self._path, reason, entry.at, entry.last_offset)
        yield from self._found

    def _by_marker(self) -> dict[int, AbortedEntry]:
        if self._markers is None:
            self._markers = {}
            previous = self._base_offset - 1
            try:
                for entry in self._entries:
                    if entry.version != 0:
                        self._note(entry, f"has version {entry.version}")
                    elif not 0 <= entry.first_offset <= entry.last_offset or entry.last_offset <= previous:
                        self._note(
                            entry, f"has offsets {entry.first_offset} to {entry.last_offset} after {previous}"
                        )
                    else:
                        previous = entry.last_offset
                        self._markers[entry.last_offset] = entry
            except DamagedFile as damaged:
                self._found.append(damaged.problem)
        return self._markers

    def _note(self, entry: AbortedEntry, reason: str) -> None:
        self._found.append(Problem(self._path, f"the entry {reason}", entry.at, entry.last_offset))


class LeaderEpochCheck:
    """Each batch has the leader epoch that the checkpoint says for its offset, and epochs never fall."""

    def __init__(self, path: Path, entries: Sequence[tuple[int, int]]) -> None:
        self._path = path
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start_offset for _, start_offset in entries]
        self._last_epoch = NO_LEADER_EPOCH

    def see(self, batch: StoredBatch) -> Iterator[Problem]:
        """As BatchCheck."""
        epoch, offset = batch.header.partition_leader_epoch, batch.header.base_offset
        if epoch < self._last_epoch:
            reason = f"the batch has leader epoch {epoch} after {self._last_epoch}"
            yield Problem(batch.path, reason, batch.position, offset)
        self._last_epoch = epoch
        slot = bisect_right(self._starts, offset) - 1
        if epoch >= 0 and slot >= 0 and self._epochs[slot] != epoch:
            reason = f"the batch has leader epoch {epoch}, {self._path.name} says {self._epochs[slot]}"
            yield Problem(batch.path, reason, batch.position, offset)

    def end(self, end_position: int) -> Iterator[Problem]:
        """As BatchCheck."""
        return iter(())


def order_problems(path: Path, entries: Iterator[Entry]) -> Iterator[Problem]:
    """The entries of an offset or time index that do not follow the one before them, without a segment."""
    growing = _Growing(path, entries)
    for _ in growing:
        pass
    yield from growing.problems


class _Growing(Generic[Entry]):
    """The entries of an index that grow in both fields; the others are noted as problems and left out."""

    def __init__(self, path: Path, entries: Iterator[Entry]) -> None:
        self._path = path
        self._entries: Iterator[Entry] = entries
        self._last: Entry | None = None
        self.problems: list[Problem] = []

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        while True:
            try:
                entry = next(self._entries)
            except DamagedFile as damaged:
                self.problems.append(damaged.problem)
                raise StopIteration from None
            last = self._last
            if last is None or (entry[1] > last[1] and entry[2] > last[2]):
                self._last = entry
                return entry
            reason = f"the entry {entry[1:]} follows {last[1:]}"
            self.problems.append(Problem(self._path, reason, entry.at, entry.offset))


def _commits(batch: StoredBatch) -> bool:
    try:
        records = batch.records()
        return bool(records) and control_record_type(records[0]) is ControlRecordType.COMMIT
    except CorruptBatch:
        return False
