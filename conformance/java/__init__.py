"""Java programs of the conformance suites: their jars, and classes made of their sources at run time.

The sources beside this file are compiled by the Eclipse compiler, one jar that runs on a plain runtime,
against the version of Kafka's jars that they will run with.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from conformance.suite import SuiteError
from ottla.pipeline.spark.java_runtime import JavaError
from ottla.pipeline.spark.maven import MavenError, fetch_jars
from support.java.java_tools import TOOL_FLAGS, jars_of, java_command, kafka_classpath

SOURCES = Path(__file__).parent
COMPILER_LOCK = SOURCES / "compiler.jars.lock"
CLIENTS_39_LOCK = SOURCES / "kafka-clients-3.9.2.jars.lock"
COMPILER = "org.eclipse.jdt.internal.compiler.batch.Main"
COMPILE_TIMEOUT_S = 120


@functools.cache
def class_path(lock: Path | None = None) -> str:
    """The class path of a lock's jars, of Apache Kafka's server and tools without one. Raises SuiteError."""
    try:
        if lock is None:
            return kafka_classpath()
        return os.pathsep.join(str(path) for path in fetch_jars(jars_of(lock)))
    except (MavenError, JavaError) as problem:
        raise SuiteError(str(problem)) from problem


def compiled(sources: Sequence[str], jars: str, directory: Path) -> str:
    """Compile programs into a directory; the class path to run them with. Raises SuiteError."""
    directory.mkdir(parents=True, exist_ok=True)
    command = java_command(
        COMPILER,
        *("-17", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", str(directory), "-classpath", jars),
        *(str(SOURCES / source) for source in sources),
        flags=TOOL_FLAGS,
        class_path=class_path(COMPILER_LOCK),
    )
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise SuiteError(f"{', '.join(sources)} not compiled: {problem}") from problem
    if run.returncode != 0:
        raise SuiteError(f"{', '.join(sources)} not compiled: {run.stdout}{run.stderr}")
    return os.pathsep.join((str(directory), jars))
