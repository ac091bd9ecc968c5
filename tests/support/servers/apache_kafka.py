"""Apache Kafka 4.4.0 itself, one combined KRaft node: the oracle that ottla is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.java.java_tools import java_command, kafka_classpath, run_java
from support.servers.cluster import CONFORMANCE_SETTINGS, ServerError, ServerProcess, free_port

READY_LOGGER = "kafka.server.KafkaRaftServer"
READY_TEXT = "Kafka Server started"
CLUSTER_ID = "b3R0bGEtY29uZm9ybWFuYw"


def format_directory(
    properties: Path, *arguments: str, cluster_id: str = CLUSTER_ID, class_path: str | None = None
) -> None:
    """`kafka-storage format` as a server.properties says; `class_path` is that of another version of Kafka.

    Raises ServerError.
    """
    formatted = run_java(
        "kafka.tools.StorageTool",
        "format",
        "-t",
        cluster_id,
        "-c",
        str(properties),
        *arguments,
        class_path=class_path or kafka_classpath(),
    )
    if formatted.returncode != 0:
        raise ServerError(f"format failed: {formatted.stdout}{formatted.stderr}")


def server_command(
    properties: Path, heap: str, more_flags: Sequence[str] = (), class_path: str | None = None
) -> list[str]:
    """The command line of a node, with the flags of Kafka's own start script; `class_path` is that of another
    version of Kafka.
    """
    flags = (
        f"-Xmx{heap}",
        f"-Xms{heap}",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-Djava.awt.headless=true",
        "-Dorg.slf4j.simpleLogger.logFile=System.out",
        f"-Dorg.slf4j.simpleLogger.log.{READY_LOGGER}=info",
        *more_flags,
    )
    return java_command(
        "kafka.Kafka", str(properties), flags=flags, class_path=class_path or kafka_classpath()
    )


@dataclass(slots=True)
class ApacheKafka:
    """One node on 127.0.0.1. `data_dir` holds its `logs`, `server.properties` and `server.log`."""

    data_dir: Path
    port: int
    server: ServerProcess
    name: str = "apache-kafka"

    @classmethod
    @contextmanager
    def start(
        cls,
        data_dir: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        heap: str = "512m",
        conformance_settings: bool = True,
        class_path: str | None = None,
    ) -> Iterator[ApacheKafka]:
        """A running node for the length of the block. `settings` go over CONFORMANCE_SETTINGS (left out with
        `conformance_settings=False`), `heap` is the JVM's -Xmx and -Xms, `class_path` that of another version
        of Kafka. Kept on restart.
        """
        kafka = cls.prepare(data_dir, port, settings, heap, conformance_settings, class_path)
        try:
            kafka.server.start()
            yield kafka
        finally:
            if kafka.server.running:
                kafka.server.stop()

    @classmethod
    def prepare(
        cls,
        data_dir: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        heap: str = "512m",
        conformance_settings: bool = True,
        class_path: str | None = None,
    ) -> ApacheKafka:
        """Write server.properties and format the directory if it is new, but do not start."""
        chosen, controller_port = free_port() if port is None else port, free_port()
        merged = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{chosen},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(data_dir / "logs"),
            **(CONFORMANCE_SETTINGS if conformance_settings else {}),
            **(settings or {}),
        }
        data_dir.mkdir(parents=True, exist_ok=True)
        properties = data_dir / "server.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in merged.items()), encoding="utf-8")
        if not (data_dir / "logs" / "meta.properties").exists():
            format_directory(properties, "--standalone", class_path=class_path)
        command = server_command(properties, heap, class_path=class_path)
        return cls(data_dir, chosen, ServerProcess(command, READY_TEXT, data_dir / "server.log"))

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.server.process.pid

    @property
    def log_directory(self) -> Path:
        return self.data_dir / "logs"

    def stop(self) -> int:
        return self.server.stop()

    def kill(self) -> None:
        self.server.kill()

    def restart(self) -> None:
        """Start again on the same directory, port and settings; stops cleanly first if it runs."""
        if self.server.running:
            self.server.stop()
        self.server.start()
