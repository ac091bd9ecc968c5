"""A process that dies at any of its file operations: the disk has the results of those before."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

Report = Callable[[str, object], None]

FILE_OPERATIONS = ("write", "pwrite", "replace", "rename", "truncate", "ftruncate", "unlink", "mkdir", "open")


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
