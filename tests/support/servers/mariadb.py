"""A MariaDB server of the machine's own package, on a free port, for tests."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql

from support.servers.cluster import ServerError, free_port
from support.servers.unprivileged import give_away, start, unprivileged_directory

START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 30.0


def mariadb_programs() -> tuple[str, str] | None:
    """`mariadbd` and `mariadb-install-db`; None when not installed."""
    places = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
    server = shutil.which("mariadbd") or shutil.which("mariadbd", path=places)
    install = shutil.which("mariadb-install-db") or shutil.which("mariadb-install-db", path=places)
    return None if server is None or install is None else (server, install)


@contextmanager
def mariadb(programs: tuple[str, str], *options_given: str) -> Iterator[int]:
    """An empty server while the block runs, whose user `ottla` has no password; yields its port.

    options_given: of the server besides, as `--log-bin=log`.
    """
    server, install = programs
    with unprivileged_directory() as directory, (directory / "mariadb.log").open("ab") as log:
        data, port = directory / "data", free_port()
        users = directory / "users.sql"
        users.write_text(
            "CREATE USER ottla@'127.0.0.1' IDENTIFIED BY '';\n"
            "GRANT ALL ON *.* TO ottla@'127.0.0.1' WITH GRANT OPTION;\n"
        )
        give_away(directory)
        # of its own: names of temporary tables in /tmp would be those of a server beside it
        options = ["--no-defaults", f"--datadir={data}", f"--tmpdir={directory}"]
        made = start(
            [install, *options, "--auth-root-authentication-method=normal", "--skip-test-db"],
            directory,
            log,
            {},
        )
        if made.wait(START_TIMEOUT_SECONDS) != 0:
            raise ServerError(f"mariadb-install-db failed: {(directory / 'mariadb.log').read_text()}")
        command = [
            server,
            *options,
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--socket={directory / 's'}",
            f"--pid-file={directory / 'pid'}",
            f"--init-file={users}",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=16M",
            "--character-set-server=utf8mb4",
            "--skip-name-resolve",
            *options_given,
        ]
        process = start(command, directory, log, {})
        try:
            _wait_until_answering(port, process, directory / "mariadb.log")
            yield port
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_answering(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while True:
        try:
            pymysql.connect(host="127.0.0.1", port=port, user="ottla", connect_timeout=2).close()
            return
        except pymysql.Error as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"MariaDB did not start: {error}\n{log.read_text()}") from error
            time.sleep(0.1)
