"""`ottla demo` as a process of its own: started, watched, killed."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.servers.cluster import free_port

TIMEOUT_SECONDS = 150.0


@dataclass(slots=True)
class DemoProcess:
    """A running `ottla demo`; its lines of standard error are kept as they come."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    _came: threading.Condition = field(default_factory=threading.Condition)
    _ended: bool = False

    @classmethod
    @contextmanager
    def start(cls, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[DemoProcess]:
        """Run it for the length of the block at most."""
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "demo", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        demo = cls(process)
        reader = threading.Thread(target=demo._read, daemon=True)
        reader.start()
        try:
            yield demo
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            reader.join(TIMEOUT_SECONDS)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._came:
                self.lines.append(line.rstrip("\n"))
                self._came.notify_all()
        with self._came:
            self._ended = True
            self._came.notify_all()

    def wait_for_line(self, pattern: str) -> str:
        """The first line on standard error that matches."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        with self._came:
            while True:
                for line in self.lines:
                    if re.search(pattern, line):
                        return line
                if self._ended or not self._came.wait(max(0.0, deadline - time.monotonic())):
                    raise AssertionError(f"no line {pattern!r}; it said:\n" + "\n".join(self.lines))

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(TIMEOUT_SECONDS)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def finish(self) -> tuple[int, str]:
        """Wait for its end; its exit code and its standard output."""
        assert self.process.stdout is not None
        output = self.process.stdout.read()
        return self.process.wait(TIMEOUT_SECONDS), output

    def report(self) -> dict[str, Any]:
        """Wait for its end, which must be a good one; the JSON that it printed."""
        code, output = self.finish()
        assert code == 0, f"exit code {code}; it said:\n" + "\n".join(self.lines)
        (line,) = output.splitlines()
        report: dict[str, Any] = json.loads(line)
        return report


@dataclass(frozen=True, slots=True)
class DemoOnTerminal:
    """A running `ottla demo` on a terminal of 120 by 50 characters."""

    process: subprocess.Popen[bytes]
    terminal: int

    @classmethod
    @contextmanager
    def start(cls, *arguments: str) -> Iterator[DemoOnTerminal]:
        """Run it on a free port, for the length of the block at most."""
        terminal, line = pty.openpty()
        listen = f"127.0.0.1:{free_port()}"
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "demo", "--listen", listen, *arguments],
            stdin=line,
            stdout=line,
            stderr=line,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "50"},
            start_new_session=True,
        )
        os.close(line)
        try:
            yield cls(process, terminal)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            os.close(terminal)

    def read_until(self, pattern: str) -> str:
        """The text that appears until the pattern is in it, without colours and other escape sequences."""
        text, deadline = "", time.monotonic() + TIMEOUT_SECONDS
        while not re.search(pattern, text):
            ready, _, _ = select.select([self.terminal], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{pattern!r} did not appear in:\n{text[-4000:]}"
            try:
                chunk = os.read(self.terminal, 65536)
            except OSError:  # Linux says so when the other side has closed
                chunk = b""
            assert chunk, f"it ended without {pattern!r}:\n{text[-4000:]}"
            text += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", chunk.decode(errors="replace"))
        return text
