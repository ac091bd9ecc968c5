"""A machine's disk: logs with a synced part and a tail that a power loss takes, and small files.

Killing a process loses no written data: the system still has it. A power loss keeps the synced part and, of
the tail, batches up to a random one, which may be torn: then its CRC is wrong and recovery cuts it, as if it
had not been written. Batches that were cut do not come back.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.protocol.record_batch import BatchHeader, iterate_headers
from ottla.protocol.schema import Buffer
from ottla.storage.leader_epochs import LeaderEpochs
from simulation.world.host import Host

_NOWHERE = Path()


class EpochsInMemory(LeaderEpochs):
    """The real leader epochs of a log, whose file is not written: recovery finds them in the batches."""

    __slots__ = ()

    def save(self) -> None:
        """No file is written."""


class SimulatedLog:
    """One log: whole batches, in order, of which the first `synced` ones are durable."""

    __slots__ = (
        "_bases",
        "_batches",
        "_headers",
        "_syncing",
        "epochs",
        "log_end_offset",
        "log_start_offset",
        "synced_to",
    )

    def __init__(self, start_offset: int = 0) -> None:
        self.log_start_offset = start_offset
        self.log_end_offset = start_offset
        self.synced_to = start_offset
        self.epochs = EpochsInMemory(_NOWHERE)
        self._headers: list[BatchHeader] = []
        self._batches: list[bytes] = []
        self._bases: list[int] = []
        self._syncing: list[list[int]] = []

    # -- writing --------------------------------------------------------------------------------------

    def append(self, data: Buffer, headers: list[BatchHeader] | None = None) -> None:
        """Append whole batches, which have their offsets and epochs."""
        position = 0
        if headers is None:
            headers = [header for _, header in iterate_headers(data)]
        for header in headers:
            if header.base_offset != self.log_end_offset:
                raise AssertionError(
                    f"a batch at {header.base_offset}, the log ends at {self.log_end_offset}"
                )
            size = header.batch_length + 12
            self._batches.append(bytes(data[position : position + size]))
            self._headers.append(header)
            self._bases.append(header.base_offset)
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            self.log_end_offset = header.next_offset
            position += size

    def truncate(self, offset: int) -> None:
        """Cut the batches that hold `offset` or come after it."""
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(offset)  # an epoch that a leader began there without a batch
            return
        keep = bisect_right(self._bases, offset)
        while keep and self._headers[keep - 1].next_offset > offset:
            keep -= 1
        del self._batches[keep:], self._headers[keep:], self._bases[keep:]
        self.log_end_offset = (
            self._headers[-1].next_offset if self._headers else max(self.log_start_offset, 0)
        )
        self.log_end_offset = max(self.log_end_offset, self.log_start_offset)
        self.synced_to = min(self.synced_to, self.log_end_offset)
        for sync in self._syncing:
            sync[0] = min(sync[0], self.log_end_offset)
        self.epochs.truncate_from_end(self.log_end_offset)

    def restart_at(self, offset: int) -> None:
        """Drop everything and begin at `offset`, after a snapshot."""
        self.truncate(self.log_start_offset)
        self.log_start_offset = self.log_end_offset = self.synced_to = offset
        self._syncing.clear()
        self.epochs.clear()

    def advance_start(self, offset: int) -> None:
        """Drop the batches that lie wholly below `offset`."""
        if offset <= self.log_start_offset:
            return
        drop = bisect_right(self._bases, offset)
        while drop and self._headers[drop - 1].next_offset > offset:
            drop -= 1
        del self._batches[:drop], self._headers[:drop], self._bases[:drop]
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)

    # -- syncing --------------------------------------------------------------------------------------

    def begin_sync(self) -> list[int]:
        """Begin a sync of all batches so far; call `end_sync` when the disk has done it."""
        sync = [self.log_end_offset]
        self._syncing.append(sync)
        return sync

    def end_sync(self, sync: list[int]) -> int:
        """A sync is done; return the offset up to which the log is durable."""
        if sync in self._syncing:
            self._syncing.remove(sync)
            self.synced_to = max(self.synced_to, min(sync[0], self.log_end_offset))
        return self.synced_to

    def sync_now(self) -> None:
        """Sync all batches at once."""
        self.synced_to = self.log_end_offset

    def lose_tail(self, dice: random.Random) -> None:
        """A power loss: of the unsynced batches some are left."""
        self._syncing.clear()
        first_unsynced = bisect_right(self._bases, self.synced_to - 1) if self._bases else 0
        unsynced = len(self._bases) - first_unsynced
        if unsynced <= 0:
            return
        kept = first_unsynced + dice.randint(0, unsynced)
        if kept < len(self._bases):
            self.truncate(self._bases[kept])

    # -- reading --------------------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int | None:
        """The epoch of the last batch."""
        return self._headers[-1].partition_leader_epoch if self._headers else None

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch that has an entry."""
        return self.epochs.latest_epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch not above `epoch`, the offset after its last record), or (-1, -1)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def read(self, offset: int, max_bytes: int, limit: int | None = None) -> bytes:
        """Whole batches from the one that holds `offset`, below `limit`: one, or about `max_bytes`."""
        slot = max(bisect_right(self._bases, offset) - 1, 0)
        end = self.log_end_offset if limit is None else limit
        found: list[bytes] = []
        size = 0
        while slot < len(self._bases):
            header = self._headers[slot]
            if header.next_offset > end or (found and size >= max_bytes):
                break
            if header.next_offset > offset:
                found.append(self._batches[slot])
                size += len(found[-1])
            slot += 1
        return found[0] if len(found) == 1 else b"".join(found)

    def batches(self, start: int, end: int | None = None) -> Iterator[tuple[BatchHeader, bytes]]:
        """The batches that end after `start` and begin before `end`."""
        slot = max(bisect_right(self._bases, start) - 1, 0)
        while slot < len(self._bases) and (end is None or self._bases[slot] < end):
            header = self._headers[slot]
            if header.next_offset > start:
                yield header, self._batches[slot]
            slot += 1


class Disk:
    """A machine's durable data. `host` is its machine."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.logs: dict[Any, SimulatedLog] = {}
        self._files: dict[str, Any] = {}
        self._unsynced_files: dict[str, Any] = {}
        self.sync_ms = 1.0
        """The typical time of a sync."""

    def write(self, name: str, value: Any, *, sync: bool) -> None:
        """Replace a small file. If not synced, a power loss may take the change."""
        if sync:
            self._files[name] = value
            self._unsynced_files.pop(name, None)
        else:
            self._unsynced_files[name] = value

    def read(self, name: str) -> Any:
        """A small file's content, or None."""
        return self._unsynced_files.get(name, self._files.get(name))

    def remove(self, name: str) -> None:
        """Remove a small file, for good."""
        self._files.pop(name, None)
        self._unsynced_files.pop(name, None)

    def sync_duration_ms(self) -> float:
        """The duration of the next sync."""
        return self.sync_ms * (0.5 + self._host.scheduler.random.random())

    def on_killed(self) -> None:
        """The process was killed: written data stays, and syncs under way do not count."""
        for log in self.logs.values():
            log._syncing.clear()

    def on_power_loss(self) -> None:
        """Unsynced data may be lost."""
        dice = self._host.scheduler.random
        for log in self.logs.values():
            log.lose_tail(dice)
        for name, value in self._unsynced_files.items():
            if dice.random() < 0.5:
                self._files[name] = value
        self._unsynced_files.clear()
