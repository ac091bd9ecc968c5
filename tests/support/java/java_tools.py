"""Apache Kafka's Java programs on a machine that has only Python: the server of 4.4.0, the tools of 4.3.1.

kafka-tools 4.4.0 does not resolve in Maven, so the command-line programs, and Kafka Streams, are those of
4.3.1 with a class path of their own. The jars are named with their hashes in `kafka-4.4.0.jars.lock` and
`kafka-4.3.1.jars.lock`, fetched once by `ottla.pipeline.spark.maven` into the user's cache, and run by the
Java that `ottla.pipeline.spark.java_runtime` finds (the machine's own, else the bundled one;
OTTLA_JAVA=bundled forces that).
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ottla.pipeline.spark.cache import cache_directory
from ottla.pipeline.spark.java_runtime import find_java
from ottla.pipeline.spark.maven import Jar, fetch_jars
from support.java.tool_driver import ToolDriver, ToolRun

KAFKA_VERSION = "4.4.0"
TOOLS_VERSION = "4.3.1"
JAR_LOCK = Path(__file__).with_name(f"kafka-{KAFKA_VERSION}.jars.lock")
TOOLS_LOCK = Path(__file__).with_name(f"kafka-{TOOLS_VERSION}.jars.lock")
TOOL_DRIVER = Path(__file__).with_name("ToolDriver.java")
COMPILER_LOCK = Path(__file__).with_name("compiler.jars.lock")
COMPILER = "org.eclipse.jdt.internal.compiler.batch.Main"
COMPILE_TIMEOUT_S = 120

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
    """The class path of Apache Kafka's server and clients; fetches what is missing (about 45 MB, once)."""
    return os.pathsep.join(str(path) for path in fetch_jars(jars_of(JAR_LOCK)))


@functools.cache
def tools_classpath() -> str:
    """The class path of Apache Kafka's tools; fetches what is missing (about 45 MB, once)."""
    return os.pathsep.join(str(path) for path in fetch_jars(jars_of(TOOLS_LOCK)))


@functools.cache
def java_executable() -> Path:
    return find_java().executable


def java_command(
    main_class: str, *arguments: str, flags: Sequence[str] = TOOL_FLAGS, class_path: str | None = None
) -> list[str]:
    """The command line that runs `main_class`; `class_path` replaces that of Kafka's tools."""
    path = class_path if class_path is not None else tools_classpath()
    return [str(java_executable()), *flags, *LOG_FLAGS, "-cp", path, main_class, *arguments]


class CompileError(Exception):
    """The Java compiler refuses a program; the message has its words."""


def compile_java(sources: Sequence[Path], jars: str, directory: Path) -> str:
    """Compile programs into `directory`; the class path to run them with. Raises CompileError, OSError.

    The Eclipse compiler does it, one jar that runs on a Java runtime without a compiler of its own.
    """
    directory.mkdir(parents=True, exist_ok=True)
    options = ("-17", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", str(directory), "-classpath", jars)
    compiler = os.pathsep.join(str(path) for path in fetch_jars(jars_of(COMPILER_LOCK)))
    command = java_command(COMPILER, *options, *map(str, sources), class_path=compiler)
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as slow:
        raise CompileError(str(slow)) from slow
    if run.returncode != 0:
        raise CompileError(f"{run.stdout}{run.stderr}")
    return os.pathsep.join((str(directory), jars))


_tools_turn = threading.Lock()


def run_java(
    main_class: str,
    *arguments: str,
    input: str = "",
    timeout_s: float = 60,
    alone: bool = False,
    class_path: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools to its end, in the Java virtual machine that this process keeps for them.

    class_path: of another version of Kafka, which runs in a virtual machine of its own.

    alone: in a virtual machine of its own, as a tool needs that prints when its virtual machine ends; a tool
    gets one as well while another thread runs a tool. Never raises for an exit code: the caller looks at
    `returncode`. Raises subprocess.TimeoutExpired.
    """
    if class_path is not None:
        own = ToolDriver(lambda main, words: java_command(main, *words, class_path=class_path))
        return _completed(
            own.run_alone(main_class, *arguments, stdin=input, timeout_s=timeout_s),
            [main_class, *arguments],
            timeout_s,
        )
    driver = _tool_driver()
    if not alone and _tools_turn.acquire(blocking=False):
        try:
            run = driver.run(main_class, *arguments, stdin=input, timeout_s=timeout_s)
            if run.code is None:
                driver.close()  # the tool still runs in it
        finally:
            _tools_turn.release()
    else:
        run = driver.run_alone(main_class, *arguments, stdin=input, timeout_s=timeout_s)
    return _completed(run, [main_class, *arguments], timeout_s)


def _completed(run: ToolRun, command: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    if run.code is None:
        raise subprocess.TimeoutExpired(command, timeout_s, run.out, run.err)
    return subprocess.CompletedProcess(command, run.code, run.out, run.err)


@functools.cache
def _tool_driver() -> ToolDriver:
    class_path = os.pathsep.join((str(_driver_classes()), tools_classpath()))
    driver = ToolDriver(lambda main_class, words: java_command(main_class, *words, class_path=class_path))
    atexit.register(driver.close)
    return driver


def _driver_classes() -> Path:
    """The directory with the driver's class, compiled once for each version of its source."""
    version = hashlib.sha256(TOOL_DRIVER.read_bytes()).hexdigest()[:16]
    directory = cache_directory() / "tests" / f"tool-driver-{version}"
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=directory.parent))
        compile_java([TOOL_DRIVER], tools_classpath(), fresh)
        try:
            fresh.rename(directory)
        except OSError:  # another process was first
            shutil.rmtree(fresh)
    return directory


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
