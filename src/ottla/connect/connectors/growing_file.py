"""The lines of a file that grows, is rotated or truncated while it is read."""

from __future__ import annotations

import logging
import os
import re
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

CHUNK_BYTES: Final = 1 << 20
MAX_LINE_BYTES: Final = 64 << 20
MAX_SIBLINGS: Final = 10_000
"""The most files of a directory that are looked at for the one that a path had before."""

_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")
# A \r at the very end may be half of a \r\n: it ends a line only where no more will come.
_LAST_LINE_END: Final = re.compile(rb"\r\n|\n|\r")

log = logging.getLogger(__name__)


class LineTooLong(ValueError):
    """A line is longer than MAX_LINE_BYTES."""


class Lines(NamedTuple):
    """Lines without their ends, the position after each, and the file (inode) that has them."""

    texts: list[str]
    ends: list[int]
    inode: int


def split_lines(data: bytes, start: int, whole: bool) -> tuple[list[str], list[int]]:
    """The lines that end in `data`, which begins at position `start`, and the positions after them.

    whole: nothing comes after `data`, so that its end ends a line too. Invalid UTF-8 becomes U+FFFD.
    """
    returns = data.count(b"\r")
    if returns and (returns != data.count(b"\r\n") or (whole and data.endswith(b"\r"))):
        return _split_slowly(data, start, whole)
    end = len(data) if whole else data.rfind(b"\n") + 1
    body = data[:end]
    texts = body.decode("utf-8", "replace").split("\n")
    lengths = map(len, texts if body.isascii() else body.split(b"\n"))
    ends = [position + start for position in accumulate(length + 1 for length in lengths)]
    if texts[-1] == "":
        texts.pop()
        ends.pop()
    elif ends:
        ends[-1] -= 1
    if returns:
        texts = [text.removesuffix("\r") for text in texts]
    return texts, ends


def _split_slowly(data: bytes, start: int, whole: bool) -> tuple[list[str], list[int]]:
    """The same where lines end in single \\r, as Kafka's file source reads them."""
    texts, ends, begin = [], [], 0
    for found in (_LAST_LINE_END if whole else _LINE_END).finditer(data):
        texts.append(data[begin : found.start()].decode("utf-8", "replace"))
        begin = found.end()
        ends.append(start + begin)
    if whole and begin < len(data):
        texts.append(data[begin:].decode("utf-8", "replace"))
        ends.append(start + len(data))
    return texts, ends


class GrowingFile:
    """Reads a file's lines from a position on, and goes on with the file that takes its place.

    A file that is another (inode) than the one at the path has been rotated: it is read to its end first,
    with its last line even if that has no end, and left when the new file has something. A file shorter than
    the position has been truncated: it is read from its beginning.
    """

    def __init__(self, path: Path, position: int = 0, inode: int | None = None) -> None:
        self._path = path
        self._position = position
        self._inode = inode
        self._descriptor: int | None = None

    def read(self) -> Lines | None:
        """Lines of about a megabyte; None: there is none now. Raises OSError, LineTooLong."""
        if self._descriptor is None and not self._open():
            return None
        lines = self._read_lines()
        if lines is not None:
            return lines
        replacement = self._replacement()
        if replacement is None:
            return None
        # The former file may have got lines between the read above and the look at the path.
        lines = self._read_lines() or self._read_lines(whole=True)
        if lines is not None:
            return lines
        self.close()
        self._position, self._inode = 0, replacement
        return self.read() if self._open() else None

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> bool:
        path = self._path
        try:
            if self._inode is not None and os.stat(path).st_ino != self._inode:
                path = self._rotated() or path
        except FileNotFoundError:
            path = self._rotated() or path
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        inode = os.fstat(descriptor).st_ino
        if self._inode is not None and inode != self._inode:
            log.warning(
                "the file at %s is another one than before, and the former one is gone: lines that it had "
                "after position %d are not read",
                self._path,
                self._position,
            )
            self._position = 0
        self._descriptor, self._inode = descriptor, inode
        return True

    def _rotated(self) -> Path | None:
        """The file that was at the path, under its new name in the same directory."""
        if self._inode is None:
            return None
        try:
            with os.scandir(self._path.parent) as entries:
                for count, entry in enumerate(entries):
                    if count >= MAX_SIBLINGS:
                        break
                    if entry.inode() == self._inode and entry.is_file(follow_symlinks=False):
                        return Path(entry.path) if entry.stat().st_size >= self._position else None
        except FileNotFoundError:
            pass
        return None

    def _replacement(self) -> int | None:
        """The inode of the file that is at the path instead of the open one, if it has something to read."""
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return None
        return now.st_ino if now.st_ino != self._inode and now.st_size > 0 else None

    def _read_lines(self, whole: bool = False) -> Lines | None:
        assert self._descriptor is not None
        size_bytes = os.fstat(self._descriptor).st_size
        if size_bytes < self._position:
            log.info("%s was truncated: it is read from its beginning", self._path)
            self._position = 0
        wanted_bytes = CHUNK_BYTES
        while True:
            data = os.pread(self._descriptor, wanted_bytes, self._position)
            at_end = len(data) < wanted_bytes
            texts, ends = split_lines(data, self._position, whole and at_end)
            if texts:
                self._position = ends[-1]
                assert self._inode is not None
                return Lines(texts, ends, self._inode)
            if at_end:
                return None
            if wanted_bytes >= MAX_LINE_BYTES:
                raise LineTooLong(f"{self._path}: a line is longer than {MAX_LINE_BYTES} bytes")
            wanted_bytes *= 4
