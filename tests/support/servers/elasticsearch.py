"""Real Elasticsearch servers from Maven, in their smallest form, on a free port, for tests."""

from __future__ import annotations

import os
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from ottla.pipeline.spark.java_runtime import find_java
from ottla.pipeline.spark.maven import Jar, fetch_jars
from support.servers.cluster import ServerError, free_port
from support.servers.unprivileged import give_away, start, unprivileged_directory

START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 30.0
_GROUP = "org.elasticsearch.distribution.integ-test-zip"

# The newest Java that a version starts on, and its server without any of its modules.
VERSIONS = {
    "6.8.23": (
        17,
        Jar(
            _GROUP,
            "elasticsearch",
            "6.8.23",
            "d0499f7103d10c16c4cb575a796a509578053f21130979eda5745968f28b9928",
            "zip",
        ),
    ),
    "7.17.29": (
        21,
        Jar(
            _GROUP,
            "elasticsearch",
            "7.17.29",
            "841ee00be1a72ba8e707b5a2fb55f23fe7a4184369b4585393238b1c903eedaf",
            "zip",
        ),
    ),
}


@contextmanager
def elasticsearch(version: str) -> Iterator[str]:
    """A server of that version while the block runs; yields its URL."""
    newest_java, distribution = VERSIONS[version]
    java = find_java()
    if java.version > newest_java:
        pytest.skip(
            f"Elasticsearch {version} needs Java {newest_java}: apt-get install openjdk-17-jre-headless"
        )
    (archive,) = fetch_jars([distribution])
    with unprivileged_directory() as directory:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(directory)
        home, port = directory / f"elasticsearch-{version}", free_port()
        for program in home.joinpath("bin").iterdir():
            program.chmod(0o755)
        home.joinpath("config", "elasticsearch.yml").write_text(_configuration(version, port, directory))
        give_away(directory)
        environment = {
            "JAVA_HOME": str(java.executable.parent.parent),
            "ES_JAVA_HOME": str(java.executable.parent.parent),
            "ES_JAVA_OPTS": "-Xms256m -Xmx256m",
        }
        with (directory / "server.log").open("ab") as log:
            server = start([home / "bin" / "elasticsearch"], directory, log, environment)
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_until_answering(url, server, directory / "server.log")
            yield url
        finally:
            server.terminate()
            try:
                server.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _configuration(version: str, port: int, directory: Path) -> str:
    lines = [
        "network.host: 127.0.0.1",
        f"http.port: {port}",
        f"transport{'.tcp' if version.startswith('6') else ''}.port: {free_port()}",
        f"path.data: {directory / 'data'}",
        f"path.logs: {directory / 'logs'}",
        "discovery.type: single-node",
        "cluster.routing.allocation.disk.threshold_enabled: false",
    ]
    return "".join(f"{line}\n" for line in lines)


def _wait_until_answering(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while True:
        try:
            health = f"{url}/_cluster/health?wait_for_status=yellow&timeout=30s"
            if requests.get(health, timeout=35).ok:
                return
        except requests.RequestException:
            pass
        if server.poll() is not None or time.monotonic() > deadline:
            raise ServerError(f"Elasticsearch did not start{os.linesep}{log.read_text()[-3000:]}")
        time.sleep(0.2)
