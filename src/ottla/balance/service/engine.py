"""Plans on request, carries one plan out at a time, finishes what a dead copy has begun, heals if asked to.

Theory of operation. Any number of copies may run: executions live in the journal. Each copy looks now and
then whether there is an execution without an owner, and the first that takes it over carries it on. A copy
executes one plan at a time, in a task of its own; what it is asked meanwhile is planned, but not carried out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from ottla.balance.core.anomalies import Detector, DetectorOptions
from ottla.balance.core.goals import Goal
from ottla.balance.core.model import Rules
from ottla.balance.core.rightsizing import Rightsizing, rightsize
from ottla.balance.execution.journal import BalanceBusy, Execution, Journal, LostExecution
from ottla.balance.execution.runner import Progress, Runner, RunOptions
from ottla.balance.healing import HealedGoals, Healer, look_seconds
from ottla.balance.planning import Planned, Wish, planned_from, reason_not_to
from ottla.balance.reading import Reading, ReadOptions, read_cluster
from ottla.balance.service.cluster_state import ClusterState, read_state
from ottla.client.access import ClusterAccess
from ottla.client.clock import now_ms
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError
from ottla.config.errors import UserError
from ottla.replicated.errors import StateError

log = logging.getLogger("ottla.balance")

AGAIN_SECONDS: Final = 5.0
"""Between two tries to open the journal, and two looks for executions without an owner."""
END_SECONDS: Final = 60.0
"""An execution that is asked to end may take so long."""
LOOK_SECONDS: Final = 0.2
DONE: Final = "done"
PLANS_AT_ONCE: Final = 2
"""Others wait: each takes a model of the whole cluster."""


class CantBeDone(UserError):
    """A request that is refused; one line that says why."""


@dataclass(slots=True)
class EngineFigures:
    """What the engine has done, for metrics."""

    plans: int = 0
    failed_plans: int = 0
    plan_seconds: float = 0.0
    outcomes: dict[str, int] = field(default_factory=lambda: {"done": 0, "stopped": 0, "failed": 0})
    bytes_moved: int = 0
    healed: int = 0


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """detector: what is watched and mended. goals: that are watched, by watched_rules. mended_goals: that a
    plan for them works for.

    removed_ms, demoted_ms: for how long a broker counts as recently removed, or demoted.
    """

    rules: Rules
    reading: ReadOptions
    running: RunOptions
    detector: DetectorOptions
    goals: frozenset[Goal]
    mended_goals: frozenset[Goal]
    watched_rules: Rules
    removed_ms: int
    demoted_ms: int


class Engine:
    """The work of one copy: `run` in a task of its own, `close` at the end."""

    def __init__(self, access: ClusterAccess, options: EngineOptions) -> None:
        self._access = access
        self._options = options
        self._client = ClusterRequests(access)
        self._journal: Journal | None = None
        self._runner: Runner | None = None
        self._executing: asyncio.Task[None] | None = None
        self._last_word = ""
        self._turns = asyncio.Semaphore(PLANS_AT_ONCE)
        self._beginning = asyncio.Lock()
        self.figures = EngineFigures()
        self.detector = Detector(options.detector)
        self.progress: Progress | None = None
        self.last: Planned | None = None
        self.problem: str | None = "the journal has not been read yet"

    @property
    def execution(self) -> Execution | None:
        """The last execution of the cluster, of whatever copy."""
        return None if self._journal is None else self._journal.execution

    @property
    def is_executing(self) -> bool:
        """Whether this copy carries a plan out."""
        return self._executing is not None and not self._executing.done()

    async def run(self) -> None:
        """Open the journal, then look after executions without an owner and anomalies, for ever."""
        options = self._options
        goals = HealedGoals(options.goals, options.mended_goals, options.watched_rules, self.recently_removed)
        pause = look_seconds(options.detector.grace_ms / 1_000)
        healer = Healer(self._client, self.detector, self, goals, pause)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(healer.run(), name="healing")
            while True:
                await self._reopen_if_lost()
                if self._journal is None:
                    await self._open()
                else:
                    await self._finish_what_was_begun()
                    await asyncio.sleep(AGAIN_SECONDS)

    async def _reopen_if_lost(self) -> None:
        """Close a journal whose topic was deleted, so that it is made again."""
        journal = self._journal
        if journal is not None and journal.is_lost and not self.is_executing:
            self._journal, self._runner = None, None
            self.problem = "the journal's topic was lost"
            await journal.close()

    async def close(self) -> None:
        """End the execution, as by Ctrl-C: its moves end, its throttles go."""
        if self._executing is not None:
            self._executing.cancel()
            with contextlib.suppress(asyncio.CancelledError, UserError):
                await self._executing
        if self._journal is not None:
            await self._journal.close()
        await self._client.close()

    async def _open(self) -> None:
        journal = Journal(self._access)
        try:
            await journal.open()
        except StateError as problem:
            await journal.close()
            self.problem = str(problem)
            log.warning("%s; the next try follows", problem)
            await asyncio.sleep(AGAIN_SECONDS)
            return
        except BaseException:
            await journal.close()
            raise
        self._journal, self.problem = journal, None
        self._runner = Runner(self._access, self._client, journal)

    async def _finish_what_was_begun(self) -> None:
        """Carry on an execution without an owner, if there is one."""
        assert self._journal is not None
        assert self._runner is not None
        if self.is_executing or (self._journal.unfinished is None and not self._has_left_over()):
            return
        try:
            async with self._beginning:
                execution = await self._runner.recover()
                if execution is not None:
                    log.info("finishing %s %s, whose owner is gone", execution.purpose, execution.id)
                    self._start(execution, self._options.running)
        except BalanceBusy:
            return
        except (StateError, ClusterError) as problem:
            log.warning("an execution can't be taken over: %s", problem)

    def _has_left_over(self) -> bool:
        execution = self.execution
        return execution is not None and execution.finished and bool(execution.left_over)

    # -- healing -------------------------------------------------------------------------------------------

    def is_busy(self) -> bool:
        """See `Mending`: whether this copy or another carries something out, or can't know."""
        journal = self._journal
        return journal is None or journal.unfinished is not None or self.is_executing

    async def mend(self, planned: Planned) -> bool:
        """See `Mending`."""
        await self.carry_out(planned)
        self.figures.healed += 1
        assert self._executing is not None
        await asyncio.wait([self._executing])
        return self._last_word == DONE

    # -- requests ------------------------------------------------------------------------------------------

    async def read(self) -> Reading:
        """The cluster as it is. Raises ClusterError."""
        async with self._turns:
            return await read_cluster(self._client, self._options.reading)

    async def state(self) -> ClusterState:
        """Who leads and holds what, and which partitions are not whole. Raises ClusterError."""
        async with self._turns:
            return await read_state(self._client)

    async def plan(self, wish: Wish) -> Planned:
        """A plan for the cluster as it is. Raises ClusterError."""
        started = time.perf_counter()
        try:
            reading = await self.read()
            async with self._turns:
                self.last = await planned_from(reading, wish, self._options.rules)
        except ClusterError:
            self.figures.failed_plans += 1
            raise
        self.figures.plans += 1
        self.figures.plan_seconds = time.perf_counter() - started
        return self.last

    async def size(self, growth: float, spare: int) -> Rightsizing:
        """How many brokers the load needs. Raises ClusterError."""
        reading = await self.read()
        async with self._turns:
            return await asyncio.to_thread(rightsize, reading.model, self._options.rules, growth, spare)

    def recently_removed(self) -> frozenset[int]:
        """The brokers that were removed not long ago."""
        since = now_ms() - self._options.removed_ms
        return frozenset() if self._journal is None else self._journal.history.removed_since(since)

    def recently_demoted(self) -> frozenset[int]:
        """The brokers that were demoted not long ago."""
        since = now_ms() - self._options.demoted_ms
        return frozenset() if self._journal is None else self._journal.history.demoted_since(since)

    async def forget(self, removed: Collection[int], demoted: Collection[int]) -> None:
        """Forget that these brokers were removed, and those demoted. Raises CantBeDone, StateError."""
        if self._journal is None:
            raise CantBeDone(f"nothing is stored yet: {self.problem}")
        await self._journal.forget(removed, demoted)

    @property
    def running(self) -> RunOptions:
        """How plans are carried out where a request says nothing else."""
        return self._options.running

    async def carry_out(self, found: Planned, options: RunOptions | None = None) -> None:
        """Begin to carry a plan out, and return. options: None for those of the settings.

        Raises CantBeDone, BalanceBusy, StateError, ClusterError.
        """
        if self._runner is None:
            raise CantBeDone(f"nothing is carried out yet: {self.problem}")
        if (reason := reason_not_to(found)) is not None:
            raise CantBeDone(f"the plan is not carried out: {reason}")
        if not found.plan.changes:
            return
        async with self._beginning:
            if self.is_executing:
                raise BalanceBusy("Cannot execute new proposals while there is an ongoing execution.")
            wish, chosen = found.wish, options or self._options.running
            begun = await self._runner.begin(wish.purpose.value, found.plan.changes, chosen, wish.brokers)
            self._start(begun, chosen)

    def _start(self, execution: Execution, options: RunOptions) -> None:
        self._executing = asyncio.create_task(
            self._carried_out(execution, options), name="carrying a plan out"
        )

    async def _carried_out(self, execution: Execution, options: RunOptions) -> None:
        assert self._runner is not None

        def told(progress: Progress) -> None:
            self.progress = progress

        try:
            outcome = await self._runner.carry_out(execution, options, told)
        except (LostExecution, StateError, ClusterError) as problem:
            self._last_word = "failed"
            self.figures.outcomes["failed"] += 1
            log.error("%s %s: %s", execution.purpose, execution.id, problem)
            return
        self._last_word = outcome.word
        self.figures.outcomes[outcome.word] += 1
        self.figures.bytes_moved += outcome.progress.bytes_done
        log.info("%s %s: %s", execution.purpose, execution.id, outcome.word)

    async def stop(self, *, at_once: bool) -> bool:
        """Stop the cluster's execution, of whatever copy; False where there is none. Raises StateError."""
        journal = self._journal
        if journal is None or journal.unfinished is None:
            return False
        await journal.ask_to_stop(journal.unfinished, at_once)
        return True

    async def end_ongoing(self) -> None:
        """End the cluster's execution, of whatever copy, and wait for that. Raises CantBeDone, StateError."""
        if not await self.stop(at_once=True):
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + END_SECONDS
        while self.is_executing or (self._journal is not None and self._journal.unfinished is not None):
            if loop.time() > end:
                raise CantBeDone("the ongoing execution was asked to stop, and has not come to its end")
            await asyncio.sleep(LOOK_SECONDS)
