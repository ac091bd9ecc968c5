"""The start offset of each leader epoch in a log (KIP-101, KIP-279).

Entries are (epoch, start offset), both strictly growing. A follower asks a new leader for the end of an
epoch, and truncates to there; a consumer asks the same to detect that its offset was truncated.

The file is replaced when an entry is added, without fsync: every batch carries its epoch, so recovery
restores entries that a power loss takes. `sync` is called before the recovery point moves, so no entry below
the recovery point is ever lost. Truncation rewrites the file as well; after a crash between a truncation of
the log and that of this file, loading the log truncates again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ottla.storage.checkpoints import LEADER_EPOCH_CHECKPOINT, encode_leader_epochs, read_leader_epochs
from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.errors import StorageError

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class LeaderEpochs:
    """The entries of one log, in memory and in the file."""

    __slots__ = ("_epochs", "_files", "_start_offsets", "_unsaved", "_unsynced")

    def __init__(self, files: DirectoryFiles) -> None:
        self._files = files
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        self._unsaved = False
        self._unsynced = False

    @classmethod
    def load(cls, files: DirectoryFiles) -> LeaderEpochs:
        """Read the file; no entries if it does not exist. Raises StorageError for a damaged file."""
        epochs = cls(files)
        path = files.path / LEADER_EPOCH_CHECKPOINT
        for epoch, start_offset in read_leader_epochs(path):
            if epoch < 0 or start_offset < 0 or (epochs._epochs and epoch <= epochs._epochs[-1]):
                raise StorageError(f"{path} is damaged: epoch {epoch} at offset {start_offset}")
            epochs._put(epoch, start_offset)
        return epochs

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._start_offsets, strict=True))

    @property
    def latest_epoch(self) -> int | None:
        return self._epochs[-1] if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Add that `epoch` begins at `start_offset`, and save. False if that adds nothing.

        Entries that contradict the new one (an epoch or offset not below it) are removed.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at offset {start_offset}")
        if self._epochs and self._epochs[-1] == epoch and start_offset >= self._start_offsets[-1]:
            self.save_changes()
            return False
        self._put(epoch, start_offset)
        self.save()
        return True

    def restore(self, epoch: int, start_offset: int) -> None:
        """As `assign`, in memory only and for newer epochs only.

        Recovery saves once, at its end; a leader without batches need not save.
        """
        if epoch >= 0 and (not self._epochs or epoch > self._epochs[-1]):
            self._put(epoch, start_offset)
            self._unsaved = True

    def _put(self, epoch: int, start_offset: int) -> None:
        while self._epochs and (self._epochs[-1] >= epoch or self._start_offsets[-1] >= start_offset):
            self._epochs.pop()
            self._start_offsets.pop()
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch not above `epoch`, its end offset), or (-1, -1) for an epoch that is not known.

        For an epoch below the first one: the epoch itself and the start of the first one.
        """
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        above = bisect_right(self._epochs, epoch)
        found = self._epochs[above - 1] if above else epoch
        return found, self._start_offsets[above]

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the record at `offset`, or None."""
        slot = bisect_right(self._start_offsets, offset) - 1
        return self._epochs[slot] if slot >= 0 else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at or after `end_offset`."""
        keep = bisect_left(self._start_offsets, end_offset)
        if keep < len(self._epochs):
            del self._epochs[keep:], self._start_offsets[keep:]
            self.save()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that end at or before `start_offset`; the first one left begins there.

        In memory: the file follows with the next `save_changes`, which must not come before the log start
        offset is durable, or a crash would bring back records without their epoch.
        """
        first = bisect_right(self._start_offsets, start_offset) - 1
        if first < 0 or (first == 0 and self._start_offsets[0] == start_offset):
            return
        del self._epochs[:first], self._start_offsets[:first]
        self._start_offsets[0] = start_offset
        self._unsaved = True

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._start_offsets.clear()
            self.save()

    def save(self) -> None:
        """Write the file, without fsync (see the module)."""
        self._files.replace(LEADER_EPOCH_CHECKPOINT, encode_leader_epochs(self.entries), sync=False)
        self._unsaved = False
        self._unsynced = True

    def save_changes(self) -> None:
        """Write the file if `restore` or `truncate_from_start` has changed entries."""
        if self._unsaved:
            self.save()

    def sync(self) -> None:
        """Sync the file to the disk. Safe in a thread. Raises PartitionDeleted."""
        if self._unsynced:
            self._unsynced = False
            self._files.sync_file(LEADER_EPOCH_CHECKPOINT)

    def ensure_file(self) -> None:
        """Make an empty file if there is none: Apache Kafka has one in every partition."""
        if not self._files.exists(LEADER_EPOCH_CHECKPOINT):
            self.save()
