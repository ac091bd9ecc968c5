"""Start and stop the two brokers under measurement: same life, same settings, a fresh directory each time."""

from __future__ import annotations

import compileall
import enum
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import ottla
from bench import metadata_client, processes
from bench.errors import BenchError, tail
from support.java.java_tools import KAFKA_VERSION
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import ServerError, free_port

START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 180.0
KAFKA_HEAP = "1g"
HOST = "127.0.0.1"

# Given to both, by Kafka's own names. Everything else is each broker's default, which is the same value:
# no fsync on the way of a write, 1 GiB segments, one partition a topic.
BROKER_SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}


class System(enum.Enum):
    """The two sides, in the order in which they take turns, and the broker that does nothing."""

    KAFKA = "kafka"
    OTTLA = "ottla"
    NULL = "null"

    @property
    def title(self) -> str:
        return {
            System.KAFKA: f"Apache Kafka {KAFKA_VERSION}",
            System.OTTLA: "ottla",
            System.NULL: "the null broker",
        }[self]


SIDES = (System.KAFKA, System.OTTLA)


class Served(Protocol):
    """The server that clients drive: one broker, or a cluster."""

    @property
    def system(self) -> System:
        """Whether it is ottla's or Apache Kafka's."""

    @property
    def bootstrap(self) -> str:
        """Where a client begins."""

    def check_running(self) -> None:
        """Raises BenchError when a process has ended."""

    def cpu_seconds(self) -> float:
        """Processor time of all its processes so far."""


@dataclass(frozen=True, slots=True)
class Server:
    """A broker that runs and has answered.

    started_at: when (perf_counter) its process was started. start_seconds: from there to its first answered
    Metadata request. format_seconds: the time for formatting the directory before that, None if there is no
    such step.
    """

    system: System
    port: int
    process: subprocess.Popen[bytes]
    log_path: Path
    started_at: float
    start_seconds: float
    format_seconds: float | None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def check_running(self) -> None:
        """Raises BenchError with its last words when the process has ended."""
        _check_running(self.system, self.process, self.log_path)

    def resident_bytes(self) -> int:
        self.check_running()
        return processes.resident_bytes(self.process.pid)

    def cpu_seconds(self) -> float:
        self.check_running()
        return processes.cpu_seconds(self.process.pid)

    def waiting_seconds(self) -> float:
        """The time that its living threads were ready to run and had no processor."""
        self.check_running()
        return processes.waiting_seconds(self.process.pid)


class Ending(enum.Enum):
    """How a broker's run ends."""

    STOPPED = "SIGTERM, and a clean exit"
    KILLED = "SIGKILL"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A broker that can be started, again and again, on one directory."""

    system: System
    port: int
    command: Sequence[str]
    log_path: Path
    format_seconds: float | None


def prepare(
    system: System,
    workspace: Path,
    *,
    settings: Mapping[str, str] | None = None,
    more_listeners: Sequence[str] = (),
    ottla_python_flags: Sequence[str] = (),
) -> Prepared:
    """Make an empty directory inside `workspace` ready for a broker; `settings` go over BROKER_SETTINGS.

    `more_listeners` (`NAME://host:port`) stand beside the plaintext one, whose port the broker is known by.
    `ottla_python_flags` go between the interpreter and `-m ottla`, to run it under a profiler.
    """
    merged = {**BROKER_SETTINGS, **(settings or {})}
    log_path = workspace / "server.log"
    match system:
        case System.KAFKA:
            before = time.perf_counter()
            port, command = _prepare_kafka(workspace, merged, more_listeners)
            return Prepared(system, port, command, log_path, time.perf_counter() - before)
        case System.OTTLA:
            port, command = _prepare_ottla(workspace, merged, more_listeners, ottla_python_flags)
            return Prepared(system, port, command, log_path, None)
        case System.NULL:
            port = free_port()
            command = [sys.executable, "-m", "bench.null_broker", "--port", str(port)]
            return Prepared(system, port, command, log_path, None)


@contextmanager
def run(
    prepared: Prepared,
    *,
    ending: Ending = Ending.STOPPED,
    start_timeout_seconds: float = START_TIMEOUT_SECONDS,
) -> Iterator[Server]:
    """A broker for the length of the block.

    Raises BenchError when it does not start, dies inside the block, or does not stop by SIGTERM.
    """
    system, log_path = prepared.system, prepared.log_path
    with log_path.open("ab") as log:
        started_at = time.perf_counter()
        process = subprocess.Popen(prepared.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        answered_at = metadata_client.wait_for_metadata(
            prepared.port,
            timeout_seconds=start_timeout_seconds,
            still_running=lambda: _check_running(system, process, log_path),
        )
        server = Server(
            system,
            prepared.port,
            process,
            log_path,
            started_at,
            answered_at - started_at,
            prepared.format_seconds,
        )
        yield server
        server.check_running()
        if ending is Ending.STOPPED:
            _stop(server)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@contextmanager
def serve(
    system: System,
    workspace: Path,
    *,
    settings: Mapping[str, str] | None = None,
    ottla_python_flags: Sequence[str] = (),
) -> Iterator[Server]:
    """A broker for the length of the block, on an empty directory inside `workspace`; see `run`."""
    prepared = prepare(system, workspace, settings=settings, ottla_python_flags=ottla_python_flags)
    with run(prepared) as server:
        yield server


def _prepare_kafka(
    workspace: Path, settings: Mapping[str, str], more_listeners: Sequence[str]
) -> tuple[int, Sequence[str]]:
    """Write server.properties and format the directory as the tests do, without the tests' settings."""
    port, controller = free_port(), f"{HOST}:{free_port()}"
    listeners = (f"PLAINTEXT://{HOST}:{port}", *more_listeners, f"CONTROLLER://{controller}")
    given = {
        **settings,
        "listeners": ",".join(listeners),
        "controller.quorum.bootstrap.servers": controller,
    }
    try:
        kafka = ApacheKafka.prepare(
            workspace / "data", port, given, heap=KAFKA_HEAP, conformance_settings=False
        )
    except ServerError as error:
        raise BenchError(f"Apache Kafka: {error}") from error
    return kafka.port, kafka.server.command


def compile_ottla() -> None:
    """Compile ottla's modules, as pip leaves an installed package.

    Without it, each start under PYTHONDONTWRITEBYTECODE compiles anew.
    """
    compileall.compile_dir(Path(ottla.__file__).parent, quiet=2)


def _prepare_ottla(
    workspace: Path,
    settings: Mapping[str, str],
    more_listeners: Sequence[str],
    python_flags: Sequence[str],
) -> tuple[int, Sequence[str]]:
    compile_ottla()
    port = free_port()
    command = [sys.executable, *python_flags, "-m", "ottla", "broker", "--data", str(workspace / "data")]
    command += ["--listen", ",".join((f"{HOST}:{port}", *more_listeners))]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    return port, command


def _check_running(system: System, process: subprocess.Popen[bytes], log_path: Path) -> None:
    code = process.poll()
    if code is not None:
        words = tail(log_path.read_text(encoding="utf-8", errors="replace"))
        raise BenchError(f"{system.title} ended by itself with exit code {code}:\n{words}")


def _stop(server: Server) -> None:
    server.process.terminate()
    try:
        code = server.process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        words = tail(server.log_path.read_text(encoding="utf-8", errors="replace"))
        raise BenchError(
            f"{server.system.title} still runs {STOP_TIMEOUT_SECONDS} s after SIGTERM:\n{words}"
        ) from None
    # A JVM that ends by SIGTERM says 128 + 15, after its shutdown hooks have run.
    if code not in ((0, 143) if server.system is System.KAFKA else (0,)):
        words = tail(server.log_path.read_text(encoding="utf-8", errors="replace"))
        raise BenchError(f"{server.system.title} stopped with exit code {code}:\n{words}")
