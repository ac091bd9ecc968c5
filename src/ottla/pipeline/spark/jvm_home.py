"""The place in the cache where the starts of one Spark on one Java leave what makes the next start short.

A *home* is a directory of its own for each Java runtime, each set of Spark's jars and each further jar on the
class path; a change of any of them (name, size, time of change) names another directory. It holds

    command.json   the class path and the module options with which Spark's launcher started the JVM
    classes.jsa    the archive of classes (class_archive.py)
    failed         why the archive could not be made, for a day
    lock           held by the process that makes the archive

`command.json` saves the launcher, which is a shell script and a JVM of its own. Both files are written aside
and renamed, so that a kill leaves a whole file or none. Everything here may be deleted at any time, and a
cache that can't be written only means that every start is as long as the first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.pipeline.spark.cache import cache_directory
from ottla.pipeline.spark.java_runtime import JavaRuntime

HOMES = "jvm"
_FORMAT = 1
_RUNTIME_FILES = ("release", "lib/modules", "lib/server/libjvm.so", "lib/server/libjvm.dylib")

log = logging.getLogger("ottla.pipeline")


@dataclass(frozen=True, slots=True)
class JvmCommand:
    """What Spark's launcher decides about a JVM: its class path in order, and options such as --add-opens."""

    class_path: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JvmHome:
    """A directory of the cache, which may not exist yet."""

    directory: Path

    @classmethod
    def of(cls, java: JavaRuntime, spark_home: Path, jars: Iterable[Path]) -> JvmHome | None:
        """The home of this Spark with these further jars; None if its files can't be listed."""
        runtime = java.executable.resolve().parent.parent
        try:
            facts = [f"format {_FORMAT}", f"spark {spark_home}", f"java {java.executable}"]
            facts += [_state_of(runtime / name) for name in _RUNTIME_FILES if (runtime / name).exists()]
            facts += [_state_of(path) for path in sorted((spark_home / "jars").iterdir())]
            facts += [_state_of(path) for path in jars]
        except OSError as error:
            log.debug("no home for this JVM: %s", error)
            return None
        name = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:20]
        return cls(cache_directory() / HOMES / name)

    @property
    def archive(self) -> Path:
        return self.directory / "classes.jsa"

    @property
    def command_path(self) -> Path:
        return self.directory / "command.json"

    @property
    def failure_path(self) -> Path:
        return self.directory / "failed"

    @property
    def lock_path(self) -> Path:
        return self.directory / "lock"

    def command(self) -> JvmCommand | None:
        """The command that an earlier start has left; None without one, or with one that can't be read."""
        try:
            found = json.loads(self.command_path.read_text(encoding="utf-8"))
            return JvmCommand(str(found["class_path"]), tuple(map(str, found["options"])))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def remember(self, command: JvmCommand) -> bool:
        """Leave the command for the next start. False if the cache can't be written."""
        text = json.dumps({"class_path": command.class_path, "options": list(command.options)})
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            write_aside(self.command_path, text)
        except OSError as error:
            log.debug("the JVM's command is not kept: %s", error)
            return False
        return True

    def forget(self) -> None:
        """Remove what a start from here has failed with."""
        for path in (self.archive, self.command_path):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def touch(self) -> None:
        """Say that the home is in use: those that were not for long are removed."""
        with contextlib.suppress(OSError):
            os.utime(self.directory)


def write_aside(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def decided_options(arguments: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """The arguments of a running JVM that the launcher added, but for sizes. given: those given to it."""
    ours = set(given)
    return tuple(each for each in arguments if each not in ours and not each.startswith(("-Xmx", "-Xms")))


def _state_of(path: Path) -> str:
    found = path.stat()
    return f"{path} {found.st_size} {found.st_mtime_ns}"
