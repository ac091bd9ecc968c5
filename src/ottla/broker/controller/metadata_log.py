"""The metadata log on disk: `__cluster_metadata-0` in Apache Kafka's form, for quorum and controller.

    bootstrap.checkpoint                          the features that a new cluster starts with
    __cluster_metadata-0/
      00000000000000000000-0000000000.checkpoint  the first voters, see `metadata_formatting`
      quorum-state                                epoch, leader and vote, see `quorum_state`
      *.log, *.index, …                           the log itself, see `ottla.storage.log`
      <end offset>-<epoch>.checkpoint             snapshots: all of the metadata below that offset

Theory of operation. Records count when they are synced: a leader's for the high watermark, a follower's for
the offset of its next fetch. A torn tail was never acknowledged, and recovery cuts it. Nothing is cut that
valid batches follow, nor anything below the recovery point: the synced end runs ahead of that point, which is
checkpointed with those of the partitions' logs, and topics would be forgotten with it. Before the log is
shortened, that checkpoint is lowered.

A snapshot may be written of any committed offset; once it is there, older snapshots and the segments below
the oldest snapshot that is left may go. So at any time the oldest snapshot and the log after it make all of
the metadata.

A leader's snapshot comes to a temporary file, is checked, synced and renamed; then the log is dropped and
begins at the snapshot's end. A start that finds a snapshot beyond the log's end, or of a newer epoch than the
log's last one, was killed between the two and drops the log then: its records are in the snapshot, or were
never committed. A node that is alone never installs one: its log has lost its end, and it does not start.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from ottla.broker.controller.metadata_formatting import METADATA_TOPIC
from ottla.broker.controller.metadata_snapshots import (
    IncomingSnapshot,
    SnapshotContent,
    read_snapshot,
    read_snapshot_piece,
    remove_snapshot,
    remove_unfinished_snapshots,
    snapshots,
    write_snapshot,
)
from ottla.broker.controller.quorum_state import read_quorum_state, write_quorum_state
from ottla.core.decisions.decision import record_version
from ottla.core.quorum.api import ElectionState, SnapshotId, VoterSet
from ottla.core.quorum.control_records import Control, LogControl, controls_of
from ottla.protocol.errors import CorruptBatch, ProtocolError
from ottla.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    NewRecord,
    check_crc,
    decode_records,
    encode_batch,
    encode_control_batch,
    parse_batch_header,
)
from ottla.protocol.records.begin_transaction_record import BeginTransactionRecord
from ottla.protocol.records.end_transaction_record import EndTransactionRecord
from ottla.protocol.records.framing import decode_metadata_record, encode_metadata_record
from ottla.protocol.schema import Buffer, Message
from ottla.storage.log import FlushTask, Log, LogConfig
from ottla.storage.log_directory import LogDirectory, LogDirectoryError

__all__ = ["METADATA_TOPIC", "METADATA_TOPIC_ID", "MetadataLog", "MetadataLogLimits"]

log = logging.getLogger("ottla.broker")

METADATA_TOPIC_ID = UUID(int=1)
#: The name of the metadata transaction that a change becomes if it does not fit into one batch (KIP-868).
LARGE_CHANGE = "Large change"
_RECORD_OVERHEAD_BYTES = 32


class MetadataLogLimits(NamedTuple):
    """Sizes of the metadata log."""

    segment_bytes: int
    segment_ms: int
    max_batch_bytes: int
    max_retention_bytes: int
    max_retention_ms: int
    snapshot_after_bytes: int
    snapshot_after_ms: int
    file_delete_delay_ms: int


class AppendedRecords(NamedTuple):
    """The outcome of an append: the records that are in the log, the first of them at `base_offset`."""

    base_offset: int
    records: Sequence[Message]


class MetadataLog:
    """The opened log. It is the `QuorumLog` of core/quorum."""

    def __init__(self, directory: LogDirectory, storage: Log, limits: MetadataLogLimits, now_ms: int) -> None:
        self._directory = directory
        self._log = storage
        self._limits = limits
        self._snapshots = snapshots(storage.directory)
        self.controls: list[LogControl] = []
        """The quorum's control records of the latest snapshot and the log after it, at the opening."""
        self._opened_with: tuple[SnapshotId, SnapshotContent] | None = None
        self._incoming: IncomingSnapshot | None = None
        self._bytes_since_snapshot = 0
        self._snapshot_ms = now_ms
        self._before_shortening: Callable[[int], None] | None = None

    @classmethod
    def open(
        cls, directory: LogDirectory, limits: MetadataLogLimits, now_ms: int, *, alone: bool
    ) -> MetadataLog:
        """Open the log of a locked and formatted directory. Blocks on the disk.

        `alone`: there is no other node to have the log from. Raises LogDirectoryError, LogCorruption,
        OSError.
        """
        path = directory.partition_path(METADATA_TOPIC, 0)
        remove_unfinished_snapshots(path)
        found = snapshots(path)
        storage = Log.open(
            path,
            LogConfig(
                segment_bytes=limits.segment_bytes,
                segment_ms=limits.segment_ms,
                retention_ms=-1,
                retention_bytes=-1,
                file_delete_delay_ms=limits.file_delete_delay_ms,
            ),
            now_ms=now_ms,
            log_start_offset=found[0].end_offset if found else 0,
            recovery_point=directory.read_recovery_points().get((METADATA_TOPIC, 0), 0),
            clean_shutdown=directory.clean_shutdown,
            topic_id=METADATA_TOPIC_ID,
            open_files=directory.open_files,
            keeps_valid=True,
        )
        opened = cls(directory, storage, limits, now_ms)
        latest = opened.latest_snapshot
        if latest is not None and opened._is_beyond(latest):
            if alone and not opened._has_other_voters(latest):
                raise LogDirectoryError(
                    f"the metadata log {path} ends at offset {opened.end_offset}, before its snapshot "
                    f"{latest.file_name}: put a good copy in its place"
                )
            opened._begin_at(latest, now_ms)
        opened._remove_stale_snapshots()
        opened._read_controls()
        return opened

    def _has_other_voters(self, snapshot: SnapshotId) -> bool:
        """Whether a snapshot names several voters: it may have come from one of them."""
        content = read_snapshot(self.directory / snapshot.file_name, snapshot.end_offset)
        voters = [each.value for each in content.controls if isinstance(each.value, VoterSet)]
        return bool(voters) and len(voters[-1].voters) > 1

    def _remove_stale_snapshots(self) -> None:
        """Remove the snapshots from before the log's start, which a kill left behind."""
        for stale in [each for each in self._snapshots[:-1] if each.end_offset < self.start_offset]:
            remove_snapshot(self.directory, stale)
            self._snapshots.remove(stale)

    # -- the log as the quorum sees it ----------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._log.log_end_offset

    @property
    def start_offset(self) -> int:
        """The first offset that the log itself still has; the records before it are in a snapshot."""
        return self._log.log_start_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch, or of the snapshot that the log begins after; 0 without either."""
        in_log = self._log.latest_epoch
        if in_log is not None:
            return in_log
        return self._snapshots[-1].epoch if self._snapshots else 0

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest complete snapshot."""
        return self._snapshots[-1] if self._snapshots else None

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        """The oldest complete snapshot."""
        return self._snapshots[0] if self._snapshots else None

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch not above `epoch`, the offset after its last record), (-1, -1) if there is none."""
        entries = self._log.leader_epochs
        above = bisect_right(entries, epoch, key=lambda entry: entry[0])
        if above == 0:
            return -1, -1
        return entries[above - 1][0], entries[above][1] if above < len(entries) else self.end_offset

    # -- reading --------------------------------------------------------------------------------------

    @property
    def recovery_point(self) -> int:
        """Everything below is synced."""
        return self._log.recovery_point

    @property
    def size_bytes(self) -> int:
        """The size of the log's files."""
        return self._log.size_bytes

    @property
    def directory(self) -> Path:
        """Where the log and its snapshots are."""
        return self._log.directory

    def take_snapshot_content(self) -> tuple[SnapshotId, SnapshotContent] | None:
        """The newest snapshot at the opening with its content, at the first call; None without one."""
        found, self._opened_with = self._opened_with, None
        return found

    def batches(self, start_offset: int, end_offset: int) -> Iterator[tuple[BatchHeader, list[Message]]]:
        """The batches from `start_offset` on that end at or below `end_offset`, with their metadata records.

        A control batch has none. Raises LogDirectoryError for a record that can't be read, LogCorruption.
        """
        for header, batch in self._log.iterate_batches(start_offset):
            if header.next_offset > end_offset:
                return
            messages: list[Message] = []
            if not header.is_control:
                try:
                    records = decode_records(batch)
                    messages = [decode_metadata_record(record.value or b"") for record in records]
                except ProtocolError as error:
                    raise self._unreadable(header, error) from error
            yield header, messages

    def _read_controls(self) -> None:
        """The quorum's control records in the latest snapshot and the log after it."""
        start = self.start_offset
        latest = self.latest_snapshot
        if latest is not None:
            content = read_snapshot(self.directory / latest.file_name, latest.end_offset)
            self._opened_with = (latest, content)
            self.controls += content.controls
            start = max(start, latest.end_offset)
        for header, batch in self._log.iterate_batches(start):
            self._bytes_since_snapshot += header.size_bytes
            if header.is_control:
                try:
                    self.controls += controls_of(decode_records(batch))
                except ProtocolError as error:
                    raise self._unreadable(header, error) from error

    def _unreadable(self, header: BatchHeader, error: ProtocolError) -> LogDirectoryError:
        return LogDirectoryError(
            f"the metadata log {self.directory} can't be read at offset {header.base_offset}: {error}"
        )

    def read(self, start_offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one with `start_offset` on, for a follower; one at least, b"" at the end.

        Raises OffsetOutOfRange.
        """
        return self._log.read(
            start_offset, max_bytes, upper_offset=self.end_offset, at_least_one_batch=True
        ).read()

    # -- votes ----------------------------------------------------------------------------------------

    def election(self) -> ElectionState:
        """This node's last promise, in the file or by a newer epoch in the log. Raises LogDirectoryError."""
        state = read_quorum_state(self.directory) or ElectionState()
        return state if state.epoch >= self.last_epoch else ElectionState(epoch=self.last_epoch)

    def save_election(self, state: ElectionState, *, kraft_version: int, voter_ids: Iterable[int]) -> None:
        """Make `state` durable. Raises OSError."""
        write_quorum_state(self.directory, state, kraft_version=kraft_version, voter_ids=voter_ids)

    # -- appending ------------------------------------------------------------------------------------

    def append(self, epoch: int, records: Sequence[Message], now_ms: int) -> AppendedRecords:
        """Append a leader's records: all of them count or none does. Durable after the next flush.

        Those that do not fit into one batch become a metadata transaction, unless they are one. Raises
        OSError, with nothing appended.
        """
        encoded = _encoded(records, now_ms)
        groups = list(_groups(encoded, self._limits.max_batch_bytes))
        if len(groups) > 1 and not isinstance(records[0], BeginTransactionRecord):
            records = [BeginTransactionRecord(name=LARGE_CHANGE), *records, EndTransactionRecord()]
            groups = list(_groups(_encoded(records, now_ms), self._limits.max_batch_bytes))
        first = offset = self.end_offset
        batches, headers = bytearray(), []
        for group in groups:
            batch = encode_batch(group, base_offset=offset, leader_epoch=epoch)
            batches += batch
            headers.append(parse_batch_header(batch))
            offset += len(group)
        self._append(bytes(batches), headers, now_ms)
        return AppendedRecords(first, records)

    def append_controls(self, epoch: int, records: Sequence[Control], now_ms: int) -> tuple[int, int]:
        """Append a leader's control batch; (its first offset, the one after it). Raises OSError."""
        first = self.end_offset
        batch = encode_control_batch(records, timestamp=now_ms, base_offset=first, leader_epoch=epoch)
        self._append(batch, [parse_batch_header(batch)], now_ms)
        return first, self.end_offset

    def append_fetched(self, data: Buffer, leader_epoch: int, now_ms: int) -> tuple[LogControl, ...]:
        """Append a leader's batches verbatim. Returns their control records. A partial last batch is left
        out.

        Raises ProtocolError for bytes that are no batches, have a wrong CRC or do not continue the log, and
        OSError; nothing was appended then.
        """
        view = memoryview(data)
        headers: list[BatchHeader] = []
        controls: list[LogControl] = []
        position, offset, epoch = 0, self.end_offset, self.last_epoch
        while len(view) - position >= BATCH_HEADER_BYTES:
            header = parse_batch_header(view, position)
            end = position + header.size_bytes
            if end > len(view):
                break
            check_crc(view, position, header)
            if header.base_offset != offset:
                raise CorruptBatch(f"a batch begins at offset {header.base_offset}, not at {offset}")
            if not epoch <= header.partition_leader_epoch <= leader_epoch:
                raise CorruptBatch(
                    f"a batch of epoch {header.partition_leader_epoch} after epoch {epoch}, from the leader "
                    f"of epoch {leader_epoch}"
                )
            if header.is_control:
                controls += controls_of(decode_records(view, position))
            headers.append(header)
            position, offset, epoch = end, header.next_offset, header.partition_leader_epoch
        if not headers:
            raise CorruptBatch(f"{len(view)} bytes without a whole batch")
        self._append(view[:position], headers, now_ms)
        return tuple(controls)

    def _append(self, batches: bytes | memoryview, headers: Sequence[BatchHeader], now_ms: int) -> None:
        self._log.append(batches, headers, now_ms=now_ms)
        self._bytes_since_snapshot += len(batches)

    def truncate(self, offset: int, now_ms: int) -> None:
        """Cut everything from `offset` on. The caller knows that it is not committed. Raises OSError."""
        self._lower_recovery_point(offset)
        self._log.truncate_to(offset, now_ms=now_ms)

    def leave_checkpoints_to(self, before_shortening: Callable[[int], None]) -> None:
        """A broker writes this log's recovery point with its partitions' from now on.

        `before_shortening` makes durable that it is not above an offset.
        """
        self._before_shortening = before_shortening

    def checkpoint_recovery_point(self) -> None:
        """Write the recovery point, where no broker does. Raises OSError."""
        if self._before_shortening is None:
            points = self._directory.read_recovery_points()
            points[METADATA_TOPIC, 0] = self.recovery_point
            self._directory.write_recovery_points(points)

    def _lower_recovery_point(self, offset: int) -> None:
        if self._before_shortening is not None:
            self._before_shortening(offset)
            return
        points = self._directory.read_recovery_points()
        if points.get((METADATA_TOPIC, 0), 0) > offset:
            points[METADATA_TOPIC, 0] = offset
            self._directory.write_recovery_points(points)

    def prepare_flush(self) -> FlushTask | None:
        """The task that makes all appended records durable; run it in a thread."""
        return self._log.prepare_flush()

    def complete_flush(self, task: FlushTask) -> None:
        """The task has run."""
        self._log.complete_flush(task)

    def flush(self) -> None:
        """Sync here and now."""
        self._log.flush()

    def close(self) -> None:
        """Sync and let go of the files."""
        self.drop_incoming()
        self._log.close()
        self.checkpoint_recovery_point()

    # -- snapshots of this node -----------------------------------------------------------------------

    def snapshot_due(self, now_ms: int) -> bool:
        """Whether enough was written, or time has passed since something was, for a new snapshot."""
        if self._bytes_since_snapshot >= self._limits.snapshot_after_bytes:
            return True
        interval_ms = self._limits.snapshot_after_ms
        return self._bytes_since_snapshot > 0 and 0 < interval_ms <= now_ms - self._snapshot_ms

    def begin_snapshot(self, now_ms: int) -> None:
        """A snapshot of everything so far is about to be written; the next one is due after more."""
        self._bytes_since_snapshot = 0
        self._snapshot_ms = now_ms

    def write_snapshot(
        self,
        snapshot: SnapshotId,
        records: Iterable[Message],
        now_ms: int,
        *,
        voters: VoterSet | None,
        kraft_version: int,
    ) -> None:
        """Write a snapshot; runs in any thread. It counts from `snapshot_written` on. Raises OSError."""
        write_snapshot(
            self.directory / snapshot.file_name,
            records,
            voters=voters,
            kraft_version=kraft_version,
            timestamp_ms=now_ms,
            last_timestamp_ms=now_ms,
        )

    def snapshot_written(self, now_ms: int) -> None:
        """A snapshot is in place: remove surplus and old snapshots, and the segments that it replaces."""
        self._log.remove_deleted_files(now_ms)
        self._snapshots = snapshots(self.directory)
        while len(self._snapshots) > 1 and (
            self._size_with_snapshots() > self._limits.max_retention_bytes
            or self._is_old(self._snapshots[0], now_ms)
        ):
            remove_snapshot(self.directory, self._snapshots[0])
            self._snapshots = self._snapshots[1:]
            self._log.advance_log_start_offset(self._snapshots[0].end_offset)
            self._log.enforce_retention(now_ms, self._log.recovery_point)

    def _size_with_snapshots(self) -> int:
        sizes = ((self.directory / each.file_name).stat().st_size for each in self._snapshots)
        return self._log.size_bytes + sum(sizes)

    def _is_old(self, snapshot: SnapshotId, now_ms: int) -> bool:
        limit_ms = self._limits.max_retention_ms
        written_ms = int((self.directory / snapshot.file_name).stat().st_mtime * 1000)
        return 0 <= limit_ms < now_ms - written_ms

    def read_snapshot_piece(
        self, snapshot: SnapshotId, position: int, max_bytes: int
    ) -> tuple[int, bytes] | None:
        """(size of the snapshot's file, its bytes from `position` on); None if it is gone. Raises OSError."""
        return read_snapshot_piece(self.directory, snapshot, position, max_bytes)

    # -- snapshots of a leader ------------------------------------------------------------------------

    def begin_incoming(self, snapshot: SnapshotId) -> None:
        """A leader's snapshot is about to come. Raises OSError."""
        self.drop_incoming()
        self._incoming = IncomingSnapshot(self.directory, snapshot)

    def drop_incoming(self) -> None:
        """Drop the pieces of a leader's snapshot that have come."""
        if self._incoming is not None:
            self._incoming.drop()
            self._incoming = None

    @property
    def incoming(self) -> IncomingSnapshot | None:
        """The snapshot that is coming."""
        return self._incoming

    def install_incoming(self, now_ms: int) -> bool:
        """Put the snapshot that has come in place; the log begins at its end. Durable when this returns.

        False, with the snapshot dropped, if the log has everything that is in it. Raises OSError.
        """
        incoming, self._incoming = self._incoming, None
        assert incoming is not None
        snapshot = incoming.snapshot
        if not self._is_beyond(snapshot):
            incoming.drop()
            return False
        self._lower_recovery_point(snapshot.end_offset)
        incoming.put_in_place()
        self._begin_at(snapshot, now_ms)
        self.begin_snapshot(now_ms)
        return True

    def _is_beyond(self, snapshot: SnapshotId) -> bool:
        """Whether a snapshot has records that the log lacks, or belongs to a newer history than the log."""
        latest_epoch = self._log.latest_epoch
        if latest_epoch is None:
            return snapshot.end_offset != self.end_offset
        return snapshot.epoch > latest_epoch or (
            snapshot.epoch == latest_epoch and snapshot.end_offset > self.end_offset
        )

    def _begin_at(self, snapshot: SnapshotId, now_ms: int) -> None:
        """Drop the log; it begins at the end of `snapshot`, and older snapshots go."""
        log.info("metadata log begins at a snapshot file=%s old_end=%d", snapshot.file_name, self.end_offset)
        self._log.truncate_fully(snapshot.end_offset, now_ms=now_ms)
        for older in snapshots(self.directory):
            if older < snapshot:
                remove_snapshot(self.directory, older)
        self._snapshots = [snapshot]
        self._log.flush()
        self._log.remove_deleted_files(now_ms)


def _encoded(records: Sequence[Message], now_ms: int) -> list[NewRecord]:
    return [
        NewRecord(None, encode_metadata_record(record, record_version(record)), now_ms) for record in records
    ]


def _groups(records: list[NewRecord], max_bytes: int) -> Iterator[list[NewRecord]]:
    """Records cut into batches that are not larger than `max_bytes`, as far as single records allow."""
    group: list[NewRecord] = []
    size = 0
    for record in records:
        record_bytes = len(record.value or b"") + _RECORD_OVERHEAD_BYTES
        if group and size + record_bytes > max_bytes:
            yield group
            group, size = [], 0
        group.append(record)
        size += record_bytes
    yield group
