"""Makes the archive of Spark's classes from which a JVM starts in half the time (class data sharing).

A start of Spark loads some 18,000 classes, and parses and verifies each. The JVM can write them to a file and
map that file at the next start. The list of classes comes from a session that has run without an archive: its
JVM writes the name of each class that it loads (`-XX:DumpLoadedClassList`). To these come the classes of
packages that other queries need (state, joins, Python's tasks). Then a program of its own, this module,
lets a JVM load them all and write the archive (`-Xshare:dump`): niced, beside the application or after its
end, once for a `JvmHome`.

Nothing here can fail a start or lose anything:

    lock -> list -> archive written aside -> tried (`-Xshare:on`) -> synced -> renamed to its name

A kill at any arrow leaves an unfinished file, which the next making removes. The JVM itself compares an
archive with its own version and with the size and time of each jar, and goes on without one that does not
fit. What could not be made is told in `failed`, and tried again after a day.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ottla.pipeline.file_lock import FileLock
from ottla.pipeline.spark.jvm_home import JvmCommand, JvmHome, write_aside

ARCHIVE_ENVIRONMENT = "OTTLA_CLASS_ARCHIVE"
"""`off`: no archive is made, and none is used."""
LIST_PREFIX = ".loaded-"
RETRY_SECONDS = 24 * 3600.0
UNUSED_SECONDS = 30 * 24 * 3600.0
DUMP_TIMEOUT_SECONDS = 600.0
LEAST_FREE_BYTES = 1 << 30
AFTER_SECONDS = 60.0
"""In which a session has loaded what its queries need."""
_DUMP_HEAP = "-Xmx1g"
_NICENESS = 19
# A session that has run no query at all would make an archive without the classes of one.
_WITNESS = re.compile(r"org/apache/spark/sql/execution/\S*MicroBatchExecution\b")
# By jar: packages whose classes are archived although the listed session may have used none of them.
_FURTHER = {
    "spark-sql_": re.compile(
        r"org/apache/spark/sql/execution/(?:streaming|python|aggregate|joins|exchange|arrow)/"
    ),
    "spark-sql-kafka-": re.compile(r"org/apache/spark/sql/kafka010/"),
    "rocksdbjni-": re.compile(r"org/rocksdb/(?!test|util)"),
}


log = logging.getLogger("ottla.pipeline")


class ArchiveError(Exception):
    """The archive could not be made; the message says why."""


def archiving_wanted() -> bool:
    """Whether archives may be made and used at all."""
    return sys.platform != "win32" and os.environ.get(ARCHIVE_ENVIRONMENT, "").lower() != "off"


def may_be_made(home: JvmHome) -> bool:
    """Whether a start should list its classes: there is no archive, and none has failed lately."""
    if home.archive.exists():
        return False
    try:
        return time.time() - home.failure_path.stat().st_mtime > RETRY_SECONDS
    except OSError:
        return True


def new_list(home: JvmHome) -> Path | None:
    """A file for the names of loaded classes; None if the cache can't be written or is nearly full."""
    try:
        home.directory.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(home.directory).free < LEAST_FREE_BYTES:
            return None
        handle, name = tempfile.mkstemp(prefix=LIST_PREFIX, dir=home.directory)
        os.close(handle)
    except OSError:
        return None
    return Path(name)


def start_making(home: JvmHome, java: Path, loaded: Path) -> subprocess.Popen[bytes]:
    """Make the archive in a process of its own, which may outlive this one. Raises OSError."""
    command = [sys.executable, "-m", __name__, str(home.directory), str(java), str(loaded)]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


class ArchiveMaking:
    """Starts the making of a session's archive, once: when the session has run for a while, or at its end."""

    def __init__(self, home: JvmHome, java: Path, loaded: Path, after_seconds: float = AFTER_SECONDS) -> None:
        self._home, self._java, self._loaded = home, java, loaded
        self._started = threading.Lock()
        self._timer = threading.Timer(after_seconds, self._start_and_wait)
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        """Start the making if it was not yet; it goes on by itself. Safe to call twice."""
        self._timer.cancel()
        self._start()

    def _start_and_wait(self) -> None:
        if (process := self._start()) is not None:
            process.wait()

    def _start(self) -> subprocess.Popen[bytes] | None:
        if not self._started.acquire(blocking=False):
            return None
        try:
            return start_making(self._home, self._java, self._loaded)
        except OSError as error:
            log.debug("no archive of Spark's classes is made: %s", error)
            return None


def make(home: JvmHome, java: Path, loaded: Path) -> None:
    """Make the archive, unless there is one or another process makes it. Raises ArchiveError, OSError."""
    lock = FileLock(home.lock_path)
    if not lock.acquire():
        return
    try:
        remove_leftovers(home, loaded)
        command = home.command()
        if command is None or not may_be_made(home):
            return
        listed = loaded.read_text(encoding="utf-8", errors="replace")
        if not _WITNESS.search(listed):
            return
        wanted = home.directory / f".wanted-{os.getpid()}"
        unfinished = home.directory / f".classes-{os.getpid()}.jsa"
        try:
            wanted.write_text("\n".join(class_list(listed, command.class_path)) + "\n", encoding="utf-8")
            _dump(java, command, wanted, unfinished)
            os.replace(unfinished, home.archive)
            with contextlib.suppress(OSError):
                home.failure_path.unlink(missing_ok=True)
        except (ArchiveError, OSError) as error:
            with contextlib.suppress(OSError):
                write_aside(home.failure_path, f"{error}\n")
            raise
        finally:
            for path in (wanted, unfinished):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
        remove_unused(home)
    finally:
        with contextlib.suppress(OSError):
            loaded.unlink(missing_ok=True)
        lock.release()


def class_list(listed: str, class_path: str) -> Iterator[str]:
    """The lines of a list of loaded classes, without one that is cut short, and the further classes."""
    lines = listed.split("\n")[:-1]  # what follows the last end of a line was being written
    names = {line.split(" ", 1)[0] for line in lines}
    yield from lines
    for path in map(Path, class_path.split(os.pathsep)):
        for prefix, packages in _FURTHER.items():
            if path.name.startswith(prefix) and path.is_file():
                yield from (name for name in _classes(path, packages) if name not in names)


def _classes(jar: Path, packages: re.Pattern[str]) -> Iterator[str]:
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".class") and packages.match(name):
                yield name.removesuffix(".class")


def _dump(java: Path, command: JvmCommand, wanted: Path, archive: Path) -> None:
    """Have a JVM write the archive to a file, and another one try it. Raises ArchiveError, OSError."""
    base = [str(java), *command.options]
    run = (*base, _DUMP_HEAP, "-Xshare:dump", f"-XX:SharedClassListFile={wanted}")
    _run([*run, f"-XX:SharedArchiveFile={archive}", "-cp", command.class_path])
    # `on` fails where `auto` would go on without the archive.
    tried = [*base, "-Xshare:on", f"-XX:SharedArchiveFile={archive}", "-cp", command.class_path, "-version"]
    _run(tried)
    with archive.open("rb") as file:
        os.fsync(file.fileno())


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DUMP_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ArchiveError(f"no archive after {DUMP_TIMEOUT_SECONDS:.0f} s") from None
    if done.returncode != 0:
        words = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise ArchiveError(f"Java ended with {done.returncode}: {words[-2_000:]}")


def remove_leftovers(home: JvmHome, kept: Path) -> None:
    """Remove what killed makings have left; the caller holds the lock. Lists may be those of running JVMs."""
    for path in home.directory.glob(".*"):
        is_list = path.name.startswith(LIST_PREFIX)
        with contextlib.suppress(OSError):
            if path != kept and (not is_list or time.time() - path.stat().st_mtime > RETRY_SECONDS):
                path.unlink()


def remove_unused(home: JvmHome) -> None:
    """Remove the homes of other JVMs that no start has used for long."""
    for other in _others(home):
        with contextlib.suppress(OSError):
            if time.time() - other.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(other, ignore_errors=True)


def _others(home: JvmHome) -> Iterable[Path]:
    with contextlib.suppress(OSError):
        return [path for path in home.directory.parent.iterdir() if path != home.directory and path.is_dir()]
    return []


def main(arguments: Sequence[str]) -> int:
    """The program: the home's directory, Java, the list of loaded classes. 1 if the archive can't be made."""
    directory, java, loaded = map(Path, arguments)
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    try:
        make(JvmHome(directory), java, loaded)
    except (ArchiveError, OSError) as error:
        print(f"ottla: no archive of Spark's classes: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
