"""Forget the progress of an application, so that its next start begins anew.

Removed are its checkpoints and state, its internal topics, and its groups: those that show progress and those
in which the exactly-once sink remembers its batches. Its input, its output and its dead letters stay.

The order, and what a kill leaves behind at each line. Until the last step a start is refused, because a group
says that the query has worked and its checkpoint is gone; and the same command does the rest: names of
queries are also found in the directories that have been put aside.

1. where the next start begins is written (`begin.json`)
2. checkpoints and all that goes with them are renamed into `.reset-…`
3. the sinks' ledgers: topics, and groups that both of them name
4. internal topics are deleted, and their deletion is waited for
5. the groups that show progress
6. `.reset-…` is deleted

The lock that a running Spark has on the directory is held meanwhile: neither can begin during the other. An
application that runs with another directory is not seen.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.config.errors import UserError
from ottla.pipeline.file_lock import FileLock
from ottla.pipeline.sink.exactly_once import SinkError, remove_sink
from ottla.pipeline.sink.exactly_once_ledger import LEDGER_SUFFIX
from ottla.streams.plan.planner import plan
from ottla.streams.plan.topology import Topology

_BEGIN_FILE: Final = "begin.json"
_PUT_ASIDE: Final = ".reset-"
_DIRECTORIES: Final = ("checkpoints", "queries", "views")
_DEAD_LETTERS: Final = "-dead-letters"
_TOPIC_ENDINGS: Final = ("changelog", "repartition", "heartbeats", LEDGER_SUFFIX.removeprefix("-"))


class ResetError(UserError):
    """The application can't be reset now; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Remains:
    """The traces of an application.

    queries: by the names that checkpoints and groups have. groups: progress groups that are there.
    directories: under the application's own, of this and of unfinished resets.
    """

    queries: tuple[str, ...]
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    directories: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """A reset that is to be done. begin_ms: where the next start begins, None: where its sources say."""

    application: str
    cluster: ClusterAccess
    directory: Path
    remains: Remains
    begin_ms: int | None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove."""
        remains = self.remains
        return not (remains.topics or remains.groups or remains.directories)


def plan_reset(
    application: str,
    topology: Topology | None,
    access: ClusterAccess,
    state: Path,
    *,
    begin_ms: int | None = None,
) -> ResetPlan:
    """Look for the traces of an application. Without a topology, queries are those that `state` knows.

    Raises ResetError, ClusterError.
    """
    directory = state / application
    known = _known_queries(directory)
    nodes: list[str] = []
    if topology is not None:
        nodes = [f"{application}-{query.name}" for query in plan(topology).queries]
    elif not known:
        raise ResetError(
            f"{directory} knows no queries of {application}: give the application's file, so that its "
            "queries can be told from those of others"
        )
    queries = list(dict.fromkeys([*nodes, *(name + _DEAD_LETTERS for name in nodes), *known]))
    cluster = KafkaCluster(access.bootstrap, access.properties)
    topics = {f"{query}-{ending}" for query in queries for ending in _TOPIC_ENDINGS}
    groups = set(cluster.groups(application))
    existing = set(cluster.topic_names())
    directories = [directory / name for name in _DIRECTORIES if (directory / name).is_dir()]
    remains = Remains(
        tuple(queries),
        tuple(sorted(topics & existing)),
        tuple(query for query in queries if query in groups),
        (*directories, *sorted(directory.glob(f"{_PUT_ASIDE}*"))),
    )
    return ResetPlan(application, access, directory, remains, begin_ms)


def reset(planned: ResetPlan) -> list[str]:
    """Remove them; returns a line for each. Raises ResetError, ClusterError: repeat it then."""
    removed: list[str] = []
    access, remains = planned.cluster, planned.remains
    cluster = KafkaCluster(access.bootstrap, access.properties)
    with _alone(planned.directory):
        _write_beginning(planned.directory, planned.begin_ms)
        removed += _put_aside(planned.directory)
        for query in remains.queries:
            try:
                removed += remove_sink(access.bootstrap, query, access.properties)
            except SinkError as error:
                raise ResetError(f"{error}; the reset is not complete: call it again") from error
        for topic in remains.topics:
            # a start that finds the topic still there would take it for its own
            if cluster.remove_topic(topic):
                removed.append(f"topic {topic}")
        for query in remains.queries:
            if cluster.delete_group(query):
                removed.append(f"group {query}")
        for leftover in planned.directory.glob(f"{_PUT_ASIDE}*"):
            shutil.rmtree(leftover)
    return removed


def beginning_after_reset(directory: Path) -> int | None:
    """Where queries without a checkpoint begin, if a reset has said so: milliseconds since 1970.

    Raises ResetError when the file can't be read: to begin anywhere else would be silent.
    """
    path = directory / _BEGIN_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return int(found["timestamp_ms"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResetError(f"{path} can't be read ({error}): reset the application again") from error


def forget_beginning(directory: Path) -> None:
    """All queries have their checkpoints now: the beginning that a reset has set is used up."""
    (directory / _BEGIN_FILE).unlink(missing_ok=True)


def _known_queries(directory: Path) -> list[str]:
    """Queries that have a checkpoint or a fingerprint here, or had one when a reset was broken off."""
    names: set[str] = set()
    for place in [directory, *directory.glob(f"{_PUT_ASIDE}*")]:
        for path in _children(place / "checkpoints"):
            if path.is_dir():
                # query.py puts a checkpoint aside as .NAME.reset-…
                name = path.name.removeprefix(".").partition(".reset-")[0]
                names.add(name)
        names |= {path.stem for path in _children(place / "queries") if path.suffix == ".json"}
    return sorted(names)


def _children(directory: Path) -> Sequence[Path]:
    return list(directory.iterdir()) if directory.is_dir() else []


def _write_beginning(directory: Path, begin_ms: int | None) -> None:
    if begin_ms is None:
        forget_beginning(directory)
        return
    beside = directory / f"{_BEGIN_FILE}.new"
    with beside.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"timestamp_ms": begin_ms}))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(directory / _BEGIN_FILE)


def _put_aside(directory: Path) -> list[str]:
    there = [directory / name for name in _DIRECTORIES if (directory / name).is_dir()]
    if not there:
        return []
    aside = directory / f"{_PUT_ASIDE}{time.time_ns()}"
    aside.mkdir()
    for path in there:
        path.rename(aside / path.name)
    return [f"directory {path}" for path in there]


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the locks that a running application holds. Raises ResetError when one runs."""
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        for path in sorted((directory / "views").glob("*.lock")):
            lock = FileLock(path)
            if not lock.acquire():
                raise ResetError(f"the table {path.stem} in {path.parent} is being served: stop that first")
            held.callback(lock.release)
        if sys.platform != "win32":  # there the renaming fails while files are open
            import fcntl

            # Spark's JVM holds a POSIX lock on this file (session.py), not one of FileLock's kind.
            handle = os.open(directory / "spark.lock", os.O_RDWR | os.O_CREAT, 0o644)
            held.callback(os.close, handle)
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ResetError(f"the application runs in {directory}: stop it first") from None
        yield
