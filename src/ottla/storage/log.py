"""One partition's log: batches appended at the end, read from anywhere, kept within their limits.

A log is a row of segments, each from its base offset to the next one's. Batches come with their offsets and
epochs already in place and go to the last, active segment verbatim. The log knows offsets; their replication
(the high watermark) is the broker's concern and is passed in where it matters.

The order of writes to the disk, which makes a kill at any line survivable:

    append      leader epoch file (if the epoch is new), then the batches, then memory (producers, indexes)
                and the entry of a transaction that they abort. An epoch without batches is dropped at the
                next start; the entries of segments that were not flushed are made again.
    roll        the closed segment's indexes, the producer snapshot, then the new segment. A FlushTask syncs
                the closed one (in a thread if the broker chooses); only `complete_flush` after it moves the
                recovery point, which the broker checkpoints.
    compaction  `.cleaned` files complete and synced, renamed to `.swap`; then the old segments renamed to
                `.deleted`, then `.swap` put in place, `.log` first. As soon as a complete set of `.swap`
                files is there, the next start completes the swap; before, it removes them.
    retention   log start offset in memory, then `.log` files renamed oldest first: the rest is always the
                end of the log, and begins with a segment's base offset.
    truncation  the broker first checkpoints a recovery point not above the offset; then the newest segments
                go, newest first, then the segment's end: the rest is always the beginning of the log.
    close       indexes and snapshot, sync, then recovery point; the broker's clean shutdown marker last.

One thread (the event loop) calls everything but `LogSlice.read` and `FlushTask.run`; `read`,
`find_offset_by_timestamp`, `find_max_timestamp` and `iterate_batches` may also be called in others.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import (
    BatchHeader,
    ControlRecordType,
    control_record_type,
    decode_records,
    end_transaction_coordinator_epoch,
    iterate_headers,
)
from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.errors import LogCorruption, OffsetOutOfRange, PartitionDeleted, StorageError
from ottla.storage.files import OpenFiles
from ottla.storage.flush import FlushTask
from ottla.storage.loading import LoadedLog, load_log
from ottla.storage.log_config import LogConfig
from ottla.storage.partition_directory import (
    DELETED_DIRECTORY_SUFFIX,
    claim_directory,
    parse_partition_directory,
    suffixed_directory_name,
)
from ottla.storage.producer_states import ProducerStates, TransactionMarker
from ottla.storage.recovery import CLEAN_CHECK_BYTES
from ottla.storage.segment import LogSlice, Segment
from ottla.storage.swapping import promote_cleaned, put_swaps_in_place
from ottla.storage.timestamp_search import TimestampedOffset, find_max_timestamp, find_offset_by_timestamp
from ottla.storage.transaction_index import AbortedTransaction, aborted_transaction

__all__ = [
    "AbortedTransaction",
    "AppendResult",
    "FlushTask",
    "Log",
    "LogConfig",
    "LogCorruption",
    "LogSlice",
    "OffsetOutOfRange",
    "PartitionDeleted",
    "StorageError",
    "TimestampedOffset",
]

_ITERATE_BYTES = 1 << 20
_NO_EPOCH = -1


class AppendResult(NamedTuple):
    """The result of an append. After `rolled` or with `flush_due` the broker runs a FlushTask."""

    base_offset: int
    last_offset: int
    rolled: bool
    flush_due: bool


class Log:
    """One partition's log. `open` makes one; see the module for the rules."""

    __slots__ = (
        "_active",
        "_appended_before",
        "_deleted_files",
        "_directory_synced",
        "_epochs",
        "_files",
        "_last_epoch",
        "_open_files",
        "_reshaping",
        "_segments",
        "_snapshots",
        "_truncations",
        "_written",
        "being_cleaned",
        "config",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "producers",
        "recovery_point",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        files: DirectoryFiles,
        config: LogConfig,
        topic_id: UUID | None,
        open_files: OpenFiles,
        loaded: LoadedLog,
    ) -> None:
        self._files = files
        named = parse_partition_directory(files.path.name)
        self.topic, self.partition = named if named is not None else (files.path.name, -1)
        self.topic_id = topic_id
        self.config = config
        self.producers = ProducerStates(config.producer_id_expiration_ms)
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.segments[-1].end_offset
        self.recovery_point = loaded.recovery_point
        self._open_files = open_files
        self._reshaping = threading.RLock()  # held by the loop while segments' files and `_segments` differ
        self._segments = loaded.segments  # replaced, never changed: other threads read it
        self._active = loaded.segments[-1]
        self._appended_before = -self._active.size_bytes
        self._epochs = loaded.epochs
        self._last_epoch = self._newest_epoch()
        self._snapshots = loaded.snapshots
        self._deleted_files: list[tuple[int, str]] = []
        self._truncations = 0
        self._written = loaded.recovered  # whether close has to write indexes and a snapshot
        self._directory_synced = not loaded.created
        self.being_cleaned = False  # retention waits while this is set

    # --- opening --------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        now_ms: int,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean_shutdown: bool = False,
        topic_id: UUID | None = None,
        open_files: OpenFiles | None = None,
        clean_check_bytes: int = CLEAN_CHECK_BYTES,
        keeps_valid: bool = False,
        was_cleaned: bool = False,
    ) -> Log:
        """Open the log in `directory`, which is made if it does not exist, and recover it if need be.

        `recovery_point` and `log_start_offset` are the checkpointed ones. `clean_shutdown`: the last process
        closed the log, so only about the last `clean_check_bytes` are checked. `topic_id` is written into a
        new directory, and must be that of an old one. `keeps_valid`: no valid batch is cut because of damage
        before it, see recovery.py. `was_cleaned`: compaction may have left holes, whatever the topic's policy
        is now. Raises LogCorruption, or StorageError for another topic's directory.
        """
        known = claim_directory(directory, topic_id)
        open_files = open_files or OpenFiles()
        files = DirectoryFiles(directory)
        loaded = load_log(
            files,
            config,
            open_files,
            now_ms=now_ms,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean_check_bytes=clean_check_bytes if clean_shutdown else None,
            keeps_valid=keeps_valid,
            may_have_holes=was_cleaned or config.compacts,
        )
        opened = cls(files, config, known, open_files, loaded)
        opened._restore_producers(now_ms, loaded.transactions_from)
        return opened

    def _restore_producers(self, now_ms: int, transactions_from: int | None = None) -> None:
        """Load the newest snapshot, then the batches after it.

        From the segment with base offset `transactions_from` on the transaction indexes are made again.
        """
        rebuild = transactions_from is not None
        at_most = self.log_end_offset if transactions_from is None else transactions_from
        offset = self._snapshots.load_newest(self.producers, at_most, now_ms)
        start = (
            self._segments[0].base_offset if offset is None else max(offset, self._segments[0].base_offset)
        )
        aborted: list[AbortedTransaction] = []
        if start < self.log_end_offset:
            for header, data in self._iterate(start):
                if header.producer_id >= 0:
                    completed = self.producers.update(header, _marker(header, data))
                    if rebuild and completed is not None and completed.aborted:
                        aborted.append(aborted_transaction(completed))
            self.producers.expire(now_ms)
        if transactions_from is not None:
            self._rebuild_transaction_indexes(transactions_from, aborted)

    def _rebuild_transaction_indexes(self, first: int, aborted: list[AbortedTransaction]) -> None:
        for segment in self._segments:
            if segment.base_offset >= first:
                segment.transaction_index.replace(
                    entry
                    for entry in aborted
                    if segment.base_offset <= entry.last_offset < segment.end_offset
                )

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        segment = Segment(
            self._files, base_offset, self.config, self._open_files, size_bytes=0, now_ms=now_ms
        )
        segment.create_file()
        segment.opened_at(base_offset)
        self._directory_synced = False
        return segment

    def _newest_epoch(self) -> int:
        latest = self._epochs.latest_epoch
        return _NO_EPOCH if latest is None else latest

    def _set_segments(self, segments: list[Segment]) -> None:
        appended = self.appended_bytes
        self._segments = segments
        self._active = segments[-1]
        self._appended_before = appended - self._active.size_bytes

    # --- state ----------------------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        """The present path of the partition's directory."""
        return self._files.path

    @property
    def files(self) -> DirectoryFiles:
        """The files of the partition's directory, for work on them beside the log."""
        return self._files

    @property
    def is_deleted(self) -> bool:
        """Whether `delete` was called, so that work on the files raises PartitionDeleted."""
        return self._files.ended

    @property
    def size_bytes(self) -> int:
        """The bytes of all segments' record batches."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def appended_bytes(self) -> int:
        """The bytes appended since the log was opened; a truncation makes it useless for a difference."""
        return self._appended_before + self._active.size_bytes

    @property
    def segment_base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self._segments]

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments, the active one last."""
        return tuple(self._segments)

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch that has an entry, or None."""
        return self._epochs.latest_epoch

    @property
    def leader_epochs(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of every epoch in the log."""
        return self._epochs.entries

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at `offset`, -1 if it is not known."""
        epoch = self._epochs.epoch_at(offset)
        return _NO_EPOCH if epoch is None else epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch not above `epoch`, the offset after its last record), or (-1, -1). See KIP-279."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    def assign_epoch(self, epoch: int) -> None:
        """A leader begins `epoch` at the log's end (before its first append).

        In memory; the file follows with the first batch: an epoch without batches is dropped at the next
        start.
        """
        self._epochs.restore(epoch, self.log_end_offset)

    def update_config(self, config: LogConfig) -> None:
        """Use changed settings; index settings apply from the next segment on."""
        self.config = config
        self.producers.set_expiration(config.producer_id_expiration_ms)

    # --- appending ------------------------------------------------------------------------------------

    def append(
        self, batches: bytes | memoryview, headers: Sequence[BatchHeader], *, now_ms: int
    ) -> AppendResult:
        """Append batches verbatim; `headers` are theirs, with offsets and epochs as in the bytes.

        Offsets must not go back; gaps are allowed (a follower of a compacted log has them). Raises ValueError
        for offsets or sizes that do not fit, OSError when the disk refuses: then nothing was appended.
        """
        first = headers[0]
        if first.base_offset < self.log_end_offset:
            raise ValueError(f"offset {first.base_offset} is below the log's end, {self.log_end_offset}")
        next_offset = first.base_offset
        size_bytes = 0
        max_timestamp = -1
        for header in headers:
            if header.base_offset < next_offset:
                raise ValueError(f"offset {header.base_offset} where at least {next_offset} is expected")
            next_offset = header.base_offset + header.last_offset_delta + 1
            size_bytes += header.batch_length + 12
            if header.max_timestamp > max_timestamp:
                max_timestamp = header.max_timestamp
        if size_bytes != len(batches):
            raise ValueError(f"{len(batches)} bytes where the headers say {size_bytes}")
        rolled = self._roll_if_due(first.base_offset, next_offset - 1, size_bytes, max_timestamp, now_ms)
        for header in headers:
            if header.partition_leader_epoch > self._last_epoch:
                self._epochs.assign(header.partition_leader_epoch, header.base_offset)
                self._last_epoch = header.partition_leader_epoch
        self._written = True
        self._active.append(batches, headers)
        self.log_end_offset = next_offset
        position = 0
        for header in headers:
            if header.producer_id >= 0:
                completed = self.producers.update(header, _marker(header, memoryview(batches)[position:]))
                if completed is not None and completed.aborted:
                    self._active.transaction_index.append(aborted_transaction(completed))
            position += header.batch_length + 12
        return AppendResult(
            first.base_offset,
            next_offset - 1,
            rolled,
            next_offset - self.recovery_point >= self.config.flush_messages,
        )

    def _roll_if_due(
        self, base_offset: int, last_offset: int, size_bytes: int, max_timestamp: int, now_ms: int
    ) -> bool:
        active = self._active
        config = self.config
        size = active.size_bytes
        if size:
            due = (
                size + size_bytes > config.segment_bytes
                or active.indexes_full
                or not active.can_hold(last_offset)
                or active.age_ms(now_ms, max_timestamp) > config.segment_ms - config.segment_jitter_ms
            )
        else:
            due = not active.can_hold(last_offset)
        return due and self._roll(base_offset, now_ms)

    def roll(self, now_ms: int) -> bool:
        """Close the active segment and begin a new one at the log's end. False if the active one is empty."""
        return self._active.size_bytes > 0 and self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> bool:
        active = self._active
        segments = self._segments
        if active.size_bytes:
            active.write_indexes(closing=True)
            active.opened_at(active.end_offset)  # readers will soon not need its tail any more
            self._snapshots.write(base_offset, self.producers, sync=False)
        self._written = True
        with self._reshaping:
            if not active.size_bytes:  # too far below the new offset for an index
                self._remove_segment(active, now_ms)
                segments = segments[:-1]
            self._set_segments([*segments, self._new_segment(base_offset, now_ms)])
        return True

    # --- reading --------------------------------------------------------------------------------------

    def read(
        self, start_offset: int, max_bytes: int, *, upper_offset: int, at_least_one_batch: bool
    ) -> LogSlice:
        """Whole batches: the first holds `start_offset` (or the next record), none reaches `upper_offset`.

        At most `max_bytes`, unless `at_least_one_batch` and the first one alone is larger; from one segment.
        Empty at the log's end. Raises OffsetOutOfRange, or LogCorruption at invalid bytes.
        """
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise OffsetOutOfRange(start_offset, self.log_start_offset, self.log_end_offset)
        try:
            return self._read(start_offset, max_bytes, upper_offset, at_least_one_batch)
        except FileNotFoundError:  # in another thread: the segment was deleted meanwhile
            raise OffsetOutOfRange(start_offset, self.log_start_offset, self.log_end_offset) from None

    def _read(
        self, start_offset: int, max_bytes: int, upper_offset: int, at_least_one_batch: bool
    ) -> LogSlice:
        active = self._active
        if start_offset < upper_offset:
            if start_offset >= active.base_offset:
                found = active.read(start_offset, max_bytes, upper_offset, at_least_one_batch)
                if found is not None:
                    return found
            else:
                segments = self._segments
                for slot in range(max(0, _slot(segments, start_offset)), len(segments)):
                    found = segments[slot].read(start_offset, max_bytes, upper_offset, at_least_one_batch)
                    if found is not None:
                        return found
        return LogSlice(active.file(), active.size_bytes, 0, -1)

    def iterate_batches(self, start_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Header and bytes of every batch from the one with `start_offset` to the log's end, a MiB at a time.

        Raises OffsetOutOfRange, or LogCorruption.
        """
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise OffsetOutOfRange(start_offset, self.log_start_offset, self.log_end_offset)
        return self._iterate(start_offset)

    def _iterate(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        while offset < self.log_end_offset:
            piece = self._read(offset, _ITERATE_BYTES, self.log_end_offset, True)
            data = memoryview(piece.read())
            before = offset
            position = 0
            try:
                for position, header in iterate_headers(data):
                    yield header, data[position : position + header.size_bytes]
                    offset = header.next_offset
            except CorruptBatch as error:
                segment = self._segments[max(0, _slot(self._segments, offset))]
                raise segment.corruption(piece.position + position, offset, str(error)) from error
            if offset == before:
                return  # truncated meanwhile

    def find_offset_by_timestamp(self, timestamp_ms: int) -> TimestampedOffset | None:
        """The first record whose timestamp is not below `timestamp_ms`. None if there is none.

        Raises PartitionDeleted, LogCorruption.
        """
        return self._search(
            lambda segments: find_offset_by_timestamp(segments, timestamp_ms, self.log_start_offset)
        )

    def find_max_timestamp(self) -> TimestampedOffset | None:
        """The first record that has the largest timestamp of the log (KIP-734). None without timestamps.

        Raises PartitionDeleted, LogCorruption.
        """
        return self._search(find_max_timestamp)

    def _search(
        self, find: Callable[[Sequence[Segment]], TimestampedOffset | None]
    ) -> TimestampedOffset | None:
        """Search, in any thread; search again if segments were deleted meanwhile."""
        while True:
            segments = self._segments
            try:
                found = find(segments)
            except PartitionDeleted:
                raise
            except FileNotFoundError:
                with self._reshaping:  # until the files and the segments agree again
                    self._files.refuse_if_ended()
                if self._segments is segments:
                    raise  # neither retention nor a cleaning nor a truncation has removed the file
                continue
            if found is None or found.offset >= self.log_start_offset or self._segments is segments:
                return found

    def aborted_transactions(self, start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that may have records in start_offset..upper_offset (exclusive).

        In the order of their markers. Kafka's rule: the indexes are read from the segment with `start_offset`
        on, until an entry says that no transaction before `upper_offset` was open any more.
        """
        found: list[AbortedTransaction] = []
        segments = self._segments
        for slot in range(max(0, _slot(segments, start_offset)), len(segments)):
            entries, complete = segments[slot].transaction_index.collect(start_offset, upper_offset)
            found += entries
            if complete:
                break
        return found

    def upper_bound_of(self, piece: LogSlice) -> int:
        """An offset that no batch of `piece` reaches: the
        next one in the index, or the end of its segment.
        """
        segments = self._segments
        slot = max(0, _slot(segments, piece.first_batch_offset))
        indexed = segments[slot].offset_indexed_from(piece.position + piece.size_bytes)
        if indexed is not None:
            return indexed
        return segments[slot + 1].base_offset if slot + 1 < len(segments) else self.log_end_offset

    # --- compaction -----------------------------------------------------------------------------------

    def replace_segments(
        self, old: Sequence[Segment], size_bytes: int, *, has_transaction_index: bool, now_ms: int
    ) -> None:
        """Put the complete `.cleaned` files of old[0].base_offset in the place of the segments `old`.

        See the module for the order. Raises StorageError, and changes nothing, if these are no longer closed
        segments of this log.
        """
        with self._reshaping:
            self._replace_segments(old, size_bytes, has_transaction_index, now_ms)

    def _replace_segments(
        self, old: Sequence[Segment], size_bytes: int, has_transaction_index: bool, now_ms: int
    ) -> None:
        segments = self._segments
        first = next((at for at, each in enumerate(segments) if each is old[0]), len(segments))
        end = first + len(old)
        if end >= len(segments) or any(a is not b for a, b in zip(segments[first:end], old, strict=True)):
            raise StorageError(f"{self.directory}: the segments changed while they were cleaned")
        base_offset = old[0].base_offset
        promote_cleaned(self._files, base_offset)
        cleaned = Segment(
            self._files,
            base_offset,
            self.config,
            self._open_files,
            size_bytes=size_bytes,
            now_ms=now_ms,
            has_transaction_index=has_transaction_index,
        )
        cleaned.opened_at(old[-1].end_offset)
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in old:
            renamed = segment.rename_for_deletion()
            if segment.base_offset != base_offset:
                renamed += self._snapshots.rename_for_deletion(segment.base_offset)
            self._deleted_files += [(due_ms, name) for name in renamed]
        put_swaps_in_place(self._files, base_offset)
        self._set_segments([*segments[:first], cleaned, *segments[end:]])
        self._directory_synced = False

    # --- shortening -----------------------------------------------------------------------------------

    def advance_log_start_offset(self, offset: int) -> bool:
        """Hide the records below `offset` from readers (DeleteRecords); retention removes their files.

        Durable once the broker has checkpointed it. False if the log starts there already. Raises
        OffsetOutOfRange for an offset above the log's end.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self._epochs.truncate_from_start(offset)
        self._written = True
        return True

    def enforce_retention(self, now_ms: int, high_watermark: int) -> list[int]:
        """Delete the oldest segments that are too old, too many or below the log's start.

        A segment that reaches above the high watermark stays. Returns the deleted segments' base offsets;
        their files are renamed, and removed by `remove_deleted_files` after file.delete.delay.ms. No-op while
        the log is cleaned.
        """
        config = self.config
        if self.being_cleaned or self.is_deleted:
            return []
        deleted = self._delete_while(
            lambda _, following: following is not None and following.base_offset <= self.log_start_offset,
            now_ms, high_watermark,
        )  # fmt: skip
        if not config.deletes:
            return deleted
        if config.retention_ms >= 0:
            oldest = now_ms - config.retention_ms
            deleted += self._delete_while(
                lambda segment, _: segment.retention_timestamp() < oldest, now_ms, high_watermark
            )
        if config.retention_bytes >= 0:
            deleted += self._delete_while(
                lambda segment, _: self.size_bytes - segment.size_bytes >= config.retention_bytes,
                now_ms,
                high_watermark,
            )
        return deleted

    def _delete_while(
        self, goes: Callable[[Segment, Segment | None], bool], now_ms: int, high_watermark: int
    ) -> list[int]:
        """Delete segments from the oldest on while `goes(segment, the next one)`."""
        deleted: list[int] = []
        while True:
            segments = self._segments
            segment = segments[0]
            following = segments[1] if len(segments) > 1 else None
            if (following is None and segment.size_bytes == 0) or segment.end_offset > high_watermark:
                return deleted
            if not goes(segment, following):
                return deleted
            if following is None:
                self._roll(self.log_end_offset, now_ms)
            with self._reshaping:
                self._set_segments(self._segments[1:])
                self._written = True
                self._remove_segment(segment, now_ms)
            self.advance_log_start_offset(self._segments[0].base_offset)
            deleted.append(segment.base_offset)

    def _remove_segment(self, segment: Segment, now_ms: int) -> None:
        due_ms = now_ms + self.config.file_delete_delay_ms
        renamed = segment.rename_for_deletion() + self._snapshots.rename_for_deletion(segment.base_offset)
        self._deleted_files += [(due_ms, name) for name in renamed]

    def remove_deleted_files(self, now_ms: int) -> int:
        """Remove the renamed files that are due. Returns their number."""
        due = [name for due_ms, name in self._deleted_files if due_ms <= now_ms]
        if due:
            self._deleted_files = [entry for entry in self._deleted_files if entry[0] > now_ms]
            for name in due:
                self._files.remove(name)
        return len(due)

    def lower_recovery_point(self, offset: int) -> None:
        """The log is about to be cut at `offset`: syncs so far do not cover later appends there.

        A flush under way does not raise the recovery point any more.
        """
        self._truncations += 1
        self.recovery_point = min(self.recovery_point, offset)

    def truncate_to(self, offset: int, *, now_ms: int = 0) -> bool:
        """Cut all records from `offset` on (a follower that diverged). False if there are none.

        Cuts whole batches: if `offset` is inside of one, the log ends with that batch's base offset. Epochs
        that begin at the new end are dropped too. The broker has checkpointed a recovery point not above
        `offset` before (see `lower_recovery_point`). Raises ValueError for a negative offset.
        """
        if offset < 0:
            raise ValueError(f"cannot truncate to offset {offset}")
        if offset >= self.log_end_offset:
            # An epoch that began here without records is not in the new leader's log either.
            self._epochs.truncate_from_end(self.log_end_offset)
            self._last_epoch = self._newest_epoch()
            return False
        if offset < self._segments[0].base_offset:
            self.truncate_fully(offset, now_ms=now_ms)
            return True
        self._truncations += 1
        self._written = True
        segments = list(self._segments)
        while segments[-1].base_offset >= offset and len(segments) > 1:
            with self._reshaping:
                self._remove_segment(segments.pop(), now_ms)
                self._set_segments(list(segments))
        end = self._active.truncate_to(offset)
        self._active.opened_at(end)
        self.log_end_offset = end
        self.recovery_point = min(self.recovery_point, end)
        self.log_start_offset = min(self.log_start_offset, end)
        self._epochs.truncate_from_end(end)
        self._last_epoch = self._newest_epoch()
        for snapshot in [snapshot for snapshot in self._snapshots.offsets if snapshot > end]:
            self._snapshots.remove(snapshot)
        self._restore_producers(now_ms)
        return True

    def truncate_fully(self, new_start_offset: int, *, now_ms: int = 0) -> None:
        """Drop all records; the empty log begins at `new_start_offset`."""
        self._truncations += 1
        self._written = True
        with self._reshaping:
            for segment in reversed(self._segments):
                self._remove_segment(segment, now_ms)
            self._set_segments([self._new_segment(new_start_offset, now_ms)])
        self.log_start_offset = self.log_end_offset = new_start_offset
        self.recovery_point = min(self.recovery_point, new_start_offset)
        self._epochs.clear()
        self._last_epoch = _NO_EPOCH
        self.producers.clear()
        for snapshot in list(self._snapshots.offsets):
            self._snapshots.remove(snapshot)

    # --- flushing and closing -------------------------------------------------------------------------

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether a closed segment waits for a FlushTask."""
        return self._active.base_offset > self.recovery_point

    def prepare_flush(self, *, closed_only: bool = False) -> FlushTask | None:
        """A sync up to the log's end or (`closed_only`) up to the active segment.

        None if all is synced, or the log was deleted.
        """
        end = self._active.base_offset if closed_only else self.log_end_offset
        if end <= self.recovery_point or self.is_deleted:
            return None
        dirty = [
            (segment, segment.file())
            for segment in self._segments
            if segment.end_offset > self.recovery_point and segment.base_offset < end
        ]
        created, self._directory_synced = not self._directory_synced, True
        return FlushTask(end, self._truncations, dirty, self._epochs, self._files, created=created)

    def complete_flush(self, task: FlushTask) -> None:
        """`task` has run: move the recovery point, unless the log was truncated meanwhile."""
        if task.truncations == self._truncations:
            self.recovery_point = max(self.recovery_point, task.end_offset)

    def flush(self) -> None:
        """Sync all files now."""
        task = self.prepare_flush()
        if task is not None and task.run():
            self.complete_flush(task)

    def close(self) -> None:
        """Write the indexes and the producer snapshot, sync, and close the files."""
        if self._written or not self._active.has_index_files:
            self._active.write_indexes(closing=True)
            self._snapshots.write(self.log_end_offset, self.producers, sync=False)
            self._epochs.save_changes()
            self._epochs.ensure_file()
        self.flush()
        self.close_files()

    def close_files(self) -> None:
        """Close the files without writing."""
        for segment in self._segments:
            segment.close_file()

    def delete(self) -> Path | None:
        """End the log: its directory becomes `<topic>-<n>.<uuid>-delete`, work on its files is refused.

        Returns the directory's new path, for its removal; None if the directory was gone already.
        """
        name = suffixed_directory_name(self.topic, self.partition, DELETED_DIRECTORY_SUFFIX)
        target = self.directory.with_name(name)
        renamed = self._files.end(target)
        self._deleted_files.clear()
        for segment in self._segments:
            segment.discard()
        return target if renamed else None


_BASE_OFFSET = attrgetter("base_offset")


def _slot(segments: list[Segment], offset: int) -> int:
    """The index of the segment that holds `offset`: the last
    one that begins at or below it; -1 if all begin above.
    """
    return bisect_right(segments, offset, key=_BASE_OFFSET) - 1


def _marker(header: BatchHeader, data: memoryview) -> TransactionMarker | None:
    """The COMMIT or ABORT marker in a control batch."""
    if not header.is_control:
        return None
    for record in decode_records(data):
        kind = control_record_type(record)
        if kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            return TransactionMarker(
                kind is ControlRecordType.COMMIT, end_transaction_coordinator_epoch(record)
            )
    return None
