"""A PostgreSQL server of the machine's own package, on a free port, for tests."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from support.servers.cluster import ServerError, free_port
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


@contextmanager
def postgresql(programs: Path, *settings: str) -> Iterator[str]:
    """A server with an empty database while the block runs; yields its URL. settings: `wal_level=logical`."""
    with unprivileged_directory() as directory, (directory / "postgres.log").open("ab") as log:
        data, port = directory / "data", free_port()
        initdb: list[str | Path] = [
            programs / "initdb",
            "-D",
            data,
            "-U",
            "ottla",
            "-A",
            "trust",
            "--no-sync",
        ]
        if start(initdb, directory, log, {"LC_ALL": "C.UTF-8"}).wait(START_TIMEOUT_SECONDS) != 0:
            raise ServerError(f"initdb failed: {(directory / 'postgres.log').read_text()}")
        command = [programs / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", directory]
        given = [word for setting in settings for word in ("-c", setting)]
        server = start([*command, "-F", *given], directory, log, {"LC_ALL": "C.UTF-8"})
        url = f"postgresql://ottla@127.0.0.1:{port}/postgres"
        try:
            wait_until_answering(url, server, directory / "postgres.log")
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # the fast shutdown
            try:
                server.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def wait_until_answering(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server takes connections. Raises ServerError with its log."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
            return
        except psycopg.OperationalError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"PostgreSQL did not start: {error}\n{log.read_text()}") from error
            time.sleep(0.1)
