"""`ottla mirror FILE` under test, and MirrorMaker 2 itself beside it, on any pair of clusters."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.java.java_tools import java_command
from support.java.mirror_oracle import mirror_classpath
from support.servers.cluster import ServerProcess, free_port

QUICK: Mapping[str, str] = {
    "sync.group.offsets.enabled": "true",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "refresh.topics.interval.seconds": "1",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "2",
    "status.storage.partitions": "1",
}
"""One replica, and a look each second."""


def mm2_file(path: Path, clusters: Mapping[str, str], properties: Mapping[str, str]) -> Path:
    """Write an mm2.properties file. clusters: their bootstrap servers by alias."""
    lines = {
        "clusters": ", ".join(clusters),
        **{f"{alias}.bootstrap.servers": servers for alias, servers in clusters.items()},
        **QUICK,
        **properties,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name} = {text}\n" for name, text in lines.items()))
    return path


@dataclass(slots=True)
class MirrorProcess:
    """One copy of `ottla mirror`; its log lies beside the file."""

    file: Path
    port: int
    metrics_port: int
    server: ServerProcess

    @classmethod
    def prepare(cls, file: Path, *words: str) -> MirrorProcess:
        """A copy that is still to start. words: more of its command line."""
        port, metrics_port = free_port(), free_port()
        command = [sys.executable, "-m", "ottla", "mirror", str(file), *words]
        command += ["--listen", f"127.0.0.1:{port}", "--metrics", f"127.0.0.1:{metrics_port}"]
        log = file.with_name(f"{file.stem}-{port}.log")
        return cls(file, port, metrics_port, ServerProcess(command, "ottla mirror ready", log))

    @classmethod
    @contextmanager
    def start(cls, file: Path, *words: str) -> Iterator[MirrorProcess]:
        """A copy that runs while the block does."""
        mirror = cls.prepare(file, *words)
        try:
            mirror.server.start()
            yield mirror
        finally:
            if mirror.server.running:
                mirror.server.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def status(self, *words: str) -> list[dict[str, Any]]:
        """What `ottla mirror status --json` tells of it."""
        command = [sys.executable, "-m", "ottla", "mirror", "status", "--json", "--url", self.url, *words]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert told.returncode == 0, told.stderr
        return [json.loads(line) for line in told.stdout.splitlines()]

    def log(self) -> str:
        """All that it wrote."""
        return self.server.log_path.read_text()


@contextmanager
def mirror_maker_2(file: Path, *words: str) -> Iterator[ServerProcess]:
    """Java's MirrorMaker 4.3.1 with a file, while the block runs. words: more of its command line."""
    command = java_command(
        "org.apache.kafka.connect.mirror.MirrorMaker",
        str(file),
        *words,
        flags=("-Xmx512m", "-XX:+UseSerialGC", "-Dlog4j2.level=INFO"),
        class_path=mirror_classpath(),
    )
    server = ServerProcess(command, "", file.with_suffix(".java.log"), start_timeout_s=120)
    try:
        server.launch()
        yield server
    finally:
        if server.running:
            server.kill()
