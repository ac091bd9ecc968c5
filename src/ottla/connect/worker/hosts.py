"""Host processes: started with their first run, told orders, read for events, killed where they don't obey.

Each engine has one host that its connectors share. A connector that was there when hosts died, again and
again, gets one of its own, so that it ends no others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.connect.host.codec import MAX_LINE_BYTES, CodecError, decode_event, encode
from ottla.connect.host.messages import Event, Order
from ottla.connect.plugins.catalog import Engine
from ottla.connect.worker import leash
from ottla.connect.worker.connector_logs import ConnectorLogs

log = logging.getLogger("ottla.connect")

MAX_UNREAD_BYTES: Final = MAX_LINE_BYTES
"""Of orders that a host has not read: it is stuck."""
KEPT_LINES: Final = 20
END_SECONDS: Final = 5.0

Command = Callable[[Engine], Sequence[str]]
"""The command line of a host of an engine."""
OnEvent = Callable[["Host", Event], None]
"""Is told what a host says."""
OnEnd = Callable[["Host", str], None]
"""Is told that a host has ended, and why."""


def host_command(engine: Engine) -> Sequence[str]:
    """The host of this installation."""
    return [sys.executable, "-m", "ottla.connect.host", "--engine", engine]


@dataclass(frozen=True, slots=True)
class HostKey:
    """Which host: the one that an engine's connectors share, or that of one connector."""

    engine: Engine
    connector: str | None = None


@dataclass(slots=True)
class Host:
    """One process."""

    key: HostKey
    process: asyncio.subprocess.Process
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    is_killed: bool = False

    def send(self, order: Order) -> None:
        """Give an order. Kills a host that does not read its orders."""
        self._write(encode(order))

    def let_live(self, valid_ms: int) -> None:
        """See leash.py."""
        self._write(leash.lease(valid_ms))

    def kill(self) -> None:
        """End the process, and everything that runs in it, at once."""
        self.is_killed = True
        self._write(leash.kill())

    def _write(self, line: bytes) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        if stdin.is_closing():
            return
        if stdin.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            log.error("a host does not read its orders: it is killed")
            self.is_killed = True
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()  # the host ends with its leash's pipe
            return
        stdin.write(line)


class Hosts:
    """The hosts of one worker."""

    def __init__(self, logs: ConnectorLogs, command: Command = host_command) -> None:
        self._logs = logs
        self._command = command
        self._hosts: dict[HostKey, Host] = {}
        self._starting: dict[HostKey, asyncio.Task[Host]] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self.starts = 0

    @property
    def running(self) -> Sequence[Host]:
        """All processes."""
        return list(self._hosts.values())

    async def get(
        self,
        key: HostKey,
        on_event: OnEvent,
        on_end: OnEnd,
    ) -> Host:
        """The host of this key, started if there is none. Raises OSError."""
        found = self._hosts.get(key)
        if found is not None and not found.is_killed:
            return found
        if key not in self._starting:
            self._starting[key] = asyncio.create_task(self._start(key, on_event, on_end))
        try:
            return await asyncio.shield(self._starting[key])
        finally:
            if key in self._starting and self._starting[key].done():
                del self._starting[key]

    async def _start(
        self,
        key: HostKey,
        on_event: OnEvent,
        on_end: OnEnd,
    ) -> Host:
        command = [sys.executable, "-m", leash.__name__, *self._command(key.engine)]
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_LINE_BYTES,
            start_new_session=True,
        )
        self.starts += 1
        host = self._hosts[key] = Host(key, process)
        log.info("started a host for %s connectors, process %d", key.engine, process.pid)
        reader = asyncio.create_task(self._read(host, on_event, on_end), name=f"host {process.pid}")
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)
        return host

    async def _read(
        self,
        host: Host,
        on_event: OnEvent,
        on_end: OnEnd,
    ) -> None:
        """Take a host's words until it ends."""
        told = asyncio.create_task(self._read_log(host))
        try:
            problem = await self._read_events(host, on_event)
            if problem:
                host.kill()
            code = await host.process.wait()
            await asyncio.wait([told], timeout=1.0)
        finally:
            told.cancel()
            with contextlib.suppress(ProcessLookupError):
                host.process.kill()
            if self._hosts.get(host.key) is host:
                del self._hosts[host.key]
        reason = problem or f"the process that ran it has ended, exit code {code}"
        on_end(host, "\n".join((reason, *host.last_lines)))

    async def _read_events(self, host: Host, on_event: OnEvent) -> str:
        """Returns the reason if the host talks nonsense, else nothing."""
        stdout = host.process.stdout
        assert stdout is not None
        while True:
            try:
                line = await stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return ""
            except (asyncio.LimitOverrunError, OSError) as problem:
                return f"the process that ran it was killed: {problem}"
            try:
                event = decode_event(line)
            except CodecError as problem:
                return f"the process that ran it was killed: {problem}"
            try:
                on_event(host, event)
            except Exception:
                log.exception("an event of a host could not be handled")

    async def _read_log(self, host: Host) -> None:
        stderr = host.process.stderr
        assert stderr is not None
        while True:
            try:
                line = await stderr.readuntil(b"\n")
            except asyncio.IncompleteReadError as last:
                if last.partial:
                    self._keep(host, last.partial)
                return
            except asyncio.LimitOverrunError:
                await stderr.read(MAX_LINE_BYTES)
                continue
            self._keep(host, line)

    def _keep(self, host: Host, line: bytes) -> None:
        text = line.decode("utf-8", "backslashreplace").rstrip("\r\n")
        self._logs.add(text)
        if text.startswith("[host]") or not text.startswith("["):
            host.last_lines.append(text)

    async def close(self) -> None:
        """End all processes."""
        for host in self.running:
            host.is_killed = True
            if host.process.stdin is not None:
                host.process.stdin.close()
        readers = list(self._readers)
        if readers:
            _, late = await asyncio.wait(readers, timeout=END_SECONDS)
            for host in self.running:
                with contextlib.suppress(ProcessLookupError):
                    host.process.kill()
            for reader in late:
                reader.cancel()
            if late:
                await asyncio.wait(late)
