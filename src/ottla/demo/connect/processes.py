"""The second act's processes: a worker of Connect and applications of Streams, each ended with the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.config.errors import UserError

STOP_TIMEOUT_SECONDS = 60.0


class ProcessError(UserError):
    """A process of the demo can't be started, or has ended; the message says which."""


class OwnProcess:
    """An `ottla` command in a process of its own, which ends with this one, whatever ends this one."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @classmethod
    def start(
        cls, name: str, words: Sequence[str], directory: Path, environment: Mapping[str, str]
    ) -> OwnProcess:
        """Start `ottla WORDS…` in a directory; its output goes to logs/NAME.log there."""
        log = directory / "logs" / f"{name}.log"
        command = [sys.executable, "-m", "ottla.demo.broker", str(directory / f"{name}.lock"), *words]
        try:
            with log.open("ab") as output:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=directory,
                    env={**os.environ, **environment},
                    start_new_session=True,  # Ctrl-C is for the demo, which stops its processes in order
                )
        except OSError as problem:
            raise ProcessError(f"{name} can't be started: {problem}") from problem
        return cls(name, process, log)

    def failure(self) -> str | None:
        """How the process ended, and its last line; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        said = f": {lines[-1]}" if lines else ""
        return f"{self.name} ended {how}{said} (log: {self._log})"

    def stop(self) -> None:
        """End it in order and wait; kill it if it does not end. Safe to call twice."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
