"""The source of the process's own metrics, by the names that Prometheus' client libraries give them."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

from ottla import __version__
from ottla.metrics.exposition import Family, Source, single
from ottla.metrics.tables import process as table

_STARTED_SECONDS = time.time()


def process_source(program: str) -> Source:
    """The source of the metrics of this process. program: as `ottla broker`."""

    def read() -> Iterator[Family | None]:
        yield Family(table.BUILD_INFO, [((program, __version__, platform.python_version()), 1)])
        yield single(table.CPU_SECONDS, time.process_time())
        pages = _memory_pages()
        if pages is not None:
            size = os.sysconf("SC_PAGE_SIZE")
            yield single(table.VIRTUAL_MEMORY, pages[0] * size)
            yield single(table.RESIDENT_MEMORY, pages[1] * size)
        yield single(table.START_TIME, _STARTED_SECONDS)
        descriptors = _open_descriptors()
        if descriptors is not None:
            yield single(table.OPEN_DESCRIPTORS, descriptors)
        most = _most_descriptors()
        if most is not None:
            yield single(table.MOST_DESCRIPTORS, most)
        yield Family(
            table.COLLECTIONS,
            [((number,), stats["collections"]) for number, stats in enumerate(gc.get_stats())],
        )

    return read


def _memory_pages() -> tuple[int, int] | None:
    """Pages of address space and in RAM; None where the system doesn't tell."""
    try:
        fields = Path("/proc/self/statm").read_bytes().split()
    except OSError:
        return None
    return int(fields[0]), int(fields[1])


def _open_descriptors() -> int | None:
    try:
        # Linux 6.2 and later tell the number by the size; ten thousand entries take milliseconds to list.
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
    except OSError:
        return None


def _most_descriptors() -> float | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return float("inf") if soft == resource.RLIM_INFINITY else soft
