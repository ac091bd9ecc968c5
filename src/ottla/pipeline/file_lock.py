"""A lock between processes that the operating system releases when its holder dies, however it dies."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

POLL_SECONDS = 0.05


class FileLock:
    """An exclusive lock named by a file. The file stays; the lock ends with the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def acquire(self, timeout_seconds: float = 0.0) -> bool:
        """Take the lock, waiting up to `timeout_seconds` for another holder. False if that one still has it.

        Raises OSError when the file cannot be made.
        """
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + timeout_seconds
        while not _try_lock(handle):
            if time.monotonic() >= deadline:
                os.close(handle)
                return False
            time.sleep(POLL_SECONDS)
        self._handle = handle
        return True

    def release(self) -> None:
        """Release the lock. Safe to call twice."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
