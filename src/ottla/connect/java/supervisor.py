"""Keeps one Java worker running from its first use on: started again with backoff when it dies or hangs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.config.errors import UserError
from ottla.connect.java.errors import JavaConnectError

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 60.0
"""A worker that was ready for so long is started again after the first pause."""
LOOK_SECONDS: Final = 10.0
"""Between two looks at whether a ready worker still answers."""
SILENT_SECONDS: Final = 60.0
"""A worker that has answered no look for so long is killed."""
READY_POLL_SECONDS: Final = 0.1

log = logging.getLogger("ottla.connect")


class Worker(Protocol):
    """A started worker: the part of JavaWorkerProcess that supervision uses."""

    @property
    def pid(self) -> int:
        """The process id."""

    async def address(self) -> str:
        """The address of its REST API. Raises JavaConnectError if it ends before."""

    async def ended(self) -> int:
        """Wait until it has ended."""

    async def failure(self) -> str:
        """Why it ended."""

    async def stop(self, seconds: float = ...) -> None:
        """End it."""


class Look(Protocol):
    """Asks a worker how it is."""

    async def __call__(self, address: str) -> bool | None:
        """Whether it is ready; None where it gives no answer."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds, see the module's constants."""

    first: float = FIRST_PAUSE_SECONDS
    longest: float = LONGEST_PAUSE_SECONDS
    steady: float = STEADY_SECONDS
    look: float = LOOK_SECONDS
    silent: float = SILENT_SECONDS
    poll: float = READY_POLL_SECONDS


class Supervisor:
    """One worker at a time. `begin` or `ready` start the first one."""

    def __init__(
        self,
        start: Callable[[], Awaitable[Worker]],
        look: Look,
        start_seconds: float,
        pauses: Pauses | None = None,
    ) -> None:
        """start: starts a worker; raises UserError. start_seconds: for it to become ready."""
        self._start = start
        self._look = look
        self._start_seconds = start_seconds
        self._pauses = pauses or Pauses()
        self._task: asyncio.Task[None] | None = None
        self._worker: Worker | None = None
        self._attempt: asyncio.Future[str] | None = None
        self.starts = 0
        """How often a worker was started."""

    @property
    def is_running(self) -> bool:
        """Whether there is a worker, or will be one again."""
        return self._task is not None and not self._task.done()

    @property
    def pid(self) -> int | None:
        """The process id of the worker, None where there is none now."""
        return None if self._worker is None else self._worker.pid

    def begin(self) -> None:
        """Start a worker if there is none, and keep one running from now on."""
        if not self.is_running:
            self._attempt = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._supervise(), name="supervision of the Java worker")

    async def ready(self) -> str:
        """The address of the worker once it is ready; starts it where there is none yet.

        Raises JavaConnectError: the attempt that this call waited for has failed. There will be another one.
        """
        self.begin()
        assert self._attempt is not None
        return await asyncio.shield(self._attempt)

    async def stop(self) -> None:
        """End the worker in order, and start no other. Safe to call twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if self._worker is not None:
            await self._worker.stop()
            self._worker = None
        if self._attempt is not None and not self._attempt.done():
            self._fail("the Java worker was stopped")

    async def _supervise(self) -> None:
        pause = self._pauses.first
        while True:
            began = time.monotonic()
            problem, was_ready = await self._run_one()
            if was_ready:
                self._attempt = asyncio.get_running_loop().create_future()
                if time.monotonic() - began >= self._pauses.steady:
                    pause = self._pauses.first
            else:
                self._fail(problem)
            log.error("%s; started again in %.0f s", problem, pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._pauses.longest)
            if self._attempt is None or self._attempt.done():
                self._attempt = asyncio.get_running_loop().create_future()

    async def _run_one(self) -> tuple[str, bool]:
        """One worker from its start to its end: why it ended, and whether it had become ready."""
        ready = False
        try:
            self.starts += 1
            self._worker = worker = await self._start()
            try:
                async with asyncio.timeout(self._start_seconds):
                    address = await worker.address()
                    await self._until_ready(worker, address)
            except TimeoutError:
                return f"the Java worker was not ready after {self._start_seconds:.0f} s", False
            ready = True
            assert self._attempt is not None
            if not self._attempt.done():
                self._attempt.set_result(address)
            log.info("the Java worker is ready pid=%d", worker.pid)
            return await self._until_ended(worker, address), True
        except UserError as problem:
            return str(problem), ready
        finally:
            # A worker whose supervision is cancelled ends in order, in `stop`.
            task = asyncio.current_task()
            if self._worker is not None and task is not None and not task.cancelling():
                await self._worker.stop(0)
                self._worker = None

    async def _until_ready(self, worker: Worker, address: str) -> None:
        ended = asyncio.ensure_future(worker.ended())
        try:
            while not await self._look(address):
                await asyncio.wait([ended], timeout=self._pauses.poll)
                if ended.done():
                    raise JavaConnectError(await worker.failure())
        finally:
            ended.cancel()

    async def _until_ended(self, worker: Worker, address: str) -> str:
        """Wait until the worker has ended, or has given no answer for too long; why."""
        ended = asyncio.ensure_future(worker.ended())
        answered = time.monotonic()
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=self._pauses.look)
                if ended.done():
                    break
                if await self._look(address) is not None:
                    answered = time.monotonic()
                elif time.monotonic() - answered >= self._pauses.silent:
                    return f"the Java worker has given no answer for {self._pauses.silent:.0f} s"
            return await worker.failure()
        finally:
            ended.cancel()

    def _fail(self, problem: str) -> None:
        assert self._attempt is not None
        if not self._attempt.done():
            self._attempt.set_exception(JavaConnectError(problem))
            with contextlib.suppress(BaseException):
                self._attempt.exception()  # there may be no call that waits for it
