"""A server in a child process: started, stopped, killed, paused; it ends with this process, whatever ends it.

The child reads the pipe that is its stdin. A line `stop` asks for a clean stop; the end of the pipe says that
this process has ended, by kill -9 too, and the child ends as well. A paused child reads nothing, so while it
is paused a shell beside it reads such a pipe, and kills it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from ottla.testing.errors import ServerError

START_TIMEOUT_SECONDS: Final = 60.0
STOP_TIMEOUT_SECONDS: Final = 60.0
TAIL_LINES: Final = 40
TAIL_BYTES: Final = 32 * 1024
STOP_LINE: Final = b"stop\n"
LEFT_LINE: Final = "ottla broker left"
#: Waits for the end of its stdin or a line; at the end it kills the process whose number follows.
GUARD: Final = ("/bin/sh", "-c", 'read -r line || kill -KILL "$0"')


class ServerProcess:
    """The life of one server. `log_path` gets all that its processes write, one after the other."""

    def __init__(self, title: str, words: Sequence[str], ready_prefix: str, log_path: Path) -> None:
        """`words` are the arguments of Python. `ready_prefix` begins the line that says that it serves."""
        self.title = title
        self.log_path = log_path
        self.ready_line = ""
        # -P: a module of the tested project, in the working directory, must not be taken for Python's own.
        self._command = [sys.executable, "-P", *words]
        self._ready_prefix = ready_prefix
        self._process: subprocess.Popen[bytes] | None = None
        self._said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._left = threading.Event()
        self._reader: threading.Thread | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process is there; also while it is paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def paused(self) -> bool:
        """Whether the process is stopped between `pause` and `resume`."""
        return self._guard is not None

    @property
    def pid(self) -> int:
        """The process's number. Raises ServerError when it does not run."""
        return self._running().pid

    # -- start ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process and wait until it serves. Raises ServerError."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start the process: the first step of `start`, for servers that are ready only together."""
        if self.running:
            raise ServerError(f"{self.title} runs already")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._said, self._left = queue.SimpleQueue(), threading.Event()
        log = self.log_path.open("ab", buffering=0)
        try:
            self._process = subprocess.Popen(
                # A session of its own: Ctrl-C is for the tests, which stop the server when they are done.
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        except OSError as problem:
            log.close()
            raise ServerError(f"{self.title} can't be started: {problem}") from problem
        self._reader = threading.Thread(
            target=self._read_output,
            args=(self._process, log, self._said, self._left),
            name=f"output of {self.title}",
            daemon=True,
        )
        self._reader.start()

    def wait_until_ready(self) -> None:
        """Wait until a launched process serves. Raises ServerError, and leaves no process then."""
        try:
            line = self._said.get(timeout=START_TIMEOUT_SECONDS)
        except queue.Empty:
            self.kill()
            raise ServerError(self._with_log(f"is not ready after {START_TIMEOUT_SECONDS:.0f} s")) from None
        if line is None:
            code = self._reap()
            raise ServerError(self._with_log(f"did not start, exit code {code}"))
        self.ready_line = line

    def _read_output(
        self,
        process: subprocess.Popen[bytes],
        log: IO[bytes],
        said: queue.SimpleQueue[str | None],
        left: threading.Event,
    ) -> None:
        assert process.stdout is not None
        with process.stdout, log:
            for line in process.stdout:
                log.write(line)
                text = line.decode(errors="replace").rstrip("\r\n")
                if text.startswith(self._ready_prefix):
                    said.put(text)
                elif text == LEFT_LINE:
                    left.set()
        left.set()
        said.put(None)

    # -- the end ----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop the process cleanly. Raises ServerError, after a kill, when it does not end in time."""
        stop_together([self])

    def kill(self) -> None:
        """kill -9; works on a paused process, too."""
        if self.running:
            self._running().kill()
        self._dismiss_guard()
        if self._process is not None:
            self._reap()

    def ask_to_stop(self) -> None:
        """Tell the process to stop; a broker then leaves its cluster and waits for `let_end`."""
        self.resume()
        stdin = self._running().stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # it has ended meanwhile
            stdin.write(STOP_LINE)
            stdin.flush()

    def wait_until_left(self) -> None:
        """Wait until the broker has left its cluster, or has ended."""
        self._left.wait(STOP_TIMEOUT_SECONDS)

    def let_end(self) -> None:
        """Let a process end that was asked to stop. Raises ServerError, after a kill, if it does not."""
        process = self._process
        assert process is not None and process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerError(self._with_log(f"has not stopped after {STOP_TIMEOUT_SECONDS:.0f} s")) from None
        code = self._reap()
        if code != 0:
            raise ServerError(self._with_log(f"stopped with exit code {code}"))

    def _reap(self) -> int:
        process = self._process
        assert process is not None
        code = process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        if self._reader is not None:
            self._reader.join(STOP_TIMEOUT_SECONDS)
        self._process = self._reader = None
        return code

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise ServerError(f"{self.title} is not running")
        return self._process

    # -- pause ------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """SIGSTOP: the process keeps its connections and does nothing. Raises ServerError on Windows."""
        if not hasattr(signal, "SIGSTOP"):
            raise ServerError("this system has no signal that pauses a process")
        if self._guard is None:
            process = self._running()
            self._guard = subprocess.Popen(
                [*GUARD, str(process.pid)], stdin=subprocess.PIPE, start_new_session=True
            )
            process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: the process goes on; nothing happens to one that is not paused."""
        if self._guard is not None:
            self._dismiss_guard()
            os.kill(self._running().pid, signal.SIGCONT)

    def _dismiss_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            with contextlib.suppress(OSError):  # the guard has been killed
                guard.communicate(b"\n")

    # -- the log ----------------------------------------------------------------------------------------

    def log_size_bytes(self) -> int:
        """The length of the log so far, for `log_text` later."""
        try:
            return self.log_path.stat().st_size
        except FileNotFoundError:
            return 0

    def log_text(self, from_byte: int = 0) -> str:
        """The log from a position on."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(from_byte)
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def log_tail(self) -> str:
        """The last lines of the log."""
        text = self.log_text(max(0, self.log_size_bytes() - TAIL_BYTES))
        return "\n".join(text.splitlines()[-TAIL_LINES:])

    def _with_log(self, problem: str) -> str:
        return f"{self.title} {problem}\n{self.log_tail()}".rstrip()


def stop_together(processes: Sequence[ServerProcess]) -> None:
    """Stop some servers cleanly, brokers of one cluster above all: all leave, then all end.

    Raises ServerError for the first that does not stop; all have ended then, too.
    """
    for process in processes:
        process.ask_to_stop()
    for process in processes:
        process.wait_until_left()
    problems: list[ServerError] = []
    for process in processes:
        try:
            process.let_end()
        except ServerError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]
