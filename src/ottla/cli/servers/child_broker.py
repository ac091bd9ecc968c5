"""A broker in a child process: how its launcher reads its lines, tells it to stop, and sees it end.

The other end of the pipe is launched.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from typing import Final

from ottla.cli.servers.launched import STOP
from ottla.config.errors import UserError

READY_PREFIX: Final = "ottla broker ready:"
PROBLEM_PREFIX: Final = "ottla broker: "
MAX_LINE_BYTES: Final = 64 * 1024
STOP_SECONDS: Final = 70.0
"""Longer than a broker takes at most to hand over the partitions that it leads."""


class ChildBrokerError(UserError):
    """The broker did not start; one line that says why."""


def tell_to_stop(process: Process) -> None:
    """Ask a launched broker to leave its cluster and stop."""
    assert process.stdin is not None
    with contextlib.suppress(OSError, RuntimeError):  # it has ended
        process.stdin.write(STOP + b"\n")


def close_pipe(process: Process) -> None:
    """Let a launched broker that has left its cluster end."""
    assert process.stdin is not None
    with contextlib.suppress(OSError, RuntimeError):
        process.stdin.close()


async def lines_of(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """A process's lines; very long ones in pieces."""
    waiting = b""
    while data := await stream.read(MAX_LINE_BYTES):
        *lines, waiting = (waiting + data).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
        if len(waiting) > MAX_LINE_BYTES:
            yield waiting.decode(errors="replace")
            waiting = b""
    if waiting:
        yield waiting.decode(errors="replace")


class ChildBroker:
    """One broker, or several by --brokers, which end with this process, whatever ends it."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words` are the options of `ottla broker`."""
        # -P: a file in the working directory that is named as a module of Python's is not for the broker.
        self._words = [sys.executable, "-P", "-m", "ottla", "broker", "--with-launcher", *words]
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._problem = ""
        self._life: asyncio.Task[str] | None = None
        self._process: Process | None = None

    async def start(self) -> str:
        """Start the broker and wait until it serves; its line. Raises ChildBrokerError."""
        # In a session of its own: a Ctrl-C in the terminal is for the process that stops the broker last.
        self._process = await asyncio.create_subprocess_exec(
            *self._words, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        self._life = asyncio.create_task(self._live(self._process), name="child broker")
        await asyncio.wait([self._ready, self._life], return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done():
            raise ChildBrokerError(self._problem or self._life.result())
        return self._ready.result()

    async def ended(self) -> str:
        """Wait until the broker ends; a line that says how."""
        assert self._life is not None
        return await asyncio.shield(self._life)

    async def stop(self) -> None:
        """Stop the broker cleanly, or kill it when that takes too long. Also after a `start` that raised."""
        if self._process is None or self._life is None:
            return
        tell_to_stop(self._process)
        close_pipe(self._process)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.ended()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self.ended()

    async def _live(self, process: Process) -> str:
        assert process.stdout is not None and process.stderr is not None
        await asyncio.gather(self._follow_output(process.stdout), self._follow_errors(process.stderr))
        code = await process.wait()
        return f"the broker ended by {f'signal {-code}' if code < 0 else f'itself with exit code {code}'}"

    async def _follow_output(self, stream: asyncio.StreamReader) -> None:
        async for line in lines_of(stream):
            if line.startswith(READY_PREFIX) and not self._ready.done():
                self._ready.set_result(line)

    async def _follow_errors(self, stream: asyncio.StreamReader) -> None:
        async for line in lines_of(stream):
            if line.startswith(PROBLEM_PREFIX):
                self._problem = line[len(PROBLEM_PREFIX) :]
            else:
                print(line, file=sys.stderr, flush=True)
