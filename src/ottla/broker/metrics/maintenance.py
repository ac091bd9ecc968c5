"""The cleaner, the log directory's disk, and the fetch sessions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ottla.metrics.exposition import Family, by_label, single
from ottla.metrics.tables import broker as table

if TYPE_CHECKING:
    from ottla.broker.replication.replication import Replication
    from ottla.core.replica.fetch_sessions import FetchSessionCache
    from ottla.storage.log_directory import LogDirectory


class MaintenanceNode(Protocol):
    """What is read of the node."""

    @property
    def replication(self) -> Replication:
        """The cleaner among others."""
        ...

    @property
    def fetch_sessions(self) -> FetchSessionCache:
        """The fetch sessions."""
        ...

    @property
    def log_directory(self) -> LogDirectory:
        """The data directory."""
        ...


class MaintenanceMetrics:
    """The source of the cleaner's, the disk's and the sessions' metrics."""

    def __init__(self, node: MaintenanceNode) -> None:
        self._node = node

    def read(self) -> Iterator[Family | None]:
        """The families."""
        node = self._node
        directory = str(node.log_directory.path)
        cleaner = node.replication.cleaner
        yield by_label(table.CLEANER_UNCLEANABLE, {directory: len(cleaner.uncleanable)})
        yield single(table.CLEANER_MAX_DIRTY, cleaner.max_dirty_ratio * 100)
        yield single(table.CLEANINGS, cleaner.cleanings)
        yield single(table.CLEANER_READ, cleaner.bytes_read)
        yield single(table.CLEANER_WRITTEN, cleaner.bytes_written)
        yield single(table.CLEANER_SECONDS, cleaner.cleaning_seconds)
        yield single(table.OFFLINE_DIRECTORIES, 0)
        yield None
        # A call to the kernel's memory of the file system: it waits for no disk.
        disk = shutil.disk_usage(node.log_directory.path)
        yield by_label(table.DISK_TOTAL, {directory: disk.total})
        yield by_label(table.DISK_FREE, {directory: disk.free})
        for metric, field in ((table.DISK_READ, b"read_bytes"), (table.DISK_WRITTEN, b"write_bytes")):
            value = _input_output(field)
            if value is not None:
                yield single(metric, value)
        sessions = node.fetch_sessions
        yield single(table.FETCH_SESSIONS, len(sessions))
        partitions = 0
        for session in list(sessions.sessions):
            partitions += len(session.partitions)
        yield single(table.FETCH_SESSION_PARTITIONS, partitions)
        yield single(table.FETCH_SESSION_EVICTIONS, sessions.evictions)


def _input_output(field: bytes) -> int | None:
    """A line of /proc/self/io; None where the system has none."""
    try:
        lines = Path("/proc/self/io").read_bytes().splitlines()
    except OSError:
        return None
    return next((int(line.split(b":")[1]) for line in lines if line.startswith(field + b":")), None)
