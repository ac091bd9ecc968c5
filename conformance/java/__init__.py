"""Java programs of the conformance suites: their jars, and classes made of their sources at run time.

The sources beside this file are compiled against the version of Kafka's jars that they will run with.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path

from conformance.suite import SuiteError
from ottla.pipeline.spark.java_runtime import JavaError
from ottla.pipeline.spark.maven import MavenError, fetch_jars
from support.java.java_tools import CompileError, compile_java, jars_of, kafka_classpath

SOURCES = Path(__file__).parent
CLIENTS_39_LOCK = SOURCES / "kafka-clients-3.9.2.jars.lock"


@functools.cache
def class_path(lock: Path | None = None) -> str:
    """The class path of a lock's jars; without one, that of Kafka's server and clients. Raises SuiteError."""
    try:
        if lock is None:
            return kafka_classpath()
        return os.pathsep.join(str(path) for path in fetch_jars(jars_of(lock)))
    except (MavenError, JavaError) as problem:
        raise SuiteError(str(problem)) from problem


def compiled(sources: Sequence[str], jars: str, directory: Path) -> str:
    """Compile programs into a directory; the class path to run them with. Raises SuiteError."""
    try:
        return compile_java([SOURCES / source for source in sources], jars, directory)
    except (CompileError, MavenError, OSError) as problem:
        raise SuiteError(f"{', '.join(sources)} not compiled: {problem}") from problem
