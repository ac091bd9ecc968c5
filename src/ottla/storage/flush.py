"""The syncing of a log's files to the disk, apart from the log so that it can run in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ottla.storage.files import FileHandle, sync_directory
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.segment import Segment


class FlushTask:
    """The syncing of a log up to `end_offset`: `run` in any thread, then `Log.complete_flush`."""

    __slots__ = ("_created", "_directory", "_epochs", "_files", "end_offset", "truncations")

    def __init__(
        self,
        end_offset: int,
        truncations: int,
        files: Sequence[tuple[Segment, FileHandle]],
        epochs: LeaderEpochs,
        directory: Path,
        *,
        created: bool,
    ) -> None:
        self.end_offset = end_offset
        self.truncations = truncations
        self._files = files
        self._epochs = epochs
        self._directory = directory
        self._created = created

    def run(self) -> None:
        """Return when everything is on the disk. An OSError here means lost data: the broker must stop."""
        for segment, handle in self._files:
            segment.sync(handle)
        try:
            self._epochs.sync()
            if self._created:  # files were made in the directory, and it itself may be new
                sync_directory(self._directory)
                sync_directory(self._directory.parent)
        except FileNotFoundError:
            if self._directory.exists():
                raise
            # the partition was deleted meanwhile: nobody needs it
