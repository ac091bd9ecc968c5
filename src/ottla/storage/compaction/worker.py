"""The process that cleans logs: `python -m ottla.storage.compaction.worker <pid of its broker>`.

Frames on stdin and stdout: four bytes of length, then JSON. One order at a time, each with one answer:

    {"map": {...a CleaningJob...}}            -> {"end_offset", "keys", "utilization", "stats"}
    {"clean": [[base, size, next offset]…]}   -> a CleanedGroup and {"stats"}
    a failure                                 -> {"problem": its text, "corrupt": bool}

It ends when its stdin does, or when its broker has ended (checked with every piece of file that it reads or
writes). A cleaning is stopped by killing the process: its files are not in use before it is complete.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from ottla.protocol.errors import CorruptBatch
from ottla.storage.compaction.cleaning import Cleaning, CleaningJob, LastRecord, SourceSegment
from ottla.storage.errors import LogCorruption, StorageError
from ottla.storage.transaction_index import AbortedTransaction

LENGTH_BYTES = 4
_CHECK_SECONDS = 0.3
#: Cleaning makes many small tuples and hardly any cycles: the collector need not run every 700 tuples.
GARBAGE_COLLECTION_THRESHOLD = 100_000


class Throttle:
    """Keeps reading and writing within a rate, and ends the process if its broker has ended."""

    def __init__(self, parent: int, bytes_per_second: float) -> None:
        self._parent = parent
        self.bytes_per_second = bytes_per_second
        self._since = time.monotonic()
        self._bytes = 0
        self._unchecked_bytes = 0

    def __call__(self, size_bytes: int) -> None:
        self._bytes += size_bytes
        self._unchecked_bytes += size_bytes
        if self._unchecked_bytes < 1 << 16:
            return
        self._unchecked_bytes = 0
        self._check_parent()
        ahead = self._bytes / self.bytes_per_second - (time.monotonic() - self._since)
        while ahead > 0:
            time.sleep(min(ahead, _CHECK_SECONDS))
            self._check_parent()
            ahead = self._bytes / self.bytes_per_second - (time.monotonic() - self._since)
        if ahead < -_CHECK_SECONDS:  # idle time is not saved up
            self._since, self._bytes = time.monotonic(), 0

    def _check_parent(self) -> None:
        if os.getppid() != self._parent:
            os._exit(0)


def decode_job(order: dict[str, Any]) -> CleaningJob:
    """The job in an order. Raises TypeError for an invalid one."""
    order["directory"] = Path(order["directory"])
    order["identity"] = None if order["identity"] is None else tuple(order["identity"])
    order["dirty"] = [SourceSegment(*each) for each in order["dirty"]]
    order["aborted"] = [AbortedTransaction(*each) for each in order["aborted"]]
    order["producers"] = {each[0]: LastRecord(*each[1:]) for each in order["producers"]}
    return CleaningJob(**order)


def _answer(order: dict[str, Any], cleaning: Cleaning | None, throttle: Throttle) -> tuple[Any, Any]:
    """The cleaning after an order, and the answer."""
    if "map" in order:
        throttle.bytes_per_second = order["bytes_per_second"]
        cleaning = Cleaning(decode_job(order["map"]), throttle)
        end_offset = cleaning.build_map()
        return cleaning, {
            "end_offset": end_offset,
            "keys": cleaning.map_keys,
            "utilization": cleaning.map_utilization,
            "stats": asdict(cleaning.stats),
        }
    assert cleaning is not None, "a cleaning begins with its map"
    done = cleaning.clean([SourceSegment(*each) for each in order["clean"]])
    return cleaning, {**asdict(done), "stats": asdict(cleaning.stats)}


def serve(orders: BinaryIO, answers: BinaryIO, parent: int) -> None:
    """Serve orders until the stream ends."""
    throttle = Throttle(parent, float("inf"))
    cleaning: Cleaning | None = None
    while True:
        length = orders.read(LENGTH_BYTES)
        if len(length) < LENGTH_BYTES:
            return
        order = json.loads(orders.read(int.from_bytes(length, "big")))
        try:
            cleaning, answer = _answer(order, cleaning, throttle)
        except (CorruptBatch, LogCorruption) as problem:
            cleaning, answer = None, {"problem": str(problem), "corrupt": True}
        except (StorageError, OSError) as problem:
            cleaning, answer = None, {"problem": str(problem), "corrupt": False}
        content = json.dumps(answer).encode()
        answers.write(len(content).to_bytes(LENGTH_BYTES, "big") + content)
        answers.flush()


def main() -> None:
    gc.freeze()
    gc.set_threshold(GARBAGE_COLLECTION_THRESHOLD)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the broker's to handle, which ends this process
    niceness = int(sys.argv[2])
    if niceness and hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(niceness)
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]))
    os._exit(0)  # the interpreter would write to the broken pipe once more, and report the error


if __name__ == "__main__":
    main()
