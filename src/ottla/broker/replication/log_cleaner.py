"""Chooses the dirtiest compacted log, has a process of its own clean it, and swaps the outcome in.

The event loop only decides, orders and renames: reading, hashing and copying run in a child (see
`ottla.storage.compaction`). In CPython a thread would take turns with the loop: measured on a busy machine
beside a loop that checks batches, a thread leaves it a quarter to a half of its rate and makes its p99 three
to six times as long, a child leaves it two thirds. The child starts with the first dirty log, ends when no
log is dirty, and dies with the broker: its stdin closes, and it looks for its parent with every piece that it
reads.

What is on disk when: the child syncs `.cleaned` files before it answers; `Log.replace_segments` swaps them in
between two events of the loop, or refuses when the segments are not the log's any more (deleted, truncated);
after the last group the directory is synced, then the cleaner's checkpoint. A kill in between cleans the same
section again.

A topic may be deleted, and made again under its name, at any await. The child holds the directory itself, not
its name, and all else goes through the log's files, which refuse then: nothing reaches the new topic's.

A partition that cannot be cleaned, because its bytes are corrupt or because the child died over it
`DEATHS` times in a row, is left alone until the next start, with one line in the log. The others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.replication.file_work import FileWork
from ottla.broker.replication.offset_checkpoint import OffsetCheckpoint
from ottla.broker.replication.partition import Partition
from ottla.core.settings import broker_settings
from ottla.storage.checkpoints import TopicPartition
from ottla.storage.compaction.selection import LogToClean, examine, groups
from ottla.storage.errors import PartitionDeleted, StorageError
from ottla.storage.log import Log
from ottla.storage.log_directory import LogDirectory
from ottla.storage.swapping import remove_cleaned

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig
    from ottla.broker.supervisor import Supervisor

log = logging.getLogger("ottla.broker")

NICENESS = 10
"""Where broker and clients want every core, cleaning gets a tenth of one, some 9 MiB a second."""
LOGS_A_TURN = 64
DEATHS = 3
"""How often in a row the child may die over one log: an operator may kill it, memory may be short."""
_WORKER = "ottla.storage.compaction.worker"
_LENGTH_BYTES = 4
_NO_RATE = 1e18


class WorkerEnded(Exception):
    """The cleaning process is gone."""


class CleaningFailed(Exception):
    """A cleaning failed; `corrupt` when trying again would not help."""

    def __init__(self, problem: str, *, corrupt: bool) -> None:
        self.corrupt = corrupt
        super().__init__(problem)


class CleaningProcess:
    """A child that takes one order at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> CleaningProcess:
        """A new process. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", _WORKER, str(os.getpid()), str(NICENESS)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C and hang-ups are for the broker, which ends this process
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to an order. Raises WorkerEnded, or CleaningFailed."""
        orders, answers = self._process.stdin, self._process.stdout
        assert orders is not None and answers is not None
        content = json.dumps(order).encode()
        try:
            orders.write(len(content).to_bytes(_LENGTH_BYTES, "big") + content)
            await orders.drain()
            length = int.from_bytes(await answers.readexactly(_LENGTH_BYTES), "big")
            answer: dict[str, Any] = json.loads(await answers.readexactly(length))
        except (OSError, RuntimeError, asyncio.IncompleteReadError) as problem:
            # RuntimeError is uvloop's for a pipe whose other end was closed before the write.
            raise WorkerEnded("the cleaning process ended") from problem
        if "problem" in answer:
            raise CleaningFailed(answer["problem"], corrupt=answer["corrupt"])
        return answer

    def kill(self) -> None:
        """End it now: its output has not been used yet."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> None:
        """Kill it and wait until it is gone, and its pipes with it."""
        self.kill()
        orders, answers = self._process.stdin, self._process.stdout
        assert orders is not None and answers is not None
        orders.close()
        with contextlib.suppress(OSError, RuntimeError):  # orders that it had not read yet
            await orders.wait_closed()
        while await answers.read(1 << 16):
            pass  # its last answer
        await self._process.wait()


class LogCleaner:
    """Cleans the compacted logs of one data directory.

    Counters, to be shown: `cleanings`, `bytes_read`, `bytes_written` and `cleaning_seconds` since the start,
    `last_dirty_ratio` of the log cleaned last, `max_dirty_ratio` of all logs when last looked at,
    `last_map_utilization`, and `uncleanable` partitions.
    """

    def __init__(
        self,
        directory: LogDirectory,
        config: BrokerConfig,
        now_ms: Callable[[], int],
        work: FileWork,
        partitions: Iterable[Partition],
    ) -> None:
        self._config = config
        self._now_ms = now_ms
        self._work = work
        self._partitions = partitions
        self._checkpoint = OffsetCheckpoint(directory.read_cleaner_offsets(), directory.write_cleaner_offsets)
        self._checkpointing = asyncio.Lock()
        self._idle: list[CleaningProcess] = []
        self._busy: dict[TopicPartition, CleaningProcess | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._aborted: set[TopicPartition] = set()  # while being cleaned
        self._failed: set[TopicPartition] = set()  # not to be tried again before the next pause
        self._deaths: dict[TopicPartition, int] = {}  # of the child over a log, in a row
        self._supervisor: Supervisor
        self.uncleanable: set[TopicPartition] = set()
        self.cleanings = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.cleaning_seconds = 0.0
        self.last_dirty_ratio = 0.0
        self.last_map_utilization = 0.0
        self.max_dirty_ratio = 0.0

    # -- told by the roles of replicas --------------------------------------------------------------

    def start(self, supervisor: Supervisor) -> None:
        """Begin to look for dirty logs, if the configuration wants it."""
        if self._config[broker_settings.LOG_CLEANER_ENABLE]:
            self._supervisor = supervisor
            supervisor.spawn("log-cleaner", self._run())

    def before_opening(self, topic: str, index: int, *, is_new: bool) -> bool:
        """Whether the log of a partition that is about to be opened was ever cleaned.

        One that `is_new` is about to be made: the checkpoint forgets an older one of its name.
        """
        if is_new:
            self._checkpoint.remove((topic, index))
        return (topic, index) in self._checkpoint.offsets

    def on_deleted(self, topic: str, index: int) -> None:
        """A partition is being deleted: stop cleaning it, forget it."""
        key = (topic, index)
        self._checkpoint.forget(key)
        self.uncleanable.discard(key)
        self._deaths.pop(key, None)
        self._abort(key)

    def on_truncated(self, topic: str, index: int, offset: int) -> None:
        """A log was cut at `offset`: the segments being cleaned may not be in it any more."""
        key = (topic, index)
        if self._checkpoint.offsets.get(key, 0) > offset:
            self._checkpoint.offsets[key] = offset
        self._abort(key)

    def _abort(self, key: TopicPartition) -> None:
        if key in self._busy:
            self._aborted.add(key)
            process = self._busy[key]
            if process is not None:
                process.kill()

    # -- choosing -----------------------------------------------------------------------------------

    async def _run(self) -> None:
        config = self._config
        try:
            while True:
                await self._start_due()
                if self._tasks:
                    await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                    for task in [task for task in self._tasks if task.done()]:
                        self._tasks.discard(task)
                        task.result()  # an error that a cleaning does not expect stops the broker
                    continue
                await self._end_idle()
                self._failed.clear()
                await asyncio.sleep(config[broker_settings.LOG_CLEANER_BACKOFF_MS] / 1000)
        finally:
            for task in self._tasks:
                # A supervisor that stops has cancelled them too: a second time would cut off their clean-up.
                if not task.cancelling():
                    task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._end_idle()

    async def _end_idle(self) -> None:
        while self._idle:
            await self._idle.pop().end()

    async def _start_due(self) -> None:
        """Begin with the dirtiest logs, as many as there are threads."""
        while len(self._tasks) < self._config[broker_settings.LOG_CLEANER_THREADS]:
            due = await self._dirtiest()
            if due is None:
                return
            key = (due.log.topic, due.log.partition)
            self._busy[key] = None
            due.log.being_cleaned = True
            name = f"clean-{due.log.topic}-{due.log.partition}"
            self._tasks.add(self._supervisor.spawn(name, self._clean(key, due)))

    async def _dirtiest(self) -> LogToClean | None:
        """Kafka's rule: of the logs that are due the one with the largest share of dirty bytes."""
        found: LogToClean | None = None
        self.max_dirty_ratio = 0.0
        now_ms = self._now_ms()
        for number, partition in enumerate(list(self._partitions)):
            if number % LOGS_A_TURN == LOGS_A_TURN - 1:
                await asyncio.sleep(0)
            key = (partition.topic, partition.index)
            if not partition.log.config.compacts or key in self._busy:
                continue
            if key in self.uncleanable or key in self._failed or partition.log.is_deleted:
                continue
            offsets = self._checkpoint.offsets
            examined = examine(partition.log, offsets.get(key), partition.last_stable_offset, now_ms)
            self.max_dirty_ratio = max(self.max_dirty_ratio, examined.dirty_ratio)
            if examined.checkpoint_invalid:
                offsets[key] = examined.start_offset
            if examined.is_due and (found is None or examined.dirty_ratio > found.dirty_ratio):
                found = examined
        if found is not None and found.log.is_deleted:
            return None  # while others were looked at
        return found

    # -- cleaning -----------------------------------------------------------------------------------

    async def _clean(self, key: TopicPartition, dirty: LogToClean) -> None:
        process: CleaningProcess | None = None
        began = time.perf_counter()
        try:
            process = self._idle.pop() if self._idle else await CleaningProcess.start()
            self._busy[key] = process
            answer, end_offset = await self._clean_with(process, key, dirty)
            await self._note_end(key, dirty.log, end_offset)
            self._deaths.pop(key, None)
            self._idle.append(process)
            process = None
            self._report(dirty, answer, end_offset, time.perf_counter() - began)
        except (WorkerEnded, CleaningFailed, StorageError) as problem:
            self._give_up(key, problem)
        finally:
            dirty.log.being_cleaned = False
            del self._busy[key]
            self._aborted.discard(key)
            if process is not None:
                await process.end()
                with contextlib.suppress(PartitionDeleted):
                    remove_cleaned(dirty.log.files)

    async def _clean_with(
        self, process: CleaningProcess, key: TopicPartition, dirty: LogToClean
    ) -> tuple[dict[str, Any], int]:
        """Map, then group by group. Returns the last answer with the map's, and where the map ended."""
        cleaned = dirty.log
        mapped = await process.ask(self._order(dirty))
        end_offset: int = mapped["end_offset"]
        answer = mapped
        for group in groups(cleaned, end_offset):
            if key in self._aborted:
                raise StorageError("the partition was deleted or cut meanwhile")
            sources = [[each.base_offset, each.size_bytes, each.end_offset] for each in group]
            answer = await process.ask({"clean": sources})
            if key in self._aborted:
                raise StorageError("the partition was deleted or cut meanwhile")
            cleaned.replace_segments(
                group,
                answer["size_bytes"],
                has_transaction_index=answer["has_transaction_index"],
                now_ms=self._now_ms(),
            )
        return {**mapped, **answer}, end_offset

    def _order(self, dirty: LogToClean) -> dict[str, Any]:
        """The order for the map, with all facts of the log that the process needs."""
        config, cleaned = self._config, dirty.log
        threads = max(1, config[broker_settings.LOG_CLEANER_THREADS])
        buffer_bytes = config[broker_settings.LOG_CLEANER_DEDUPE_BUFFER_SIZE] // threads
        rate = config[broker_settings.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND]
        job = {
            "directory": str(cleaned.directory),
            "identity": cleaned.files.identity(),
            "dirty": [
                [each.base_offset, each.size_bytes, each.end_offset]
                for each in cleaned.segments[:-1]
                if each.end_offset > dirty.start_offset and each.base_offset < dirty.end_offset
            ],
            "start_offset": dirty.start_offset,
            "end_offset": dirty.end_offset,
            "aborted": cleaned.aborted_transactions(cleaned.segments[0].base_offset, dirty.end_offset),
            "producers": [
                [each.producer_id, each.batches[-1].last_offset if each.batches else -1, each.epoch]
                for each in cleaned.producers
            ],
            "now_ms": self._now_ms(),
            "delete_retention_ms": cleaned.config.delete_retention_ms,
            "index_interval_bytes": cleaned.config.index_interval_bytes,
            "max_index_bytes": cleaned.config.segment_index_bytes,
            "map_bytes": int(buffer_bytes * config[broker_settings.LOG_CLEANER_IO_BUFFER_LOAD_FACTOR]),
            "buffer_bytes": config[broker_settings.LOG_CLEANER_IO_BUFFER_SIZE] // threads // 2,
        }
        return {"map": job, "bytes_per_second": min(rate / threads, _NO_RATE)}

    async def _note_end(self, key: TopicPartition, cleaned: Log, end_offset: int) -> None:
        """Note where the next dirty section begins, once the swaps before it are on the disk.

        Raises PartitionDeleted.
        """
        await self._work.run(cleaned.files.sync)
        async with self._checkpointing:
            if key in self._aborted:
                raise StorageError("the partition was deleted or cut meanwhile")
            held = {(partition.topic, partition.index) for partition in self._partitions}
            offsets = self._checkpoint.offsets
            for gone in offsets.keys() - held:
                del offsets[gone]
            offsets[key] = end_offset
            await self._work.run(partial(self._checkpoint.write, self._checkpoint.take()))

    def _give_up(self, key: TopicPartition, problem: Exception) -> None:
        topic, partition = key
        if key in self._aborted:
            log.info("cleaning stopped topic=%s partition=%d", topic, partition)
            return
        hopeless = isinstance(problem, CleaningFailed) and problem.corrupt
        if isinstance(problem, WorkerEnded):
            deaths = self._deaths[key] = self._deaths.get(key, 0) + 1
            hopeless = deaths >= DEATHS
        if hopeless:
            self.uncleanable.add(key)
            log.error(
                "log cannot be cleaned, left alone until the next start topic=%s partition=%d reason=%s",
                topic, partition, problem,
            )  # fmt: skip
            return
        self._failed.add(key)
        log.warning("cleaning failed topic=%s partition=%d reason=%s", topic, partition, problem)

    def _report(self, dirty: LogToClean, answer: Mapping[str, Any], end_offset: int, seconds: float) -> None:
        stats = answer["stats"]
        self.cleanings += 1
        self.bytes_read += stats["bytes_read"]
        self.bytes_written += stats["bytes_written"]
        self.cleaning_seconds += seconds
        self.last_dirty_ratio = dirty.dirty_ratio
        self.last_map_utilization = answer["utilization"]
        log.info(
            "log cleaned topic=%s partition=%d start=%d end=%d dirty_ratio=%.2f bytes_read=%d "
            "bytes_written=%d records_read=%d records_written=%d keys=%d map_utilization=%.2f seconds=%.3f "
            "keyless=%d",
            dirty.log.topic, dirty.log.partition, dirty.start_offset, end_offset, dirty.dirty_ratio,
            stats["bytes_read"], stats["bytes_written"], stats["records_read"], stats["records_written"],
            answer["keys"], answer["utilization"], seconds, stats["keyless_records"],
        )  # fmt: skip
