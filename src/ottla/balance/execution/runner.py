"""Carries an execution out, or on: batches of moves, elections, throttles.

Theory of operation. Nothing is remembered of single moves: a partition that has its replicas of afterwards,
and is not under way, is done; one that has those of before waits; one that has others was changed by somebody
else, and is left. So an execution that was killed is carried on by the same code that began it. Each round
reads where partitions stand, tells the journal that the owner is alive, then begins as many moves as each
broker may have at once, and elects the leaders of those that are done.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.balance.core.plan import Change
from ottla.balance.execution.journal import (
    BEAT_SECONDS,
    BalanceBusy,
    Execution,
    Journal,
    LostExecution,
    busy_line,
)
from ottla.balance.execution.requests import Ongoing, elect, ongoing, reassign
from ottla.balance.execution.throttles import brokers_of, remove_throttles, set_throttles, without_rate
from ottla.client.access import ClusterAccess
from ottla.client.clock import now_ms
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.replicated.errors import StateError

log = logging.getLogger("ottla.balance")

ROUND_SECONDS: Final = 0.5
ELECTION_TRIES: Final = 20
OTHER_ROUNDS: Final = 20
"""A broker may tell late of a move's end; replicas that are others for so long were changed by somebody."""
PATIENCE_SECONDS: Final = 120.0
"""For so long a cluster that does not answer is asked again."""
TOPICS_A_REQUEST: Final = 1_000


@dataclass(frozen=True, slots=True)
class RunOptions:
    """moves_per_broker: at once, into and out of each broker. moves: at once in the cluster.

    throttle: bytes per second that each broker sends and receives for moves; None for no bound.
    """

    moves_per_broker: int = 10
    moves: int = 1_000
    throttle: int | None = None


@dataclass(slots=True)
class Progress:
    """How far an execution is. problems: a line for each change that was not made."""

    changes: int
    done: int = 0
    under_way: int = 0
    bytes_total: int = 0
    bytes_done: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an execution. word: done, stopped or failed."""

    execution: Execution
    word: str
    progress: Progress
    left_over: tuple[int, ...]


Told = Callable[[Progress], None]


def owner_name() -> str:
    """This process, as others are told of it; no other has this name."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


class Runner:
    """Begins executions and carries on those without an owner, one at a time."""

    def __init__(self, access: ClusterAccess, client: ClusterRequests, journal: Journal) -> None:
        self._access = access
        self._client = client
        self._journal = journal
        self._owner = owner_name()

    async def recover(self) -> Execution | None:
        """The unfinished execution, taken over, if there is one. Throttles that were left over are removed.

        Raises BalanceBusy if somebody carries it out, StateError, ClusterError.
        """
        last = self._journal.execution
        if last is not None and last.finished and last.left_over:
            rate = last.throttle or 0
            left = await remove_throttles(self._client, (), last.left_over, rate)
            await self._journal.cleaned(last, left)
        unfinished = self._journal.unfinished
        if unfinished is None:
            return None
        if await self._journal.has_owner(unfinished):
            raise BalanceBusy(busy_line(self._journal.unfinished or unfinished))
        ownerless = self._journal.unfinished
        return None if ownerless is None else await self._journal.adopt(ownerless, self._owner)

    async def begin(
        self, purpose: str, changes: Sequence[Change], options: RunOptions, brokers: tuple[int, ...] = ()
    ) -> Execution:
        """Store a new execution. brokers: that it adds, removes or demotes.

        Raises BalanceBusy, also for moves of others, StateError, ClusterError.
        """
        if others := await ongoing(self._client):
            place = next(iter(others))
            raise BalanceBusy(
                f"{len(others)} moves are under way that ottla balance has not begun, {place} for one: wait "
                "for their end, or `ottla partition reassign --cancel`"
            )
        throttled: tuple[int, ...] = ()
        if options.throttle is not None:
            throttled = await without_rate(self._client, brokers_of(changes))
        execution = Execution(
            uuid.uuid4().hex[:12],
            purpose,
            self._owner,
            now_ms(),
            options.throttle,
            throttled,
            brokers=brokers,
        )
        return await self._journal.begin(execution, changes)

    async def carry_out(self, execution: Execution, options: RunOptions, told: Told) -> Outcome:
        """Carry an execution of this owner out, or on. Raises LostExecution, StateError, ClusterError.

        Cancelled, it ends its moves that are under way, takes its throttles away and stores that end.
        """
        changes = self._journal.changes_of(execution)
        running = _Running(self._client, self._journal, execution, changes, options, told)
        try:
            word = await running.run()
        except asyncio.CancelledError:
            await asyncio.shield(self._ended(running, "stopped", cancel=True))
            raise
        except LostExecution:
            raise
        except (ClusterError, StateError):
            await self._ended(running, "failed", cancel=False)
            raise
        return await self._ended(running, word, cancel=word == "stopped")

    async def _ended(self, running: _Running, word: str, *, cancel: bool) -> Outcome:
        execution = running.execution
        if cancel:
            await running.cancel()
        left: list[int] = []
        if execution.throttle is not None:
            left = await remove_throttles(
                self._client, running.changes, execution.throttled, execution.throttle
            )
        await self._journal.finish(execution, word, left)
        return Outcome(execution, word, running.progress, tuple(left))


class _Running:
    """One execution while it is carried out."""

    def __init__(
        self,
        client: ClusterRequests,
        journal: Journal,
        execution: Execution,
        changes: Sequence[Change],
        options: RunOptions,
        told: Told,
    ) -> None:
        self._client = client
        self._journal = journal
        self.execution = execution
        self.changes = changes
        self._options = options
        self._told = told
        self._left = {TopicPartition(one.topic, one.partition): one for one in changes}
        self._elections: Counter[TopicPartition] = Counter()
        self._others: Counter[TopicPartition] = Counter()
        self._beaten_at = 0.0
        self.progress = Progress(len(changes), bytes_total=sum(one.bytes_moved for one in changes))

    async def run(self) -> str:
        """Until nothing is left: done, stopped, or failed where some changes were not made."""
        await self._beat()
        if self.execution.throttle is not None and brokers_of(self.changes):
            await set_throttles(self._client, self.changes, self.execution.throttled, self.execution.throttle)
        loop = asyncio.get_running_loop()
        answered_at = loop.time()
        while self._left:
            try:
                is_stopped = await self._round()
            except ClusterError as problem:
                if loop.time() - answered_at > PATIENCE_SECONDS:
                    raise
                log.warning("the cluster does not answer, and is asked again: %s", problem)
            else:
                answered_at = loop.time()
                if is_stopped:
                    return "stopped"
            if self._left:
                await asyncio.sleep(ROUND_SECONDS)
        return "failed" if self.progress.problems else "done"

    async def _beat(self) -> None:
        self.execution = await self._journal.beat(self.execution)
        self._beaten_at = asyncio.get_running_loop().time()

    async def _round(self) -> bool:
        """One look and the steps that follow from it; True once it was stopped and nothing is under way."""
        moving = await ongoing(self._client)
        stands = await self._stands()
        alive = set((await self._client.cluster()).brokers)
        stop = self._journal.stop_of(self.execution)
        waiting: list[Change] = []
        elected: list[TopicPartition] = []
        under_way: list[TopicPartition] = []
        for place, change in list(self._left.items()):
            found = stands.get(place)
            if found is None:
                self._give_up(place, "the partition is gone")
            elif place in moving:
                under_way.append(place)
            elif found.replicas == change.after:
                if found.leader == change.after[0]:
                    self._done(place)
                else:
                    elected.append(place)
            elif found.replicas == change.before:
                waiting.append(change)
            else:
                self._others[place] += 1
                if self._others[place] >= OTHER_ROUNDS:
                    self._give_up(place, "somebody else has changed its replicas")
        self.progress.under_way = len(under_way)
        self._told(self.progress)
        if stop is not None and (stop or not under_way):
            return True
        if asyncio.get_running_loop().time() - self._beaten_at > BEAT_SECONDS or waiting or elected:
            await self._beat()
        await self._end_hopeless(under_way, moving, alive)
        if stop is None:
            await self._begin(waiting, under_way)
        await self._elect(elected)
        return False

    async def _begin(self, waiting: Sequence[Change], under_way: Sequence[TopicPartition]) -> None:
        """Begin as many moves as there is room for; changes of the order alone need none."""
        busy = Counter(broker for place in under_way for broker in _touched(self._left[place]))
        wanted: dict[TopicPartition, Sequence[int] | None] = {}
        moves = len(under_way)
        for one in waiting:
            place = TopicPartition(one.topic, one.partition)
            if not one.adds and not one.removes:
                if len(wanted) < self._options.moves:
                    wanted[place] = one.after
                continue
            if moves >= self._options.moves:
                continue
            touched = _touched(one)
            if all(busy[broker] < self._options.moves_per_broker for broker in touched):
                busy.update(touched)
                wanted[place] = one.after
                moves += 1
        if wanted:
            for place, problem in (await reassign(self._client, wanted)).items():
                if problem is not None:
                    self._give_up(place, str(problem))

    async def _elect(self, elected: Sequence[TopicPartition]) -> None:
        if not elected:
            return
        for place, problem in (await elect(self._client, elected)).items():
            self._elections[place] += 1
            if problem is not None and self._elections[place] >= ELECTION_TRIES:
                self._give_up(place, str(problem))

    async def _end_hopeless(
        self, under_way: Sequence[TopicPartition], moving: Mapping[TopicPartition, Ongoing], alive: set[int]
    ) -> None:
        """End moves to brokers that have died meanwhile: they would never come to an end."""
        hopeless = [place for place in under_way if not set(moving[place].adding) <= alive]
        if hopeless:
            await reassign(self._client, dict.fromkeys(hopeless))
            for place in hopeless:
                self._give_up(place, "a broker that it was to move to has died")

    async def cancel(self) -> None:
        """End the moves that are under way, as they were before."""
        moving = await ongoing(self._client)
        mine = [place for place in self._left if place in moving]
        if mine:
            await reassign(self._client, dict.fromkeys(mine))

    async def _stands(self) -> dict[TopicPartition, _Stand]:
        """The replicas and leaders of the partitions that are left."""
        names = list(dict.fromkeys(place.topic for place in self._left))
        found: dict[TopicPartition, _Stand] = {}
        for start in range(0, len(names), TOPICS_A_REQUEST):
            for topic in await self._client.topics(names[start : start + TOPICS_A_REQUEST]):
                for one in topic.partitions:
                    place = TopicPartition(topic.name or "", one.partition_index)
                    found[place] = _Stand(tuple(one.replica_nodes), one.leader_id)
        return found

    def _done(self, place: TopicPartition) -> None:
        change = self._left.pop(place)
        self.progress.done += 1
        self.progress.bytes_done += change.bytes_moved

    def _give_up(self, place: TopicPartition, why: str) -> None:
        if self._left.pop(place, None) is not None:
            line = why if why.startswith(str(place)) else f"{place}: {why}"
            self.progress.problems.append(line)
            log.warning("%s", line)


@dataclass(frozen=True, slots=True)
class _Stand:
    replicas: tuple[int, ...]
    leader: int


def _touched(change: Change) -> tuple[int, ...]:
    """The brokers that a move keeps busy: those that receive, and the one that sends."""
    source = () if change.leader is None else (change.leader,)
    return tuple(dict.fromkeys((*change.adds, *source)))
