"""The content of a partition's directory, and the checks of it after a crash.

Theory of operation. Everything below the recovery point was fsynced; above it records may only have been in
the page cache. A killed process leaves the page cache, so its log ends at worst with a part of one write. A
machine that lost power may also have lost recent writes, page by page and in any order: a page in the middle
reads as zeros, a closed segment has lost its end or all of itself while the next one exists.

After an unclean stop every batch from the segment with the recovery point on is checked: header, offsets,
CRC, and whether each segment ends where the next one begins. The position of the first damage decides:

    below the recovery point    LogCorruption, and no file is changed: that was on the disk, and only a person
                                can know whether a copy of it exists
    above it                    the log is cut there, with all later segments, and one line names the offsets

Above the recovery point this is what Apache Kafka does, and replication relies on it: a log is a beginning of
its leader's, and a follower fetches the rest again. Kafka detects only invalid bytes: where whole batches are
gone it goes on with a hole, which is never filled. A compacted log has holes of its own; there only a segment
that is empty, though its indexes are not, is known to have lost batches.

A log that may not lose valid batches (`keeps_valid`: the metadata log, which acknowledges synced records and
checkpoints its recovery point much later) is cut at a torn tail only, and refused otherwise.

Before a deliberate truncation the recovery point checkpoint is lowered. A cut removes the segments from the
newest on, then the end of the damaged one: a kill in between leaves a log that the next start cuts again.

Indexes, leader epochs and producer states are derived: missing or damaged ones are made again.
"""

from __future__ import annotations

import logging
import mmap
import os
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from struct import Struct

from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    CONTROL,
    MAGIC,
    BatchHeader,
    crc_valid,
    parse_batch_header,
)
from ottla.storage.errors import LogCorruption
from ottla.storage.file_names import OFFSET_DIGITS, offset_file_name, offset_of
from ottla.storage.files import sync_directory
from ottla.storage.indexes import MAX_RELATIVE_OFFSET, CorruptIndex
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.producer_states import SNAPSHOT_SUFFIX
from ottla.storage.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TRANSACTION_INDEX_SUFFIX,
    BatchPosition,
    Segment,
)
from ottla.storage.swapping import CLEANED_SUFFIX, SWAP_SUFFIX

TEMPORARY_SUFFIX = ".tmp"

CLEAN_CHECK_BYTES = 32 * 1024
"""The bytes at the end of a cleanly closed log that are checked at least."""

_MAGIC_POSITION = 16
_OFFSET_AND_LENGTH = Struct(">qi")

log = logging.getLogger("ottla.storage")


@dataclass(slots=True)
class DirectoryContents:
    """A partition's directory: sizes of the logs by base offset, snapshots by offset, indexes that exist."""

    logs: dict[int, int] = field(default_factory=dict)
    snapshots: list[int] = field(default_factory=list)
    indexed: set[int] = field(default_factory=set)
    transaction_indexed: set[int] = field(default_factory=set)
    others: dict[int, list[str]] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)


def read_directory(directory: Path) -> DirectoryContents:
    """One pass over the directory."""
    contents = DirectoryContents()
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            if ".checkpoint" in name:
                continue  # a snapshot of the metadata log, not a file of a segment
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TEMPORARY_SUFFIX)):
                contents.leftovers.append(name)
                continue
            offset = offset_of(name)
            if offset is None:
                continue
            suffix = name[OFFSET_DIGITS:]
            if suffix == LOG_SUFFIX:
                contents.logs[offset] = entry.stat().st_size
            elif suffix == SNAPSHOT_SUFFIX:
                contents.snapshots.append(offset)
            elif suffix in SEGMENT_SUFFIXES:
                contents.others.setdefault(offset, []).append(name)
                if suffix == INDEX_SUFFIX:
                    contents.indexed.add(offset)
                elif suffix == TRANSACTION_INDEX_SUFFIX:
                    contents.transaction_indexed.add(offset)
    return contents


def settle_leftovers(directory: Path, contents: DirectoryContents) -> DirectoryContents:
    """Complete or revert the operations that a crash interrupted, remove strays. Returns the new content.

    `.deleted`, `.cleaned` and `.tmp` files are removed. `.swap` files are the complete result of a
    compaction: they replace the segments in their range, unless a `.cleaned` file shows that they are not
    complete. An index without its log is removed.
    """
    if contents.leftovers:
        _finish_swaps(directory, contents)
        for name in contents.leftovers:
            if not name.endswith(SWAP_SUFFIX):
                (directory / name).unlink(missing_ok=True)
        contents = read_directory(directory)
    for offset, names in contents.others.items():
        if offset not in contents.logs:
            for name in names:
                log.warning("index without a log removed path=%s", directory / name)
                (directory / name).unlink(missing_ok=True)
    return contents


def _finish_swaps(directory: Path, contents: DirectoryContents) -> None:
    swaps = [name for name in contents.leftovers if name.endswith(SWAP_SUFFIX)]
    if not swaps:
        return
    unfinished = [offset_of(name) for name in contents.leftovers if name.endswith(CLEANED_SUFFIX)]
    first_unfinished = min((offset for offset in unfinished if offset is not None), default=None)
    valid: list[str] = []
    for name in swaps:
        offset = offset_of(name)
        if offset is None or (first_unfinished is not None and offset >= first_unfinished):
            (directory / name).unlink()
        else:
            valid.append(name)
    ranges: list[tuple[int, int]] = []
    for name in valid:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            base = offset_of(name) or 0
            ranges.append((base, max(base + 1, _end_of_file(directory / name, base))))
    if ranges:
        first, end = min(base for base, _ in ranges), max(end for _, end in ranges)
        # An earlier start may have removed a log and been killed before it removed the indexes.
        for base in contents.logs.keys() | contents.others.keys():
            if first <= base < end:
                for suffix in SEGMENT_SUFFIXES:
                    (directory / offset_file_name(base, suffix)).unlink(missing_ok=True)
    # Logs first: once they have their names no later start looks for segments to replace in their range.
    for name in sorted(valid, key=lambda name: not name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        log.info("finished the compaction that was interrupted path=%s", directory / name)
        os.replace(directory / name, directory / name.removesuffix(SWAP_SUFFIX))


def _end_of_file(path: Path, base_offset: int, position: int = 0) -> int:
    """The offset after the last batch of a segment file, found by a walk from the one at `position` on."""
    end = base_offset
    with path.open("rb") as file:
        while True:
            file.seek(position)
            start = file.read(BATCH_HEADER_BYTES)
            if len(start) < BATCH_HEADER_BYTES:
                return end
            try:
                header = parse_batch_header(start)
            except CorruptBatch:
                return end
            end = header.next_offset
            position += header.size_bytes


# --- checking segments ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checked:
    """The valid part of a segment. `problem` describes the damage at `valid_bytes`, None without any.

    `has_control`: there are control batches, so transactions may end here.
    """

    valid_bytes: int
    next_offset: int
    problem: str | None
    has_control: bool = False


def check_segment(
    segment: Segment,
    epochs: LeaderEpochs | None,
    *,
    position: int = 0,
    next_offset: int,
    limit_offset: int | None = None,
) -> Checked:
    """Check every batch from `position` on; add the leader epochs to `epochs`. Changes no file.

    No batch may reach `limit_offset`, where the next segment begins.
    """
    if segment.size_bytes <= position:
        return Checked(position, next_offset, None)
    control = 0
    with (
        mmap.mmap(segment.file().fd, segment.size_bytes, access=mmap.ACCESS_READ) as content,
        memoryview(content) as data,
    ):
        while position < len(data):
            found = _check_batch(data, position, next_offset, segment.base_offset)
            if isinstance(found, str):
                return Checked(position, next_offset, found, control != 0)
            if limit_offset is not None and found.next_offset > limit_offset:
                reason = f"a batch ends with {found.last_offset}, the next segment begins with {limit_offset}"
                return Checked(position, next_offset, reason, control != 0)
            control |= found.attributes & CONTROL
            if epochs is not None:
                epochs.restore(found.partition_leader_epoch, found.base_offset)
            position += found.size_bytes
            next_offset = found.next_offset
    return Checked(position, next_offset, None, control != 0)


def _check_batch(data: memoryview, position: int, next_offset: int, base_offset: int) -> BatchHeader | str:
    """The header of a valid batch, or a description of the damage."""
    try:
        header = parse_batch_header(data, position)
    except CorruptBatch as error:
        return str(error)
    if header.base_offset < next_offset:
        return f"a batch begins with offset {header.base_offset} where at least {next_offset} is expected"
    if header.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        return f"a batch ends with offset {header.last_offset}, too far from the segment's {base_offset}"
    if position + header.size_bytes > len(data):
        return f"a batch of {header.size_bytes} bytes has only {len(data) - position}"
    if not crc_valid(data, position, header):
        return "a batch's CRC is wrong"
    return header


def valid_batch_after(segment: Segment, checked: Checked) -> int | None:
    """The position of a valid batch somewhere after the first invalid byte, None if there is none."""
    limit = segment.base_offset + MAX_RELATIVE_OFFSET
    with (
        mmap.mmap(segment.file().fd, segment.size_bytes, access=mmap.ACCESS_READ) as content,
        memoryview(content) as data,
    ):
        at = checked.valid_bytes + _MAGIC_POSITION
        magic = bytes((MAGIC,))
        while (at := content.find(magic, at + 1)) >= 0:
            position = at - _MAGIC_POSITION
            if position + BATCH_HEADER_BYTES > len(data):
                return None
            offset, length = _OFFSET_AND_LENGTH.unpack_from(data, position)
            if (
                checked.next_offset <= offset <= limit
                and 0 < length <= len(data) - position
                and not isinstance(
                    _check_batch(data, position, checked.next_offset, segment.base_offset), str
                )
            ):
                return position
    return None


def first_unflushed(segments: list[Segment], recovery_point: int) -> int:
    """The index of the segment that holds the recovery point, the first one to be checked."""
    return max(
        (at for at, segment in enumerate(segments) if segment.base_offset <= recovery_point), default=0
    )


def recover_segments(
    segments: list[Segment], recovery_point: int, epochs: LeaderEpochs, *, compacted: bool, keeps_valid: bool
) -> int | None:
    """After an unclean stop: check the segments from the recovery point on, cut at damage, index them.

    Sets the segments' end offsets, and removes from `segments` the ones that were deleted. `compacted`:
    between segments there may be holes. Returns the base offset of the first one whose transaction index has
    to be made again, None if no transaction ended. Raises LogCorruption, and then has changed no file.
    """
    first = first_unflushed(segments, recovery_point)
    transactions_from: int | None = None
    for at in range(first, len(segments)):
        segment = segments[at]
        following = segments[at + 1] if at + 1 < len(segments) else None
        limit = None if following is None else following.base_offset
        checked = check_segment(segment, epochs, next_offset=segment.base_offset, limit_offset=limit)
        problem = checked.problem
        if problem is None and following is not None:
            problem = _missing_end(segment, checked.next_offset, following, compacted=compacted)
        segment.opened_at(checked.next_offset)
        if transactions_from is None and (checked.has_control or segment.transaction_index.exists):
            transactions_from = segment.base_offset
        if problem is not None:
            _cut(segments, at, checked, problem, recovery_point, keeps_valid=keeps_valid)
            break
    for segment in segments[first:]:
        segment.rebuild_indexes()
    _set_ends(segments[: first + 1])
    return transactions_from


def _missing_end(segment: Segment, end_offset: int, following: Segment, *, compacted: bool) -> str | None:
    """The evidence that a closed segment has lost batches,
    though its remaining ones are valid; None without any.
    """
    if end_offset == following.base_offset:
        return None
    if not compacted:
        return f"the segment ends with offset {end_offset}, the next one begins with {following.base_offset}"
    problem = _emptied(segment)
    if problem is None and segment.size_bytes == 0:
        log.warning("closed segment is empty, as compaction may have left it path=%s", segment.path)
    return problem


def _emptied(segment: Segment) -> str | None:
    """The evidence that an empty segment had batches: an
    index, because compaction leaves none; None without any.
    """
    if segment.size_bytes == 0 and segment.has_index_entries:
        return "the segment is empty, its indexes are not"
    return None


def _cut(
    segments: list[Segment],
    at: int,
    checked: Checked,
    problem: str,
    recovery_point: int,
    *,
    keeps_valid: bool,
) -> None:
    """Cut the log in segments[at], after its valid part. Raises LogCorruption if that is not allowed."""
    segment = segments[at]
    position, offset = checked.valid_bytes, checked.next_offset
    if offset < recovery_point:
        raise segment.corruption(position, offset, f"{problem}, though it was flushed up to {recovery_point}")
    intact = None
    if at + 1 < len(segments):
        if keeps_valid:
            raise segment.corruption(position, offset, f"{problem}, and later segments follow")
    elif (intact := valid_batch_after(segment, checked)) is not None and keeps_valid:
        raise segment.corruption(position, offset, f"{problem}, and a valid batch follows at byte {intact}")
    if at + 1 == len(segments) and intact is None:
        log.warning(
            "torn tail cut path=%s position=%d bytes=%d next_offset=%d reason=%s",
            segment.path, position, segment.size_bytes - position, offset, problem,
        )  # fmt: skip
    else:
        last = segments[-1]
        end = _end_of_file(last.path, last.base_offset, intact or 0)
        removed = segments[at + 1 :]
        log.error(
            "log cut above its recovery point, offsets %d to %d are gone path=%s position=%d bytes=%d "
            "segments_removed=%d reason=%s",
            offset, max(offset, end - 1), segment.path, position,
            segment.size_bytes - position + sum(each.size_bytes for each in removed), len(removed), problem,
        )  # fmt: skip
    while len(segments) > at + 1:
        for name in segments.pop().rename_for_deletion():
            (segment.path.parent / name).unlink()
    segment.cut(position, offset)
    # The records that replace the lost ones must not meet them again after the next power loss.
    segment.file().sync()
    sync_directory(segment.path.parent)


def load_segments(segments: list[Segment], check_bytes: int) -> None:
    """After a clean stop: trust the files, but check the last `check_bytes` and the batches next to them.

    Sets the segments' end offsets. Raises LogCorruption if the end is not as a clean stop leaves it.
    """
    active = segments[-1]
    try:
        position, first = _near_the_end(active, check_bytes)
    except (CorruptIndex, LogCorruption):
        active.rebuild_indexes()
        position, first = _near_the_end(active, check_bytes)
    checked = check_segment(
        active,
        None,
        position=position,
        next_offset=active.base_offset if first is None else first.base_offset,
    )
    if checked.problem is not None:
        raise active.corruption(checked.valid_bytes, checked.next_offset, checked.problem)
    active.opened_at(checked.next_offset)
    active.indexes_full = active.offset_index.is_full or active.time_index.is_full
    _set_ends(segments)
    left = check_bytes - active.size_bytes
    for segment in reversed(segments[:-1]):
        left -= segment.size_bytes
        if left < 0:
            return
        checked = check_segment(segment, None, next_offset=segment.base_offset)
        if checked.problem is not None:
            raise segment.corruption(checked.valid_bytes, checked.next_offset, checked.problem)


def first_damaged_transaction_index(segments: list[Segment]) -> int | None:
    """The base offset of the first segment whose transaction index is invalid, or
    None. Ends must be known.
    """
    for segment in segments:
        if segment.transaction_index.exists:
            try:
                segment.transaction_index.check(segment.end_offset)
            except CorruptIndex as error:
                log.warning("transaction index made again reason=%s", error)
                return segment.base_offset
    return None


def check_emptied(segments: list[Segment], *, compacted: bool) -> None:
    """Check that of these segments, whose batches are not read now, only the last one is empty.

    Compaction leaves empty ones in a log that is or once was compacted: if that is possible, a line is
    logged. Raises LogCorruption if it is certain that there were batches.
    """
    for segment, following in pairwise(segments):
        if segment.size_bytes == 0:
            problem = _emptied(segment)
            if problem is not None:
                raise segment.corruption(0, segment.base_offset, problem)
            if not compacted:
                log.error(
                    "closed segment is empty, offsets %d to %d are not there path=%s",
                    segment.base_offset, following.base_offset - 1, segment.path,
                )  # fmt: skip


def _near_the_end(segment: Segment, check_bytes: int) -> tuple[int, BatchPosition | None]:
    """The position at which the check of a cleanly closed segment starts, by its
    index, and the batch there.
    """
    segment.check_indexes()
    position = 0
    if segment.offset_index.file.count:
        position = segment.offset_index.lookup_position(max(0, segment.size_bytes - check_bytes))[1]
    return position, next(segment.walk(position), None)


def _set_ends(segments: list[Segment]) -> None:
    """Closed segments that were not checked end where the next one begins."""
    for segment, following in pairwise(segments):
        segment.opened_at(following.base_offset)


def restore_leader_epochs(segments: list[Segment], epochs: LeaderEpochs) -> None:
    """Add the leader epochs in the headers of these segments: their file is damaged, empty or gone."""
    for segment in segments:
        for batch in segment.walk(0):
            if batch.leader_epoch < 0:
                break  # written without epochs: not a partition of a cluster
            epochs.restore(batch.leader_epoch, batch.base_offset)
