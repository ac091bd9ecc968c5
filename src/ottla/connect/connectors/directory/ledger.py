"""Which offsets of each partition are in finished files: one writer, whatever is killed or frozen.

In the directory's `.ottla/NAME` lie the files that are being written, and the ledger: for each partition a
symbolic link named `topic+partition+START`, which points to nothing and says `END/TEMPORARY`. A file is
finished in this order:

1. the temporary file is complete and synced;
2. the link is made and synced. This is the commit: of two writers that began at one offset, one fails here;
3. the temporary file gets its name in the output directory, which is synced;
4. links of lower offsets, and temporary files that began there, go away.

A kill after 2 leaves a link whose temporary file is there: the next `open` does 3. A writer that was frozen
before 2, while another one went on, either finds its link made, or a link of a higher offset beside its own,
which it takes back. A link stays when the finished file is taken away, so its records never come again.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Final, NamedTuple

from ottla.connect.connectors.common import Superseded
from ottla.connect.data.record import TopicPartition

HIDDEN: Final = ".ottla"
_DIGITS: Final = 20
_NAME: Final = re.compile(r"([A-Za-z0-9._-]+)\+(\d+)\+(\d+)(?:\+([0-9a-f]+)\.tmp)?")


class Temporary(NamedTuple):
    """A file that is being written, from an offset on."""

    place: TopicPartition
    start: int
    path: Path


class _Entry(NamedTuple):
    start: int
    end: int
    temporary: str


class FileLedger:
    """The ledger of one connector's files in a directory. suffix: how the finished files' names end."""

    def __init__(self, directory: Path, name: str, suffix: str) -> None:
        self._directory = directory
        self._hidden = directory / HIDDEN / re.sub(r"[^A-Za-z0-9._-]", "_", name)
        self._suffix = suffix
        self._hidden.mkdir(parents=True, exist_ok=True)

    def open(self, place: TopicPartition) -> int | None:
        """The next offset of a partition; None where it has no finished file. Finishes what a kill left."""
        entries = self._entries(place)
        if not entries:
            return None
        newest = entries[-1]
        if (self._hidden / newest.temporary).exists():
            self._publish(place, newest)
        self._clear_below(place, newest.start)
        return newest.end + 1

    def begin(self, place: TopicPartition, start: int) -> Temporary:
        """A new temporary file's path."""
        name = f"{_key(place)}+{start:0{_DIGITS}}+{secrets.token_hex(8)}.tmp"
        return Temporary(place, start, self._hidden / name)

    def finish(self, temporary: Temporary, end: int) -> Path:
        """Commit a complete and synced temporary file whose last record has the offset `end`.

        Returns its new path. Raises Superseded, OSError.
        """
        place, start = temporary.place, temporary.start
        entry = _Entry(start, end, temporary.path.name)
        link = self._hidden / f"{_key(place)}+{start:0{_DIGITS}}"
        try:
            link.symlink_to(f"{end}/{entry.temporary}")
        except FileExistsError:
            raise Superseded(f"{place.topic}-{place.partition}: another task wrote offset {start}") from None
        _sync(self._hidden)
        if self._entries(place)[-1] != entry:
            link.unlink(missing_ok=True)
            raise Superseded(f"{place.topic}-{place.partition}: another task wrote beyond offset {start}")
        path = self._publish(place, entry)
        self._clear_below(place, start)
        return path

    def _publish(self, place: TopicPartition, entry: _Entry) -> Path:
        name = f"{_key(place)}+{entry.start:0{_DIGITS}}+{entry.end:0{_DIGITS}}.{self._suffix}"
        path = self._directory / name
        try:
            (self._hidden / entry.temporary).rename(path)
        except FileNotFoundError:  # the task that took over has found the link, and did it
            raise Superseded(
                f"{place.topic}-{place.partition}: another task goes on after {entry.end}"
            ) from None
        _sync(self._directory)
        _sync(self._hidden)
        return path

    def _entries(self, place: TopicPartition) -> list[_Entry]:
        """The committed files of a partition that are still known, by their first offsets."""
        found = []
        for path in self._hidden.iterdir():
            named = _NAME.fullmatch(path.name)
            if named is None or named[4] is not None or (named[1], int(named[2])) != place:
                continue
            try:
                end, _, temporary = path.readlink().as_posix().partition("/")
            except FileNotFoundError:  # another task has just removed it, for one of a higher offset
                continue
            found.append(_Entry(int(named[3]), int(end), temporary))
        return sorted(found)

    def _clear_below(self, place: TopicPartition, start: int) -> None:
        """Remove links of offsets below `start`, and temporary files that began there or before."""
        for path in self._hidden.iterdir():
            named = _NAME.fullmatch(path.name)
            if named is None or (named[1], int(named[2])) != place:
                continue
            if int(named[3]) < start or (int(named[3]) == start and named[4] is not None):
                path.unlink(missing_ok=True)


def _key(place: TopicPartition) -> str:
    return f"{place.topic}+{place.partition}"


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
