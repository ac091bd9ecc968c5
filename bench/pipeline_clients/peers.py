"""Start and stop the programs that are measured: Java Kafka Streams, quixstreams and ottla's Streams.

Each runs as a user would run it, in processes of its own, on two threads or processes or cores: two stream
threads, two members of one consumer group (Python has one interpreter lock a process), Spark's local[2].
All read committed records only, write exactly once, compress with lz4 and read topics of two partitions.
"""

from __future__ import annotations

import enum
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from conformance.downloads import virtual_environment
from conformance.suite import SuiteError

from bench.connection_clients import janino_jars
from bench.errors import BenchError, tail
from ottla.pipeline.spark.cache import cache_directory
from support.java.java_tools import java_command, kafka_classpath
from support.java.streams_apps import streams_classpath, write_properties

HERE = Path(__file__).parent
JAVA = HERE.parent / "java"
LOCKS = HERE.parent / "locks"
PARTITIONS = 2
STREAMS_HEAP = "1g"
STOP_TIMEOUT_SECONDS = 120.0


class Program(enum.Enum):
    """The programs. UPPER maps values to upper case, the others count by key: for all time, or by minute.

    Those of JSON are ottla's alone: the plans of two SQL statements, written in the DSL.
    """

    UPPER = "upper"
    WINDOWED_COUNT = "windowed-count"
    COUNT = "count"
    JSON_FILTER = "json-filter"
    JSON_WINDOWED_COUNT = "json-windowed-count"


class Peer(enum.Enum):
    """The systems that are measured."""

    KAFKA_STREAMS = "Kafka Streams 4.3.1"
    QUIXSTREAMS = "quixstreams 3.28.1"
    OTTLA = "ottla"


@dataclass(frozen=True, slots=True)
class Task:
    """A program on its topics. commit_interval_ms: Kafka Streams' and quixstreams'; ottla has batches, or
    real-time mode, which is at-least-once."""

    program: Program
    bootstrap: str
    input: str
    output: str
    name: str
    directory: Path
    commit_interval_ms: int
    max_records_per_batch: int = 0
    real_time: bool = False

    def group_of(self, peer: Peer) -> str:
        """The group whose offsets show the program's progress: ottla has one for each query, here "out"."""
        return f"{self.name}-out" if peer is Peer.OTTLA else self.name


@dataclass(slots=True)
class Running:
    """A peer's processes. group: the group whose committed offsets show its progress."""

    peer: Peer
    group: str
    started_at: float
    members: list[subprocess.Popen[bytes]]
    log_path: Path

    def pids(self) -> list[int]:
        return [member.pid for member in self.members]

    def check_running(self) -> None:
        """Raises BenchError with its last words when a process has ended."""
        for member in self.members:
            if (code := member.poll()) is not None:
                words = tail(self.log_path.read_text(encoding="utf-8", errors="replace"))
                raise BenchError(f"{self.peer.value} ended by itself with {code}:\n{words}")

    def stop(self) -> None:
        """SIGTERM, as a user's service manager sends it, and wait. Raises BenchError when that hangs."""
        for member in self.members:
            member.send_signal(signal.SIGTERM)
        for member in self.members:
            try:
                member.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                raise BenchError(
                    f"{self.peer.value} still runs {STOP_TIMEOUT_SECONDS:.0f} s after SIGTERM"
                ) from None

    def kill(self) -> None:
        for member in self.members:
            if member.poll() is None:
                member.kill()
            member.wait()


@contextmanager
def run(peer: Peer, task: Task) -> Iterator[Running]:
    """A peer's program for the length of the block, from the start of its first process on.

    What still runs at the end is killed.
    """
    task.directory.mkdir(parents=True, exist_ok=True)
    log_path = task.directory / f"{task.name}.log"
    commands = _commands(peer, task)
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
    with log_path.open("ab") as log:
        started_at = time.perf_counter()
        members = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)
            for command in commands
        ]
    running = Running(peer, task.group_of(peer), started_at, members, log_path)
    try:
        yield running
    finally:
        running.kill()


def _commands(peer: Peer, task: Task) -> Sequence[Sequence[str]]:
    match peer:
        case Peer.KAFKA_STREAMS:
            return [_java(task)]
        case Peer.QUIXSTREAMS:
            return [_quixstreams(task, member) for member in range(PARTITIONS)]
        case Peer.OTTLA:
            return [_ottla(task)]


def _java(task: Task) -> list[str]:
    properties = write_properties(
        task.directory / "streams.properties",
        {
            "application.id": task.name,
            "bootstrap.servers": task.bootstrap,
            "num.stream.threads": str(PARTITIONS),
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": str(task.commit_interval_ms),
            "state.dir": str(task.directory / "state"),
            "producer.compression.type": "lz4",
            "auto.offset.reset": "earliest",
        },
    )
    return java_command(
        "org.codehaus.janino.SimpleCompiler",
        *(str(JAVA / "StreamsPrograms.java"), "StreamsPrograms"),
        *(str(properties), task.program.value, task.input, task.output),
        flags=(f"-Xmx{STREAMS_HEAP}", f"-Xms{STREAMS_HEAP}", "-XX:+UseG1GC"),
        class_path=os.pathsep.join((streams_classpath(), *janino_jars())),
    )


def _quixstreams(task: Task, member: int) -> list[str]:
    program = [str(HERE / "quix_programs.py"), task.bootstrap, task.program.value, task.input, task.output]
    # Members of one machine that shared a state directory would wait for each other's locks.
    state = task.directory / f"state-{member}"
    return [str(quixstreams_python()), *program, task.name, str(state), str(task.commit_interval_ms / 1000)]


def quixstreams_python() -> Path:
    """The Python of quixstreams' own environment; makes it once. Raises BenchError."""
    try:
        return virtual_environment(cache_directory() / "bench", "quixstreams", LOCKS)
    except SuiteError as error:
        raise BenchError(f"quixstreams' environment: {error}") from error


def _ottla(task: Task) -> list[str]:
    program = ["-m", "bench.pipeline_clients.ottla_programs", task.bootstrap, task.program.value]
    settings = [task.name, str(task.directory), str(task.max_records_per_batch)]
    settings.append("real-time" if task.real_time else "auto")
    return [sys.executable, *program, task.input, task.output, *settings]


def fill(
    bootstrap: str,
    topic: str,
    *,
    records: int,
    keys: int,
    value_bytes: int,
    begin_ms: int,
    span_ms: int,
    each_key_once: bool = False,
    json: bool = False,
) -> None:
    """Write the input, the same each time. json: objects of a text and a number. Raises BenchError."""
    order, form = "once" if each_key_once else "random", "json" if json else "letters"
    words = (records, keys, value_bytes, begin_ms, span_ms, order, form)
    command = java_command(
        "org.codehaus.janino.SimpleCompiler",
        *(str(JAVA / "StreamsFill.java"), "StreamsFill", bootstrap, topic, *map(str, words)),
        flags=("-Xmx512m",),
        class_path=os.pathsep.join((kafka_classpath(), *janino_jars())),
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0 or f"filled {records}" not in done.stdout:
        raise BenchError(f"{topic} could not be filled:\n{tail(done.stdout + done.stderr)}")
