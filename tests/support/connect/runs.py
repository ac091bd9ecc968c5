"""Hosts under test: a Python runner within the test's process, or a host process that can be killed."""

from __future__ import annotations

import dataclasses
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ottla.connect.host.codec import decode_event, encode
from ottla.connect.host.messages import Ended, Event, Order, Paused, Role, Run, Running, Start, Stop
from ottla.connect.host.python_runner import PythonRunner
from support.connect.fake_plugins import CATALOG

TIMEOUT_S: Final = 30.0
OFFSETS_TOPIC: Final = "connect-offsets"
TESTS: Final = Path(__file__).parents[2]

_numbers = itertools.count()


def start(
    bootstrap: str,
    connector: str,
    role: Role,
    config: Mapping[str, str],
    *,
    worker: Mapping[str, str] | None = None,
    task: int = 0,
    partitions: Sequence[Mapping[str, Any]] = (),
    offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]] = (),
    paused: bool = False,
) -> Start:
    """A Start with the tests' converters; its run has a number of its own."""
    run = Run(connector, -1 if role is Role.CONNECTOR else task, next(_numbers))
    worker = {
        "bootstrap.servers": bootstrap,
        "group.id": "connect-cluster",
        "key.converter": "test.TextConverter",
        "value.converter": "test.TextConverter",
        "offset.storage.topic": OFFSETS_TOPIC,
        "offset.flush.interval.ms": "200",
        "offset.storage.replication.factor": "1",
        **(worker or {}),
    }
    return Start(run, role, {"name": connector, **config}, worker, partitions, offsets, 0, paused)


def with_offsets(order: Start, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Start:
    """The same order with the offsets that its task goes on from."""
    return dataclasses.replace(order, offsets=offsets)


class Events:
    """The events of a host, to wait for."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self._changed = threading.Condition()

    def tell(self, event: Event) -> None:
        with self._changed:
            self.all.append(event)
            self._changed.notify_all()

    def of(self, run: Run, kind: type[Any]) -> list[Any]:
        with self._changed:
            return [each for each in self.all if each.run == run and isinstance(each, kind)]

    def wait(self, run: Run, kind: type[Any], count: int = 1, timeout_s: float = TIMEOUT_S) -> Any:
        """The count-th event of a kind of a run; fails at once where the run has ended instead."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                found = [each for each in self.all if each.run == run and isinstance(each, kind)]
                if len(found) >= count:
                    return found[count - 1]
                ended = [each for each in self.all if each.run == run and isinstance(each, Ended)]
                assert not ended, f"no {kind.__name__}, the run has ended: {ended[0].trace}"
                left = deadline - time.monotonic()
                assert left > 0, f"no {kind.__name__} of {run} within {timeout_s} s"
                self._changed.wait(left)


class Host(Events):
    """A Python runner of this process."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = PythonRunner(self.tell, CATALOG)

    def begin(self, order: Start) -> Run:
        """Start a run and wait until it runs."""
        self.runner.start(order)
        self.wait(order.run, Paused if order.paused else Running)
        return order.run

    def end(self, run: Run) -> str | None:
        """Stop a run; its trace."""
        self.runner.stop(run)
        ended: Ended = self.wait(run, Ended)
        return ended.trace

    def finish(self, order: Start, timeout_s: float = TIMEOUT_S) -> str | None:
        """Start a run that ends by itself; its trace."""
        self.runner.start(order)
        ended: Ended = self.wait(order.run, Ended, timeout_s=timeout_s)
        return ended.trace


@contextmanager
def python_host() -> Iterator[Host]:
    """A runner of this process, closed at the end of the block."""
    host = Host()
    try:
        yield host
    finally:
        host.runner.close()


class HostProcess(Events):
    """A host process with the tests' plugins."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self.log = log
        path = os.pathsep.join([str(TESTS), *sys.path])
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "support.connect.host_main", "--engine", "python"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": path},
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):
                self.tell(decode_event(line))

    def give(self, order: Order) -> None:
        """Give an order; one that the host's end overtakes is lost."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(encode(order))
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def stop(self, run: Run) -> str | None:
        """Stop a run in order; its trace."""
        self.give(Stop(run))
        ended: Ended = self.wait(run, Ended)
        return ended.trace

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def close(self) -> int:
        """The worker's end: stdin closes. The exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(TIMEOUT_S)


@contextmanager
def host_process(log: Path) -> Iterator[HostProcess]:
    """A host process, killed at the end of the block."""
    host = HostProcess(log)
    try:
        yield host
    finally:
        host.kill()
