"""Workers of Connect as processes of their own, and a client that asks them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from support.servers.cluster import ServerProcess, free_port

COMMAND = Path(__file__).with_name("worker_command.py")
QUICK = {
    "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "300",
    "offset.storage.partitions": "3",
    "status.storage.partitions": "2",
}


class Answer(NamedTuple):
    """An answer: its JSON, or its text where it is none."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass(slots=True)
class ConnectWorker:
    """One worker at 127.0.0.1:`port`, with the plugins of file_plugins.py and the scripted host."""

    port: int
    server: ServerProcess
    tls: ssl.SSLContext | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def start(
        cls,
        bootstrap: str,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        words: Sequence[str] = ("connect",),
        host: str = "scripted",
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
        plugins: str = "support.connect.file_plugins",
    ) -> Iterator[ConnectWorker]:
        """A worker that runs while the block does. tls, headers: of requests to one that asks for them."""
        port = free_port()
        directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(COMMAND), *words, "--bootstrap", bootstrap]
        command += ["--listen", f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"]
        for key, value in {**QUICK, **(settings or {})}.items():
            command += ["--set", f"{key}={value}"]
        environment = {
            **os.environ,
            "OTTLA_TEST_PLUGINS": plugins,
            "OTTLA_TEST_HOST": host,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]),
        }
        log = directory / f"connect-{port}.log"
        server = ServerProcess(command, "ottla connect ready", log, environment=environment)
        worker = cls(port, server, tls, headers or {})
        try:
            worker.server.start()
            yield worker
        finally:
            if worker.server.running:
                worker.server.process.send_signal(signal.SIGCONT)
                worker.server.stop()

    @classmethod
    def installed(cls, bootstrap: str, log: Path, settings: Mapping[str, str]) -> ConnectWorker:
        """`ottla connect` with the plugins and hosts of the installation; it is still to start."""
        port = free_port()
        command = [sys.executable, "-m", "ottla", "connect", "--bootstrap", bootstrap]
        command += ["--listen", f"http://127.0.0.1:{port}"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        return cls(port, ServerProcess(command, "ottla connect ready", log))

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request, with a body of JSON or of bytes."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        given = {"content-type": "application/json"} if data is not None else {}
        connection = (
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
            if self.tls is None
            else http.client.HTTPSConnection("127.0.0.1", self.port, timeout=100, context=self.tls)
        )
        try:
            connection.request(method, path, data, {**given, **self.headers, **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        try:
            found = json.loads(text) if text else None
        except ValueError:
            found = text.decode("latin-1")
        return Answer(answer.status, found, {name.lower(): value for name, value in answer.getheaders()})

    def put(self, name: str, **config: str) -> Answer:
        """Make or change a file source of this name."""
        whole = {"connector.class": "FileStreamSource", "topic": "lines", "file": "/nowhere", **config}
        return self.ask("PUT", f"/connectors/{name}/config", whole)

    def states(self, name: str) -> tuple[str, list[str]]:
        """The state of a connector, and those of its tasks; the status in words where there is none."""
        found = self.ask("GET", f"/connectors/{name}/status")
        if found.status != 200:
            return str(found.status), []
        return found.body["connector"]["state"], [each["state"] for each in found.body["tasks"]]

    def wait_for(self, name: str, state: str, tasks: int | None = None, seconds: float = 30) -> None:
        """Wait until a connector and so many tasks are in a state."""
        until(
            lambda: self.states(name),
            lambda found: (
                found[0] == state and (tasks is None or (len(found[1]) == tasks and set(found[1]) <= {state}))
            ),
            seconds,
        )

    def freeze(self) -> None:
        """Stop the worker's process, but not its hosts."""
        self.server.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.server.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9."""
        self.server.kill()


def until(look: Callable[[], Any], fits: Callable[[Any], bool], seconds: float = 30) -> Any:
    """Look until that fits; what was seen."""
    end = time.monotonic() + seconds
    while True:
        seen = look()
        if fits(seen):
            return seen
        if time.monotonic() > end:
            raise AssertionError(f"never: {seen}")
        time.sleep(0.05)


class Mark(NamedTuple):
    """A run of the scripted host that has begun or ended."""

    word: str
    connector: str
    task: int
    pid: int
    number: int
    at: float


def marks(path: Path) -> list[Mark]:
    """What runs have noted, in the order of time."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        word, connector, task, pid, number, at = line.split()
        found.append(Mark(word, connector, int(task), int(pid), int(number), float(at)))
    return found
