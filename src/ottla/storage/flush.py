"""Syncing a log's files to the disk, apart from the log so that it can run in a thread."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.errors import PartitionDeleted
from ottla.storage.files import FileHandle
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.segment import Segment


class FlushTask:
    """A sync of a log up to `end_offset`: call `run` in any thread, then `Log.complete_flush`."""

    __slots__ = (
        "_created",
        "_directory",
        "_epochs",
        "_segments",
        "end_offset",
        "segment_times_us",
        "truncations",
    )

    def __init__(
        self,
        end_offset: int,
        truncations: int,
        segments: Sequence[tuple[Segment, FileHandle]],
        epochs: LeaderEpochs,
        directory: DirectoryFiles,
        *,
        created: bool,
    ) -> None:
        self.end_offset = end_offset
        self.truncations = truncations
        self._segments = segments
        self._epochs = epochs
        self._directory = directory
        self._created = created
        self.segment_times_us: list[int] = []
        """How long the files of each segment took, of those that are synced."""

    def run(self) -> bool:
        """Sync the files; False if the partition was deleted meanwhile.

        Any other OSError means lost data: the broker must stop.
        """
        try:
            for segment, handle in self._segments:
                began_ns = time.perf_counter_ns()
                segment.sync(handle)
                self.segment_times_us.append((time.perf_counter_ns() - began_ns) // 1000)
            self._epochs.sync()
            if self._created:  # files were made in the directory, which may be new too
                self._directory.sync(parent=True)
        except PartitionDeleted:
            return False
        return True
