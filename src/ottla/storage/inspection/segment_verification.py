"""Checks one segment with the files beside it, or one metadata snapshot: batches, records, indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.protocol.compression import UnfoldsTooFar
from ottla.protocol.errors import CorruptBatch, MalformedMessage, ProtocolError
from ottla.protocol.internal_records import RecordFormat, decode_control, decode_internal
from ottla.protocol.record_batch import ControlRecordType, Record, record_frames, records_payload
from ottla.storage.inspection import text_files
from ottla.storage.inspection.entry_files import aborted_entries, offset_entries, time_entries
from ottla.storage.inspection.file_kinds import FileKind, KnownFile
from ottla.storage.inspection.index_checks import (
    BatchCheck,
    LeaderEpochCheck,
    OffsetIndexCheck,
    TimeIndexCheck,
    TransactionIndexCheck,
)
from ottla.storage.inspection.problem import DamagedFile, Problem
from ottla.storage.inspection.segment_batches import MAX_BATCH_BYTES, SegmentFile, StoredBatch

SIDE_SUFFIXES: Final = (".index", ".timeindex", ".txnindex")
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
_SEEN_EVERY_BYTES: Final = 1024 * 1024


@dataclass(slots=True)
class Checked:
    """The extent of a check."""

    files: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0

    def add(self, other: Checked) -> None:
        """Count another check as well."""
        self.files += other.files
        self.batches += other.batches
        self.records += other.records
        self.size_bytes += other.size_bytes


@dataclass(frozen=True, slots=True)
class SegmentVerification:
    """How segments are checked. deep: decode their records. gaps: tell missing offsets between batches.

    seen: told the bytes that were checked since.
    """

    deep: bool
    gaps: bool
    seen: Callable[[int], None]

    def segment(
        self, segment: KnownFile, record_format: RecordFormat, checked: Checked, ends: list[int]
    ) -> Iterator[Problem]:
        """The problems of a segment and of the files beside it. `ends` gets the offset after its last batch.

        Raises OSError.
        """
        base_offset = segment.base_offset or 0
        checks: list[BatchCheck] = []
        for build in (_offset_index, _time_index, _transaction_index, _leader_epochs):
            try:
                checks.append(build(segment.path, base_offset))
                # the leader epochs are one file of all segments, and counted as such
                checked.files += build is not _leader_epochs
            except FileNotFoundError:
                continue
            except DamagedFile as damaged:
                yield damaged.problem
        yield from self.batches(segment.path, base_offset, record_format, checks, checked, ends)

    def snapshot(self, snapshot: KnownFile, checked: Checked) -> Iterator[Problem]:
        """The problems of a metadata snapshot: its batches, its header and its footer. Raises OSError."""
        kinds: list[str | None] = []
        yield from self.batches(snapshot.path, 0, RecordFormat.METADATA, [_Controls(kinds)], checked, [])
        if snapshot.path.name.startswith("bootstrap."):
            return
        if not kinds or kinds[0] != ControlRecordType.SNAPSHOT_HEADER.name:
            yield Problem(snapshot.path, "the snapshot does not begin with its header", 0)
        elif kinds[-1] != ControlRecordType.SNAPSHOT_FOOTER.name:
            reason = "the snapshot does not end with its footer: it was not written to its end"
            yield Problem(snapshot.path, reason, snapshot.path.stat().st_size)

    def batches(
        self,
        path: Path,
        base_offset: int,
        record_format: RecordFormat,
        checks: Sequence[BatchCheck],
        checked: Checked,
        ends: list[int],
    ) -> Iterator[Problem]:
        """The problems of a file of batches, and those that `checks` see in them. Raises OSError."""
        file = SegmentFile(path)
        checked.files += 1
        next_offset, end_position, told = base_offset, 0, 0
        for batch in file.batches():
            if isinstance(batch, Problem):
                yield batch
                break
            header = batch.header
            if header.base_offset < next_offset:
                reason = f"the batch begins at offset {header.base_offset}, below {next_offset}"
                yield Problem(path, reason, batch.position, header.base_offset)
            elif self.gaps and header.base_offset > next_offset:
                reason = f"the offsets {next_offset} to {header.base_offset - 1} are missing"
                yield Problem(path, reason, batch.position, next_offset)
            next_offset = max(next_offset, header.next_offset)
            end_position = batch.position + header.size_bytes
            yield from self._batch(batch, record_format)
            checked.batches += 1
            checked.records += header.record_count
            for check in checks:
                yield from check.see(batch)
            if end_position - told >= _SEEN_EVERY_BYTES:
                self.seen(end_position - told)
                told = end_position
        self.seen(file.size_bytes - told)
        checked.size_bytes += file.size_bytes
        ends[:] = [next_offset]
        for check in checks:
            yield from check.end(end_position)

    def _batch(self, batch: StoredBatch, record_format: RecordFormat) -> Iterator[Problem]:
        header, data = batch.header, batch.data
        if not batch.crc_valid:
            yield Problem(
                batch.path, "the batch's CRC does not fit its bytes", batch.position, header.base_offset
            )
        elif self.deep and data is not None:
            try:
                if header.is_control or record_format is not RecordFormat.BYTES:
                    for record in batch.records():
                        yield from _typed(batch, record, record_format)
                else:
                    payload = records_payload(data, 0, header, max_bytes=MAX_BATCH_BYTES)
                    for _ in record_frames(payload, header):
                        pass
            except UnfoldsTooFar:
                return  # more than is decompressed in one go; its CRC is right
            except ProtocolError as problem:
                yield Problem(batch.path, str(problem), batch.position, header.base_offset)


class _Controls:
    """Notes the types of control records, and None for each batch of others."""

    def __init__(self, kinds: list[str | None]) -> None:
        self.kinds = kinds

    def see(self, batch: StoredBatch) -> Iterator[Problem]:
        """As BatchCheck."""
        if not batch.crc_valid or not batch.header.is_control:
            self.kinds.append(None)
            return
        try:
            self.kinds += [decode_control(record).name for record in batch.records()]
        except ProtocolError:
            self.kinds.append(None)
        yield from ()

    def end(self, end_position: int) -> Iterator[Problem]:
        """As BatchCheck."""
        return iter(())


def _typed(batch: StoredBatch, record: Record, record_format: RecordFormat) -> Iterator[Problem]:
    try:
        if batch.header.is_control:
            decode_control(record)
        else:
            decode_internal(record_format, record)
    except (MalformedMessage, CorruptBatch) as problem:
        yield Problem(batch.path, str(problem), batch.position, record.offset)


def _offset_index(segment: Path, base_offset: int) -> BatchCheck:
    path = _existing(segment, ".index")
    return OffsetIndexCheck(path, offset_entries(path, base_offset))


def _time_index(segment: Path, base_offset: int) -> BatchCheck:
    path = _existing(segment, ".timeindex")
    return TimeIndexCheck(path, time_entries(path, base_offset))


def _transaction_index(segment: Path, base_offset: int) -> BatchCheck:
    path = _existing(segment, ".txnindex")
    return TransactionIndexCheck(path, base_offset, aborted_entries(path))


def _leader_epochs(segment: Path, base_offset: int) -> BatchCheck:
    path = segment.with_name(LEADER_EPOCHS)
    path.stat()
    try:
        return LeaderEpochCheck(path, text_files.leader_epochs(path))
    except DamagedFile:
        # told where the file itself is checked, once for all segments
        return LeaderEpochCheck(path, ())


def _existing(segment: Path, suffix: str) -> Path:
    path = segment.with_suffix(suffix)
    path.stat()
    return path


def side_files(segment: KnownFile) -> list[Path]:
    """The files that a segment is held against."""
    if segment.kind is not FileKind.SEGMENT:
        return []
    return [segment.path.with_suffix(suffix) for suffix in SIDE_SUFFIXES] + [
        segment.path.with_name(LEADER_EPOCHS)
    ]
