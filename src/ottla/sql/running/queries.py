"""The queries of a service on the server that runs them: the primary, in one host process.

A server that becomes the primary starts a host, and with it all queries; one that is the primary no more
kills its host at once. Two hosts never run one query: the directory of checkpoints is locked, and the sink's
transactions fence the one before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Mapping
from typing import Final

from ottla.sql.commands.state import PersistentQuery
from ottla.sql.plan.stored import stored
from ottla.sql.running.messages import Configure, Ended, Event, Progress, Ready, Running, Start, Stop, Stopped
from ottla.sql.running.process import HostProcess
from ottla.sql.running.wishes import Backoff, Begin, QueryLife, Stage, Wishes

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9._-]")

log = logging.getLogger("ottla.sql")


class Queries:
    """The wanted queries, run while `lead` says so. `run` is a task of its owner."""

    def __init__(self, service_id: str, configure: Configure, backoff: Backoff, *, warm: bool) -> None:
        """warm: start the host before there is a query."""
        self._warm = warm
        self._service_id = service_id
        self._configure = configure
        self._wishes = Wishes(backoff)
        self._host: HostProcess | None = None
        self._is_ready = False
        self._leads = False
        self._news = asyncio.Event()
        self.host_starts = 0
        self._changes = asyncio.Event()
        """Set, and replaced, when a query has begun or ended."""

    @property
    def is_ready(self) -> bool:
        """Whether Spark runs here."""
        return self._is_ready

    def want(self, queries: Mapping[str, PersistentQuery]) -> None:
        """These queries are there now."""
        self._wishes.want(queries)
        self._news.set()

    @property
    def leads(self) -> bool:
        """Whether queries are to run here."""
        return self._leads

    def lead(self, leads: bool) -> None:
        """Whether queries run here."""
        if leads is not self._leads:
            self._leads = leads
            if not leads and self._host is not None:
                self._host.kill()
            self._news.set()
            self._changed()

    def life(self, query_id: str) -> QueryLife | None:
        """How a query is, None for one that is not known here."""
        return self._wishes.lives.get(query_id)

    @property
    def lives(self) -> Mapping[str, QueryLife]:
        """How each query is, by its id."""
        return self._wishes.lives

    def _changed(self) -> None:
        changes, self._changes = self._changes, asyncio.Event()
        changes.set()

    async def until_changed(self) -> None:
        """Wait until some query has begun or ended."""
        await self._changes.wait()

    async def until_gone(self, timeout_seconds: float) -> None:
        """Wait until all queries that are not wanted any more have ended, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while self._wishes.unwanted:
                    await self._changes.wait()

    async def until_running(self, query_id: str, revision: int, timeout_seconds: float) -> bool:
        """Wait until a query runs with this plan; False if it has failed, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while (life := self.life(query_id)) is not None:
                    if life.stage is Stage.RUNNING and life.revision == revision:
                        return True
                    if life.failures:
                        return False
                    await self._changes.wait()
        return False

    async def run(self) -> None:
        """Keep a host for as long as this server is the primary, for ever."""
        pause = FIRST_PAUSE_SECONDS
        clock = asyncio.get_running_loop().time
        while True:
            if not self._leads or not (self._warm or self._wishes.lives):
                self._news.clear()
                await self._news.wait()
                continue
            begun = clock()
            try:
                reason = await self._with_host()
            except OSError as problem:
                reason = f"the query host can't be started: {problem}"
            if self._leads_no_more():
                continue
            log.error("%s; it is started again in %.0f s", reason, pause)
            if clock() - begun > LONGEST_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _leads_no_more(self) -> bool:
        return not self._leads

    async def _with_host(self) -> str:
        """A host from its start to its end; says why it ended."""
        self._host = host = await HostProcess.begin(self._take)
        self.host_starts += 1
        ending = asyncio.create_task(host.ended())
        telling = asyncio.create_task(self._tell(host))
        try:
            host.send(self._configure)
            await asyncio.wait([ending, telling], return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                telling.result()  # it only ends by a bug
            return await ending
        finally:
            for task in (ending, telling):
                task.cancel()
            await host.close()
            self._host, self._is_ready = None, False
            self._wishes.host_ended(asyncio.get_running_loop().time())
            self._changed()

    async def _tell(self, host: HostProcess) -> None:
        """Give the host its orders as they become due."""
        clock = asyncio.get_running_loop().time
        while True:
            self._news.clear()
            if self._is_ready:
                for step in self._wishes.steps(clock()):
                    match step:
                        case Begin(query=query):
                            host.send(self._order(query))
                        case _:
                            host.send(Stop(step.query_id, self.application(step.query_id), step.forget))
                self._changed()
            due = self._wishes.next_at() if self._is_ready else None
            try:
                async with asyncio.timeout(None if due is None else max(due - clock(), 0.01)):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _order(self, query: PersistentQuery) -> Start:
        starts_at = query.properties.get("auto.offset.reset", "latest")
        return Start(
            query.id,
            query.revision,
            self.application(query.id),
            stored(query.plan, query.statement),
            starts_at,
            dict(query.properties),
        )

    def application(self, query_id: str) -> str:
        """The name of a query's application: of its checkpoints, group, transactions and internal topics."""
        return f"ottla-sql-{self._service_id}-{_ILLEGAL.sub('_', query_id)}"

    def _take(self, event: Event) -> None:
        now = asyncio.get_running_loop().time()
        match event:
            case Ready(seconds=seconds):
                log.info("Spark is ready seconds=%.1f", seconds)
                self._is_ready = True
            case Running(query_id=id, seconds=seconds):
                log.info("query runs query=%s seconds=%.1f", id, seconds)
                self._wishes.running(event)
            case Ended(query_id=id, problem=problem):
                if problem is not None:
                    log.error("query failed query=%s: %s", id, problem)
                else:
                    log.info("query ended query=%s", id)
                self._wishes.ended(event, now)
            case Stopped(query_id=id):
                self._wishes.stopped(id)
            case Progress():
                self._wishes.progressed(event)
                return
        self._news.set()
        self._changed()
