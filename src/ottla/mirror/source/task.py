"""Copies the batches of a task's partitions: fetch, plan, patch, produce, commit, tell the offset syncs.

Theory of operation. A session is one producer with one fetcher. It begins with the producer (which ends what
an older one left open), then the committed offsets, then the fetcher at those places. Parts are taken as they
come; a commit ends a transaction when the task has caught up, or the interval is over. What fails and may
pass (the target's brokers are away) ends the session: nothing of it is committed, the next one begins at the
committed offsets. A producer that was fenced ends the task, for another run has its place. A record that the
target does not take is left out by the next session, and goes to the dead letters in the same transaction.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.records.batches import ProducerIdentity
from ottla.client.records.transaction import LOST
from ottla.client.records.writer import RecordRefused
from ottla.connect.host.control import Control
from ottla.connect.host.errors import TaskFailed
from ottla.connect.host.figures import INTERVAL_SECONDS
from ottla.connect.host.messages import Figures, Paused, Running, Start, Topics
from ottla.connect.host.runner import Tell
from ottla.mirror.core.policies import Flow
from ottla.mirror.offset_sync_hook import OffsetSyncs
from ottla.mirror.source.copying import Copying
from ottla.mirror.source.dead_letters import DeadLetters
from ottla.mirror.source.delivery import Delivery, is_exactly_once
from ottla.mirror.source.fetching import Fetcher, FetchSettings, Place
from ottla.mirror.source.figures import TaskFigures
from ottla.mirror.source.places import places_of, topic_partition
from ottla.protocol.errors import CorruptBatch, ErrorCode, ProtocolError

LOOK_SECONDS: Final = 0.05
"""How often a task without work looks at the worker's orders."""
GATHER_SECONDS: Final = 0.03
"""Of a transaction at least: a few fetches' records share one."""
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 10.0
REFUSED_RECORDS: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
    }
)
"""What the target may say of one record, whatever becomes of the others."""
_PASSING: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})

_log = logging.getLogger("ottla.mirror")


@dataclass(frozen=True, slots=True)
class TaskParts:
    """What a task is made of. dead_letters: None where a refused record ends the task."""

    flow: Flow
    source: ClusterAccess
    target: ClusterAccess
    fetching: FetchSettings
    commit_interval_seconds: float
    syncs: Callable[[], OffsetSyncs]
    dead_letters: DeadLetters | None
    loop: Callable[[], asyncio.AbstractEventLoop] | None


class MirrorTask:
    """One run of a copying task; satisfies OwnTask."""

    def __init__(self, start: Start, parts: TaskParts) -> None:
        """Raises ValueError for source partitions that are no mirror's."""
        self._start = start
        self._parts = parts
        self._mine = [topic_partition(each) for each in start.partitions]
        self._origins = {
            TopicPartition(parts.flow.remote_topic(each.topic), each.partition): each for each in self._mine
        }
        self._figures = TaskFigures(self._mine, exactly_once=is_exactly_once(start))
        self._refused: dict[TopicPartition, dict[int, ClusterError]] = {each: {} for each in self._mine}
        self._done: dict[TopicPartition, tuple[int, uuid.UUID]] = {}
        """Where a run that copies at least once goes on, beyond the offsets of its order."""
        self._identity: ProducerIdentity | None = None
        self._is_told_running = False
        self._next_figures = 0.0

    def run(self, tell: Tell, control: Control) -> None:
        """See OwnTask."""
        with asyncio.Runner(loop_factory=self._parts.loop) as runner:
            runner.run(self._run(tell, control))

    async def _run(self, tell: Tell, control: Control) -> None:
        exactly = is_exactly_once(self._start)
        _log.info(
            "%s: %d partitions are copied %s",
            self._parts.flow,
            len(self._mine),
            "exactly once, in transactions"
            if exactly
            else "at least once: a kill repeats the records since the last offset.flush.interval.ms",
        )
        syncs = self._parts.syncs()
        pause = FIRST_PAUSE_SECONDS
        try:
            while not control.stopping:
                if control.paused:
                    await self._rest(tell, control)
                    continue
                commits = self._figures.commits
                try:
                    await self._session(tell, control, syncs)
                except ClusterError as problem:
                    self._judge(problem)
                    self._figures.restarts += 1
                    pause = FIRST_PAUSE_SECONDS if self._figures.commits > commits else pause
                    _log.warning("copying begins anew in %.1f s: %s", pause, problem)
                    await asyncio.to_thread(control.rest, pause)
                    pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                except (CorruptBatch, ProtocolError) as problem:
                    raise TaskFailed(f"the source sends what can't be copied: {problem}") from problem
        finally:
            await syncs.close()

    async def _rest(self, tell: Tell, control: Control) -> None:
        tell(Paused(self._start.run))
        self._is_told_running = False
        while control.paused and not control.stopping:
            await asyncio.to_thread(control.wait, LONGEST_PAUSE_SECONDS)

    def _judge(self, problem: ClusterError) -> None:
        """Raises TaskFailed for a problem that does not pass; remembers a record that is refused."""
        code = problem.code
        if code in LOST:
            raise TaskFailed(str(problem)) from problem
        if isinstance(problem, RecordRefused) and code in REFUSED_RECORDS:
            origin = self._origins.get(problem.partition)
            if origin is None:
                raise TaskFailed(f"a dead letter is refused: {problem}") from problem
            if self._parts.dead_letters is None:
                raise TaskFailed(
                    f"the record at offset {problem.source} of {origin} can't be written: {problem}. With "
                    "errors.tolerance=all it goes to the dead letters"
                ) from problem
            self._refused[origin][problem.source] = problem
            return
        if code is not None and not ErrorCode(code).retriable and code not in _PASSING:
            raise TaskFailed(str(problem)) from problem

    # -- a session -------------------------------------------------------------------------------------------

    async def _session(self, tell: Tell, control: Control, syncs: OffsetSyncs) -> None:
        parts = self._parts
        source = ClusterRequests(parts.source)
        delivery = Delivery(self._start, parts.target)
        fetcher: Fetcher | None = None
        try:
            offsets = await delivery.open(self._identity)
            self._identity = delivery.identity if delivery.exactly_once else None
            places = dict(places_of(parts.flow.source_alias, self._mine, offsets))
            for partition, (position, topic_id) in self._done.items():
                places[partition] = Place(partition, position, topic_id)
            if not self._is_told_running:
                self._is_told_running = True
                names = sorted({parts.flow.remote_topic(each.topic) for each in self._mine})
                tell(Running(self._start.run))
                tell(Topics(self._start.run, names))
            fetcher = Fetcher(source, parts.source, places, parts.fetching)
            copying = Copying(parts.flow, parts, delivery, fetcher, self._figures, self._refused)
            await self._copy(tell, control, syncs, copying)
        finally:
            if fetcher is not None:
                await fetcher.close()
            await delivery.close()
            await source.close()

    async def _copy(self, tell: Tell, control: Control, syncs: OffsetSyncs, copying: Copying) -> None:
        loop = asyncio.get_running_loop()
        opened_at = 0.0
        while control.goes_on():
            dirty = copying.delivery.is_dirty
            await copying.step(GATHER_SECONDS / 2 if dirty else LOOK_SECONDS)
            if copying.made_again:
                await syncs.forget(copying.take_made_again())
            now = loop.time()
            if copying.delivery.is_dirty:
                opened_at = opened_at if dirty else now
                caught_up = not copying.fetcher.has_parts and now >= opened_at + GATHER_SECONDS
                if caught_up or now >= opened_at + self._parts.commit_interval_seconds:
                    await self._commit(syncs, copying)
            else:
                await copying.delivery.tick()
            self._tell_figures(tell, copying)
        await self._commit(syncs, copying)
        await copying.delivery.store()
        self._tell_figures(tell, copying, now=True)

    async def _commit(self, syncs: OffsetSyncs, copying: Copying) -> None:
        if not copying.delivery.is_dirty:
            return
        runs = await copying.delivery.commit()
        self._figures.copied(runs, time.time_ns() // 1_000_000)
        done = copying.take_done()
        for origin, (position, _) in done.items():
            refused = self._refused[origin]
            for offset in [each for each in refused if each < position]:
                del refused[offset]
        if not copying.delivery.exactly_once:
            self._done |= done
        await syncs.copied(runs)

    def _tell_figures(self, tell: Tell, copying: Copying, *, now: bool = False) -> None:
        if now or time.monotonic() >= self._next_figures:
            copying.measure()
            self._next_figures = time.monotonic() + INTERVAL_SECONDS
            own, partitions = self._figures.told(time.monotonic(), time.time_ns() // 1_000_000)
            tell(Figures(self._start.run, own, partitions))
