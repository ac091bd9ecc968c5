"""The metadata log on disk: `__cluster_metadata-0` in Apache Kafka's form, for a quorum of this node alone.

    bootstrap.checkpoint                          the features that a new cluster starts with
    __cluster_metadata-0/
      00000000000000000000-0000000000.checkpoint  the voters: this node
      quorum-state                                the epoch that this node leads, JSON
      *.log, *.index, …                           the log itself, see `ottla.storage.log`
      <end offset>-<epoch>.checkpoint             snapshots: all of the metadata below that offset

Theory of operation. Formatting writes the bootstrap snapshot, then the voters' one; each is complete under
its name or not there (written aside, synced, renamed). Until the log has its first record, formatting may be
done again: a kill in the middle of it costs nothing. A start is an election that this node wins alone: the
higher epoch is made durable in `quorum-state` before any record of that epoch is appended, so that no epoch
is ever led twice. What is appended counts when it is synced; a torn tail was never acknowledged, and
recovery cuts it. Below the recovery point, which is checkpointed with those of the partitions' logs, nothing
is cut: topics would be forgotten with it.

A snapshot may be written of anything that is durable; once it is there, older snapshots and the segments
below the oldest snapshot that is left may go. So at any time the oldest snapshot and the log after it make
all of the metadata.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from ottla.broker.listeners import Listener
from ottla.broker.metadata_snapshots import (
    SnapshotId,
    latest_snapshot,
    read_snapshot,
    remove_snapshot,
    snapshots,
    write_snapshot,
)
from ottla.core.metadata.decisions import record_version
from ottla.core.metadata.features import INITIAL_FEATURES, KRAFT_VERSION_LEVEL
from ottla.protocol.errors import ProtocolError
from ottla.protocol.record_batch import (
    ControlRecordType,
    NewRecord,
    control_record_type,
    decode_records,
    encode_batch,
    encode_control_batch,
    parse_batch_header,
)
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.framing import decode_metadata_record, encode_metadata_record
from ottla.protocol.records.kraft_version_record import KRaftVersionRecord
from ottla.protocol.records.leader_change_message import LeaderChangeMessage
from ottla.protocol.records.leader_change_message import Voter as LeaderChangeVoter
from ottla.protocol.records.voters_record import Endpoint, KRaftVersionFeature, Voter, VotersRecord
from ottla.protocol.schema import Message
from ottla.storage.checkpoints import uuid_to_text
from ottla.storage.files import replace_file, sync_directory
from ottla.storage.log import FlushTask, Log, LogConfig
from ottla.storage.log_directory import META_PROPERTIES, LogDirectory, LogDirectoryError

log = logging.getLogger("ottla.broker")

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)
BOOTSTRAP_FILE = "bootstrap.checkpoint"
QUORUM_STATE_FILE = "quorum-state"
MAX_QUORUM_STATE_BYTES = 64 * 1024
NO_VOTE = -1
NO_DIRECTORY_ID = UUID(int=0)


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


class MetadataLog:
    """The opened log, led by this node in `epoch`."""

    def __init__(self, storage: Log, node_id: int, epoch: int, limits: MetadataLogLimits) -> None:
        self._log = storage
        self._node_id = node_id
        self._limits = limits
        self.epoch = epoch
        self.snapshot: SnapshotId | None = None
        self.voters: VotersRecord | None = None
        self._bytes_since_snapshot = 0
        self._snapshot_ms = 0

    @classmethod
    def open(
        cls, directory: LogDirectory, node_id: int, voter: Listener, limits: MetadataLogLimits, now_ms: int
    ) -> MetadataLog:
        """Open the log of a locked directory, formatting it if it has none. Blocks on the disk.

        Raises LogDirectoryError for a directory that holds data but no metadata, LogCorruption, OSError.
        """
        path = directory.partition_path(METADATA_TOPIC, 0)
        if _must_format(path):
            if any(each.topic != METADATA_TOPIC for each in directory.partitions()):
                raise LogDirectoryError(
                    f"log directory {directory.path} holds partitions but no {path.name}: put that directory "
                    "back, or name an empty one"
                )
            _format(directory, path, node_id, voter, now_ms)
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
            log_start_offset=snapshots(path)[0].end_offset if snapshots(path) else 0,
            recovery_point=directory.read_recovery_points().get((METADATA_TOPIC, 0), 0),
            clean_shutdown=directory.clean_shutdown,
            topic_id=METADATA_TOPIC_ID,
            open_files=directory.open_files,
        )
        opened = cls(storage, node_id, _last_epoch(path, storage), limits)
        opened.snapshot = latest_snapshot(path)
        opened._snapshot_ms = now_ms
        if opened.snapshot is not None and opened.snapshot.end_offset > opened.end_offset:
            raise LogDirectoryError(
                f"the metadata log {path} ends at offset {opened.end_offset}, before its snapshot "
                f"{opened.snapshot.file_name}: put a good copy in its place"
            )
        return opened

    # -- reading --------------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._log.log_end_offset

    @property
    def start_offset(self) -> int:
        """The first offset that the log itself still has; what was before is in a snapshot."""
        return self._log.log_start_offset

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

    def replay(self) -> Iterator[tuple[int, int, Message]]:
        """(offset, epoch, record) of everything in the latest snapshot and then the log, in order.

        A record of a snapshot has the snapshot's last offset. Control records are left out; the voters among
        them are kept in `voters`. Raises LogDirectoryError for a record that can't be read.
        """
        start = self.start_offset
        if self.snapshot is not None:
            for message in read_snapshot(self.directory / self.snapshot.file_name):
                if isinstance(message, VotersRecord):
                    self.voters = message
                else:
                    yield self.snapshot.end_offset - 1, self.snapshot.epoch, message
            start = max(start, self.snapshot.end_offset)
        for header, batch in self._log.iterate_batches(start):
            self._bytes_since_snapshot += header.size_bytes
            try:
                for record in decode_records(batch):
                    if header.is_control:
                        if control_record_type(record) is ControlRecordType.KRAFT_VOTERS:
                            self.voters = VotersRecord.decode(record.value or b"", 0)
                    elif record.offset >= start:
                        message = decode_metadata_record(record.value or b"")
                        yield record.offset, header.partition_leader_epoch, message
            except ProtocolError as error:
                raise LogDirectoryError(
                    f"the metadata log {self.directory} can't be read at offset {header.base_offset}: {error}"
                ) from error

    def bootstrap_records(self) -> list[Message]:
        """What the metadata of a new cluster starts with. Raises LogDirectoryError."""
        file = self.directory.parent / BOOTSTRAP_FILE
        return read_snapshot(file) if file.exists() else initial_features()

    # -- writing --------------------------------------------------------------------------------------

    def elect(self, directory_id: UUID, voter: Listener, now_ms: int) -> None:
        """Begin a new epoch. The epoch is durable when this returns, its first batch is appended."""
        own = voters_record(self._node_id, directory_id, voter)
        self._check_voters(own)
        self.epoch += 1
        _write_quorum_state(self.directory, self._node_id, self.epoch)
        leader = LeaderChangeMessage(
            version=0,
            leader_id=self._node_id,
            voters=[LeaderChangeVoter(voter_id=self._node_id)],
            granting_voters=[LeaderChangeVoter(voter_id=self._node_id)],
        )
        controls = [(ControlRecordType.LEADER_CHANGE, leader.encode(0))]
        first_ever = self.end_offset == 0
        if first_ever:
            version = KRaftVersionRecord(version=0, kraft_version=KRAFT_VERSION_LEVEL)
            controls.append((ControlRecordType.KRAFT_VERSION, version.encode(0)))
        if first_ever or (self.voters is not None and self.voters != own):
            controls.append((ControlRecordType.KRAFT_VOTERS, own.encode(0)))
        self.voters = own
        batch = encode_control_batch(
            controls, timestamp=now_ms, base_offset=self.end_offset, leader_epoch=self.epoch
        )
        self._log.append(batch, (parse_batch_header(batch),), now_ms=now_ms)

    def _check_voters(self, own: VotersRecord) -> None:
        """The quorum must be this node alone."""
        if self.voters is None:
            return
        ids = sorted(voter.voter_id for voter in self.voters.voters)
        if ids != [self._node_id]:
            raise LogDirectoryError(
                f"log directory {self.directory.parent} belongs to a quorum of the nodes "
                f"{', '.join(map(str, ids))}: a quorum of several nodes is not served"
            )
        known, expected = self.voters.voters[0].voter_directory_id, own.voters[0].voter_directory_id
        if known not in (NO_DIRECTORY_ID, expected):
            raise LogDirectoryError(
                f"{self.directory.parent / META_PROPERTIES} belongs to another cluster or directory (it has "
                f"directory.id {uuid_to_text(expected)}, {self.directory.name} has {uuid_to_text(known)}): "
                "put the one back that was here, or name another directory"
            )

    def append(self, records: Sequence[Message], now_ms: int) -> int:
        """Append records, whose first gets the returned offset. Durable after the next flush.

        Raises OSError, with nothing appended.
        """
        first = self.end_offset
        encoded = [
            NewRecord(None, encode_metadata_record(record, record_version(record)), now_ms)
            for record in records
        ]
        batches, headers, offset = bytearray(), [], first
        for group in _groups(encoded, self._limits.max_batch_bytes):
            batch = encode_batch(group, base_offset=offset, leader_epoch=self.epoch)
            batches += batch
            headers.append(parse_batch_header(batch))
            offset += len(group)
        self._log.append(bytes(batches), headers, now_ms=now_ms)
        self._bytes_since_snapshot += len(batches)
        return first

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

    def write_snapshot(self, snapshot: SnapshotId, records: Iterable[Message], now_ms: int) -> None:
        """Write a snapshot; runs in any thread. Raises OSError."""
        write_snapshot(
            self.directory / snapshot.file_name,
            records,
            voters=self.voters,
            timestamp_ms=now_ms,
            last_timestamp_ms=now_ms,
        )

    def clean(self, now_ms: int) -> None:
        """Remove the oldest snapshots that are too much or too old, and the segments before the next one."""
        self._log.remove_deleted_files(now_ms)
        kept = snapshots(self.directory)
        while len(kept) > 1 and (
            self._size_with(kept) > self._limits.max_retention_bytes or self._old(kept[0], now_ms)
        ):
            remove_snapshot(self.directory, kept.pop(0))
            self._log.advance_log_start_offset(kept[0].end_offset)
            self._log.enforce_retention(now_ms, self._log.recovery_point)
        self.snapshot = kept[-1] if kept else None

    def _size_with(self, kept: Sequence[SnapshotId]) -> int:
        sizes = ((self.directory / each.file_name).stat().st_size for each in kept)
        return self._log.size_bytes + sum(sizes)

    def _old(self, snapshot: SnapshotId, now_ms: int) -> bool:
        limit_ms = self._limits.max_retention_ms
        written_ms = int((self.directory / snapshot.file_name).stat().st_mtime * 1000)
        return 0 <= limit_ms < now_ms - written_ms

    def prepare_flush(self) -> FlushTask | None:
        """What is to be synced so that everything appended is durable; run it in a thread."""
        return self._log.prepare_flush()

    def complete_flush(self, task: FlushTask) -> None:
        """The task has run."""
        self._log.complete_flush(task)

    def flush(self) -> None:
        """Sync here and now."""
        self._log.flush()

    def close(self) -> None:
        """Sync and let go of the files."""
        self._log.close()


def _groups(records: list[NewRecord], max_bytes: int) -> Iterator[list[NewRecord]]:
    """Records cut into batches that are not larger than `max_bytes`, as far as single records allow."""
    group: list[NewRecord] = []
    size = 0
    for record in records:
        record_bytes = len(record.value or b"") + 32
        if group and size + record_bytes > max_bytes:
            yield group
            group, size = [], 0
        group.append(record)
        size += record_bytes
    yield group


# -- formatting ---------------------------------------------------------------------------------------


def voters_record(node_id: int, directory_id: UUID, voter: Listener) -> VotersRecord:
    """The quorum of this node alone."""
    return VotersRecord(
        version=0,
        voters=[
            Voter(
                voter_id=node_id,
                voter_directory_id=directory_id,
                endpoints=[Endpoint(name=voter.name, host=voter.host, port=voter.port)],
                kraft_version_feature=KRaftVersionFeature(
                    min_supported_version=0, max_supported_version=KRAFT_VERSION_LEVEL
                ),
            )
        ],
    )


def initial_features() -> list[Message]:
    """The features of a new cluster."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL_FEATURES]


def _must_format(path: Path) -> bool:
    """Whether there is neither a record nor a finished format."""
    if not path.is_dir():
        return True
    has_records = any(file.stat().st_size > 0 for file in path.glob("*.log"))
    return not has_records and latest_snapshot(path) is None


def _format(directory: LogDirectory, path: Path, node_id: int, voter: Listener, now_ms: int) -> None:
    bootstrap = directory.path / BOOTSTRAP_FILE
    if not bootstrap.exists():  # Kafka's own formatting may have put more into it
        write_snapshot(bootstrap, initial_features(), timestamp_ms=now_ms, last_timestamp_ms=0)
    path.mkdir(exist_ok=True)
    write_snapshot(
        path / SnapshotId(0, 0).file_name,
        (),
        voters=voters_record(node_id, directory.directory_id, voter),
        timestamp_ms=now_ms,
        last_timestamp_ms=now_ms,
    )
    sync_directory(directory.path)
    log.info("metadata log formatted dir=%s cluster=%s", path, directory.cluster_id)


def _last_epoch(path: Path, storage: Log) -> int:
    """The highest epoch that this node may have led."""
    in_log = storage.latest_epoch
    return max(_read_quorum_state(path / QUORUM_STATE_FILE), -1 if in_log is None else in_log)


def _read_quorum_state(file: Path) -> int:
    """The epoch in the file; 0 if there is none yet."""
    try:
        with file.open("rb") as opened:
            state = json.loads(opened.read(MAX_QUORUM_STATE_BYTES))
        epoch = state["leaderEpoch"]
        if not isinstance(epoch, int) or epoch < 0:
            raise ValueError(f"leaderEpoch is {epoch!r}")
    except FileNotFoundError:
        return 0
    except (ValueError, KeyError, TypeError) as error:
        raise LogDirectoryError(f"{file} is damaged ({error}): put a good copy in its place") from None
    return epoch


def _write_quorum_state(path: Path, node_id: int, epoch: int) -> None:
    state = {
        "leaderId": node_id,
        "leaderEpoch": epoch,
        "votedId": NO_VOTE,
        "votedDirectoryId": uuid_to_text(NO_DIRECTORY_ID),
        "data_version": 1,
    }
    replace_file(path / QUORUM_STATE_FILE, json.dumps(state, separators=(",", ":")).encode(), sync=True)
