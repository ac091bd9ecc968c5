"""Lines of a file into a topic: Kafka Connect's FileStreamSource beside ottla's, each in a worker alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from bench import clients, processes
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import RECORD_BYTES, Scenario, Turn
from bench.servers import HOST, System
from ottla.connect.java.jars import fetch_connect
from ottla.pipeline.spark.java_runtime import find_java
from ottla.pipeline.spark.maven import fetch_jars
from support.java.java_tools import jars_of
from support.servers.cluster import free_port

LINES: Final = 3_000_000
POLL_SECONDS: Final = 0.02
TIMEOUT_SECONDS: Final = 300.0
FILE_LOCK: Final = Path(__file__).parents[2] / "tests/support/java/connect-file-4.3.1.jars.lock"
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
# Those of Kafka's connect-standalone.sh
HEAP: Final = ("-Xms256m", "-Xmx2g")


def _run(turn: Turn) -> dict[str, float]:
    lines, file = turn.size(LINES), turn.workspace / "lines.txt"
    with file.open("wb") as text:
        for first in range(0, lines, 10_000):
            numbers = range(first, min(first + 10_000, lines))
            text.writelines(b"%0*d\n" % (RECORD_BYTES, number) for number in numbers)
    with turn.server() as server:
        clients.create_topic(server)
        port = free_port()
        worker = _written(
            turn.workspace / "worker.properties",
            {
                "bootstrap.servers": server.bootstrap,
                "listeners": f"http://{HOST}:{port}",
                "key.converter": STRING,
                "value.converter": STRING,
                "offset.storage.file.filename": str(turn.workspace / "offsets"),
            },
        )
        connector = _written(
            turn.workspace / "source.properties",
            {
                "name": "lines",
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "tasks.max": "1",
                "file": str(file),
                "topic": clients.TOPIC,
            },
        )
        log = turn.workspace / "worker.log"
        with log.open("wb") as output:
            started = time.perf_counter()
            process = subprocess.Popen(
                _command(turn.system, worker, connector),
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OTTLA_LOG_LEVEL": "WARNING"},
            )
        try:
            figures = _watched(server.bootstrap, port, process, lines, started)
        except BenchError as problem:
            raise BenchError(f"{problem}\n{log.read_text(errors='replace')[-2_000:]}") from None
        finally:
            process.terminate()
            process.wait(60)
    return figures


def _command(system: System, worker: Path, connector: Path) -> Sequence[str]:
    if system is System.OTTLA:
        return [sys.executable, "-m", "ottla", "connect", "standalone", str(worker), str(connector)]
    jars = [*fetch_connect(), *fetch_jars(jars_of(FILE_LOCK))]
    java = str(find_java().executable)
    path = os.pathsep.join(map(str, jars))
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    return [java, *HEAP, "-XX:+UseG1GC", "-cp", path, main, str(worker), str(connector)]


def _written(path: Path, properties: dict[str, str]) -> Path:
    path.write_text("".join(f"{name}={text}\n" for name, text in properties.items()), encoding="utf-8")
    return path


def _watched(
    bootstrap: str, port: int, process: subprocess.Popen[bytes], lines: int, started: float
) -> dict[str, float]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "watching", "log_level": 0})
    ready = first = 0.0
    try:
        while True:
            now = time.perf_counter()
            if process.poll() is not None or now - started > TIMEOUT_SECONDS:
                raise BenchError("the worker ended, or took too long")
            if not ready and _answers(port):
                ready = time.perf_counter()
            _, end = consumer.get_watermark_offsets(TopicPartition(clients.TOPIC, 0), 10)
            if end and not first:
                first = now
            if end >= lines:
                break
            time.sleep(POLL_SECONDS)
        resident = processes.resident_bytes(process.pid)
        seconds = processes.cpu_seconds(process.pid)
        if end != lines:
            raise BenchError(f"{end:,} records of {lines:,} lines")
    finally:
        consumer.close()
    return {
        "lines_per_second": lines / (now - first),
        "whole_lines_per_second": lines / (now - started),
        "ready_seconds": (ready or time.perf_counter()) - started,
        "start_seconds": first - started,
        "cpu_seconds_per_million": seconds / lines * 1e6,
        "resident_mebibytes": resident / (1 << 20),
    }


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/", timeout=5) as answer:
            return "version" in json.load(answer)
    except (urllib.error.URLError, OSError):
        return False


SCENARIOS: Final = (
    Scenario(
        "connect-file-source",
        f"{LINES:,} lines of {RECORD_BYTES} bytes from a file into a topic of one partition, by "
        "FileStreamSourceConnector with StringConverter and otherwise default settings: Kafka Connect "
        "4.3.1's connect-standalone (its script's heap) on Apache Kafka beside `ottla connect standalone` on "
        "ottla. The rate is from the first record to the last; the topic has to have as many records as the "
        "file has lines.",
        (
            Measure("lines_per_second", "lines", "lines/s", Target(Bound.RATIO_AT_LEAST, 2.0)),
            Measure("whole_lines_per_second", "lines, the start included", "lines/s"),
            Measure("ready_seconds", "until HTTP answers", "s", Target(Bound.VALUE_AT_MOST, 2.0)),
            Measure("start_seconds", "until the first record", "s"),
            Measure("cpu_seconds_per_million", "worker's CPU time", "s/million"),
            Measure("resident_mebibytes", "RSS at the end", "MiB"),
        ),
        _run,
    ),
)
