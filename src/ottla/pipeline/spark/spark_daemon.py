"""The process that forks Spark's Python workers: PySpark's own, with four changes that make tasks shorter.

**Archives on the path.** A worker calls `importlib.invalidate_caches()` before each task, and since Python
3.10 that reads the table of contents of every archive on the path again. Spark puts three there: its core
jar, which has no Python in it, and PySpark and Py4J as zip files, which an environment with PySpark installed
does not need. They cost each task 0.25 s of processor time (Python 3.11, Spark 4.0): most of the time of a
small batch.

**Acknowledgements.** The JVM sends a task in several small writes. The later ones wait (Nagle's algorithm)
until the first is acknowledged, which Linux delays by 40 ms on a connection that answers now and then. So a
worker acknowledges received bytes at once, and sends its own without delay.

**Imports.** The process that forks imports the modules that nearly every task needs, so that not each
worker does.

**Garbage.** After each task a worker runs the garbage collector over all objects of its modules. Objects that
exist after the first task are left out from then on.

`spark.python.daemon.module` names this module. Nothing else is changed: archives that a user adds by
`spark.submit.pyFiles` stay where they are.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import re
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import PurePath

MODULE = "ottla.pipeline.spark.spark_daemon"
DAEMON_PROPERTY = "spark.python.daemon.module"

# Neither makes a thread or a connection when it is imported, which would not survive a fork.
_IMPORTED = ("pyarrow", "pyarrow.compute", "ottla.pipeline.sink.exactly_once")
_CORE_JAR = re.compile(r"spark-core_[\d.]+-.+\.jar")
_PACKAGES = {"pyspark": re.compile(r"pyspark\.zip"), "py4j": re.compile(r"py4j-.+-src\.zip")}


def without_archives(path: Sequence[str]) -> list[str]:
    """A module path without Spark's archives; an archive stays if its package is not installed."""
    kept = [entry for entry in path if not _CORE_JAR.fullmatch(PurePath(entry).name)]
    for package, archive in _PACKAGES.items():
        others = [entry for entry in kept if not archive.fullmatch(PurePath(entry).name)]
        if importlib.machinery.PathFinder.find_spec(package, others) is not None:
            kept = others
    return kept


class _Worker:
    """Serves one task after the other on a worker's socket; each forked process has one."""

    def __init__(self, serve: Callable[[socket.socket, bool], int]) -> None:
        self._serve = serve

    def __call__(self, connection: socket.socket, authenticated: bool) -> int:
        """Run one task as `pyspark.daemon.worker` does. `authenticated`: not the first on this socket."""
        if connection.family is not socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if sys.platform == "linux":
                # Holds until bytes are sent, so for the bytes that arrive at the beginning of this task.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        code = self._serve(connection, authenticated)
        if not authenticated:
            gc.freeze()
        return code


def main() -> None:
    """Serve Spark until it closes its end of the connection, as `python -m pyspark.daemon` does."""
    sys.path[:] = without_archives(sys.path)
    sys.path_importer_cache.clear()
    # Importing the daemon's module depends on the module path, so it comes after.
    from pyspark import daemon

    for name in _IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    daemon.worker = _Worker(daemon.worker)
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
