"""The second act's processes: a worker of Connect and applications of Streams, each ended with the demo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.config.errors import UserError
from ottla.demo.child_process import ChildProcess

STOP_TIMEOUT_SECONDS = 60.0


class ProcessError(UserError):
    """A process of the demo can't be started, or has ended; the message says which."""


class OwnProcess:
    """An `ottla` command in a process of its own, which ends with this one, whatever ends this one."""

    def __init__(self, name: str, process: ChildProcess) -> None:
        self._name = name
        self._process = process

    @classmethod
    def start(
        cls, name: str, words: Sequence[str], directory: Path, environment: Mapping[str, str]
    ) -> OwnProcess:
        """Start `ottla WORDS…` in a directory; its output goes to logs/NAME.log there."""
        log = directory / "logs" / f"{name}.log"
        try:
            process = ChildProcess.start(words, directory / f"{name}.lock", log, directory, environment)
        except OSError as problem:
            raise ProcessError(f"{name} can't be started: {problem}") from problem
        return cls(name, process)

    def failure(self) -> str | None:
        """How the process ended, and its last line; None while it runs."""
        how = self._process.ended()
        if how is None:
            return None
        line = self._process.last_line()
        said = "" if line is None else f": {line}"
        return f"{self._name} ended {how}{said} (log: {self._process.log})"

    def stop(self) -> None:
        """End it in order and wait; kill it if it does not end. Safe to call twice."""
        self._process.stop(STOP_TIMEOUT_SECONDS)
