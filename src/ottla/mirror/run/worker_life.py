"""The life of one flow's worker: started, given its connectors, started again when it ends.

A target that is away keeps its own flows waiting and no others. Connectors are written by whichever copy of
the process leads the group of the flow: at its start, and whenever it comes to lead. Where two copies have
different files, the last one to lead wins, and says what it changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp

from ottla.config.errors import UserError
from ottla.connect.core.errors import Refused
from ottla.connect.rest.app import connect_application
from ottla.connect.served_workers import GroupWorker
from ottla.mirror.run.flows import FlowPlan

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.25
RETRY_SECONDS: Final = 5.0
STOP_SECONDS: Final = 10.0

log = logging.getLogger("ottla.mirror")


class WorkerLife:
    """Keeps the worker of one flow running. make: a new worker. Raises ServiceError, ConfigError."""

    def __init__(self, plan: FlowPlan, make: Callable[[], GroupWorker]) -> None:
        self.plan = plan
        self._make = make
        self.served: GroupWorker | None = make()
        """The present worker; None between two."""
        self.application: ASGIApp = connect_application(self.served)
        self.problem: str | None = "it starts"
        """Why the flow does not run; None: it runs."""
        self.tried = asyncio.Event()
        """Set when the first attempt is over."""

    async def run(self) -> None:
        """Until it is cancelled."""
        pause = FIRST_PAUSE_SECONDS
        clock = asyncio.get_running_loop().time
        while True:
            begun = clock()
            try:
                self.problem = await self._run_once()
            except UserError as refusal:
                self.problem = str(refusal)
            except Exception as fault:
                log.exception("the worker of %s ends by a fault of its own", self.plan.name)
                self.problem = repr(fault)
            self.tried.set()
            log.warning("%s does not run, and is tried again: %s", self.plan.name, self.problem)
            await self._stop()
            if clock() - begun > LONGEST_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            self._renew()

    async def close(self) -> None:
        """End its runs in order, and leave the group."""
        await self._stop()

    def _renew(self) -> None:
        self.served = self._make()
        self.application = connect_application(self.served)

    async def _run_once(self) -> str:
        """Run the worker until it can't go on; returns the reason. Raises ServiceError, ConfigError."""
        served = self.served
        assert served is not None
        await served.start()
        self.problem = None
        self.tried.set()
        configuring = asyncio.create_task(self._configure(served), name=f"connectors of {self.plan.name}")
        try:
            failing = asyncio.create_task(served.worker.failed())
            try:
                await asyncio.wait([failing, configuring], return_when=asyncio.FIRST_COMPLETED)
                return failing.result() if failing.done() else f"connectors: {configuring.exception()!r}"
            finally:
                failing.cancel()
        finally:
            configuring.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await configuring

    async def _stop(self) -> None:
        served, self.served = self.served, None
        if served is None:
            return
        try:
            await asyncio.wait_for(served.worker.stop(), STOP_SECONDS)
        except TimeoutError:
            log.warning("the worker of %s does not stop in time", self.plan.name)
        except Exception:
            log.exception("the worker of %s fails as it stops", self.plan.name)

    async def _configure(self, served: GroupWorker) -> None:
        """Write the connectors each time that this worker comes to lead, for ever."""
        leadership = served.worker.leadership
        written_at = -1
        while True:
            if leadership.is_here and leadership.changes != written_at:
                changes = leadership.changes
                if await self._write_connectors(served):
                    written_at = changes
                else:
                    await asyncio.sleep(RETRY_SECONDS)
            await asyncio.sleep(LOOK_SECONDS)

    async def _write_connectors(self, served: GroupWorker) -> bool:
        herder = served.herder
        for name, config in self.plan.connectors.items():
            there = herder.image.config(name)
            if there is not None and dict(there) == dict(config):
                continue
            try:
                await herder.put(name, dict(config))
            except Refused as refused:
                log.warning("%s: %s can't be configured now: %s", self.plan.name, name, refused.message)
                return False
            log.info("%s: %s is configured", self.plan.name, name)
        return True
