"""The errors of the disk, as exceptions whose one-line message says what to do.

None of these is a `KafkaError`: storage knows files, not clients. The broker translates (`OffsetOutOfRange`
into its error code, the rest into a stop with one line on the terminal).
"""

from __future__ import annotations

from pathlib import Path


class StorageError(Exception):
    """A file or directory is not in a valid state, or the operating system refused an operation."""


class PartitionDeleted(StorageError, FileNotFoundError):
    """The partition was deleted during an operation on its log.

    Also a FileNotFoundError, because an operation on a single deleted segment raises that.
    """


class LogDirectoryError(StorageError):
    """A log directory can't be used: not writable, in use, or another cluster's or node's."""


class LogCorruption(StorageError):
    """Bytes that were once valid are damaged; no file was changed.

    `path` and `position` (bytes from the file's start) name the place, `offset` the first offset that can no
    longer be read.
    """

    def __init__(self, path: Path, position: int, offset: int, reason: str) -> None:
        self.path = path
        self.position = position
        self.offset = offset
        self.reason = reason
        super().__init__(
            f"corrupt segment {path}: byte {position}, offset {offset}: {reason}. Nothing was changed."
            f" Put a good copy of the file in its place, or, if another replica has the data (or it may be"
            f" lost), move the directory {path.parent} away, and start again"
        )


class OffsetOutOfRange(StorageError):
    """The log does not hold the offset: it is below `log_start_offset` or above `log_end_offset`."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        super().__init__(f"offset {offset} is not within {log_start_offset}..{log_end_offset}")
