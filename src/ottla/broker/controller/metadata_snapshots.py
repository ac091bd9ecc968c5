"""Snapshots of the metadata: files that hold all of it as of an offset, in Kafka's form (KIP-630).

A snapshot is a row of record batches: a control batch with the header (and, from kraft.version 1 on,
kraft.version and the voters), batches of metadata records, a control batch with the footer. It is called
`<end offset>-<epoch>.checkpoint`, and is there under this name only once it is complete and synced: this
node's own are written to `.checkpoint.tmp` first, a leader's, which come in pieces, to `.checkpoint.part`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ottla.core.decisions.decision import record_version
from ottla.core.quorum.api import SnapshotId, VoterSet
from ottla.core.quorum.control_records import (
    LogControl,
    controls_of,
    kraft_version_control,
    voters_control,
)
from ottla.protocol.errors import ProtocolError
from ottla.protocol.record_batch import (
    ControlRecordType,
    NewRecord,
    control_record_type,
    decode_records,
    encode_batch,
    encode_control_batch,
    iterate_headers,
)
from ottla.protocol.records.framing import decode_metadata_record, encode_metadata_record
from ottla.protocol.records.snapshot_footer_record import SnapshotFooterRecord
from ottla.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from ottla.protocol.schema import Buffer, Message
from ottla.storage.errors import LogDirectoryError
from ottla.storage.files import FileHandle, create_file, open_for_reading, replace_file, sync_directory

RECORDS_PER_BATCH = 1000
MAX_SNAPSHOT_BYTES = 1 << 32
"""The largest snapshot that is taken from a leader."""

_FILE_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_UNFINISHED = re.compile(r"\d{20}-\d{10}(-?\d*)\.checkpoint\.(part|tmp|deleted)")
_UNFINISHED_SUFFIX = ".part"


class SnapshotContent(NamedTuple):
    """The content of a snapshot: the quorum's control records, and the metadata's records."""

    controls: tuple[LogControl, ...]
    """The quorum's control records, all at the offset before the snapshot's end."""
    records: list[Message]


def snapshots(directory: Path) -> list[SnapshotId]:
    """The complete snapshots in a directory, oldest first."""
    names = (_FILE_NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in names if match is not None)


def write_snapshot(
    path: Path,
    records: Iterable[Message],
    *,
    timestamp_ms: int,
    last_timestamp_ms: int,
    voters: VoterSet | None = None,
    kraft_version: int = 0,
) -> None:
    """Write a whole snapshot; it is on the disk when this returns. Voters belong to kraft.version 1."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)
    controls = [(ControlRecordType.SNAPSHOT_HEADER, header.encode(0))]
    if kraft_version > 0:
        controls.append(kraft_version_control(kraft_version))
        if voters is not None:
            controls.append(voters_control(voters))
    content = bytearray(encode_control_batch(controls, timestamp=timestamp_ms, leader_epoch=0))
    offset = len(controls)
    for group in _in_groups(records):
        batch = [
            NewRecord(None, encode_metadata_record(record, record_version(record)), timestamp_ms)
            for record in group
        ]
        content += encode_batch(batch, base_offset=offset, leader_epoch=0)
        offset += len(batch)
    footer = [(ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0).encode(0))]
    content += encode_control_batch(footer, timestamp=timestamp_ms, base_offset=offset, leader_epoch=0)
    replace_file(path, bytes(content), sync=True)


def _in_groups(records: Iterable[Message]) -> Iterator[list[Message]]:
    group: list[Message] = []
    for record in records:
        group.append(record)
        if len(group) == RECORDS_PER_BATCH:
            yield group
            group = []
    if group:
        yield group


def read_snapshot(path: Path, end_offset: int = 0) -> SnapshotContent:
    """All of a snapshot that ends at `end_offset`. Raises LogDirectoryError for one that is damaged."""
    controls: list[LogControl] = []
    found: list[Message] = []
    complete = False
    try:
        data = memoryview(path.read_bytes())
        for position, header in iterate_headers(data):
            records = decode_records(data, position)
            if header.is_control:
                controls += controls_of(records, end_offset - 1)
                complete = control_record_type(records[-1]) is ControlRecordType.SNAPSHOT_FOOTER
            else:
                found += (decode_metadata_record(record.value or b"") for record in records)
    except ProtocolError as error:
        raise LogDirectoryError(
            f"snapshot {path} is damaged ({error}): put a good copy in its place"
        ) from error
    if not complete:
        raise LogDirectoryError(f"snapshot {path} ends before its footer: put a good copy in its place")
    return SnapshotContent(tuple(controls), found)


def read_snapshot_piece(
    directory: Path, snapshot: SnapshotId, position: int, max_bytes: int
) -> tuple[int, bytes] | None:
    """(size of the file, its bytes from `position` on); None if there is no such snapshot. Raises OSError."""
    try:
        handle = open_for_reading(str(directory / snapshot.file_name))
    except FileNotFoundError:
        return None
    size = os.fstat(handle.fileno()).st_size
    wanted = min(max_bytes, size - position) if 0 <= position < size else 0
    return size, handle.read(wanted, position) if wanted > 0 else b""


def remove_snapshot(directory: Path, snapshot: SnapshotId) -> None:
    """Remove a snapshot that a newer one replaces."""
    with contextlib.suppress(FileNotFoundError):
        (directory / snapshot.file_name).unlink()


def remove_unfinished_snapshots(directory: Path) -> None:
    """Remove snapshots that a killed process had not finished writing, or removing."""
    for path in list(directory.iterdir()):
        if _UNFINISHED.fullmatch(path.name):
            path.unlink(missing_ok=True)


class IncomingSnapshot:
    """A leader's snapshot as it comes, piece by piece, under a temporary name."""

    def __init__(self, directory: Path, snapshot: SnapshotId) -> None:
        self.snapshot = snapshot
        self.size_bytes = 0
        self._directory = directory
        self._path = directory / f"{snapshot.file_name}{_UNFINISHED_SUFFIX}"
        self._path.unlink(missing_ok=True)
        self._file: FileHandle | None = create_file(str(self._path))

    def append(self, data: Buffer) -> None:
        """The next bytes. They are synced at once, so that no sync at the end takes long. Raises OSError."""
        assert self._file is not None
        if self.size_bytes + len(data) > MAX_SNAPSHOT_BYTES:
            raise OSError(None, f"the leader's snapshot is larger than {MAX_SNAPSHOT_BYTES} bytes")
        self._file.write(memoryview(data), self.size_bytes)
        self._file.sync()
        self.size_bytes += len(data)

    def read(self) -> SnapshotContent:
        """The content that has come, checked to its last byte; runs in any thread.

        Raises LogDirectoryError.
        """
        return read_snapshot(self._path, self.snapshot.end_offset)

    def put_in_place(self) -> None:
        """Give the file its name; on the disk when this returns. Raises OSError."""
        assert self._file is not None
        self._file.sync()
        self._file = None
        os.replace(self._path, self._directory / self.snapshot.file_name)
        sync_directory(self._directory)

    def drop(self) -> None:
        """Remove the file: the snapshot is not wanted any more."""
        self._file = None
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
