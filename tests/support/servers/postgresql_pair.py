"""A PostgreSQL primary and its standby, for tests of restarts and failovers."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from support.servers.cluster import ServerError, free_port
from support.servers.postgresql import (
    START_TIMEOUT_SECONDS,
    STOP_TIMEOUT_SECONDS,
    postgresql_programs,
    wait_until_answering,
)
from support.servers.unprivileged import give_away, start, unprivileged_directory

_LOCALE = {"LC_ALL": "C.UTF-8"}


@dataclass(slots=True)
class PostgresServer:
    """A server on a data directory of its own, below `directory`."""

    programs: Path
    directory: Path
    name: str
    port: int
    process: subprocess.Popen[Any] | None = None

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / self.name

    @property
    def url(self) -> str:
        """The database."""
        return f"postgresql://ottla@127.0.0.1:{self.port}/postgres"

    def run(self, *words: str | Path) -> None:
        """A program of PostgreSQL's, to its end."""
        with (self.directory / "programs.log").open("ab") as log:
            process = start([self.programs / words[0], *words[1:]], self.directory, log, _LOCALE)
            if process.wait(START_TIMEOUT_SECONDS) != 0:
                raise ServerError((self.directory / "programs.log").read_text())

    def start(self, *settings: str) -> None:
        """Start it, and wait until it answers."""
        given = [word for setting in settings for word in ("-c", setting)]
        command = [self.programs / "postgres", "-D", self.data, "-p", str(self.port), "-h", "127.0.0.1"]
        log = self.directory / f"{self.name}.log"
        with log.open("ab") as output:
            self.process = start([*command, "-k", self.directory, *given], self.directory, output, _LOCALE)
        wait_until_answering(self.url, self.process, log)

    def stop(self) -> None:
        """Shut it down, its connections too."""
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """The postmaster dies at once; its children follow when they see that."""
        self._signal(signal.SIGQUIT)

    def _signal(self, number: int) -> None:
        if self.process is None:
            return
        self.process.send_signal(number)
        try:
            self.process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def promote(self) -> None:
        """The standby becomes a primary."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute("SELECT pg_promote(true, 30)").fetchone()
        assert row == (True,)

    def copy_slot(self, name: str, to: PostgresServer) -> None:
        """Give a slot's state to another server, which is down: as tools do that keep slots on standbys."""
        target = to.data / "pg_replslot" / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.data / "pg_replslot" / name, target)
        give_away(target)
        target.chmod(0o700)


@contextmanager
def postgresql_pair(*settings: str) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary that runs, and a standby of it, that is down."""
    found = postgresql_programs()
    assert found is not None
    programs = (found / "initdb").resolve().parent  # where the others are, too
    with unprivileged_directory() as directory:
        primary = PostgresServer(programs, directory, "primary", free_port())
        standby = PostgresServer(programs, directory, "standby", free_port())
        try:
            primary.run("initdb", "-D", primary.data, "-U", "ottla", "-A", "trust", "--no-sync")
            primary.start("wal_level=logical", "wal_keep_size=256MB", *settings)
            where = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "ottla")
            standby.run("pg_basebackup", "-D", standby.data, "-R", "-X", "stream", "-c", "fast", *where)
            yield primary, standby
        finally:
            primary.stop()
            standby.stop()
