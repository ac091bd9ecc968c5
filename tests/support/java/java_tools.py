"""Apache Kafka 4.3.1's Java programs on a machine that has Python alone.

The jars are named with their hashes in `kafka-4.3.1.jars.lock`, fetched once by `ottla.pipeline.spark.maven`
into the user's cache, and run by the Java that `ottla.pipeline.spark.java_runtime` finds (the machine's own,
else the bundled one; OTTLA_JAVA=bundled forces that).
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ottla.pipeline.spark.java_runtime import find_java
from ottla.pipeline.spark.maven import Jar, fetch_jars

KAFKA_VERSION = "4.3.1"
JAR_LOCK = Path(__file__).with_name(f"kafka-{KAFKA_VERSION}.jars.lock")

# Short-lived programs: start fast, take little memory. Two cores are shared with the broker under test.
TOOL_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# Warnings go to stderr, so that stdout is the program's own words.
LOG_FLAGS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
    "-Dorg.slf4j.simpleLogger.showShortLogName=true",
)


def jars_of(lock: Path) -> list[Jar]:
    """The jars that a lock file names, in its order: `group:artifact:version[:classifier] sha256` a line."""
    jars = []
    for line in lock.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            coordinate, sha256 = line.split()
            group, artifact, version, *classifier = coordinate.split(":")
            jars.append(Jar(group, artifact, version, sha256, classifier="".join(classifier)))
    return jars


@functools.cache
def kafka_classpath() -> str:
    """The class path of Apache Kafka's server and tools; fetches what is missing (about 45 MB, once)."""
    return os.pathsep.join(str(path) for path in fetch_jars(jars_of(JAR_LOCK)))


@functools.cache
def java_executable() -> Path:
    return find_java().executable


def java_command(
    main_class: str, *arguments: str, flags: Sequence[str] = TOOL_FLAGS, class_path: str | None = None
) -> list[str]:
    """The command line that runs `main_class`; `class_path` replaces Kafka's."""
    path = class_path if class_path is not None else kafka_classpath()
    return [str(java_executable()), *flags, *LOG_FLAGS, "-cp", path, main_class, *arguments]


def run_java(
    main_class: str,
    *arguments: str,
    input: str | None = None,
    timeout_s: float = 60,
    flags: Sequence[str] = TOOL_FLAGS,
) -> subprocess.CompletedProcess[str]:
    """Run a Java program to its end. Never raises for its exit code: the caller looks at `returncode`."""
    return subprocess.run(
        java_command(main_class, *arguments, flags=flags),
        input=input if input is not None else "",
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@contextmanager
def java_process(
    main_class: str, *arguments: str, flags: Sequence[str] = TOOL_FLAGS, stop_timeout_s: float = 15
) -> Iterator[subprocess.Popen[str]]:
    """A Java program that runs while the block does: stdin and stdout are pipes, stderr is the test's own.

    At the end of the block it gets SIGTERM, and SIGKILL if it has not ended by `stop_timeout_s`.
    """
    process = subprocess.Popen(
        java_command(main_class, *arguments, flags=flags),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.communicate(timeout=stop_timeout_s)
        except (subprocess.TimeoutExpired, ValueError):
            process.kill()
            process.wait(timeout=stop_timeout_s)
