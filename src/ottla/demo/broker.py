"""The broker that the demo starts for itself, and the child process in which it runs.

The demo reaches the broker only by its command line (`python -m ottla broker …`) and Kafka's protocol. The
child is this module run as `python -m ottla.demo.broker LOCK broker …`: it takes LOCK, starts a
thread that waits for the end of its standard input, and becomes the `ottla` command in the same process. The
demo holds the other end of that pipe and never writes: when the demo dies, even by SIGKILL, the pipe ends and
the thread sends its own process SIGTERM, which stops the broker cleanly. So no broker outlives its demo, on
any platform, and the lock shows the next demo on the same directory that the former broker has ended.
"""

from __future__ import annotations

import errno
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from ottla.client.cluster import KafkaCluster
from ottla.config.errors import UserError
from ottla.pipeline.file_lock import FileLock

START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 30.0
PREDECESSOR_TIMEOUT_SECONDS = 30.0


class BrokerError(UserError):
    """The demo's own broker can't be started; the message says why, and what to do."""


class OwnBroker:
    """A running broker process that the demo owns."""

    def __init__(self, process: subprocess.Popen[bytes], listen: str, log: Path) -> None:
        self.listen = listen
        self._process = process
        self._log = log

    @classmethod
    def start(cls, directory: Path, listen: str, metrics: str | None = None) -> OwnBroker:
        """Start a broker on `listen` (HOST:PORT) with its files under `directory`; returns once it answers.

        metrics: where it serves its metrics, as HOST:PORT. Raises BrokerError, with one line that says what
        to do.
        """
        host, port = parse_listen(listen)
        log = directory / "logs" / "broker.log"
        lock_path = directory / "broker.lock"
        predecessor = FileLock(lock_path)
        if not predecessor.acquire(PREDECESSOR_TIMEOUT_SECONDS):
            raise BrokerError(
                f"another broker runs on {directory / 'broker'}: stop it, or give another --data"
            )
        predecessor.release()
        _check_port(host, port)
        command = [sys.executable, "-m", "ottla.demo.broker", str(lock_path)]
        command += ["broker", "--data", str(directory / "broker"), "--listen", listen]
        if metrics is not None:
            command += ["--metrics", metrics]
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C in the terminal is for the demo alone, which stops the broker last.
                start_new_session=True,
            )
        broker = cls(process, listen, log)
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
        code = self._process.poll()
        if code is None:
            return None
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return f"the broker ended {how} (log: {self._log})"

    def stop(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> None:
        """Stop the broker cleanly and wait for it; kill it if it does not end. Safe to call twice."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _wait_until_ready(self) -> None:
        cluster = KafkaCluster(self.listen)
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not cluster.answers(0.5):
            if self._process.poll() is not None:
                raise BrokerError(f"the broker did not start: {self._last_words()}")
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"the broker is not ready after {START_TIMEOUT_SECONDS:.0f} s (log: {self._log})"
                )
        if self._process.poll() is not None:  # another process answered
            raise BrokerError(f"the broker did not start: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with exit code {self._process.returncode}"


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


def _stop_when_standard_input_ends() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_TIMEOUT_SECONDS)
    os._exit(1)


def _child(arguments: list[str]) -> None:
    lock = FileLock(Path(arguments[0]))
    if not lock.acquire(PREDECESSOR_TIMEOUT_SECONDS):
        sys.exit(f"another broker holds {arguments[0]}")
    threading.Thread(target=_stop_when_standard_input_ends, name="parent-watch", daemon=True).start()
    sys.argv = ["ottla", *arguments[1:]]
    runpy.run_module("ottla", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _child(sys.argv[1:])
