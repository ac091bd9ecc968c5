"""Replaces segments by a compacted one so that a crash at any time is harmless, as in Apache Kafka.

    <base>.log.cleaned …   being written, or complete; a start removes them
    <base>.log.swap …      complete; a start puts them in place of every segment in their range, unless a
                           `.cleaned` file of the same or a lower offset shows that the set is incomplete
    <base>.log.deleted …   replaced; a start removes them

So a set of files is swapped in as soon as the last of them is renamed from `.cleaned` to `.swap`, and the old
segments may be removed only then. `.log` is the first to lose `.swap`: afterwards no start looks for segments
in the range any more, and indexes that are still called `.swap` are only renamed.
"""

from __future__ import annotations

import contextlib

from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.file_names import offset_file_name
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


def cleaned_name(base_offset: int, suffix: str) -> str:
    """The name under which a cleaning writes a file of a segment."""
    return offset_file_name(base_offset, suffix) + CLEANED_SUFFIX


def remove_cleaned(files: DirectoryFiles, *, but: int | None = None) -> None:
    """Remove the files of cleanings that were not completed; files of the base offset `but` stay.

    Raises PartitionDeleted.
    """
    kept = None if but is None else offset_file_name(but, ".")
    for name in files.names():
        if name.endswith(CLEANED_SUFFIX) and (kept is None or not name.startswith(kept)):
            files.remove(name)


def promote_cleaned(files: DirectoryFiles, base_offset: int) -> None:
    """Rename `.cleaned` to `.swap`. Raises OSError, and then the files are not swapped in."""
    remove_cleaned(files, but=base_offset)  # or a start would take the new files for incomplete
    try:
        for suffix in _SUFFIXES:
            source = cleaned_name(base_offset, suffix)
            with contextlib.suppress(FileNotFoundError):  # there may be no transaction index
                files.rename(source, source.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)
    except OSError:
        for suffix in _SUFFIXES:  # before the `.cleaned` files, whose presence prevents the swap
            files.remove(offset_file_name(base_offset, suffix) + SWAP_SUFFIX)
        raise


def put_swaps_in_place(files: DirectoryFiles, base_offset: int) -> None:
    """`.swap` -> the segment's own names."""
    for suffix in _SUFFIXES:
        target = offset_file_name(base_offset, suffix)
        with contextlib.suppress(FileNotFoundError):
            files.rename(f"{target}{SWAP_SUFFIX}", target)
