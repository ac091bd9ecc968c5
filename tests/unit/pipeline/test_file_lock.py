"""A lock that another process holds, and that ends with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ottla.pipeline.file_lock import FileLock

HOLDER = """
import sys
from pathlib import Path
from ottla.pipeline.file_lock import FileLock
lock = FileLock(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
sys.stdin.read()
"""


def test_one_holder_at_a_time_and_none_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        lock = FileLock(path)

        assert not lock.acquire()
        holder.kill()
        assert lock.acquire(timeout_seconds=30)
        assert not FileLock(path).acquire()
        lock.release()
        assert FileLock(path).acquire()
