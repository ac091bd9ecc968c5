"""Runs servers that refuse to run as root as another user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

USERS = ("postgres", "nobody")


def unprivileged_user() -> str | None:
    """A user to run such a server as, or None when this process is not root."""
    if os.geteuid() != 0:
        return None
    return next((user for user in USERS if _exists(user)), None)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


@contextmanager
def unprivileged_directory() -> Iterator[Path]:
    """A temporary directory that belongs to that user and whose parents it may enter, unlike pytest's."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-test-"))
    try:
        give_away(directory)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def give_away(directory: Path) -> None:
    """Make a directory and all below it the unprivileged user's."""
    user = unprivileged_user()
    if user is not None:
        for path in (directory, *directory.rglob("*")):
            shutil.chown(path, user)


def start(
    command: Sequence[str | Path], directory: Path, output: IO[Any], environment: dict[str, str]
) -> subprocess.Popen[Any]:
    """Start a command as the unprivileged user, in `directory`."""
    return subprocess.Popen(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        user=unprivileged_user(),
        env={**os.environ, "HOME": str(directory), **environment},
    )
