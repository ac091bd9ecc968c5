"""The descendants of a process, and whether they have ended (from /proc, so on Linux)."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

PROC = Path("/proc")


def descendants(pid: int) -> dict[int, str]:
    """Every living child, grandchild and so on of a process, with its command line."""
    parents: dict[int, int] = {}
    for entry in PROC.iterdir() if PROC.is_dir() else ():
        if entry.name.isdigit() and (parent := _parent(int(entry.name))) is not None:
            parents[int(entry.name)] = parent
    found: dict[int, str] = {}
    generation = {pid}
    while generation:
        generation = {child for child, parent in parents.items() if parent in generation} - found.keys()
        found |= {child: _command(child) for child in generation}
    return found


def wait_until_gone(processes: dict[int, str], timeout_seconds: float = 60) -> dict[int, str]:
    """Wait for processes to end; returns those that have not."""
    deadline = time.monotonic() + timeout_seconds
    left = {pid: command for pid, command in processes.items() if command}
    while left and time.monotonic() < deadline:
        left = {pid: command for pid, command in left.items() if _command(pid) == command}
        time.sleep(0.05)
    return left


def cleaning_processes(pid: int) -> list[int]:
    """The children of a broker that clean its logs."""
    found = []
    for task in (PROC / str(pid) / "task").iterdir():
        with contextlib.suppress(OSError):  # a thread or a child may end meanwhile
            for child in (task / "children").read_text().split():
                command = (PROC / child / "cmdline").read_bytes()
                found += [int(child)] if b"compaction.worker" in command else []
    return found


def _parent(pid: int) -> int | None:
    try:
        # The name in parentheses may hold any character; the fields after it do not.
        return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _command(pid: int) -> str:
    """The command line, empty for a process that has ended and only waits for its parent to notice."""
    try:
        return (
            (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        )
    except OSError:
        return ""
