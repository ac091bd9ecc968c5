"""Stands between a worker and a host process, and kills the host when the worker is gone or frozen.

    python -m ottla.connect.worker.leash COMMAND…

Lines on stdin go on to the command's stdin, but those of the leash itself: `{"type":"lease","ms":9000}` lets
the host live for so long from now on, `{"type":"kill"}` ends it. Before the first lease the host lives until
its worker ends. A worker that is stopped by a debugger, or swapped out, gives no leases: its group takes its
tasks away after a session, and before that its hosts are dead. A host could not see to that itself: its own
threads may be busy. It is killed with all of its children.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Final

LEASE: Final = b'{"type":"lease"'
KILL: Final = b'{"type":"kill"'
MAX_LINE_BYTES: Final = 64 << 20
END_SECONDS: Final = 1.0
"""For a host to end by itself when its worker has gone."""


def lease(valid_ms: int) -> bytes:
    """The line that lets a host live."""
    return LEASE + b',"ms":%d}\n' % valid_ms


def kill() -> bytes:
    """The line that ends a host at once."""
    return KILL + b"}\n"


class Leash:
    """One host."""

    def __init__(self, command: list[str]) -> None:
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self._until: float | None = None
        self._turn = threading.Condition()

    def run(self) -> None:
        """Return when stdin has ended."""
        threading.Thread(target=self._mirror_the_end, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()
        assert self._child.stdin is not None
        while line := sys.stdin.buffer.readline(MAX_LINE_BYTES + 1):
            if line.startswith(LEASE):
                self._renew(json.loads(line)["ms"] / 1000)
            elif line.startswith(KILL):
                self.end()
            else:
                with contextlib.suppress(OSError):  # its end is told by the other thread
                    self._child.stdin.write(line)
                    self._child.stdin.flush()

    def end(self) -> None:
        """Kill the host and its children."""
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._child.pid, signal.SIGKILL)
            else:
                self._child.kill()

    def end_soon(self) -> None:
        """Let the host end by itself, or kill it."""
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            self._child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(END_SECONDS)
        self.end()

    def _renew(self, seconds: float) -> None:
        with self._turn:
            if self._until is not None and time.monotonic() >= self._until:
                self.end()  # too late: it counts as dead
            self._until = time.monotonic() + seconds
            self._turn.notify()

    def _watch(self) -> None:
        with self._turn:
            while self._until is None or time.monotonic() < self._until:
                left = None if self._until is None else max(0.0, self._until - time.monotonic())
                self._turn.wait(left)
        self.end()

    def _mirror_the_end(self) -> None:
        code = self._child.wait()
        self.end()  # children that it has left behind
        os._exit(code if code >= 0 else 128 - code)


def main() -> None:
    """Run the command of the command line on a leash."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the worker stops its hosts in order
    leash = Leash(sys.argv[1:])
    leash.run()
    leash.end_soon()


if __name__ == "__main__":
    main()
