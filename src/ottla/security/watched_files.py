"""A value that is made of files and made again when they change, without a restart.

Files are looked at, not subscribed to: a certificate of Kubernetes changes by a link two directories above.
What can't be read (a certificate whose key is not there yet) leaves the value as it was, and is told once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

T = TypeVar("T")

WATCH_SECONDS: Final = 2.0
"""How often files are looked at."""
log = logging.getLogger("ottla.security")

Signs = tuple[tuple[int, int, int] | None, ...]


class WatchedFiles(Generic[T]):
    """The value of `make`, which reads these files and raises ValueError for what it can't use.

    name: the value's, for the log. Any thread may `refresh`, one at a time.
    """

    def __init__(self, name: str, paths: Sequence[Path], make: Callable[[], T]) -> None:
        """Raises the ValueError of `make`."""
        self._name = name
        self._paths = paths
        self._make = make
        self._seen = file_signs(paths)
        self._told = ""
        self._failed = False
        self.value: T = make()

    def refresh(self) -> bool:
        """Make the value again if a file has changed, or the last attempt failed; whether it is a new one."""
        signs = file_signs(self._paths)
        if signs == self._seen and not self._failed:
            return False
        # Taken before the files are read: a change meanwhile is seen the next time.
        self._seen = signs
        try:
            value = self._make()
        except ValueError as problem:
            self._failed = True
            if str(problem) != self._told:
                self._told = str(problem)
                log.error("%s has changed and can't be used, the former one stays: %s", self._name, problem)
            return False
        self.value, self._failed, self._told = value, False, ""
        log.info("%s has changed and is used from now on", self._name)
        return True


def file_signs(paths: Sequence[Path]) -> Signs:
    """What changes with each file: time, size and inode. None for one that is not there."""
    return tuple(_sign(path) for path in paths)


def _sign(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
