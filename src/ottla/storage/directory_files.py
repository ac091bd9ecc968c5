"""The files of one partition's directory, reached by name, for as long as the partition exists.

A topic that is deleted and created again has the same paths: work on the old log by path (a flush in a
thread, retention, a search, a cleaning in another process) would reach the files of the new one. So all work
on a log's files uses this object, which ends with the log:

    in the broker's process     an operation takes the lock and the directory's name as of that moment. `end`
                                renames the directory under the same lock, so each operation happens before
                                the rename or is refused with PartitionDeleted, and none goes to another
                                directory of the old name. No operation is waited for.
    in another process          `pinned` holds a descriptor of the directory, which follows its rename, and
                                checks that it is the directory in question.

Opening never makes a file; `create` and `append` do, and only the log's owner calls them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path

from ottla.storage.errors import PartitionDeleted, StorageError
from ottla.storage.files import (
    APPEND_FLAGS,
    CREATE_FLAGS,
    READ_ONLY,
    READ_WRITE,
    FileHandle,
    sync_directory,
)

DirectoryIdentity = tuple[int, int]
"""Device and inode of a directory, which stay when it is renamed and which no other directory has."""

CAN_PIN = {os.open, os.stat, os.unlink, os.rename} <= os.supports_dir_fd and os.listdir in os.supports_fd
"""Whether the platform has operations relative to an open directory."""


class DirectoryFiles:
    """The files in the directory `path`. Safe in any thread."""

    __slots__ = ("_ended", "_fd", "_lock", "_path", "_pin")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._ended = False
        self._pin: FileHandle | None = None
        self._fd: int | None = None

    @classmethod
    def pinned(cls, path: Path, identity: DirectoryIdentity | None) -> DirectoryFiles:
        """The files for a process other than the one that may rename the directory.

        Raises StorageError if `path` is no longer the directory with this identity. On a platform that can't
        open directories (Windows) only this check is done; there a directory with an open file can't be
        renamed.
        """
        files = cls(path)
        if CAN_PIN:
            files._pin = FileHandle(str(path), READ_ONLY)
            files._fd = files._pin.fd
        if identity is not None and files.identity() != identity:
            raise StorageError(f"{path} is not the partition's directory any more")
        return files

    # --- the directory itself -------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The present path of the directory."""
        return self._path

    @property
    def ended(self) -> bool:
        """Whether the partition was deleted."""
        return self._ended

    def identity(self) -> DirectoryIdentity:
        """Device and inode of the directory."""
        with self._lock:
            status = os.stat(self._path) if self._fd is None else os.fstat(self._fd)
        return status.st_dev, status.st_ino

    def end(self, target: Path) -> bool:
        """Rename the directory of the deleted partition to `target`, and refuse every later operation.

        False if the directory was gone already.
        """
        with self._lock:
            self._ended = True
            try:
                os.replace(self._path, target)
            except FileNotFoundError:
                return False
            self._path = target
            return True

    def names(self) -> list[str]:
        """The names of the directory's entries."""
        with self._lock:
            self.refuse_if_ended()
            return os.listdir(self._path if self._fd is None else self._fd)

    def sync(self, *, parent: bool = False) -> None:
        """Sync the names in the directory; with `parent` the directory's own name too."""
        with self._lock:
            self.refuse_if_ended()
            path = self._path
        try:
            if self._fd is not None:
                os.fsync(self._fd)
            else:
                sync_directory(path)
        except FileNotFoundError:
            self.refuse_if_ended()  # renamed since
            raise
        if parent:
            sync_directory(path.parent)

    # --- files ----------------------------------------------------------------------------------------

    def _place(self, name: str) -> str:
        """A file's path for system calls: a whole path, or relative to the pinned directory.

        The caller holds the lock until the call is done. Raises PartitionDeleted.
        """
        self.refuse_if_ended()
        return f"{self._path}{os.sep}{name}" if self._fd is None else name

    def refuse_if_ended(self) -> None:
        """Raise PartitionDeleted if the partition was deleted."""
        if self._ended:
            raise PartitionDeleted(errno.ENOENT, "the partition was deleted", str(self._path))

    def open(self, name: str, *, writable: bool = True) -> FileHandle:
        """Open an existing file. Raises FileNotFoundError, PartitionDeleted."""
        with self._lock:
            return self._open(name, READ_WRITE if writable else READ_ONLY)

    def create(self, name: str) -> FileHandle:
        """Make a new, empty file. An existing one is used if it is empty: a full disk may have left it.

        Raises StorageError if it has content, because that could be needed.
        """
        with self._lock:
            handle = self._open(name, CREATE_FLAGS)
            size_bytes = os.fstat(handle.fd).st_size
        if size_bytes:
            raise StorageError(
                f"{self._path / name} has {size_bytes} bytes where a new file was to be made: move it away"
            )
        return handle

    def overwrite(self, name: str) -> FileHandle:
        """Make an empty file, in the place of an existing one."""
        with self._lock:
            return self._open(name, CREATE_FLAGS | os.O_TRUNC)

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Open or make a file, append, close: for the small files beside a segment,
        which keep no descriptor.
        """
        with self._lock:
            handle = self._open(name, APPEND_FLAGS)
        handle.append(data)

    def replace(self, name: str, data: bytes, *, sync: bool) -> None:
        """Write `data` beside the file, then rename it over: a reader sees the old or the new, whole.

        With `sync` bytes and name are on the disk when this returns. A full disk keeps no part of it. One
        writer of a file at a time.
        """
        temporary = f"{name}.tmp"
        handle = self.overwrite(temporary)
        try:
            handle.append(data)
            if sync:
                handle.sync_all()
            self.rename(temporary, name)
        except OSError:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise
        if sync:
            self.sync()

    def rename(self, source: str, target: str) -> None:
        """Rename a file over another one. Raises FileNotFoundError, PartitionDeleted."""
        with self._lock:
            os.replace(self._place(source), self._place(target), src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with self._lock, contextlib.suppress(FileNotFoundError):
            os.unlink(self._place(name), dir_fd=self._fd)

    def truncate(self, name: str, size_bytes: int) -> None:
        """Shorten an existing file."""
        handle = self.open(name)  # kept until the call is done: a handle closes with its last reference
        os.ftruncate(handle.fd, size_bytes)

    def sync_file(self, name: str) -> None:
        """fsync an existing file."""
        self.open(name).sync_all()

    def status(self, name: str) -> os.stat_result:
        """Size and times of a file. Raises FileNotFoundError, PartitionDeleted."""
        with self._lock:
            return os.stat(self._place(name), dir_fd=self._fd)

    def exists(self, name: str) -> bool:
        """Whether the file exists. Raises PartitionDeleted."""
        try:
            self.status(name)
        except PartitionDeleted:
            raise
        except FileNotFoundError:
            return False
        return True

    def _open(self, name: str, flags: int) -> FileHandle:
        place = self._place(name)
        if self._fd is None:
            return FileHandle(place, flags)
        path = f"{self._path}{os.sep}{name}"  # what errors are to say: the name alone may be in any directory
        try:
            handle = FileHandle(place, flags, directory_fd=self._fd)
        except OSError as error:
            error.filename = path
            raise
        handle.path = path
        return handle
