"""The host process: orders on stdin, events on stdout, its log on stderr.

    python -m ottla.connect.host --engine python|spark [--log-level INFO]

The end of stdin means that the worker is dead: the host ends at once, whatever its tasks do. What they have
not committed, the tasks of another host do again.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import logging
import os
import threading
from collections.abc import Sequence
from typing import BinaryIO, Final

from ottla.connect.host.codec import MAX_LINE_BYTES, CodecError, decode_order, encode
from ottla.connect.host.logs import log_to_stderr
from ottla.connect.host.messages import Event, Order, Pause, Resume, Start, Stop
from ottla.connect.host.runner import Runner
from ottla.connect.plugins.catalog import Engine

RUNNERS: Final = {
    Engine.PYTHON: "ottla.connect.host.python_runner:PythonRunner",
    Engine.SPARK: "ottla.connect.spark.runner:SparkRunner",
}
BAD_ORDER: Final = 2
"""The exit code after a line that is no order."""
WORKER_GONE: Final = 3

GARBAGE_COLLECTION_THRESHOLD: Final = 50_000
"""Records are many objects and no circles: a batch is gone before the collector looks (a fifth of the time of
a change from PostgreSQL went into looks at every 700 objects)."""

_log = logging.getLogger(__name__)


class EventPipe:
    """Writes events to the worker, whole lines, from any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._turn = threading.Lock()

    def tell(self, event: Event) -> None:
        """Write an event. The process ends where the worker does not take it."""
        line = encode(event)
        try:
            with self._turn:
                self._stream.write(line)
                self._stream.flush()
        except (OSError, ValueError):
            os._exit(WORKER_GONE)


def serve(runner: Runner, orders: BinaryIO) -> int:
    """Give the orders of a stream to the engine, up to its end. Returns the exit code."""
    while line := orders.readline(MAX_LINE_BYTES + 1):
        if not line.endswith(b"\n"):
            # cut off by the end of the worker, or too long
            return BAD_ORDER if len(line) > MAX_LINE_BYTES else 0
        try:
            order = decode_order(line)
        except CodecError as problem:
            _log.error("the worker gave an order that can't be read: %s", problem)
            return BAD_ORDER
        give(runner, order)
    return 0


def give(runner: Runner, order: Order) -> None:
    """Give one order to the engine."""
    match order:
        case Start():
            runner.start(order)
        case Stop(run):
            runner.stop(run)
        case Pause(run):
            runner.pause(run)
        case Resume(run):
            runner.resume(run)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the host up to the end of stdin."""
    parser = argparse.ArgumentParser(prog="ottla.connect.host")
    parser.add_argument("--engine", type=Engine, choices=tuple(Engine), required=True)
    parser.add_argument("--log-level", default="INFO")
    given = parser.parse_args(arguments)
    # What a library prints must not come between the events, and none may read the orders.
    events, orders = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    log_to_stderr(given.log_level)
    module, _, name = RUNNERS[given.engine].partition(":")
    runner: Runner = getattr(importlib.import_module(module), name)(EventPipe(events).tell)
    gc.freeze()
    gc.set_threshold(GARBAGE_COLLECTION_THRESHOLD)
    code = serve(runner, orders)
    # Without a word to threads, clients and Spark: a dead worker's tasks run elsewhere by now.
    os._exit(code)


if __name__ == "__main__":
    main()
