"""Files by descriptor: positional reads, whole writes, atomic replacement, a bound on open descriptors.

A segment keeps its descriptor only while it is in use. `OpenFiles` counts the open ones and, when there are
too many, makes the segment that was not used for longest drop its handle. A handle closes itself when its
last reference is gone, so a slice of a log that is being sent in a thread keeps its descriptor open even if
the segment has dropped it, or was deleted, in the meantime.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from pathlib import Path
from typing import Protocol

_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
READ_WRITE = os.O_RDWR | _COMMON
READ_ONLY = os.O_RDONLY | _COMMON
CREATE_FLAGS = os.O_RDWR | os.O_CREAT | _COMMON
APPEND_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _COMMON


_sync_data = getattr(os, "fdatasync", os.fsync)


def named(error: OSError, path: str | Path) -> OSError:
    """The error with the file's name, which the system leaves out if a descriptor was used."""
    if error.filename is None:
        error.filename = str(path)
    return error


class FileHandle:
    """An open descriptor that closes when the last reference to it is gone.

    Opening makes no file unless `flags` say so: a missing file that should exist must not be replaced by an
    empty one. With `directory_fd` the path is relative to that directory.
    """

    __slots__ = ("fd", "lock", "path")

    def __init__(self, path: str, flags: int = READ_WRITE, *, directory_fd: int | None = None) -> None:
        self.path = path
        self.fd = -1  # __del__ runs even when open fails
        self.fd = os.open(path, flags, 0o644, dir_fd=directory_fd)
        self.lock = None if hasattr(os, "pread") else threading.Lock()

    def fileno(self) -> int:
        return self.fd

    def read(self, size_bytes: int, position: int) -> bytes:
        """Up to `size_bytes` from `position`: one pread. Shorter only at the end of the file. Thread-safe."""
        if self.lock is None:
            return os.pread(self.fd, size_bytes, position)
        with self.lock:  # without pread and pwrite the descriptor's position is shared
            os.lseek(self.fd, position, os.SEEK_SET)
            return os.read(self.fd, size_bytes)

    def write(self, data: bytes | memoryview, position: int) -> None:
        """Write all of `data` at `position`. After an error part of it may be there: the caller truncates."""
        try:
            # The common case, said here: an append of a request writes once.
            written = os.pwrite(self.fd, data, position) if self.lock is None else self._write(data, position)
            while written < len(data):
                written += self._write(memoryview(data)[written:], position + written)
        except OSError as error:
            raise named(error, self.path) from None

    def _write(self, data: bytes | memoryview, position: int) -> int:
        if self.lock is None:
            return os.pwrite(self.fd, data, position)
        with self.lock:
            os.lseek(self.fd, position, os.SEEK_SET)
            return os.write(self.fd, data)

    def sync(self) -> None:
        """Sync the file's bytes and its size to the disk."""
        try:
            _sync_data(self.fd)
        except OSError as error:
            raise named(error, self.path) from None

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data` at the descriptor's own position."""
        try:
            write_all(self.fd, data)
        except OSError as error:
            raise named(error, self.path) from None

    def sync_all(self) -> None:
        """As `sync`, with the file's times."""
        try:
            os.fsync(self.fd)
        except OSError as error:
            raise named(error, self.path) from None

    def __del__(self) -> None:
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self.fd)


class HandleUser(Protocol):
    """An owner of a handle that can be told to drop it."""

    handle: FileHandle | None
    recently_used: bool


class OpenFiles:
    """Keeps at most about `limit` handles in use at a time (second chance: used ones go round again)."""

    __slots__ = ("_limit", "_lock", "_users")

    def __init__(self, limit: int = 512) -> None:
        self._limit = limit
        self._users: deque[HandleUser] = deque()
        self._lock = threading.Lock()

    def opened(self, user: HandleUser) -> None:
        """`user` has opened its handle; others may have to drop theirs."""
        with self._lock:
            self._users.append(user)
            if len(self._users) <= self._limit:
                return
            for _ in range(2 * len(self._users)):
                candidate = self._users.popleft()
                if candidate.handle is None:
                    pass  # its user has closed it since
                elif candidate.recently_used or candidate is user:
                    candidate.recently_used = False
                    self._users.append(candidate)
                    continue
                else:
                    candidate.handle = None
                if len(self._users) <= self._limit:
                    return


def create_file(path: str) -> FileHandle:
    """Open a file; make it if it does not exist."""
    return FileHandle(path, CREATE_FLAGS)


def open_for_reading(path: str) -> FileHandle:
    return FileHandle(path, READ_ONLY)


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    """Write all of `data` at the descriptor's position."""
    written = os.write(fd, data) if data else 0
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


def sync_directory(path: Path) -> None:
    """fsync a directory, so that names made or removed in it survive a power loss
    (no-op where impossible).
    """
    if os.name == "nt":
        return
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(fd)
    except OSError as error:
        raise named(error, path) from None
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes, *, sync: bool) -> None:
    """Write `data` to `<path>.tmp`, then rename it over `path`: a reader sees the old or the new, whole.

    With `sync` the bytes and the name are on the disk when this returns. A full disk keeps no part of it.
    """
    temporary = f"{path}.tmp"
    fd = os.open(temporary, APPEND_FLAGS | os.O_TRUNC, 0o644)
    try:
        try:
            write_all(fd, data)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise named(error, temporary) from None
    if sync:
        sync_directory(path.parent)
