"""An `ottla` command in a child process of the demo, which ends with the demo, whatever ends that.

The child is this module run as `python -m ottla.demo.child_process LOCK broker …`: it takes LOCK, starts a
thread that waits for the end of its standard input, and becomes the `ottla` command in the same process. The
demo holds the other end of that pipe and never writes: when the demo dies, even by SIGKILL, the pipe ends and
the thread sends its own process SIGTERM, which stops the command cleanly. So no child outlives its demo, on
any platform, and the lock shows the next demo on the same directory that the former child has ended.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.pipeline.file_lock import FileLock

PREDECESSOR_TIMEOUT_SECONDS = 30.0
ORPHAN_SECONDS = 30.0
"""How long a child may take to stop when its demo has died."""


class ChildProcess:
    """A child, and the file that its output goes to."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self.log = log

    @classmethod
    def start(
        cls,
        words: Sequence[str],
        lock: Path,
        log: Path,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ChildProcess:
        """Start `ottla WORDS…`; by default in this directory and environment. Raises OSError."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "ottla.demo.child_process", str(lock), *words],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={**os.environ, **(environment or {})},
                # Ctrl-C in the terminal is for the demo alone, which stops its children in order.
                start_new_session=True,
            )
        return cls(process, log)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ended(self) -> str | None:
        """How it ended, "with exit code 1" for example; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        return f"by signal {-code}" if code < 0 else f"with exit code {code}"

    def last_line(self) -> str | None:
        """The last line of its output, None where it has written nothing."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else None

    def stop(self, timeout_seconds: float) -> None:
        """End it in order and wait; kill it if it does not end. Safe to call twice."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


def _stop_when_standard_input_ends() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_SECONDS)
    os._exit(1)


def _child(arguments: list[str]) -> None:
    lock = FileLock(Path(arguments[0]))
    if not lock.acquire(PREDECESSOR_TIMEOUT_SECONDS):
        sys.exit(f"another process holds {arguments[0]}")
    threading.Thread(target=_stop_when_standard_input_ends, name="parent-watch", daemon=True).start()
    sys.argv = ["ottla", *arguments[1:]]
    runpy.run_module("ottla", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _child(sys.argv[1:])
