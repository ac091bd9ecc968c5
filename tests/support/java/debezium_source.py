"""Debezium's connectors, run without Kafka: the change events that they make."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.pipeline.spark.java_runtime import bundled_java
from ottla.pipeline.spark.maven import fetch_jars
from support.java.connect_oracle import PLUGINS_LOCK, PROGRAM, comparable_record
from support.java.java_tools import compile_java, jars_of, java_command, tools_classpath

SOURCE = Path(__file__).with_name("DebeziumSource.java")
STOP_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Debezium:
    """One of the connectors: its jars, and the class of its task."""

    lock: Path
    task: str


POSTGRES = Debezium(
    Path(__file__).with_name("debezium-postgres-3.6.1.jars.lock"),
    "io.debezium.connector.postgresql.PostgresConnectorTask",
)
MARIADB = Debezium(
    Path(__file__).with_name("debezium-mariadb-3.5.0.jars.lock"),
    "io.debezium.connector.mariadb.MariaDbConnectorTask",
)


@dataclass(frozen=True, slots=True)
class DebeziumSource:
    """A running connector; its records come out of a queue as they are made."""

    process: subprocess.Popen[str]
    log: Path
    _records: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)

    def record(self, timeout_s: float) -> dict[str, Any] | None:
        """The next record, in the form of `tell_record`, with its partition and offset; None: none comes.

        Fails where the program has ended.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            try:
                return self._records.get(timeout=1)
            except queue.Empty:
                assert not ended, self.log.read_text(encoding="utf-8")[-4000:]
        return None

    def read(self) -> None:
        """Fill the queue until the program ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            self._records.put(comparable_record(told))


def compile_debezium(directory: Path, of: Debezium = POSTGRES) -> str:
    """The class path of the program, compiled into `directory`."""
    fetched = [str(path) for lock in (of.lock, PLUGINS_LOCK) for path in fetch_jars(jars_of(lock))]
    return compile_java([PROGRAM, SOURCE], os.pathsep.join([*fetched, tools_classpath()]), directory)


@contextmanager
def debezium_source(
    class_path: str, config: Mapping[str, str], log: Path, of: Debezium = POSTGRES
) -> Iterator[DebeziumSource]:
    """Debezium's task with this configuration, from no offset, while the block runs."""
    flags = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC")
    given = json.dumps(dict(config))
    arguments = java_command("DebeziumSource", given, of.task, flags=flags, class_path=class_path)
    command = [str(bundled_java().executable), *arguments[1:]]
    with (
        log.open("w", encoding="utf-8") as output,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            encoding="utf-8",
        ) as process,
    ):
        running = DebeziumSource(process, log)
        reader = threading.Thread(target=running.read)
        reader.start()
        try:
            yield running
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
            reader.join()
