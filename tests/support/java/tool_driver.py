"""Runs Kafka's tools one after the other in one Java virtual machine: the client of `ToolDriver.java`.

A tool in a virtual machine of its own costs 0.7 s of processor time, in one that has run it before 0.02 s.
"""

from __future__ import annotations

import base64
import contextlib
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

JavaCommand: TypeAlias = Callable[[str, Sequence[str]], list[str]]
"""Gives the command line that runs a main class with arguments."""

DRIVER = "ToolDriver"
TOOL_TIMEOUT_S = 30.0
DRIVER_SLACK_S = 30.0
"""How much longer than the tool the driver may take: to start, and to run the tool's shutdown hooks."""


class ToolDriverError(Exception):
    """The Java virtual machine for the tools does not run."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    """How one run of a tool ended. code: its exit code, None if it did not end in time."""

    code: int | None
    out: str
    err: str


class ToolDriver:
    """One Java virtual machine that runs tools one after the other. A tool that ends it costs a new one."""

    def __init__(self, java: JavaCommand) -> None:
        self._java = java
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def run(
        self, main_class: str, *arguments: str, stdin: str = "", timeout_s: float = TOOL_TIMEOUT_S
    ) -> ToolRun:
        """Run a tool until it ends or its time is over. Raises ToolDriverError if Java does not run."""
        process = self._started()
        words = [main_class, str(int(timeout_s * 1000)), _encoded(stdin), *map(_encoded, arguments)]
        assert process.stdin is not None
        try:
            process.stdin.write(" ".join(words) + "\n")
            process.stdin.flush()
            answer = self._answers.get(timeout=timeout_s + DRIVER_SLACK_S)
        except queue.Empty:
            self.close()
            return ToolRun(None, "", "the Java virtual machine does not answer")
        except OSError as problem:
            raise ToolDriverError(f"the driver of Kafka's tools has ended: {problem}") from problem
        if not answer:
            return ToolRun(process.wait(), "", "the tool ended the Java virtual machine")
        status, out, err = answer.split(" ")
        return ToolRun(None if status == "timeout" else int(status), _decoded(out), _decoded(err))

    def run_alone(
        self, main_class: str, *arguments: str, stdin: str = "", timeout_s: float = TOOL_TIMEOUT_S
    ) -> ToolRun:
        """As `run`, in a Java virtual machine of its own."""
        command = self._java(main_class, arguments)
        try:
            done = subprocess.run(
                command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as slow:
            return ToolRun(None, _text(slow.stdout), _text(slow.stderr))
        except OSError as problem:
            raise ToolDriverError(f"Java does not start: {problem}") from problem
        return ToolRun(done.returncode, done.stdout, done.stderr)

    def run_until(self, main_class: str, *arguments: str, text: str, timeout_s: float) -> str:
        """Run a tool alone until a line of its output has the text or its time is over; its output."""
        command = self._java(main_class, arguments)
        said: list[str] = []
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        except OSError as problem:
            raise ToolDriverError(f"Java does not start: {problem}") from problem
        guard = threading.Timer(timeout_s, process.kill)
        guard.start()
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                if text in line:
                    break
            guard.cancel()
            process.kill()
        return "".join(said)

    def _started(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        command = self._java(DRIVER, ())
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        except OSError as problem:
            raise ToolDriverError(f"Java does not start: {problem}") from problem
        self._process = process
        self._answers = answers = queue.Queue()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                answers.put(line.rstrip("\n"))
            answers.put("")

        threading.Thread(target=read, daemon=True).start()
        return process

    def close(self) -> None:
        """End the Java virtual machine, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode() or "-"


def _decoded(word: str) -> str:
    return "" if word == "-" else base64.b64decode(word).decode(errors="replace")


@contextmanager
def tool_driver(java: JavaCommand) -> Iterator[ToolDriver]:
    """A driver for the length of the block."""
    driver = ToolDriver(java)
    try:
        yield driver
    finally:
        driver.close()
