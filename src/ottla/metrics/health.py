"""The checks behind /healthz (is the process alive) and /readyz (can it do its work), with reasons in words.

A check costs nothing until somebody asks. One that may block, on a disk say, runs in a thread: it has a
time limit, and at most one run of it is under way, so that a disk that hangs takes one thread and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

log = logging.getLogger("ottla.metrics")

CHECK_SECONDS: Final = 5.0
"""The longest that a check which blocks is waited for."""


class Verdict(NamedTuple):
    """What a check found. reason: a sentence for people; also where all is well."""

    is_well: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Check:
    """A check. name: in words with dashes, as `log-directory`. blocks: whether it may wait for a disk."""

    name: str
    run: Callable[[], Verdict]
    blocks: bool = False


class Result(NamedTuple):
    """A check's name and verdict."""

    name: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Report:
    """The results of some checks."""

    results: Sequence[Result]

    @property
    def is_well(self) -> bool:
        """Whether all checks passed."""
        return all(each.verdict.is_well for each in self.results)

    def body(self, *, with_reasons: bool) -> bytes:
        """The report in JSON; callers who have not proved who they are get the status without reasons."""
        content: dict[str, object] = {"status": _state(self.is_well)}
        if with_reasons:
            content["checks"] = [
                {"name": name, "state": _state(verdict.is_well), "reason": verdict.reason}
                for name, verdict in self.results
            ]
        return (json.dumps(content, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def _state(is_well: bool) -> str:
    return "ok" if is_well else "failed"


@dataclass(slots=True)
class Health:
    """The checks of a process. Parts add theirs as they start and take them out as they end."""

    alive: list[Check] = field(default_factory=list)
    ready: list[Check] = field(default_factory=list)
    _under_way: dict[str, threading.Thread] = field(default_factory=dict)

    async def report(self, checks: Sequence[Check]) -> Report:
        """Run checks; the order of the results is theirs."""
        return Report([Result(check.name, await self._verdict(check)) for check in list(checks)])

    async def is_alive(self) -> Report:
        """What /healthz answers."""
        return await self.report(self.alive)

    async def is_ready(self) -> Report:
        """What /readyz answers: a process that is not alive is not ready either."""
        return await self.report([*self.alive, *self.ready])

    async def _verdict(self, check: Check) -> Verdict:
        if not check.blocks:
            return _ran(check)
        before = self._under_way.get(check.name)
        if before is not None and before.is_alive():
            return Verdict(False, f"an earlier check has not ended, which takes {CHECK_SECONDS:g} s at most")
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Verdict] = loop.create_future()

        def run() -> None:
            verdict = _ran(check)
            with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
                loop.call_soon_threadsafe(_settle, ended, verdict)

        # Not one of the loop's executor: those are joined at the end of the process.
        thread = threading.Thread(target=run, name=f"check-{check.name}", daemon=True)
        self._under_way[check.name] = thread
        thread.start()
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await ended
        except TimeoutError:
            return Verdict(False, f"the check has not ended within {CHECK_SECONDS:g} s")


def _settle(ended: asyncio.Future[Verdict], verdict: Verdict) -> None:
    if not ended.done():
        ended.set_result(verdict)


def _ran(check: Check) -> Verdict:
    try:
        return check.run()
    except Exception as problem:
        log.error("the health check %s failed", check.name, exc_info=problem)
        return Verdict(False, f"the check itself failed: {problem!r}")
