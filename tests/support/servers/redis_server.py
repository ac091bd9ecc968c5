"""A Redis server of the machine's own package, on a free port, for tests."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.servers.cluster import ServerError, free_port

START_TIMEOUT_SECONDS = 30.0


@contextmanager
def redis_server(directory: Path, *options: str) -> Iterator[int]:
    """A server that keeps every write on disk while the block runs; yields its port."""
    port = free_port()
    command = [
        "redis-server",
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        str(directory),
        "--save",
        "",
        "--appendonly",
        "yes",
        *options,
    ]
    with (directory / "redis.log").open("ab") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not _answers(port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"Redis did not start: {(directory / 'redis.log').read_text()}")
            time.sleep(0.02)
        yield port
    finally:
        server.terminate()
        try:
            server.wait(START_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False
