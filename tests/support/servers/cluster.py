"""The parts that all clusters under test share, and the life of a server in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

NO_RETENTION: Mapping[str, str] = {"log.initial.task.delay.ms": "86400000"}
"""Records with timestamps of years ago must not meet retention while a test reads them."""

# One node, small and quick: given to ottla and to Apache Kafka alike.
CONFORMANCE_SETTINGS: Mapping[str, str] = {
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "group.min.session.timeout.ms": "1000",
    **NO_RETENTION,
}

# Each process of pytest-xdist (gw0, gw1, ...) has a range of ports; a run beside it begins elsewhere within.
_PORTS_A_PROCESS = 2_700
_FIRST_PORT = 10_000 + _PORTS_A_PROCESS * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 8)
_PORT_NUMBERS = itertools.count(random.randrange(_PORTS_A_PROCESS))


class Cluster(Protocol):
    """A conformance test's knowledge of its cluster."""

    @property
    def name(self) -> str:
        """`ottla` or `apache-kafka`."""

    @property
    def bootstrap(self) -> str:
        """`host:port` of a broker."""


class ServerError(Exception):
    """A server did not start or stop as it should; the message ends with the last lines it wrote."""


def free_port() -> int:
    """A TCP port of 127.0.0.1 that no socket holds, and that no other process of this test run is given.

    It lies below the ephemeral ports, so no connection's own end takes it while its server is down.
    """
    for number in _PORT_NUMBERS:
        port = _FIRST_PORT + number % _PORTS_A_PROCESS
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("the numbers have no end")


def wait_until_closed(port: int, timeout_s: float = 10) -> None:
    """Wait until no process listens on `port` of 127.0.0.1."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        time.sleep(0.01)
    raise ServerError(f"port {port} is still open after {timeout_s} s")


@dataclass(slots=True)
class ServerProcess:
    """A child process that says in a line of its stdout that it is ready; `log_path` keeps all it writes."""

    command: Sequence[str]
    ready_text: str
    log_path: Path
    start_timeout_s: float = 60
    stop_timeout_s: float = 30
    environment: Mapping[str, str] = field(default_factory=dict)
    ready_line: str = ""
    _process: subprocess.Popen[str] | None = None
    _drain: threading.Thread | None = None
    _ready: queue.Queue[str | None] = field(default_factory=queue.Queue)

    @property
    def process(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise ServerError("not started")
        return self._process

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process and wait for its ready line. Raises ServerError with what it wrote."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start the process: the first step of `start`, for servers that are ready only together."""
        if self.running:
            raise ServerError("already running")
        log = self.log_path.open("a", encoding="utf-8")
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **self.environment},
        )
        self._ready = queue.Queue(1)
        self._drain = threading.Thread(target=self._copy_output, args=(log, self._ready), daemon=True)
        self._drain.start()

    def wait_until_ready(self) -> None:
        """Wait for the ready line of a process that was launched. Raises ServerError with what it wrote."""
        try:
            line = self._ready.get(timeout=self.start_timeout_s)
        except queue.Empty:
            self.kill()
            raise ServerError(f"not ready after {self.start_timeout_s} s\n{self.log_tail()}") from None
        if line is None:
            code = self.process.wait(self.stop_timeout_s)
            raise ServerError(f"ended with exit code {code} before it was ready\n{self.log_tail()}")
        self.ready_line = line

    def _copy_output(self, log: IO[str], ready: queue.Queue[str | None]) -> None:
        said_ready = False
        output = self.process.stdout
        assert output is not None
        with output, log:
            for line in output:
                log.write(line)
                log.flush()
                if not said_ready and self.ready_text in line:
                    said_ready = True
                    ready.put(line.rstrip("\n"))
        if not said_ready:
            ready.put(None)

    def stop(self) -> int:
        """SIGTERM, then wait for the end; returns the exit code. Kills and raises ServerError if it hangs."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(self.stop_timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise ServerError(
                    f"still running {self.stop_timeout_s} s after SIGTERM\n{self.log_tail()}"
                ) from None
        return self._reap()

    def kill(self) -> None:
        """SIGKILL, then wait for the end."""
        if self.running:
            self.process.kill()
        self._reap()

    def _reap(self) -> int:
        code = self.process.wait(self.stop_timeout_s)
        if self._drain is not None:
            self._drain.join(self.stop_timeout_s)
        return code

    def log_tail(self, lines: int = 30) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(
                self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
            )
        return ""
