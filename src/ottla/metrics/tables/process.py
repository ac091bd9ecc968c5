"""The metrics of a process: processor time, memory, descriptors, the collector. Each process has them."""

from __future__ import annotations

from typing import Final

from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "The process"

BUILD_INFO: Final = Metric(
    "ottla_build_info",
    Kind.GAUGE,
    "Always 1; the labels tell which program this is, in which versions of ottla and Python.",
    ("program", "version", "python"),
)
CPU_SECONDS: Final = Metric(
    "process_cpu_seconds_total",
    Kind.COUNTER,
    "Processor time of the process, in user and system mode.",
    unit=Unit.SECONDS,
    panel=Panel(Dashboard.CLUSTER, "Processes", "Processors in use"),
)
RESIDENT_MEMORY: Final = Metric(
    "process_resident_memory_bytes",
    Kind.GAUGE,
    "Memory of the process in RAM.",
    unit=Unit.BYTES,
    panel=Panel(Dashboard.CLUSTER, "Processes", "Memory"),
)
VIRTUAL_MEMORY: Final = Metric(
    "process_virtual_memory_bytes", Kind.GAUGE, "Address space of the process.", unit=Unit.BYTES
)
START_TIME: Final = Metric(
    "process_start_time_seconds",
    Kind.GAUGE,
    "When the process began, in seconds since 1970. Counters begin with it.",
    unit=Unit.SECONDS,
)
OPEN_DESCRIPTORS: Final = Metric(
    "process_open_fds",
    Kind.GAUGE,
    "Open file descriptors.",
    panel=Panel(Dashboard.CLUSTER, "Processes", "Open file descriptors"),
)
MOST_DESCRIPTORS: Final = Metric(
    "process_max_fds", Kind.GAUGE, "The most file descriptors that the process may have open."
)
COLLECTIONS: Final = Metric(
    "python_gc_collections_total",
    Kind.COUNTER,
    "Runs of Python's garbage collector, by generation.",
    ("generation",),
)

METRICS: Final = metrics_in(globals())
