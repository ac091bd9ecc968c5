"""The facts of the machine, without which a table of figures has no meaning."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")
MEMORY_INFO = Path("/proc/meminfo")
MOUNTS = Path("/proc/self/mounts")


def machine_facts(data_directory: Path, java_executable: Path) -> dict[str, str]:
    """Name to value, in the order of the report. Two sets of figures compare only when these are equal."""
    return {
        "processor": f"{_processor_name()}, {os.cpu_count()} cores",
        "memory": f"{_memory_gibibytes():.0f} GiB",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "data volume": _file_system(data_directory),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "Java": _java_version(java_executable),
        "confluent-kafka": importlib.metadata.version("confluent-kafka"),
        "uvloop": _version_or_none("uvloop"),
    }


def commit(repository: Path) -> str:
    """The commit that was measured, marked when the sources differ from it."""
    git = ["git", "-C", str(repository)]
    try:
        head = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--", "src"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + (" + changes" if changed.stdout.strip() else "")


def _version_or_none(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor_name() -> str:
    for line in CPU_INFO.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or "unknown"


def _memory_gibibytes() -> float:
    for line in MEMORY_INFO.read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) / (1 << 20)
    return 0.0


def _file_system(directory: Path) -> str:
    """The type of the file system that holds a directory: that of its longest mount point."""
    best_point, best_type = "", "unknown"
    resolved = directory.resolve()
    for line in MOUNTS.read_text().splitlines():
        _, point, kind, *_ = line.split()
        if resolved.is_relative_to(point) and len(point) >= len(best_point):
            best_point, best_type = point, kind
    return best_type


def _java_version(executable: Path) -> str:
    result = subprocess.run([str(executable), "-version"], capture_output=True, text=True, check=True)
    lines = result.stderr.splitlines()
    return lines[1].strip() if len(lines) > 1 else result.stderr.strip()
