"""Two workers of Connect with 20 small connectors: how soon they answer, what they hold, who takes over whom.

Both sides are ottla's workers; the left column's cluster is Apache Kafka, the right one's is ottla's broker.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import processes
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import BYTES_PER_MEBIBYTE, Scenario, Turn
from bench.servers import HOST
from support.servers.cluster import free_port

CONNECTORS: Final = 20
POLL_SECONDS: Final = 0.02
TIMEOUT_SECONDS: Final = 120.0
SETTLE_SECONDS: Final = 10.0
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"

States = Mapping[str, tuple[str, str]]
"""The state, and the worker that has told it, of each connector (`c`) and task (`c-0`)."""


@dataclass(frozen=True, slots=True)
class _Worker:
    port: int
    process: subprocess.Popen[bytes]
    started: float
    log: Path

    @property
    def id(self) -> str:
        return f"{HOST}:{self.port}"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of an answer. Raises OSError, BenchError."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"content-type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise BenchError(f"{method} {path}: {answer.status} {text[:500]!r}")
        return json.loads(text) if text else None

    def ready_seconds(self) -> float:
        """From the start of the process to the first answer about connectors."""
        while True:
            try:
                self.ask("GET", "/connectors")
            except (OSError, http.client.HTTPException, BenchError):
                if self.process.poll() is not None or time.perf_counter() - self.started > TIMEOUT_SECONDS:
                    told = self.log.read_text(errors="replace")[-2_000:]
                    raise BenchError(f"a worker ended, or did not answer:\n{told}") from None
                time.sleep(POLL_SECONDS)
            else:
                return time.perf_counter() - self.started

    def states(self) -> States:
        """Of all connectors, and of as many tasks as they are to have."""
        found: dict[str, tuple[str, str]] = {}
        for name, each in self.ask("GET", "/connectors?expand=status&expand=info").items():
            told = each["status"]
            found |= {f"{name}-{task['task']}": ("", "") for task in each["info"]["tasks"]}
            found[name] = (told["connector"]["state"], told["connector"]["worker_id"])
            found |= {f"{name}-{task['id']}": (task["state"], task["worker_id"]) for task in told["tasks"]}
        return found


@contextmanager
def _worker(bootstrap: str, workspace: Path, number: int) -> Iterator[_Worker]:
    port = free_port()
    log = workspace / f"worker-{number}.log"
    command = [
        sys.executable,
        "-m",
        "ottla",
        "connect",
        "--bootstrap",
        bootstrap,
        "--listen",
        f"{HOST}:{port}",
    ]
    with log.open("wb") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OTTLA_LOG_LEVEL": "WARNING"},
        )
    try:
        yield _Worker(port, process, started, log)
    finally:
        process.terminate()
        process.wait(60)


def _config(number: int, workspace: Path) -> dict[str, str]:
    """File sources, file sinks of their topics, and generators of two records a second."""
    strings = {"key.converter": STRING, "value.converter": STRING}
    match number % 3:
        case 0:
            file = workspace / f"in-{number}.txt"
            file.write_text("first\n", encoding="utf-8")
            kind = "org.apache.kafka.connect.file.FileStreamSourceConnector"
            return {"connector.class": kind, "file": str(file), "topic": f"lines-{number}", **strings}
        case 1:
            kind = "org.apache.kafka.connect.file.FileStreamSinkConnector"
            file = workspace / f"out-{number}.txt"
            return {"connector.class": kind, "file": str(file), "topics": f"lines-{number - 1}", **strings}
        case _:
            kind = "io.confluent.kafka.connect.datagen.DatagenConnector"
            return {"connector.class": kind, "kafka.topic": f"generated-{number}", "quickstart": "users"}


def _all_run(states: States) -> bool:
    return len(states) == 2 * CONNECTORS and {state for state, _ in states.values()} == {"RUNNING"}


def _seconds_until(worker: _Worker, fits: Callable[[States], bool]) -> float:
    started = time.perf_counter()
    while True:
        states = worker.states()
        now = time.perf_counter()
        if fits(states):
            return now - started
        if now - started > TIMEOUT_SECONDS:
            raise BenchError(f"after {TIMEOUT_SECONDS:g} s: {dict(states)}")
        time.sleep(POLL_SECONDS)


def _run(turn: Turn) -> dict[str, float]:
    with turn.server() as server, ExitStack() as stack:
        # One after the other: the first makes the topics, and leads the group.
        workers, ready = [], []
        for number in range(2):
            workers.append(stack.enter_context(_worker(server.bootstrap, turn.workspace, number)))
            ready.append(workers[-1].ready_seconds())
        for number in range(CONNECTORS):
            config = _config(number, turn.workspace)
            workers[number % 2].ask("PUT", f"/connectors/c{number}/config", config)
        running = _seconds_until(workers[1], _all_run)
        time.sleep(SETTLE_SECONDS)
        resident = sum(processes.resident_bytes(each.process.pid) for each in workers)
        killed, left = workers
        lost = [id for id, (_, worker) in left.states().items() if worker == killed.id]
        if not lost:
            raise BenchError("the worker that is to be killed runs nothing")
        killed.process.kill()
        taken_over = _seconds_until(
            left,
            lambda states: _all_run(states) and {worker for _, worker in states.values()} == {left.id},
        )
    return {
        "first_ready_seconds": ready[0],
        "ready_seconds": ready[1],
        "running_seconds": running,
        "resident_mebibytes": resident / BYTES_PER_MEBIBYTE,
        "lost": float(len(lost)),
        "taken_over_seconds": taken_over,
    }


SCENARIOS: Final = (
    Scenario(
        "connect-workers",
        f"Two workers of one group with default settings, and {CONNECTORS} connectors of a task each (file "
        "sources, file sinks, generators of records). Both sides are ottla's workers: the left one's cluster "
        "is Apache Kafka. A worker is ready when it answers GET /connectors; the first one makes the topics. "
        f"RSS is that of all processes of both workers, {SETTLE_SECONDS:g} seconds after all ran. Then kill "
        "-9 of the first: until the other one tells RUNNING of its own for each connector and task.",
        (
            Measure("first_ready_seconds", "first worker ready", "s", Target(Bound.VALUE_AT_MOST, 2.0)),
            Measure("ready_seconds", "second worker ready", "s", Target(Bound.VALUE_AT_MOST, 2.0)),
            Measure("running_seconds", "until all connectors run", "s"),
            Measure("resident_mebibytes", "RSS of all", "MiB", Target(Bound.VALUE_AT_MOST, 4_096)),
            Measure("lost", "connectors and tasks of the killed worker", "runs"),
            Measure("taken_over_seconds", "taken over", "s", Target(Bound.VALUE_AT_MOST, 15.0)),
        ),
        _run,
    ),
)
