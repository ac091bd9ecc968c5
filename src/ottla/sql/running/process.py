"""The query host's process: started, told orders, read for events, ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from ottla.sql.running.messages import (
    MAX_LINE_BYTES,
    Configure,
    Event,
    MessageError,
    Order,
    Start,
    Stop,
    decode,
    encode,
)

KEPT_LINES: Final = 40
END_SECONDS: Final = 20.0
COMMAND: Final = (sys.executable, "-m", "ottla.sql.running")

log = logging.getLogger("ottla.sql")


class HostProcess:
    """One process. Made by `begin`; `ended` returns when it is gone."""

    def __init__(self, process: asyncio.subprocess.Process, on_event: Callable[[Event], None]) -> None:
        self._process = process
        self._last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._reading = asyncio.create_task(self._read(on_event), name="query host's events")
        self._logging = asyncio.create_task(self._read_log(), name="query host's log")

    @classmethod
    async def begin(cls, on_event: Callable[[Event], None], command: Sequence[str] = COMMAND) -> HostProcess:
        """Start a process. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_LINE_BYTES,
            env=dict(os.environ),
            start_new_session=True,
        )
        log.info("the query host starts pid=%d", process.pid)
        return cls(process, on_event)

    def send(self, order: Order) -> None:
        """Give an order. A host that does not read its orders is killed."""
        stdin = self._process.stdin
        assert stdin is not None
        if stdin.is_closing():
            return
        if stdin.transport.get_write_buffer_size() > MAX_LINE_BYTES:
            log.error("the query host does not read its orders: it is killed")
            self.kill()
            return
        stdin.write(encode(order))

    async def ended(self) -> str:
        """Wait for its end; says why."""
        problem = await self._reading
        if problem:
            self.kill()
        code = await self._process.wait()
        await asyncio.wait([self._logging], timeout=1.0)
        reason = problem or f"the query host has ended with code {code}"
        return "\n".join((reason, *self._last_lines)) if code else reason

    def kill(self) -> None:
        """End it at once; Spark ends with its pipe."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def close(self) -> None:
        """Let it end: it does when its orders end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
        for task in (self._reading, self._logging):
            task.cancel()
        await asyncio.wait([self._reading, self._logging])

    async def _read(self, on_event: Callable[[Event], None]) -> str:
        """Take events to the end. Returns the reason if the host talks nonsense, else nothing."""
        stdout = self._process.stdout
        assert stdout is not None
        while True:
            try:
                line = await stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return ""
            except (asyncio.LimitOverrunError, OSError) as problem:
                return f"the query host was killed: {problem}"
            try:
                event = decode(line)
            except MessageError as problem:
                return f"the query host was killed: {problem}"
            if isinstance(event, Configure | Start | Stop):
                return f"the query host was killed: a {type(event).__name__} is no event"
            try:
                on_event(event)
            except Exception:
                log.exception("an event of the query host could not be handled")

    async def _read_log(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        while True:
            try:
                line = await stderr.readuntil(b"\n")
            except asyncio.IncompleteReadError as last:
                line = last.partial
                if not line:
                    return
            except asyncio.LimitOverrunError:
                await stderr.read(MAX_LINE_BYTES)
                continue
            text = line.decode("utf-8", "backslashreplace").rstrip()
            self._last_lines.append(text)
            log.debug("query host: %s", text)
            if " ERROR " in text or " WARNING " in text:
                log.warning("query host: %s", text)
