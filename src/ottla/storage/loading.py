"""Loads the parts of a log from a partition's directory: segments, leader epochs, producer snapshots.

The order matters in one way only: no file is overwritten before the segments have been checked, so a log that
is refused stays as it was. (Missing derived files are made again; stray files are removed.)
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.errors import StorageError
from ottla.storage.files import OpenFiles
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.log_config import LogConfig
from ottla.storage.producer_states import ProducerSnapshots
from ottla.storage.recovery import (
    DirectoryContents,
    check_emptied,
    first_damaged_transaction_index,
    first_unflushed,
    load_segments,
    read_directory,
    recover_segments,
    restore_leader_epochs,
    settle_leftovers,
)
from ottla.storage.segment import Segment

log = logging.getLogger("ottla.storage")


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """The parts of a log. `recovered`: it was not closed cleanly; `created`: its segment is new.

    `transactions_from`: the base offset of the first segment whose transaction index has to be made again,
    with the state of the producers before it.
    """

    segments: list[Segment]
    epochs: LeaderEpochs
    snapshots: ProducerSnapshots
    log_start_offset: int
    recovery_point: int
    recovered: bool
    created: bool
    transactions_from: int | None


def load_log(
    files: DirectoryFiles,
    config: LogConfig,
    open_files: OpenFiles,
    *,
    now_ms: int,
    recovery_point: int,
    log_start_offset: int,
    clean_check_bytes: int | None,
    keeps_valid: bool,
    may_have_holes: bool,
) -> LoadedLog:
    """Load the directory's content. `clean_check_bytes` is None after an unclean stop.

    `keeps_valid` and `may_have_holes` limit the cuts of recovery.py. Raises LogCorruption.
    """

    def segment(base_offset: int, size_bytes: int) -> Segment:
        return Segment(
            files,
            base_offset,
            config,
            open_files,
            size_bytes=size_bytes,
            now_ms=now_ms,
            has_transaction_index=base_offset in contents.transaction_indexed,
        )

    directory = files.path
    contents = settle_leftovers(directory, read_directory(directory))
    segments = [segment(base_offset, size) for base_offset, size in sorted(contents.logs.items())]
    epochs = LeaderEpochs(files)
    recovered = bool(segments) and clean_check_bytes is None
    transactions_from: int | None = None
    if segments:
        epochs = _load_epochs(files)
        transactions_from = _check_segments(
            segments,
            epochs,
            contents,
            recovery_point,
            clean_check_bytes,
            compacted=may_have_holes,
            keeps_valid=keeps_valid,
        )
    snapshots = ProducerSnapshots(files, contents.snapshots)
    if segments and segments[-1].end_offset < log_start_offset:
        _remove_all(files, segments, snapshots, log_start_offset)
        segments = []
        transactions_from = None
    created = not segments
    if created:
        segments = [segment(log_start_offset, 0)]
        segments[0].create_file()
        segments[0].opened_at(log_start_offset)
    end_offset = segments[-1].end_offset
    if recovered and end_offset < recovery_point:
        log.warning(
            "log ends below its recovery point, flushed records are gone path=%s end=%d recovery_point=%d",
            directory, end_offset, recovery_point,
        )  # fmt: skip
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(log_start_offset)
    epochs.save_changes()
    snapshots.remove_strays({segment.base_offset for segment in segments}, end_offset)
    return LoadedLog(
        segments,
        epochs,
        snapshots,
        log_start_offset,
        end_offset if clean_check_bytes is not None else min(recovery_point, end_offset),
        recovered,
        created,
        transactions_from,
    )


def _load_epochs(files: DirectoryFiles) -> LeaderEpochs:
    try:
        return LeaderEpochs.load(files)
    except StorageError as error:
        log.warning("leader epochs made again from the log reason=%s", error)
        return LeaderEpochs(files)


def _check_segments(
    segments: list[Segment],
    epochs: LeaderEpochs,
    contents: DirectoryContents,
    recovery_point: int,
    clean_check_bytes: int | None,
    *,
    compacted: bool,
    keeps_valid: bool,
) -> int | None:
    """Check the segments as far as needed, make missing derived files again. Sets the segments' end offsets.

    Returns the base offset of the first segment whose transaction index has to be made again, None if all are
    right.
    """
    believed = segments
    if clean_check_bytes is None:
        believed = segments[: first_unflushed(segments, recovery_point)]
    # With the segment after them, which bounds the last one; by the indexes, before these are made again.
    check_emptied(segments[: len(believed) + 1], compacted=compacted)
    if epochs.latest_epoch is None:
        restore_leader_epochs(believed, epochs)
    for segment in believed:
        if segment.base_offset not in contents.indexed:
            segment.rebuild_indexes()
    if clean_check_bytes is not None:
        load_segments(segments, clean_check_bytes)
        return first_damaged_transaction_index(segments)
    unflushed = recover_segments(
        segments, recovery_point, epochs, compacted=compacted, keeps_valid=keeps_valid
    )
    damaged = first_damaged_transaction_index(believed)
    return unflushed if damaged is None else damaged


def _remove_all(
    files: DirectoryFiles, segments: list[Segment], snapshots: ProducerSnapshots, log_start_offset: int
) -> None:
    """Remove all segments: they lie below the log's start,
    because DeleteRecords was durable and later batches were not.
    """
    log.warning(
        "log ends below its start offset, started anew path=%s end=%d start=%d",
        segments[0].path.parent, segments[-1].end_offset, log_start_offset,
    )  # fmt: skip
    for segment in reversed(segments):
        for name in segment.rename_for_deletion():
            files.remove(name)
    for offset in list(snapshots.offsets):
        snapshots.remove(offset)
