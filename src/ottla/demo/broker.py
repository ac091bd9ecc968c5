"""The broker that the demo starts for itself, in a child process, and that answers before the demo goes on.

The demo reaches it only by its command line (`ottla broker …`) and Kafka's protocol.
"""

from __future__ import annotations

import errno
import socket
import sys
import time
from pathlib import Path

from ottla.client.cluster import KafkaCluster
from ottla.config.errors import UserError
from ottla.demo.child_process import PREDECESSOR_TIMEOUT_SECONDS, ChildProcess
from ottla.pipeline.file_lock import FileLock

START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 30.0


class BrokerError(UserError):
    """The demo's own broker can't be started; the message says why, and what to do."""


class OwnBroker:
    """A running broker process that the demo owns."""

    def __init__(self, process: ChildProcess, listen: str) -> None:
        self.listen = listen
        self._process = process

    @classmethod
    def start(cls, directory: Path, listen: str, metrics: str | None = None) -> OwnBroker:
        """Start a broker on `listen` (HOST:PORT) with its files under `directory`; returns once it answers.

        metrics: where it serves its metrics, as HOST:PORT. Raises BrokerError, with one line that says what
        to do.
        """
        host, port = parse_listen(listen)
        lock_path = directory / "broker.lock"
        predecessor = FileLock(lock_path)
        if not predecessor.acquire(PREDECESSOR_TIMEOUT_SECONDS):
            raise BrokerError(
                f"another broker runs on {directory / 'broker'}: stop it, or give another --data"
            )
        predecessor.release()
        _check_port(host, port)
        words = ["broker", "--data", str(directory / "broker"), "--listen", listen]
        if metrics is not None:
            words += ["--metrics", metrics]
        broker = cls(ChildProcess.start(words, lock_path, directory / "logs" / "broker.log"), listen)
        try:
            broker._wait_until_ready()
        except BaseException:
            broker.stop()
            raise
        return broker

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> str | None:
        """How the broker ended, as a text; None while it runs."""
        how = self._process.ended()
        return None if how is None else f"the broker ended {how} (log: {self._process.log})"

    def stop(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> None:
        """Stop the broker cleanly and wait for it; kill it if it does not end. Safe to call twice."""
        self._process.stop(timeout_seconds)

    def _wait_until_ready(self) -> None:
        cluster = KafkaCluster(self.listen)
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not cluster.answers(0.5):
            if self._process.ended() is not None:
                raise BrokerError(f"the broker did not start: {self._last_words()}")
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"the broker is not ready after {START_TIMEOUT_SECONDS:.0f} s (log: {self._process.log})"
                )
        if self._process.ended() is not None:  # another process answered
            raise BrokerError(f"the broker did not start: {self._last_words()}")

    def _last_words(self) -> str:
        return self._process.last_line() or f"it ended {self._process.ended()}"


def parse_listen(listen: str) -> tuple[str, int]:
    """HOST:PORT, an IPv6 host in brackets. Raises BrokerError."""
    host, separator, port = listen.rpartition(":")
    if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise BrokerError(f"{listen!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _check_port(host: str, port: int) -> None:
    """Raise BrokerError if a port is in use; a better message than one in the broker's log."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if sys.platform != "win32":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BrokerError(
                f"port {port} on {host} is in use: give the demo another one, --listen {host}:{port + 100}, "
                f"or use the broker that is there with --bootstrap {host}:{port}"
            ) from error
        raise BrokerError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
