"""A process that dies at any of its file operations: the disk has the results of those before."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.exploration import DEEP

Report = Callable[[str, object], None]

FILE_OPERATIONS = ("write", "pwrite", "replace", "rename", "truncate", "ftruncate", "unlink", "mkdir", "open")
COPIED = "copied at operation"


def run_until_killed(
    life: Callable[[Path, Report], None], root: Path, kill_at: int
) -> tuple[bool, list[tuple[str, Any]]]:
    """Run `life` in a child that dies at its file operation number `kill_at`, a write half done.

    Returns whether it died before its end, and what it reported: (what, detail) as JSON brings it back.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            real_write = os.write
            counted = 0

            def dying(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
                def operation(*arguments: Any, **options: Any) -> Any:
                    nonlocal counted
                    counted += 1
                    if counted == kill_at:
                        if name in ("write", "pwrite"):
                            real(arguments[0], arguments[1][: len(arguments[1]) // 2], *arguments[2:])
                        os.kill(os.getpid(), signal.SIGKILL)
                    return real(*arguments, **options)

                return operation

            for name in FILE_OPERATIONS:
                setattr(os, name, dying(name, getattr(os, name)))

            def report(what: str, detail: object) -> None:
                real_write(write_end, f"{json.dumps([what, detail])}\n".encode())

            life(root, report)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        reports = [tuple(json.loads(line)) for line in pipe]
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed by itself"
    return os.WIFSIGNALED(status), reports


@dataclass(frozen=True, slots=True)
class Killed:
    """The files of a process that was killed at one of its file operations, and its reports until then.

    died: False for the last one alone, which lived to its end.
    """

    operation: int
    root: Path
    reports: list[tuple[str, Any]]
    died: bool = True


def killed_everywhere(
    life: Callable[[Path, Report], None],
    directory: Path,
    *,
    first: int = 1,
    stride: int = 1,
    before: Path | None = None,
) -> Iterator[Killed]:
    """The files that a kill at each `stride`-th file operation of `life` leaves, from operation `first`.

    before: the files that each life begins with. A deep exploration kills a process for each operation. Else
    one process lives to its end and copies its files at each operation: what a killed process wrote stays in
    the page cache, so the copy is what its kill would have left (test_kill_points.py compares the two).
    """
    directory.mkdir(parents=True, exist_ok=True)
    if DEEP:
        yield from _by_kills(life, directory, first, stride, before)
    else:
        yield from _by_copies(life, directory, first, stride, before)


def _by_kills(
    life: Callable[[Path, Report], None], directory: Path, first: int, stride: int, before: Path | None
) -> Iterator[Killed]:
    died, operation = True, first
    while died:
        root = directory / str(operation)
        if before is not None:
            shutil.copytree(before, root)
        died, reports = run_until_killed(life, root, operation)
        yield Killed(operation, root, reports, died)
        operation += stride


def _by_copies(
    life: Callable[[Path, Report], None], directory: Path, first: int, stride: int, before: Path | None
) -> Iterator[Killed]:
    whole = directory / "whole"
    if before is not None:
        shutil.copytree(before, whole)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _live_and_copy(life, whole, directory, write_end, first, stride)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write_end)
    reports: list[tuple[str, Any]] = []
    copied: list[Killed] = []
    operation = first - stride
    with os.fdopen(read_end) as pipe:
        for line in pipe:
            what, detail = json.loads(line)
            if what != COPIED:
                reports.append((what, detail))
                continue
            operation = detail
            copied.append(Killed(operation, directory / str(operation), list(reports)))
    _, status = os.waitpid(child, 0)
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, "the child failed by itself"
    yield from copied
    last = directory / str(operation + stride)
    whole.rename(last)
    yield Killed(operation + stride, last, reports, died=False)


def _live_and_copy(
    life: Callable[[Path, Report], None], root: Path, directory: Path, pipe: int, first: int, stride: int
) -> None:
    """Run `life` to its end, with a copy of its files at each operation that a kill is to be seen at."""
    real_write = os.write
    counted, copying = 0, False

    def tell(what: str, detail: object) -> None:
        real_write(pipe, f"{json.dumps([what, detail])}\n".encode())

    def copied(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **options: Any) -> Any:
            nonlocal counted, copying
            if copying:
                return real(*arguments, **options)
            counted += 1
            if counted < first or (counted - first) % stride:
                return real(*arguments, **options)
            done = 0
            if name in ("write", "pwrite"):
                half = arguments[1][: len(arguments[1]) // 2]
                done = real(arguments[0], half, *arguments[2:])
            copying = True
            if root.exists():
                shutil.copytree(root, directory / str(counted))
            copying = False
            tell(COPIED, counted)
            if name == "write":
                return done + real(arguments[0], arguments[1][done:])
            return real(*arguments, **options)

        return operation

    for name in FILE_OPERATIONS:
        setattr(os, name, copied(name, getattr(os, name)))
    life(root, tell)
