"""One Java worker as a process: its files, its command, its output by lines, its address, its end.

A shell beside it reads a pipe that this process holds, and kills the Java worker when the pipe ends without a
word: so it dies with this process, however that dies. A worker that has ended is said so over the pipe, as
another process may have its id by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.config.java_properties import properties_text
from ottla.connect.java.errors import JavaConnectError
from ottla.connect.java.settings import JavaOptions

LogLine = Callable[[str | None, str], None]
"""Is given each line of a Java worker's output, with the connector that it is about, if it is about one."""

STOP_SECONDS: Final = 20.0
"""For tasks to flush and commit after SIGTERM, before SIGKILL."""
LAST_LINES: Final = 200
MAX_LINE_BYTES: Final = 64 * 1024
_MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_TIED: Final = """
exec 3<&0 </dev/null
( read -r word || kill -9 $$ ) <&3 3<&- >/dev/null 2>&1 &
exec 3<&-
exec "$@"
"""
_LISTENING: Final = re.compile(r"REST server listening at (http://\S+?)/?[,\s]")
_OF_CONNECTOR: Final = re.compile(r"\[([^\]|]+)(?:\|[^\]]*)?\] ")
_BEGINS: Final = re.compile(r"(?:\[[^\]]*\] )?(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ")
_PROBLEM: Final = re.compile(r"ERROR |Exception|Error\b")
_LOG4J: Final = """
status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%X{connector.context}%p %d{yyyy-MM-dd HH:mm:ss,SSS} %m (%c{1})%n
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
logger.reflections.name=org.reflections
logger.reflections.level=ERROR
"""
_JAAS: Final = """
KafkaConnect {
  org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
  file="%s";
};
"""


class JavaWorkerProcess:
    """A Java worker that was started, and has not been ended yet."""

    def __init__(
        self, directory: Path, process: asyncio.subprocess.Process, held: int, log_line: LogLine
    ) -> None:
        """held: the file descriptor of the pipe's end that this process holds."""
        self._directory = directory
        self._process = process
        self._held: int | None = held
        self._log_line = log_line
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._connector: str | None = None
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._output = asyncio.create_task(self._read_output(), name="output of the Java worker")

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @classmethod
    async def start(
        cls, options: JavaOptions, java: Path, jars: Sequence[Path], log_line: LogLine
    ) -> JavaWorkerProcess:
        """Start a Java worker. Raises JavaConnectError."""
        try:
            directory = Path(tempfile.mkdtemp(prefix="ottla-connect-java-"))  # for its owner alone
        except OSError as problem:
            raise JavaConnectError(f"the Java worker's files can't be written: {problem}") from problem
        # Not asyncio's own pipe, which it closes when the process has ended.
        theirs, held = os.pipe()
        try:
            command = _command(options, java, jars, directory)
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=theirs,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,  # a signal to the process group is for this process, which stops it
            )
        except BaseException as problem:
            os.close(held)
            shutil.rmtree(directory, ignore_errors=True)
            if isinstance(problem, OSError):
                raise JavaConnectError(f"the Java worker can't be started: {problem}") from problem
            raise
        finally:
            os.close(theirs)
        return cls(directory, process, held, log_line)

    async def address(self) -> str:
        """The address of its REST API, once it listens. Raises JavaConnectError if it ends before."""
        ended = asyncio.ensure_future(self._process.wait())
        either: list[asyncio.Future[Any]] = [self._address, ended]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
        if self._address.done():
            return self._address.result()
        raise JavaConnectError(await self.failure())

    async def ended(self) -> int:
        """Wait until the process has ended; its exit code, negative for a signal."""
        return await self._process.wait()

    async def failure(self) -> str:
        """Why an ended process did so; with its last line about a problem, where it was not killed."""
        code = await self._process.wait()
        # The rest of its output is in the pipe; a child of a plugin may hold that open for ever.
        await asyncio.wait([self._output], timeout=1.0)
        if code < 0:
            return f"the Java worker was killed by {signal.Signals(-code).name}"
        problems = [line for line in self._last if _PROBLEM.search(line) and not line.startswith("\tat ")]
        told = problems[-1] if problems else (self._last[-1] if self._last else "it has written nothing")
        return f"the Java worker ended with {code}: {told.strip()}"

    async def stop(self, seconds: float = STOP_SECONDS) -> None:
        """End it: SIGTERM, and SIGKILL after some seconds. Safe to call twice."""
        if self._process.returncode is None and seconds > 0:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._process.wait()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._held is not None:
            with contextlib.suppress(OSError):  # the shell beside it may be gone as well
                os.write(self._held, b"ended\n")
            os.close(self._held)
            self._held = None
        await asyncio.wait([self._output], timeout=1.0)
        self._output.cancel()
        shutil.rmtree(self._directory, ignore_errors=True)

    async def _read_output(self) -> None:
        assert self._process.stdout is not None
        kept = b""
        while chunk := await self._process.stdout.read(MAX_LINE_BYTES):
            *lines, kept = (kept + chunk).split(b"\n")
            if len(kept) > MAX_LINE_BYTES:
                lines, kept = [*lines, kept], b""
            for line in lines:
                self._take(line[:MAX_LINE_BYTES].decode(errors="replace").rstrip("\r"))
        if kept:
            self._take(kept.decode(errors="replace"))

    def _take(self, line: str) -> None:
        self._last.append(line)
        if _BEGINS.match(line):  # other lines go on with the one before them: a trace, say
            about = _OF_CONNECTOR.match(line)
            self._connector = about[1] if about else None
        listening = _LISTENING.search(line)
        if listening and not self._address.done():
            self._address.set_result(listening[1])
        self._log_line(self._connector, line)


def _command(options: JavaOptions, java: Path, jars: Sequence[Path], directory: Path) -> list[str]:
    worker, log4j, jaas, users = (
        directory / name for name in ("worker.properties", "log4j2.properties", "jaas.conf", "users")
    )
    worker.write_text(properties_text(options.properties), encoding="utf-8")
    log4j.write_text(_LOG4J, encoding="utf-8")
    users.write_text(properties_text({options.user: options.password}), encoding="utf-8")
    jaas.write_text(_JAAS % str(users).replace("\\", "\\\\"), encoding="utf-8")
    system = {
        "log4j2.configurationFile": log4j.as_uri(),
        "java.security.auth.login.config": str(jaas),
        "java.awt.headless": "true",
        **options.system,
    }
    tied = () if sys.platform == "win32" else ("/bin/sh", "-c", _TIED, "sh")
    return [
        *tied,
        str(java),
        f"-Xmx{options.heap}",
        "-XX:+ExitOnOutOfMemoryError",
        "-Xshare:auto",
        *(f"-D{name}={text}" for name, text in system.items()),
        "-cp",
        os.pathsep.join(map(str, jars)),
        _MAIN,
        str(worker),
    ]
