"""One of the data directory's offset checkpoints: its offsets in memory, its file replaced in order.

The loop changes the offsets and takes copies of them; threads write the copies. Copies are numbered and
written under a lock, so that a thread that comes late never replaces a later copy, and no two threads write
the file at a time.

A topic that is deleted and made again must not find the offsets of the old one in the file: after kill -9 its
records would be cut, or count as committed or cleaned when they are not. So `may_name` says which partitions
the file on the disk may still name, and the file is written without them before the directory of such a
partition is made again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.storage.checkpoints import TopicPartition


class TakenOffsets(NamedTuple):
    """A copy of a checkpoint's offsets, and its number."""

    number: int
    offsets: dict[TopicPartition, int]


class OffsetCheckpoint:
    """The offsets of partitions, and the file that keeps them. `offsets` belongs to the event loop."""

    def __init__(
        self,
        offsets: dict[TopicPartition, int],
        write: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        self.offsets = offsets
        self._write = write
        self._writing = threading.Lock()
        self._naming = threading.Lock()  # a lock of its own, which is never held during a write
        self._last_taken = 0
        self._last_written = 0
        self._named = set(offsets)

    def may_name(self, partition: TopicPartition) -> bool:
        """Whether the file on the disk may have an offset of this partition."""
        return partition in self._named

    def take(self) -> TakenOffsets:
        """A copy of the offsets for `write`. On the event loop."""
        with self._naming:
            self._last_taken += 1
            self._named |= self.offsets.keys()
        return TakenOffsets(self._last_taken, dict(self.offsets))

    def write(self, taken: TakenOffsets) -> None:
        """Replace the file, unless a later copy is there; durable when this returns. In any thread."""
        with self._writing:
            if taken.number < self._last_written:
                return
            self._write(taken.offsets)
            self._last_written = taken.number
            with self._naming:
                if taken.number == self._last_taken:
                    self._named = set(taken.offsets)

    def forget(self, partition: TopicPartition) -> None:
        """The partition is gone; the file follows with the next write, or by `remove`."""
        self.offsets.pop(partition, None)

    def remove(self, partition: TopicPartition) -> None:
        """The partition is about to be made: the file has no offset of an older one when this returns."""
        if partition in self._named:
            self.forget(partition)
            self.write(self.take())
