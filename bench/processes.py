"""The memory and CPU time of a running process and of the whole machine, from Linux's /proc."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """VmRSS of a process and all its descendants; those that end meanwhile have none."""
    found = 0
    for member in process_tree(pid):
        with contextlib.suppress(BenchError, OSError):
            found += _status_kibibytes(member, "VmRSS") * 1024
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of a process (all its threads) and of its living descendants."""
    ticks = 0
    for member in process_tree(pid):
        fields = _stat_fields(member)
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_SECOND


def waiting_seconds(pid: int) -> float:
    """The time that the living threads of a process and of its descendants waited for a processor."""
    nanoseconds = 0
    for member in process_tree(pid):
        for statistics in Path(f"/proc/{member}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # a thread that has ended
                nanoseconds += int(statistics.read_text().split()[1])
    return nanoseconds / 1e9


def process_tree(pid: int) -> list[int]:
    """The process and its living descendants. Raises BenchError when it is gone."""
    if not Path(f"/proc/{pid}").exists():
        raise BenchError(f"process {pid} is gone")
    members, pending = [], [pid]
    while pending:
        member = pending.pop()
        members.append(member)
        for children in Path(f"/proc/{member}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # a thread that has ended
                pending += [int(child) for child in children.read_text().split()]
    return members


def _status_kibibytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise BenchError(f"process {pid} has no {name}")


def _stat_fields(pid: int) -> list[str]:
    # The command's name is in parentheses and may hold spaces: count from the last parenthesis, field 3.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds the machine's processors were busy with anything, and seconds there were in all."""

    busy: float
    total: float


def machine_cpu_times() -> CpuTimes:
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    total = sum(fields)
    idle, waiting = fields[3], fields[4]
    return CpuTimes((total - idle - waiting) / _TICKS_PER_SECOND, total / _TICKS_PER_SECOND)
