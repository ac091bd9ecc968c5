"""Reads any file of a data directory into the objects that `ottla log dump` tells, one for each part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ottla.cli.log.range import Range
from ottla.cli.log.shown import Shown, batch_object, record_object
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.internal_records import RecordFormat, format_of
from ottla.storage.inspection import text_files
from ottla.storage.inspection.entry_files import (
    aborted_entries,
    offset_entries,
    producer_entries,
    time_entries,
)
from ottla.storage.inspection.file_kinds import FileKind, KnownFile, known_file, partition_of
from ottla.storage.inspection.problem import DamagedFile, Problem
from ottla.storage.inspection.segment_batches import SegmentFile, StoredBatch

Part = tuple[str, Shown]
"""A word for the kind of a part, and the part."""


_OF_BATCHES: Final = frozenset({FileKind.SEGMENT, FileKind.METADATA_SNAPSHOT})


@dataclass(frozen=True, slots=True)
class Depth:
    """How deep batches are told. record_format: None takes that of the topic in the directory's name."""

    records: bool
    payload: bool
    record_format: RecordFormat | None = None

    def format_in(self, path: Path) -> RecordFormat:
        """The format of the records in a file."""
        if self.record_format is not None:
            return self.record_format
        named = partition_of(path.absolute().parent.name)
        return RecordFormat.BYTES if named is None else format_of(named[0])


def files_below(path: Path, *, batches_only: bool) -> Iterator[KnownFile]:
    """The known files of a directory and of the partitions in it; or the file itself.

    batches_only: of directories only the files that consist of batches.
    Raises OSError, and DamagedFile for a file with another name than Kafka's have.
    """
    path.stat()
    if not path.is_dir():
        known = known_file(path)
        if known is None:
            raise DamagedFile(Problem(path, "the name is not one of a file that Kafka keeps"))
        yield known
        return
    for each in sorted(path.iterdir()):
        if each.is_dir():
            if partition_of(each.name) is not None:
                yield from files_below(each, batches_only=batches_only)
        elif (known := known_file(each)) is not None and (known.kind in _OF_BATCHES or not batches_only):
            yield known


def parts_of(known: KnownFile, wanted: Range, depth: Depth) -> Iterator[Part | Problem]:
    """The parts of a file in the range; a Problem where it is damaged. Raises OSError."""
    try:
        yield from _READERS[known.kind](known, wanted, depth)
    except DamagedFile as damaged:
        yield damaged.problem


def batch_parts(
    position: int | None,
    batch: StoredBatch,
    wanted: Range,
    depth: Depth,
    record_format: RecordFormat,
) -> Iterator[Part | Problem]:
    """A batch of the range and, as deep as is asked for, its records."""
    header = batch.header
    if not depth.records:
        yield "batch", batch_object(position, header, batch.crc_valid)
        wanted.told()
        return
    try:
        records = [record for record in batch.records() if wanted.has(record)]
    except CorruptBatch as problem:
        yield "batch", batch_object(position, header, batch.crc_valid)
        yield Problem(batch.path, str(problem), position, header.base_offset)
        return
    if not records and header.record_count:
        return
    yield "batch", batch_object(position, header, batch.crc_valid)
    for record in records:
        if wanted.limit == 0:
            return
        yield "record", record_object(header, record, record_format, payload=depth.payload)
        wanted.told()


# -- the kinds of files --------------------------------------------------------------------------------------


def _batches(known: KnownFile, wanted: Range, depth: Depth) -> Iterator[Part | Problem]:
    file = SegmentFile(known.path)
    record_format = depth.format_in(known.path)
    if known.kind is FileKind.METADATA_SNAPSHOT:
        record_format = depth.record_format or RecordFormat.METADATA
    start = 0
    if known.kind is FileKind.SEGMENT and wanted.from_offset is not None:
        start = file.position_near(wanted.from_offset, known.base_offset or 0)
    for batch in file.batches(start):
        if isinstance(batch, Problem):
            yield batch
            return
        if wanted.is_over(batch.header):
            return
        if not batch.crc_valid:
            reason = "the batch's CRC does not fit its bytes"
            yield Problem(known.path, reason, batch.position, batch.header.base_offset)
        if wanted.has_begun(batch.header):
            yield from batch_parts(batch.position, batch, wanted, depth, record_format)


def _offset_index(known: KnownFile, wanted: Range, _: Depth) -> Iterator[Part]:
    for entry in offset_entries(known.path, known.base_offset or 0):
        if wanted.limit != 0 and wanted.has_offset(entry.offset):
            yield "entry", {"offset": entry.offset, "position": entry.position}
            wanted.told()


def _time_index(known: KnownFile, wanted: Range, _: Depth) -> Iterator[Part]:
    for entry in time_entries(known.path, known.base_offset or 0):
        late = wanted.from_ms is None or entry.timestamp_ms >= wanted.from_ms
        early = wanted.to_ms is None or entry.timestamp_ms <= wanted.to_ms
        if wanted.limit != 0 and late and early and wanted.has_offset(entry.offset):
            yield "entry", {"timestamp": entry.timestamp_ms, "offset": entry.offset}
            wanted.told()


def _transaction_index(known: KnownFile, wanted: Range, _: Depth) -> Iterator[Part]:
    for entry in aborted_entries(known.path):
        if wanted.has_offset(entry.last_offset):
            yield "aborted", _without_place(entry)


def _producer_snapshot(known: KnownFile, _: Range, __: Depth) -> Iterator[Part]:
    for entry in producer_entries(known.path):
        yield "producer", _without_place(entry)


def _without_place(entry: Any) -> Shown:
    shown: Shown = entry._asdict()
    del shown["at"]
    return shown


def _leader_epochs(known: KnownFile, _: Range, __: Depth) -> Iterator[Part]:
    for epoch, start_offset in text_files.leader_epochs(known.path):
        yield "epoch", {"epoch": epoch, "start_offset": start_offset}


def _offset_checkpoint(known: KnownFile, _: Range, __: Depth) -> Iterator[Part]:
    for (topic, partition), offset in text_files.offset_checkpoint(known.path).items():
        yield "offset", {"topic": topic, "partition": partition, "offset": offset}


def _whole(read: Callable[[Path], Shown]) -> Callable[[KnownFile, Range, Depth], Iterator[Part]]:
    def parts(known: KnownFile, _: Range, __: Depth) -> Iterator[Part]:
        yield "content", read(known.path)

    return parts


_READERS: Final[dict[FileKind, Callable[[KnownFile, Range, Depth], Iterator[Part | Problem]]]] = {
    FileKind.SEGMENT: _batches,
    FileKind.METADATA_SNAPSHOT: _batches,
    FileKind.OFFSET_INDEX: _offset_index,
    FileKind.TIME_INDEX: _time_index,
    FileKind.TRANSACTION_INDEX: _transaction_index,
    FileKind.PRODUCER_SNAPSHOT: _producer_snapshot,
    FileKind.LEADER_EPOCHS: _leader_epochs,
    FileKind.OFFSET_CHECKPOINT: _offset_checkpoint,
    FileKind.PARTITION_METADATA: _whole(text_files.partition_metadata),
    FileKind.META_PROPERTIES: _whole(text_files.meta_properties),
    FileKind.QUORUM_STATE: _whole(text_files.quorum_state),
    FileKind.CLEAN_SHUTDOWN: _whole(text_files.clean_shutdown),
}
