"""Checks every file of a data directory or a part of it, and names each place that is wrong.

Theory of operation. A segment's batches go by once; its indexes, the leader epochs and the records of
internal topics are held against them on the way. A broker may write meanwhile, so a problem counts only if
none of the files it is about has changed while they were read; otherwise they are read again. Indexes are
read before their segment, so they never speak of batches that were appended later. A file that is gone
meanwhile was deleted, which is no problem.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from ottla.protocol.internal_records import RecordFormat, format_of
from ottla.storage.inspection import text_files
from ottla.storage.inspection.entry_files import (
    ProducerEntry,
    aborted_entries,
    offset_entries,
    producer_entries,
    time_entries,
)
from ottla.storage.inspection.file_kinds import FileKind, KnownFile, known_file, partition_of
from ottla.storage.inspection.index_checks import TransactionIndexCheck, order_problems
from ottla.storage.inspection.problem import DamagedFile, Problem
from ottla.storage.inspection.segment_batches import SegmentFile, StoredBatch
from ottla.storage.inspection.segment_verification import Checked, SegmentVerification, side_files
from ottla.storage.log_directory import META_PROPERTIES

TRIES: Final = 5
PAUSE_SECONDS: Final = 0.05
PROBLEMS_OF_A_FILE: Final = 100
"""In a file with as many problems, no more are looked for."""
_INDEXES: Final = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX})


def _unseen(_size_bytes: int) -> None:
    pass


class Verification:
    """One check. Its methods yield problems; `checked` counts the files, batches and records."""

    def __init__(
        self, *, deep: bool = True, gaps: bool = False, seen: Callable[[int], None] = _unseen
    ) -> None:
        """deep: decode records too, not only headers and CRCs. seen: told the bytes that have gone by.

        gaps: missing offsets are problems, as they are in topics that are not compacted.
        """
        self.checked = Checked()
        self._segments = SegmentVerification(deep, gaps, seen)
        self._gaps = gaps
        self._logs: dict[tuple[str, int], tuple[Path, int]] = {}  # directory, and the end when it was checked

    def path(self, path: Path) -> Iterator[Problem]:
        """The problems of a file, a partition's directory or a data directory. Raises OSError."""
        path.stat()
        if not path.is_dir():
            yield from self._file(path)
        elif partition_of(path.name) is not None and not (path / META_PROPERTIES).exists():
            yield from self.partition(path)
        else:
            yield from self.data_directory(path)

    def data_directory(self, directory: Path) -> Iterator[Problem]:
        """The problems of the partitions in a data directory, and of its own files."""
        files = []
        for path in sorted(directory.iterdir()):
            if not path.is_dir():
                files.append(path)
            elif partition_of(path.name) is not None:
                yield from self.partition(path)
        for path in files:
            known = known_file(path)
            if known is not None:
                yield from self._settled([path], partial(self._alone, known))

    def partition(self, directory: Path) -> Iterator[Problem]:
        """The problems of a partition's directory: of each file, and where they do not fit together."""
        try:
            found = [one for path in sorted(directory.iterdir()) if (one := known_file(path)) is not None]
        except FileNotFoundError:
            return  # the partition was deleted meanwhile
        segments = {one.base_offset: one for one in found if _is_segment(one)}
        for one in found:
            if one.kind in _INDEXES and one.base_offset in segments and not one.passing:
                continue  # held against its segment
            if not _is_segment(one):
                yield from self._settled([one.path], partial(self._alone, one))
        before: KnownFile | None = None
        end_offset = -1
        for segment in segments.values():
            base_offset = segment.base_offset or 0
            if before is not None and (base_offset < end_offset or (self._gaps and base_offset > end_offset)):
                look = partial(self._between, before, segment)
                yield from self._settled([before.path, segment.path], look)
            ends: list[int] = []
            yield from self._segment(segment, ends)
            before, end_offset = segment, max([base_offset, *ends])
        named = partition_of(directory.name)
        if named is not None and segments:
            self._logs[named] = directory, end_offset

    def _between(self, before: KnownFile, segment: KnownFile, _: Checked) -> Iterator[Problem]:
        """A segment that does not begin where the one before it ends. Raises OSError."""
        base_offset, end_offset = segment.base_offset or 0, _end_offset(before)
        segment.path.stat()
        if base_offset < end_offset or (self._gaps and base_offset > end_offset):
            reason = f"the segment begins at {base_offset}, the one before it ends with {end_offset - 1}"
            yield Problem(segment.path, reason, 0, base_offset)

    def _file(self, path: Path) -> Iterator[Problem]:
        known = known_file(path)
        if known is None:
            yield Problem(path, "the name is not one of a file that Kafka keeps")
            return
        if known.kind in _INDEXES and not known.passing:
            segment = KnownFile(path.with_suffix(".log"), FileKind.SEGMENT, known.base_offset)
            if segment.path.exists():
                yield from (problem for problem in self._segment(segment, []) if problem.path == path)
                return
        if _is_segment(known):
            yield from self._segment(known, [])
        else:
            yield from self._settled([path], partial(self._alone, known))

    def _segment(self, segment: KnownFile, ends: list[int]) -> Iterator[Problem]:
        named = partition_of(segment.path.absolute().parent.name)
        record_format = RecordFormat.BYTES if named is None else format_of(named[0])
        look = partial(self._segments.segment, segment, record_format)
        yield from self._settled([*side_files(segment), segment.path], lambda checked: look(checked, ends))

    def _settled(self, paths: list[Path], look: Callable[[Checked], Iterator[Problem]]) -> Iterator[Problem]:
        """The problems that `look` finds while none of the files changes; it looks again after a change.

        In files that never rest, those that it finds each time.
        """
        lasting: set[Problem] | None = None
        for attempt in range(TRIES):
            if attempt:
                time.sleep(PAUSE_SECONDS)
            before = [_identity(path) for path in paths]
            checked = Checked()
            problems = _first_problems(look(checked), paths[-1])
            if not problems or before == [_identity(path) for path in paths]:
                break
            lasting = set(problems) if lasting is None else lasting.intersection(problems)
            problems = [problem for problem in problems if problem in lasting]
        self.checked.add(checked)
        yield from problems

    def _alone(self, known: KnownFile, checked: Checked) -> Iterator[Problem]:
        """The problems that a file shows by itself. Raises OSError."""
        try:
            match known.kind:
                case FileKind.SEGMENT:
                    base_offset = known.base_offset or 0
                    yield from self._segments.batches(
                        known.path, base_offset, RecordFormat.BYTES, (), checked, []
                    )
                case FileKind.METADATA_SNAPSHOT:
                    yield from self._segments.snapshot(known, checked)
                case FileKind.OFFSET_CHECKPOINT:
                    checked.files += 1
                    yield from self._beyond_ends(known.path)
                case _:
                    checked.files += 1
                    yield from _small_file(known)
        except DamagedFile as damaged:
            yield damaged.problem

    def _beyond_ends(self, path: Path) -> Iterator[Problem]:
        """The offsets of a checkpoint that are beyond the ends of the logs that were checked."""
        for (topic, partition), offset in text_files.offset_checkpoint(path).items():
            directory, end_offset = self._logs.get((topic, partition), (None, offset))
            if directory is not None and offset > end_offset:
                end_offset = _log_end_offset(directory)  # it may have grown since it was checked
            if offset > end_offset:
                reason = f"{topic}-{partition} is said to reach offset {offset}, its log ends at {end_offset}"
                yield Problem(path, reason, offset=offset)


def _end_offset(segment: KnownFile) -> int:
    """The offset after a segment's last whole batch. Raises OSError."""
    end_offset = segment.base_offset or 0
    for batch in SegmentFile(segment.path).batches():
        if isinstance(batch, StoredBatch):
            end_offset = max(end_offset, batch.header.next_offset)
    return end_offset


def _log_end_offset(directory: Path) -> int:
    """The offset after a log's last whole batch. Raises OSError."""
    found = [
        one for path in directory.iterdir() if (one := known_file(path)) is not None and _is_segment(one)
    ]
    return max((_end_offset(one) for one in sorted(found, key=lambda one: one.path.name)[-1:]), default=0)


def _first_problems(found: Iterator[Problem], path: Path) -> list[Problem]:
    """The problems, at most PROBLEMS_OF_A_FILE; none of a file that is gone."""
    problems: list[Problem] = []
    try:
        problems.extend(islice(found, PROBLEMS_OF_A_FILE))
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(Problem(path, f"the file can't be read: {error.strerror}"))
    return problems


def _small_file(known: KnownFile) -> Iterator[Problem]:
    path, base_offset = known.path, known.base_offset or 0
    match known.kind:
        case FileKind.OFFSET_INDEX:
            yield from order_problems(path, offset_entries(path, base_offset))
        case FileKind.TIME_INDEX:
            yield from order_problems(path, time_entries(path, base_offset))
        case FileKind.TRANSACTION_INDEX:
            yield from TransactionIndexCheck(path, base_offset, aborted_entries(path)).alone()
        case FileKind.PRODUCER_SNAPSHOT:
            yield from _producers(path, base_offset, producer_entries(path))
        case FileKind.LEADER_EPOCHS:
            text_files.leader_epochs(path)
        case FileKind.PARTITION_METADATA:
            text_files.partition_metadata(path)
        case FileKind.META_PROPERTIES:
            text_files.meta_properties(path)
        case FileKind.QUORUM_STATE:
            text_files.quorum_state(path)
        case FileKind.CLEAN_SHUTDOWN:
            text_files.clean_shutdown(path)
        case _:
            raise AssertionError(known.kind)


def _producers(path: Path, end_offset: int, entries: list[ProducerEntry]) -> Iterator[Problem]:
    seen: set[int] = set()
    for entry in entries:
        if entry.producer_id in seen:
            yield Problem(path, f"producer {entry.producer_id} is there twice", entry.at)
        seen.add(entry.producer_id)
        if max(entry.last_offset, entry.current_txn_first_offset) >= end_offset:
            reason = f"producer {entry.producer_id} wrote at the snapshot's offset {end_offset} or after it"
            yield Problem(path, reason, entry.at, entry.last_offset)


def _is_segment(known: KnownFile) -> bool:
    return known.kind is FileKind.SEGMENT and not known.passing


def _identity(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written or replaced; None while it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
