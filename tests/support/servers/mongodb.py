"""A server with MongoDB's wire protocol, in Java and in memory, on a free port, for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.pipeline.spark.maven import fetch_jars
from support.java.java_tools import compile_java, jars_of, java_command
from support.servers.cluster import ServerError

JAVA = Path(__file__).parent.parent / "java"
STOP_TIMEOUT_SECONDS = 30.0


@contextmanager
def mongodb(directory: Path) -> Iterator[str]:
    """A server while the block runs; yields its URL without a database."""
    jars = os.pathsep.join(map(str, fetch_jars(jars_of(JAVA / "mongo.jars.lock"))))
    class_path = compile_java([JAVA / "MongoServers.java"], jars, directory / "classes")
    server = subprocess.Popen(
        java_command("MongoServers", class_path=class_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        port = server.stdout.readline().strip()
        if not port:
            raise ServerError("the MongoDB server did not start")
        yield f"mongodb://127.0.0.1:{port}"
    finally:
        server.stdin.close()
        try:
            server.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()
