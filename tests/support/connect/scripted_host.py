"""A host process for tests of the worker: it obeys orders and runs nothing.

A connector's configuration tells what its runs do: test.behaviour=fail (the run fails at once), slow (it does
not stop), die (the process ends), partitions=N (a source has so many). Every run writes its marks to
test.marks, if that is given: `start C-0 PID NUMBER` and `end C-0 PID NUMBER`, one a line.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from ottla.connect.host.codec import decode_order, encode
from ottla.connect.host.messages import (
    Ended,
    Event,
    Partitions,
    Pause,
    Paused,
    Resume,
    Role,
    Run,
    Running,
    Start,
    Stop,
    Topics,
)

turn = threading.Lock()
runs: dict[Run, Start] = {}


def tell(event: Event) -> None:
    with turn:
        sys.stdout.buffer.write(encode(event))
        sys.stdout.buffer.flush()


def mark(start: Start, word: str) -> None:
    path = start.config.get("test.marks")
    if path:
        line = f"{word} {start.run.connector} {start.run.task} {os.getpid()} {start.run.run} {time.time()}\n"
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(line)


def begin(start: Start) -> None:
    behaviour = start.config.get("test.behaviour", "")
    print(f"[{start.run.connector}|task-{start.run.task}] begins {start.role}", file=sys.stderr, flush=True)
    is_task = start.role is not Role.CONNECTOR
    if is_task and behaviour == "die":
        os._exit(9)
    if is_task and behaviour == "fail":
        tell(Ended(start.run, "Traceback\nValueError: a bad record at lines-0@17"))
        return
    runs[start.run] = start
    mark(start, "start")
    tell(Paused(start.run) if start.paused else Running(start.run))
    if start.role is Role.CONNECTOR and "topics" not in start.config:
        count = int(start.config.get("test.partitions", "1"))
        file = start.config.get("file", "")
        partitions = [{"filename": file if count == 1 else f"{file}-{number}"} for number in range(count)]
        tell(Partitions(start.run, partitions))
    elif is_task and "topic" in start.config:
        tell(Topics(start.run, [start.config["topic"]]))


def main() -> None:
    for line in sys.stdin.buffer:
        match decode_order(line):
            case Start() as start:
                begin(start)
            case Stop(run):
                stopped = runs.get(run)
                if stopped is None:
                    continue
                if stopped.config.get("test.behaviour") == "slow" and stopped.role is not Role.CONNECTOR:
                    continue
                del runs[run]
                mark(stopped, "end")
                tell(Ended(run))
            case Pause(run) if run in runs:
                tell(Paused(run))
            case Resume(run) if run in runs:
                tell(Running(run))
    os._exit(3)


if __name__ == "__main__":
    main()
