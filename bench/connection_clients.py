"""Many of Kafka's own Java clients in one process: the programs of java/Clients.java, asked line by line.

A client library of its own would be lighter, but would not be what people run. The programs are compiled in
memory by the runtime that runs them (Janino, which PySpark brings), so a JRE is enough.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyspark

from bench import clients, processes
from bench.errors import BenchError, tail
from bench.servers import Served
from support.java.java_tools import java_command, kafka_classpath

PROGRAMS = Path(__file__).with_name("java") / "Clients.java"
READY_TIMEOUT_SECONDS = 120.0
ANSWER_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 30.0
# A thousand threads: their stacks are shallow.
STACK_FLAG = "-Xss256k"

T = TypeVar("T")


# --- what the programs answer ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counted:
    """The requests or records acknowledged or delivered in `seconds`, and their latencies in milliseconds."""

    count: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        return self.count / self.seconds


@dataclass(frozen=True, slots=True)
class Stopped:
    """Records acknowledged in a producers' life, and the most a request carried on average."""

    acknowledged: int
    records_per_request: float


@dataclass(frozen=True, slots=True)
class Idled:
    """Fetches answered while nothing was written: the fewest to one consumer, and in all."""

    fewest_fetches: int
    fetches: int


@dataclass(frozen=True, slots=True)
class Reread:
    """The records that a consumer of old records got in `seconds`; bytes are those of their values."""

    records: int
    bytes: int
    seconds: float


def parse_answer(line: str) -> dict[str, float]:
    """One line of a program as names and numbers, those without a value left out.

    Raises BenchError for anything else, and for a failure that it tells.
    """
    try:
        answer = json.loads(line)
    except ValueError:
        raise BenchError(f"the Java clients said: {line}") from None
    if not isinstance(answer, dict):
        raise BenchError(f"the Java clients said: {line}")
    figures = {name: value for name, value in answer.items() if value is not None}
    if not all(isinstance(value, int | float) for value in figures.values()):
        raise BenchError(f"the Java clients said: {line}")
    return figures


def counted(answer: Mapping[str, float]) -> Counted:
    """Raises BenchError when nothing was counted."""
    members = _members(answer, "count", "seconds", "p50_ms", "p99_ms")
    return Counted(int(members[0]), *members[1:])


def stopped(answer: Mapping[str, float]) -> Stopped:
    acknowledged, per_request = _members(answer, "acknowledged", "records_per_request")
    return Stopped(int(acknowledged), per_request)


def idled(answer: Mapping[str, float]) -> Idled:
    """Raises BenchError when a consumer had no fetch answered: it was not connected, or asleep."""
    fewest, fetches = _members(answer, "fewest_fetches", "fetches")
    return Idled(int(fewest), int(fetches))


def reread(answer: Mapping[str, float]) -> Reread:
    records, count, seconds = _members(answer, "records", "bytes", "seconds")
    return Reread(int(records), int(count), seconds)


def _members(answer: Mapping[str, float], *names: str) -> list[float]:
    """These members of an answer; each must be there and be more than nothing."""
    values = [answer.get(name, 0) for name in names]
    if not all(value > 0 for value in values):
        raise BenchError(f"the Java clients have no figures: {dict(answer)}")
    return values


# --- the processes --------------------------------------------------------------------------------------


class JavaClients:
    """A program that runs and has said that its clients are ready."""

    def __init__(self, server: Served, process: subprocess.Popen[str], name: str) -> None:
        self._server = server
        self._process = process
        self._name = name
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._words: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, command: str, *, seconds: float = 0.0) -> dict[str, float]:
        """Say a line and wait for its answer, `seconds` longer than for one that takes no time."""
        self.begin(command)
        return self.end(seconds=seconds)

    def begin(self, command: str) -> None:
        """Say a line; its answer is waited for by `end`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # what it died of is told by its answer

    def end(self, *, seconds: float = 0.0) -> dict[str, float]:
        return self._answer(ANSWER_TIMEOUT_SECONDS + seconds)

    def wait_until_ready(self) -> None:
        self._answer(READY_TIMEOUT_SECONDS)

    def _answer(self, timeout_seconds: float) -> dict[str, float]:
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise self._error(f"said nothing for {timeout_seconds} s") from None
            if line is None:
                raise self._error(f"ended with {self._process.wait()}")
            self._words.append(line)
            if line.startswith("{"):
                self._server.check_running()
                return parse_answer(line)

    def _error(self, problem: str) -> BenchError:
        words = tail("\n".join(self._words))
        return BenchError(f"{self._name} on {self._server.system.title} {problem}:\n{words}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)


@contextmanager
def _run(
    server: Served, program: str, properties: Mapping[str, str], *, heap: str, **arguments: str | int
) -> Iterator[JavaClients]:
    """A program of java/Clients.java for the length of the block, once its clients are ready."""
    flags = (f"-Xmx{heap}", STACK_FLAG, *(flag for flag in clients.JAVA_CLIENT_FLAGS if "-Xmx" not in flag))
    words = {"bootstrap.servers": server.bootstrap, **properties}
    words |= {name.upper(): str(value) for name, value in arguments.items()}
    command = java_command(
        "org.codehaus.janino.SimpleCompiler",
        str(PROGRAMS),
        program,
        *(f"{name}={value}" for name, value in words.items()),
        flags=flags,
        class_path=os.pathsep.join((kafka_classpath(), *janino_jars())),
    )
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    )
    try:
        java = JavaClients(server, process, program)
        java.wait_until_ready()
        yield java
        assert process.stdin is not None
        process.stdin.close()
        if process.wait(STOP_TIMEOUT_SECONDS) != 0:
            raise BenchError(f"{program} on {server.system.title} ended with {process.returncode}")
    except subprocess.TimeoutExpired:
        raise BenchError(f"{program} on {server.system.title} does not end") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def janino_jars() -> Sequence[str]:
    jars = Path(pyspark.__file__).parent / "jars"
    found = [str(path) for name in ("janino-*.jar", "commons-compiler-*.jar") for path in jars.glob(name)]
    if not found:
        raise BenchError(f"no Janino in {jars}")
    return found


def allow_descriptors(count: int) -> None:
    """Raise the soft limit of open files for this process and those it starts, as the JVM does for itself.

    Raises BenchError when the hard limit is below `count`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise BenchError(f"{count} open files are needed and {hard} are allowed: raise the hard limit")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


# --- the clients ----------------------------------------------------------------------------------------


@contextmanager
def producers(
    server: Served,
    properties: Mapping[str, str],
    *,
    count: int,
    partitions: int,
    record_bytes: int,
    rate: int = 0,
    topic: str = clients.TOPIC,
    access: clients.Access | None = None,
) -> Iterator[JavaClients]:
    """`count` producers for closed loops, or that send `rate` records a second each.

    A `client.id` in the properties goes before the number that each has. Without an `access` they go to the
    server's own listener.
    """
    if access is not None:
        properties = {**properties, **access.properties, "bootstrap.servers": access.bootstrap}
    with _run(
        server,
        "Producers",
        properties,
        heap="1g",
        topic=topic,
        producers=count,
        partitions=partitions,
        record_bytes=record_bytes,
        rate=rate,
    ) as java:
        yield java


@contextmanager
def consumers(
    server: Served, *, count: int, groups: int, topic: str, record_bytes: int
) -> Iterator[JavaClients]:
    """`count` consumers with the library's own defaults, members of `groups` groups or, with 0, of none."""
    properties = {"auto.offset.reset": "latest"}
    with _run(
        server,
        "Consumers",
        properties,
        heap="2g",
        topic=topic,
        consumers=count,
        groups=groups,
        record_bytes=record_bytes,
    ) as java:
        yield java


@contextmanager
def rereader(server: Served, *, records: int, topic: str = clients.TOPIC) -> Iterator[JavaClients]:
    """A consumer that reads the first `records` records again and again, with the library's own defaults."""
    with _run(server, "Rereader", {}, heap="512m", topic=topic, records=records) as java:
        yield java


# --- the use of the processors --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Window:
    """The use of the processors during an action, in seconds. other_cpu_share: as in clients.ClientRun."""

    seconds: float
    server_cpu_seconds: float
    client_cpu_seconds: float
    other_cpu_share: float


def watch(server: Served, action: Callable[[], T]) -> tuple[T, Window]:
    """Do something with clients that all run before and after it."""
    began, machine, server_cpu, ours = _now(server)
    result = action()
    ended, machine_after, server_cpu_after, ours_after = _now(server)
    seconds, served, spent = ended - began, server_cpu_after - server_cpu, ours_after - ours
    others = max(0.0, machine_after - machine - spent)
    return result, Window(seconds, served, spent - served, others / seconds)


def _now(server: Served) -> tuple[float, float, float, float]:
    """The clock, and the processor time of the machine, of the broker, and of all that we have started."""
    return (
        time.perf_counter(),
        processes.machine_cpu_times().busy,
        server.cpu_seconds(),
        processes.cpu_seconds(os.getpid()),
    )
