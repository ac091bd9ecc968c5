"""The files of a project: `V000001__a_name.sql`, each a version with its statements."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.config.errors import UserError

MAX_FILE_BYTES: Final = 4 << 20
MAX_FILES: Final = 100_000
MAX_VERSION: Final = 999_999
MAX_DESCRIPTION: Final = 200
_NAME: Final = re.compile(r"V(\d{6})__(.+)\.sql")
_NOT_OF_NAMES: Final = re.compile(r"[^\w-]+")


@dataclass(frozen=True, slots=True)
class MigrationFile:
    """A file. name: its description, with spaces; text: its statements; checksum: MD5 of its bytes."""

    version: int
    name: str
    path: Path
    text: str
    checksum: str


def migration_files(directory: Path) -> list[MigrationFile]:
    """The migrations of a directory, by version. Raises UserError, also for two files of one version."""
    try:
        paths = sorted(each for each in directory.iterdir() if each.name.startswith("V"))
    except OSError as problem:
        raise UserError(f"{directory}: {problem.strerror or problem}") from None
    if len(paths) > MAX_FILES:
        raise UserError(f"{directory} has more than {MAX_FILES:,} files")
    found: dict[int, MigrationFile] = {}
    for path in paths:
        made = _read(path)
        if made is None:
            continue
        if made.version in found:
            raise UserError(
                f"version {made.version} has two files: {found[made.version].path.name}, {path.name}"
            )
        found[made.version] = made
    return [found[version] for version in sorted(found)]


def _read(path: Path) -> MigrationFile | None:
    named = _NAME.fullmatch(path.name)
    if named is None:
        if path.suffix == ".sql":
            raise UserError(
                f"{path.name} is no name of a migration: V, six digits, two underscores, a name, .sql"
            )
        return None
    version = int(named[1])
    if version == 0:
        raise UserError(f"{path.name}: versions begin at 1")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        text = data.decode()
    except OSError as problem:
        raise UserError(f"{path}: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: it is not UTF-8 text") from None
    if len(data) > MAX_FILE_BYTES:
        raise UserError(f"{path}: it has more than {MAX_FILE_BYTES:,} bytes")
    checksum = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return MigrationFile(version, named[2].replace("_", " "), path, text, checksum)


def create_file(directory: Path, description: str, version: int | None) -> Path:
    """Make the file of a new version, by default the next one. Raises UserError."""
    files = migration_files(directory)
    taken = {each.version for each in files}
    chosen = version if version is not None else max(taken, default=0) + 1
    if not 1 <= chosen <= MAX_VERSION:
        raise UserError(f"a version is a number from 1 to {MAX_VERSION:,}, not {chosen}")
    if chosen in taken:
        raise UserError(f"version {chosen} has a file already")
    name = _NOT_OF_NAMES.sub("_", description.strip()).strip("_")
    if not name or len(name) > MAX_DESCRIPTION:
        raise UserError(f"a description has letters, and {MAX_DESCRIPTION} at most")
    path = directory / f"V{chosen:06}__{name}.sql"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(f"-- {description.strip()}\n".replace("\r", " "))
    except OSError as problem:
        raise UserError(f"{path}: {problem.strerror or problem}") from None
    return path
