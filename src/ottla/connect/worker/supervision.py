"""Carries out the decisions of core/runs.py: starts, stops and pauses runs in hosts, and hears of them.

Theory of operation. Everything happens in short turns on the event loop. A start is a task of its own, as it
looks up secrets and offsets first; a stop of such a run ends that task. A run that does not end in time has
its host killed; the other runs of that host are started again, and that connector gets a host of its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.config.errors import UserError
from ottla.connect.core.errors import Refused
from ottla.connect.core.host_deaths import HostDeaths
from ottla.connect.core.ids import TaskId
from ottla.connect.core.runs import Effect, PauseRun, Phase, Runs, StartRun, StopRun, Tell, Wanted
from ottla.connect.host.codec import CodecError
from ottla.connect.host.messages import (
    Ended,
    Event,
    Figures,
    Partitions,
    Pause,
    Paused,
    Resume,
    Run,
    Running,
    Start,
    Stop,
    Topics,
)
from ottla.connect.plugins.catalog import Engine
from ottla.connect.worker.hosts import Host, HostKey, Hosts

log = logging.getLogger("ottla.connect")

SPARK_GRACE_MS: Final = 60_000
"""For a streaming query to finish its batch."""
LEASE_SECONDS: Final = 0.5
CLOSE_SECONDS: Final = 2.0


class Preparing(Protocol):
    """Finds out what a run needs."""

    async def start_of(self, id: TaskId, number: int, paused: bool) -> tuple[Engine, Start]:
        """The order that begins a run. Raises whatever makes that impossible: the run fails by it."""


class Watching(Protocol):
    """Is told what becomes of runs."""

    def tell(self, told: Tell) -> None:
        """A connector or task is in another state."""

    def began(self, id: TaskId) -> None:
        """A run has begun, or goes on after a pause."""

    def partitions(self, id: TaskId, partitions: Sequence[Mapping[str, Any]]) -> None:
        """A source's partitions."""

    def topics(self, id: TaskId, topics: Sequence[str]) -> None:
        """Topics that a run has used for the first time."""

    def changed(self) -> None:
        """A run has ended, or another one has begun."""

    def lapsed(self) -> None:
        """The worker may be no member of its group any more, though it has runs."""


class _NotAMember(Exception):
    """A run can't begin: the group may have given it to another worker."""


@dataclass(slots=True)
class _Live:
    """A run under way. host: None while it is being prepared."""

    id: TaskId
    preparing: asyncio.Task[None] | None = None
    host: Host | None = None
    overdue: asyncio.TimerHandle | None = None


class Supervisor:
    """The runs of one worker, in its hosts."""

    def __init__(
        self, runs: Runs, hosts: Hosts, preparing: Preparing, watching: Watching, grace_ms: int
    ) -> None:
        self._runs = runs
        self._hosts = hosts
        self._preparing = preparing
        self._watching = watching
        self._grace_ms = grace_ms
        self._live: dict[int, _Live] = {}
        self._deaths = HostDeaths()
        self._changed = asyncio.Event()
        self._is_closing = False
        self.membership_ms: Callable[[], float] | None = None
        """For how long the worker is surely a member of its group; None for a worker without one."""
        self.figures: dict[TaskId, Mapping[str, float]] = {}
        self.figures_of_partitions: dict[TaskId, Mapping[str, Mapping[str, float]]] = {}

    # -- wishes ---------------------------------------------------------------------------------------

    def want(self, wanted: Mapping[TaskId, Wanted]) -> None:
        """From now on these are to run here, and nothing else; nothing any more once it is being stopped."""
        if self._is_closing:
            return
        for connector in {id.connector for id in self._runs.phases} - {id.connector for id in wanted}:
            self._deaths.forget(connector)
        self._perform(self._runs.want(wanted))

    def restart(self, ids: Collection[TaskId]) -> None:
        """Begin these anew."""
        self._perform(self._runs.restart(ids))

    def drop_all(self) -> None:
        """Kill everything: others may run it already."""
        for host in self._hosts.running:
            host.kill()
        for number, live in list(self._live.items()):
            self._forget(number, live)
        self._runs.abandon_all()
        self._watching.changed()

    @property
    def phases(self) -> Mapping[TaskId, Phase]:
        """Where all connectors and tasks of this worker are."""
        return self._runs.phases

    def has_run(self, id: TaskId) -> bool:
        """Whether a run is under way, also one that is being stopped."""
        return self._runs.has_run(id)

    def revision(self, id: TaskId) -> int | None:
        """What the last run was started for; None for one that was never started here."""
        return self._runs.revision(id)

    def is_alone(self, connector: str) -> bool:
        """Whether a connector has a host of its own."""
        return self._deaths.is_alone(connector)

    # -- life -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Start what waits for its time, for ever."""
        while True:
            self._changed.clear()
            next_ms = self._runs.next_ms
            seconds = None if next_ms is None else max(0.0, (next_ms - _now_ms()) / 1000)
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                self._perform(self._runs.tick(_now_ms()))

    async def give_leases(self, membership_ms: Callable[[], float]) -> None:
        """Let hosts live for as long as the worker is surely a member of its group, for ever.

        A worker that finds itself out of time (it was frozen, or the cluster is away) gives up all that it
        has: others may run it, and what it would claim as it joins again would be theirs.
        """
        while True:
            left_ms = membership_ms()
            if left_ms > 0:
                for host in self._hosts.running:
                    host.let_live(int(left_ms))
            elif self._live:
                self._watching.lapsed()
            await asyncio.sleep(LEASE_SECONDS)

    async def stop(self) -> None:
        """End all runs in order, then the hosts."""
        self._is_closing = True
        self._perform(self._runs.want({}))
        try:
            async with asyncio.timeout(self._grace_ms / 1000 + CLOSE_SECONDS):
                while self._live:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            late = sorted(str(live.id) for live in self._live.values())
            log.warning("%d runs did not end in time, among them %s", len(late), ", ".join(late[:5]))
        for number, live in list(self._live.items()):
            self._forget(number, live)
        await self._hosts.close()

    # -- effects --------------------------------------------------------------------------------------

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case StartRun(id, number, paused):
                    live = self._live[number] = _Live(id)
                    name = f"start of {id}"
                    live.preparing = asyncio.create_task(self._begin(id, number, paused), name=name)
                case StopRun(id, number):
                    self._stop(id, number)
                case PauseRun(id, number, paused):
                    self._pause(id, number, paused)
                case Tell():
                    self._watching.tell(effect)
        if effects:
            self._watching.changed()
        self._changed.set()

    async def _begin(self, id: TaskId, number: int, paused: bool) -> None:
        live = self._live[number]
        try:
            engine, start = await self._preparing.start_of(id, number, paused)
            key = HostKey(engine, id.connector if self._deaths.is_alone(id.connector) else None)
            host = await self._hosts.get(key, self._event, self._died)
            if self.membership_ms is not None:
                left_ms = self.membership_ms()
                if left_ms <= 0:
                    raise _NotAMember("the worker is no member of its group at the moment")
                host.let_live(int(left_ms))
            # The wishes may have changed meanwhile; a stop would have cancelled this task.
            live.preparing, live.host = None, host
            host.send(start)
        except _NotAMember as problem:
            live.preparing = None
            self._end(id, number, str(problem), counts=False)
        except (UserError, Refused, OSError, CodecError, TimeoutError) as problem:
            live.preparing = None
            self._end(id, number, f"{type(problem).__name__}: {problem}")
        except Exception as problem:
            log.exception("%s could not be started", id)
            live.preparing = None
            self._end(id, number, "".join(traceback.format_exception(problem)))

    def _stop(self, id: TaskId, number: int) -> None:
        live = self._live.get(number)
        if live is None:
            self._end(id, number, None)
            return
        if live.host is None:
            if live.preparing is not None:
                live.preparing.cancel()
            asyncio.get_running_loop().call_soon(self._end, id, number, None)
            return
        live.host.send(Stop(_run(id, number)))
        engine = live.host.key.engine
        grace_ms = max(self._grace_ms, SPARK_GRACE_MS) if engine is Engine.SPARK else self._grace_ms
        loop = asyncio.get_running_loop()
        live.overdue = loop.call_later(grace_ms / 1000, self._overdue, id, number)

    def _pause(self, id: TaskId, number: int, paused: bool) -> None:
        live = self._live.get(number)
        if live is None:
            return
        if live.host is not None:
            live.host.send(Pause(_run(id, number)) if paused else Resume(_run(id, number)))
        else:
            # Not begun yet: it begins anew, as it is wanted now.
            if live.preparing is not None:
                live.preparing.cancel()
            name = f"start of {id}"
            live.preparing = asyncio.create_task(self._begin(id, number, paused), name=name)

    def _overdue(self, id: TaskId, number: int) -> None:
        live = self._live.get(number)
        if live is None or live.host is None:
            return
        log.warning("%s did not stop in time: the process that runs it is killed", id)
        self._deaths.isolate(id.connector)
        live.host.kill()

    # -- events ---------------------------------------------------------------------------------------

    def _event(self, host: Host, event: Event) -> None:
        run = event.run
        id, number = TaskId(run.connector, run.task), run.run
        live = self._live.get(number)
        if live is None or live.host is not host or live.id != id:
            return
        match event:
            case Running():
                self._perform(self._runs.running(id, number))
                if self._runs.is_live(id, number):
                    self._watching.began(id)
            case Paused():
                self._perform(self._runs.paused(id, number))
            case Ended(_, trace):
                self._end(id, number, trace)
            case Partitions(_, partitions):
                if self._runs.is_live(id, number):
                    self._watching.partitions(id, partitions)
            case Topics(_, topics):
                self._watching.topics(id, topics)
            case Figures(_, figures, of_partitions):
                self.figures[id] = figures
                self.figures_of_partitions[id] = of_partitions

    def _died(self, host: Host, reason: str) -> None:
        """All runs of a host are over; those that were asked to stop have done so."""
        mine = [(number, live) for number, live in self._live.items() if live.host is host]
        if not host.is_killed:
            log.warning("a host for %s connectors has died: %s", host.key.engine, reason.partition("\n")[0])
            self._deaths.died([live.id.connector for _, live in mine], _now_ms())
        for number, live in mine:
            self._end(live.id, number, reason, counts=not host.is_killed)

    def _end(self, id: TaskId, number: int, trace: str | None, *, counts: bool = True) -> None:
        live = self._live.pop(number, None)
        if live is not None and live.overdue is not None:
            live.overdue.cancel()
        self.figures.pop(id, None)
        self.figures_of_partitions.pop(id, None)
        self._perform(self._runs.ended(id, number, trace, _now_ms(), counts=counts))
        self._watching.changed()

    def _forget(self, number: int, live: _Live) -> None:
        if live.preparing is not None:
            live.preparing.cancel()
        if live.overdue is not None:
            live.overdue.cancel()
        self._live.pop(number, None)


def _run(id: TaskId, number: int) -> Run:
    return Run(id.connector, id.task, number)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
