"""Kafka Streams 4.3.1 applications: Kafka's own smoke test, and a small one of `java/StreamsApp.java`.

The jars beyond Kafka's own are in `kafka-streams-4.3.1.jars.lock`. Programs of tests/support/java are
compiled in memory by the runtime that runs them, so a JRE is enough (see `janino` there).
"""

from __future__ import annotations

import functools
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ottla.pipeline.spark.maven import fetch_jars
from support.java.java_tools import jars_of, java_command, tools_classpath

STREAMS_LOCK = Path(__file__).with_name("kafka-streams-4.3.1.jars.lock")
STREAMS_APP = Path(__file__).parents[1] / "java" / "StreamsApp.java"
SMOKE_TEST = "org.apache.kafka.streams.tests.StreamsSmokeTest"
STREAMS_FLAGS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

SMOKE_TOPICS = (
    "data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw", "sws-suppressed",
    "cnt", "avg", "tagg", "fk",
)  # fmt: skip
SMOKE_PARTITIONS = 5


@functools.cache
def streams_classpath() -> str:
    """The class path of Kafka Streams and its tests; fetches what is missing (about 80 MB, once)."""
    return os.pathsep.join((*(str(path) for path in fetch_jars(jars_of(STREAMS_LOCK))), tools_classpath()))


class StreamsProcess:
    """A Java program whose output is read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.output: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_for(self, text: str, timeout_s: float) -> str:
        """The first line from now on that has `text`. Raises AssertionError with the output so far."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {text!r} within {timeout_s} s: {self.tail()}") from None
            if line is None:
                self._lines.put(None)
                raise AssertionError(f"ended with {self.process.wait()} before {text!r}: {self.tail()}")
            self.output.append(line)
            if text in line:
                return line

    def rest(self) -> list[str]:
        """The rest of its output, once it has ended."""
        while (line := self._lines.get(timeout=60)) is not None:
            self.output.append(line)
        return self.output

    def tail(self) -> str:
        return "\n".join(self.output[-60:])

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


@contextmanager
def streams_process(
    main_class: str,
    *arguments: str,
    class_path: str | None = None,
    flags: Sequence[str] = STREAMS_FLAGS,
    stop_timeout_s: float = 60,
) -> Iterator[StreamsProcess]:
    """A Java program for the length of the block; its standard error goes where its output goes."""
    command = java_command(main_class, *arguments, flags=flags, class_path=class_path or streams_classpath())
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
    )
    try:
        yield StreamsProcess(process)
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(timeout=stop_timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=stop_timeout_s)


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
    return path


@contextmanager
def counting_app(bootstrap: str, directory: Path, **properties: str) -> Iterator[StreamsProcess]:
    """`StreamsApp` for the length of the block, with topics `input` and `output` of the properties.

    Other properties are Kafka Streams' own, with underscores for dots. State is kept in `directory`.
    """
    import pyspark  # its Janino compiles the program

    settings = {name.replace("_", "."): value for name, value in properties.items()}
    topics = settings.pop("input"), settings.pop("output")
    jars = Path(pyspark.__file__).parent / "jars"
    janino = [
        str(path) for pattern in ("janino-*.jar", "commons-compiler-*.jar") for path in jars.glob(pattern)
    ]
    directory.mkdir(exist_ok=True)
    file = write_properties(
        directory / "streams.properties",
        {
            "bootstrap.servers": bootstrap,
            "num.stream.threads": "2",
            "commit.interval.ms": "200",
            "state.dir": str(directory / "state"),
            **settings,
        },
    )
    with streams_process(
        "org.codehaus.janino.SimpleCompiler",
        str(STREAMS_APP),
        "StreamsApp",
        str(file),
        *topics,
        class_path=os.pathsep.join((streams_classpath(), *janino)),
    ) as app:
        yield app


@contextmanager
def smoke_test(bootstrap: str, directory: Path, command: str, **properties: str) -> Iterator[StreamsProcess]:
    """Kafka's StreamsSmokeTest: `process` runs the application, `run` feeds it and verifies the results."""
    settings = {name.replace("_", "."): value for name, value in properties.items()}
    file = write_properties(
        directory / "smoke.properties",
        {
            "bootstrap.servers": bootstrap,
            "num.stream.threads": "3",
            "commit.interval.ms": "1000",
            **settings,
        },
    )
    with streams_process(SMOKE_TEST, str(file), command) as process:
        yield process
