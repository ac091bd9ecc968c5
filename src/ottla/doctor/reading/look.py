"""One look at a cluster: the parts that checks want, read side by side, until the time is over.

Theory of operation. Each part is a task that is made when it is first needed, by the caller or by another
part. Parts that ask much have connections of their own (lanes): a node answers a connection in order, and a
small question is not to wait behind a large one. At the deadline the parts that still run are cancelled, and
a part that has read some of its value keeps it, told as incomplete. Errors end a part, never the look.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import ClusterRequests
from ottla.config.errors import UserError
from ottla.doctor.reading.drafts import TIME_OVER, Draft
from ottla.doctor.snapshot import PART_NAMES, Gap, NotRead, Snapshot, WhyNot

CLIENT_ID: Final = "ottla-doctor"
REQUEST_PART: Final = 0.4
"""The part of the whole time that one request may take: a silent broker leaves time to others."""
LEAST_REQUEST_SECONDS: Final = 1.0
LAST_PART: Final = 0.15
"""Of the time, for checks and words."""


def wall_clock_ms() -> float:
    """This machine's clock, in ms since the epoch."""
    return time.time_ns() / 1_000_000


@dataclass(frozen=True, slots=True)
class LookOptions:
    """How to look.

    seconds: for all. sample_seconds: between the looks at what moves; 0 for one look. loss_hours: ahead, of
    groups behind retention. metrics_urls: pages of brokers' metrics. now_ms: this machine's clock.
    """

    seconds: float = 10.0
    sample_seconds: float = 3.0
    loss_hours: float = 24.0
    metrics_urls: tuple[str, ...] = ()
    now_ms: Callable[[], float] = field(default=wall_clock_ms)


Reader = Callable[["Look", Draft], Awaitable[Any]]


class Look:
    """Reads parts. readers: each part's, by its name; some are for other parts alone."""

    def __init__(self, access: ClusterAccess, options: LookOptions, readers: Mapping[str, Reader]) -> None:
        self.options = options
        self.access = access.with_client_id(CLIENT_ID)
        self.bootstrap = tuple(access.addresses())
        self.wanted: frozenset[str] = frozenset()
        self._readers = readers
        self._drafts: dict[str, Draft] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._lanes: dict[str, ClusterRequests] = {}

    def lane(self, name: str) -> ClusterRequests:
        """Requests over connections that only this lane uses."""
        if name not in self._lanes:
            seconds = max(LEAST_REQUEST_SECONDS, self.options.seconds * REQUEST_PART)
            self._lanes[name] = ClusterRequests(self.access, seconds)
        return self._lanes[name]

    async def need(self, name: str) -> Any:
        """The value of another part, read now if it is not yet. Raises NotRead."""
        await asyncio.shield(self._task(name))
        draft = self._drafts[name]
        if draft.value is None:
            raise NotRead(draft.gap or Gap(WhyNot.FAILED, f"{name} could not be read"))
        return draft.value

    async def have(self, name: str) -> Any:
        """As `need`, but None where it could not be read."""
        try:
            return await self.need(name)
        except NotRead:
            return None

    def left_out_of(self, name: str) -> list[str]:
        """The sentences on the gaps of another part."""
        return list(self._drafts[name].left_out) if name in self._drafts else []

    def _task(self, name: str) -> asyncio.Task[None]:
        if name not in self._tasks:
            self._drafts[name] = Draft()
            self._tasks[name] = asyncio.create_task(self._read(name, self._drafts[name]))
        return self._tasks[name]

    async def _read(self, name: str, draft: Draft) -> None:
        try:
            draft.value = await self._readers[name](self, draft)
        except (UserError, NotRead, OSError, TimeoutError) as problem:
            draft.fail(problem)

    async def snapshot(self, names: Iterable[str]) -> Snapshot:
        """The parts of these names. Ends in time. Raises UserError where no broker answers at all."""
        began = asyncio.get_running_loop().time()
        taken_ms = round(self.options.now_ms())
        self.wanted = frozenset(names)
        try:
            await self._task("cluster")
            if self._drafts["cluster"].value is None and self._drafts["cluster"].gap is not None:
                raise UserError(self._drafts["cluster"].gap.reason)
            for name in sorted(self.wanted):
                self._task(name)
            await self._until(began + self.options.seconds * (1 - LAST_PART))
            return Snapshot(
                taken_ms=taken_ms,
                bootstrap=self.bootstrap,
                **{name: draft.part() for name, draft in self._drafts.items() if name in PART_NAMES},
            )
        finally:
            await self._close()

    async def _until(self, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        while any(not task.done() for task in self._tasks.values()):
            left = deadline - loop.time()
            if left <= 0:
                break
            running = [task for task in self._tasks.values() if not task.done()]
            await asyncio.wait(running, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        for name, task in self._tasks.items():
            if not task.done():
                self._drafts[name].fail(TimeoutError(TIME_OVER))
                task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for task in self._tasks.values():
            if not task.cancelled() and (problem := task.exception()) is not None:
                raise problem

    async def _close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))
