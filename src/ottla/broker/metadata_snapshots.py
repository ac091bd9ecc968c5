"""Snapshots of the metadata: files that hold all of it as of an offset, in Kafka's form (KIP-630).

A snapshot is a row of record batches: a control batch with the header (and, for a quorum that knows its
voters, kraft.version and the voters), batches of metadata records, a control batch with the footer. It is
called `<end offset>-<epoch>.checkpoint`, and is there under this name only once it is complete and synced.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ottla.core.metadata.decisions import record_version
from ottla.core.metadata.features import KRAFT_VERSION_LEVEL
from ottla.protocol.errors import ProtocolError
from ottla.protocol.record_batch import (
    ControlRecordType,
    NewRecord,
    check_crc,
    control_record_type,
    decode_records,
    encode_batch,
    encode_control_batch,
    iterate_headers,
)
from ottla.protocol.records.framing import decode_metadata_record, encode_metadata_record
from ottla.protocol.records.kraft_version_record import KRaftVersionRecord
from ottla.protocol.records.snapshot_footer_record import SnapshotFooterRecord
from ottla.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from ottla.protocol.records.voters_record import VotersRecord
from ottla.protocol.schema import Message
from ottla.storage.files import replace_file
from ottla.storage.log_directory import LogDirectoryError

RECORDS_PER_BATCH = 1000
_FILE_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotId(NamedTuple):
    """The offset after the last record of a snapshot, and that record's epoch."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The snapshot's name."""
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


def snapshots(directory: Path) -> list[SnapshotId]:
    """The snapshots in a directory, oldest first."""
    names = (_FILE_NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in names if match is not None)


def latest_snapshot(directory: Path) -> SnapshotId | None:
    """The newest snapshot, or None."""
    found = snapshots(directory)
    return found[-1] if found else None


def write_snapshot(
    path: Path,
    records: Iterable[Message],
    *,
    timestamp_ms: int,
    last_timestamp_ms: int,
    voters: VotersRecord | None = None,
) -> None:
    """Write a whole snapshot; it is on the disk when this returns."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)
    controls = [(ControlRecordType.SNAPSHOT_HEADER, header.encode(0))]
    if voters is not None:
        version = KRaftVersionRecord(version=0, kraft_version=KRAFT_VERSION_LEVEL)
        controls.append((ControlRecordType.KRAFT_VERSION, version.encode(0)))
        controls.append((ControlRecordType.KRAFT_VOTERS, voters.encode(0)))
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


def read_snapshot(path: Path) -> list[Message]:
    """The metadata records of a snapshot, and the VotersRecord among its control records.

    Raises LogDirectoryError for one that is damaged.
    """
    found: list[Message] = []
    complete = False
    try:
        data = memoryview(path.read_bytes())
        for position, header in iterate_headers(data):
            check_crc(data, position, header)
            for record in decode_records(data, position):
                if not header.is_control:
                    found.append(decode_metadata_record(record.value or b""))
                    continue
                match control_record_type(record):
                    case ControlRecordType.KRAFT_VOTERS:
                        found.append(VotersRecord.decode(record.value or b"", 0))
                    case ControlRecordType.SNAPSHOT_FOOTER:
                        complete = True
    except ProtocolError as error:
        raise LogDirectoryError(
            f"snapshot {path} is damaged ({error}): put a good copy in its place"
        ) from error
    if not complete:
        raise LogDirectoryError(f"snapshot {path} ends before its footer: put a good copy in its place")
    return found


def remove_snapshot(directory: Path, snapshot: SnapshotId) -> None:
    """Remove a snapshot that a newer one replaces."""
    with contextlib.suppress(FileNotFoundError):
        (directory / snapshot.file_name).unlink()
