"""A Spark host as the worker has it: a process that is given orders and tells events."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ottla.connect.host.codec import decode_event, encode
from ottla.connect.host.messages import Ended, Event, Figures, Role, Run, Running, Start, Stop
from support.servers.processes import descendants, wait_until_gone

START_TIMEOUT_S = 120
BATCH_TIMEOUT_S = 90


@dataclass(slots=True)
class SparkHost:
    """A running host. `events` are all that it has told."""

    process: subprocess.Popen[bytes]
    bootstrap: str
    directory: Path
    log: Path
    events: list[Event] = field(default_factory=list)
    told: threading.Condition = field(default_factory=threading.Condition)
    runs: int = 0

    def begin(
        self,
        connector: str,
        config: Mapping[str, str],
        *,
        generation: int = 0,
        task: int = 0,
        role: Role = Role.SINK_TASK,
        worker: Mapping[str, str] | None = None,
    ) -> Run:
        """Start a run, and do not wait for it."""
        self.runs += 1
        run = Run(connector, task, self.runs)
        properties = {
            "bootstrap.servers": self.bootstrap,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "ottla.generation": str(generation),
            "ottla.spark.directory": str(self.directory / "spark"),
            "ottla.spark.master": "local[2]",
            **(worker or {}),
        }
        config = {"name": connector, "ottla.commit.interval.ms": "0", **config}
        assert self.process.stdin is not None
        self.process.stdin.write(encode(Start(run, role, config, properties, fence=self.runs)))
        self.process.stdin.flush()
        return run

    def start(self, connector: str, config: Mapping[str, str], **more: object) -> Run:
        """Start a run, and wait until it runs."""
        run = self.begin(connector, config, **more)  # type: ignore[arg-type]
        first = self.wait_for(run, (Running, Ended), START_TIMEOUT_S)
        assert isinstance(first, Running), first
        return run

    def order_stop(self, run: Run) -> None:
        """Tell a run to end, and do not wait for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(encode(Stop(run)))
        self.process.stdin.flush()

    def stop(self, run: Run) -> str | None:
        """Stop a run, and wait for its end. Returns its trace."""
        self.order_stop(run)
        return self.ended(run)

    def ended(self, run: Run) -> str | None:
        """Wait for a run's end. Returns its trace."""
        end = self.wait_for(run, (Ended,), BATCH_TIMEOUT_S)
        assert isinstance(end, Ended)
        return end.trace

    def wait_for(self, run: Run, kinds: tuple[type[Event], ...], timeout_s: float) -> Event:
        """The first event of some kinds about a run."""
        deadline = time.monotonic() + timeout_s
        with self.told:
            while True:
                for event in self.events:
                    if event.run == run and isinstance(event, kinds):
                        return event
                assert self.process.poll() is None, f"the host has ended: {self.tail()}"
                left = deadline - time.monotonic()
                assert left > 0, f"no {kinds} of {run}: {self.tail()}"
                self.told.wait(min(left, 1.0))

    def figures(self, run: Run) -> Mapping[str, float]:
        """The newest figures of a run."""
        found = [each for each in self.events if isinstance(each, Figures) and each.run == run]
        return found[-1].figures if found else {}

    def tail(self) -> str:
        """The end of the host's log."""
        return self.log.read_text(errors="replace")[-6000:]

    def kill(self) -> None:
        """End the host and its JVM by SIGKILL."""
        children = descendants(self.process.pid)
        self.process.kill()
        self.process.wait()
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        wait_until_gone(children)

    def read(self) -> None:
        """Take the events, up to the end of the host."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.told:
                self.events.append(decode_event(line))
                self.told.notify_all()
        with self.told:
            self.told.notify_all()


@contextmanager
def spark_host(bootstrap: str, directory: Path) -> Iterator[SparkHost]:
    """A host in a process of its own, killed at the end if it still runs."""
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "host.log"
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.connect.host", "--engine", "spark"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    host = SparkHost(process, bootstrap, directory, log)
    reader = threading.Thread(target=host.read, daemon=True)
    reader.start()
    try:
        yield host
    finally:
        host.kill()
        reader.join(10)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()
