"""A PostgreSQL server of the machine's own package, on a free port, for tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from support.servers.cluster import ServerError, free_port
from support.servers.processes import descendants, wait_until_gone
from support.servers.unprivileged import start, unprivileged_directory

START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 30.0


def postgresql_programs() -> Path | None:
    """The directory of `initdb` and `postgres`, which Debian keeps off the PATH; None when not installed."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


@dataclass(slots=True)
class PostgresServer:
    """A server with an empty database, on one port for its whole life: started, killed, started again."""

    programs: Path
    directory: Path
    port: int
    settings: Sequence[str]
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The database's URL."""
        return f"postgresql://ottla@127.0.0.1:{self.port}/postgres"

    @property
    def _log(self) -> Path:
        return self.directory / "postgres.log"

    def initialize(self) -> None:
        """Make the files of an empty database. Raises ServerError."""
        initdb: list[str | Path] = [self.programs / "initdb", "-D", self.directory / "data"]
        initdb += ["-U", "ottla", "-A", "trust", "--no-sync"]
        with self._log.open("ab") as log:
            done = start(initdb, self.directory, log, {"LC_ALL": "C.UTF-8"}).wait(START_TIMEOUT_SECONDS)
        if done != 0:
            raise ServerError(f"initdb failed: {self._log.read_text()}")

    def start(self) -> None:
        """Start, and wait until it answers. Raises ServerError.

        After a kill the last of the old processes may still hold the shared memory: it is tried again.
        """
        command: list[str | Path] = [self.programs / "postgres", "-D", self.directory / "data"]
        command += ["-p", str(self.port), "-h", "127.0.0.1", "-k", self.directory, "-F"]
        given = [word for setting in self.settings for word in ("-c", setting)]
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            with self._log.open("ab") as log:
                self._process = start([*command, *given], self.directory, log, {"LC_ALL": "C.UTF-8"})
            try:
                wait_until_answering(self.url, self._process, self._log)
                return
            except ServerError:
                if self._process.poll() is None or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def stop(self) -> None:
        """The fast shutdown."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """kill -9 of all its processes, as when the machine is lost but for what it has written."""
        assert self._process is not None
        children = descendants(self._process.pid)
        for pid in (self._process.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        wait_until_gone(children)
        self._process = None


@contextmanager
def postgres_server(programs: Path, *settings: str) -> Iterator[PostgresServer]:
    """A server that runs while the block does, and that the block may kill."""
    with unprivileged_directory() as directory:
        server = PostgresServer(programs, directory, free_port(), settings)
        server.initialize()
        try:
            server.start()
            yield server
        finally:
            server.stop()


@contextmanager
def postgresql(programs: Path, *settings: str) -> Iterator[str]:
    """A server with an empty database while the block runs; yields its URL. settings: `wal_level=logical`."""
    with postgres_server(programs, *settings) as server:
        yield server.url


def wait_until_answering(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server takes connections. Raises ServerError with the end of its log."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
            return
        except psycopg.OperationalError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"PostgreSQL did not start: {error}\n{log.read_text()[-3000:]}") from error
            time.sleep(0.1)
