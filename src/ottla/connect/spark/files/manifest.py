"""Commits of files by manifests: which files a batch has, and the ledger after it, in one small file.

The order of writes:

    1. Spark writes a batch's rows to `_ottla/CONNECTOR/staging-RUN-NUMBER/`, which no reader of the topics'
       directory looks into
    2. the manifest `_ottla/CONNECTOR/manifests/NUMBER.json` is created, whole, where no file of that name
       may be: this is the commit. It names every staged file, the file that it becomes, and the ledger
    3. the files are renamed into their directories
    4. the staging directory is removed

A kill before 2 leaves a staging directory, which the next run removes. After a kill in 3 or 4 the next run
does the rest: a staged file that is gone has been renamed. Of two runs that write at once, one finds its
NUMBER taken, and ends: numbers are one more than that of the ledger which a run has read.

So files appear once, whole and only after their commit. A reader of the directory can see a part of a batch
while it is in 3; a reader who must not reads the manifests, and takes the files of all but the newest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.connect.spark.ledger import Fenced, Ledger, LedgerError, Owner, read_ledger

NUMBER_DIGITS: Final = 20
MAX_MANIFEST_BYTES: Final = 256 << 20
_SUFFIX: Final = ".json"


class Place(Protocol):
    """A directory of some file system. Paths are relative to it, with `/`."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory; none if there is no such directory, also for a file."""

    def read(self, path: str, most_bytes: int) -> bytes:
        """A file's bytes. Raises LedgerError for a larger one."""

    def create(self, path: str, data: bytes) -> bool:
        """Make a file, whole and durable. False where there is one already."""

    def rename(self, source: str, target: str) -> None:
        """Move a file; done already where the source is gone. Makes the target's directory."""

    def remove(self, path: str) -> None:
        """Remove a file or a directory with everything in it; none is no error."""


@dataclass(frozen=True, slots=True)
class Move:
    """A staged file and what it becomes. records: how many rows it has, None if that is not known."""

    staged: str
    final: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A commit: its ledger, and the files of the batch."""

    ledger: Ledger
    staging: str
    moves: Sequence[Move]

    def data(self, owner: Owner) -> bytes:
        """The manifest as JSON."""
        return json.dumps(
            {
                "ledger": json.loads(self.ledger.text(owner)),
                "staging": self.staging,
                "files": [{"staged": each.staged, "path": each.final} for each in self.moves],
            },
            indent=1,
        ).encode()


class Manifests:
    """The manifests of a connector in a place."""

    def __init__(self, place: Place, owner: Owner, kept: int) -> None:
        self._place = place
        self._owner = owner
        self._kept = kept
        self._home = f"_ottla/{owner.slug}"
        self._directory = f"{self._home}/manifests"

    def staging(self, run: str, number: int) -> str:
        """The directory for the files of a commit before it is one."""
        return f"{self._home}/staging-{run}-{number}"

    def recover(self) -> Ledger | None:
        """Finish the newest commit, and remove what killed runs left. Returns its ledger."""
        newest = self.newest()
        if newest is not None:
            self.finish(newest)
        for name in self._place.names(self._home):
            if name.startswith("staging-"):
                self._place.remove(f"{self._home}/{name}")
        return None if newest is None else newest.ledger

    def newest(self) -> Manifest | None:
        """The newest commit. Raises LedgerError."""
        numbers = self._numbers()
        if not numbers:
            return None
        path = self._path(numbers[-1])
        return self._read(self._place.read(path, MAX_MANIFEST_BYTES), path)

    def commit(self, manifest: Manifest) -> None:
        """Make a batch's files a part of the directory. Raises Fenced."""
        number = manifest.ledger.sequence
        if self._numbers()[-1:] > [number - 1] or not self._place.create(
            self._path(number), manifest.data(self._owner)
        ):
            raise Fenced(
                f"another run of {self._owner.connector} has written manifest {number}; this one ends"
            )
        self.finish(manifest)

    def finish(self, manifest: Manifest) -> None:
        """Give the files of a commit their names. Safe to do again."""
        for move in manifest.moves:
            self._place.rename(move.staged, move.final)
        self._place.remove(manifest.staging)
        for number in self._numbers()[: -self._kept]:
            self._place.remove(self._path(number))

    def _numbers(self) -> list[int]:
        names = (name.removesuffix(_SUFFIX) for name in self._place.names(self._directory))
        return sorted(int(name) for name in names if len(name) == NUMBER_DIGITS and name.isdecimal())

    def _path(self, number: int) -> str:
        return f"{self._directory}/{number:0{NUMBER_DIGITS}d}{_SUFFIX}"

    def _read(self, data: bytes, path: str) -> Manifest:
        try:
            found: Any = json.loads(data)
            ledger = read_ledger(json.dumps(found["ledger"]), self._owner)
            moves = [Move(str(each["staged"]), str(each["path"])) for each in found["files"]]
            if ledger is None:
                raise LedgerError(f"the manifest {path} is of another connector")
            return Manifest(ledger, str(found["staging"]), moves)
        except (ValueError, TypeError, KeyError, RecursionError):
            raise LedgerError(f"the manifest {path} can't be read") from None
