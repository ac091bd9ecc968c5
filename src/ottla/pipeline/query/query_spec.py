"""Describes a query, decides whether and from where it may start, and forgets it on request.

`admit_query` decides by two sources: the checkpoint, which alone says where a query goes on, and the marks on
the offsets of the query's group, which show that a query has worked.

    batches in the checkpoint   marks in the group      decision
    yes                         its own, or none        goes on
    yes                         another query's         refused: the checkpoint belongs to another query
    none                        none                    a new query
    none                        some                    refused, unless on_lost_checkpoint says from where
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from ottla.client.cluster import KafkaCluster
from ottla.config.errors import UserError
from ottla.pipeline.query.checkpoints import Checkpoint, Offsets
from ottla.pipeline.query.failures import Failure
from ottla.pipeline.query.progress import ANY_QUERY, marked_query
from ottla.pipeline.query.source import Boundary, FromOffsets, FromTimestamp, KafkaSource, check_source
from ottla.pipeline.spark.paths import local_path

log = logging.getLogger("ottla.pipeline")


class QueryError(UserError):
    """A query that cannot start, or has failed: one line that says why and what to do.

    failure: Spark's report, if there is one; it has the Python traceback of a user's function.
    """

    def __init__(self, message: str, failure: Failure | None = None) -> None:
        super().__init__(message)
        self.failure = failure


class LostCheckpointError(QueryError):
    """The query's group shows work that its checkpoint does not have."""


class LostCheckpoint(Enum):
    """How to start a query whose group shows that it has worked, but whose checkpoint is gone."""

    REFUSE = "refuse"
    FROM_GROUP = "group"
    """Go on from the group's offsets: the last batch may be read twice, and the state begins empty."""
    FROM_BEGINNING = "beginning"
    """Begin as a new query does."""


@dataclass(frozen=True, slots=True)
class ProcessingTime:
    """A batch in every interval, or (with 0) as soon as the one before is done."""

    interval_ms: int = 0


@dataclass(frozen=True, slots=True)
class AvailableNow:
    """Read the records that are there now, in batches of the sources' size, then end."""


@dataclass(frozen=True, slots=True)
class RealTime:
    """Spark's real-time mode (4.1 and newer): records flow, and every `batch_ms` the progress is written."""

    batch_ms: int = 30_000


Trigger = ProcessingTime | AvailableNow | RealTime


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A query to run.

    name: of the query, its consumer group and its metrics. checkpoint: a directory (path or URI) for this
    query alone; the loss of one that is not on a local disk can't be noticed. sources: all Kafka sources of
    its plan. group: another name for the group. start_from_timestamp_ms: where a new query begins, instead of
    at the start of its sources; a query with a checkpoint ignores it. on_lost_checkpoint: see LostCheckpoint.
    """

    name: str
    checkpoint: str | Path
    sources: Sequence[KafkaSource]
    trigger: Trigger = field(default_factory=ProcessingTime)
    group: str | None = None
    start_from_timestamp_ms: int | None = None
    on_lost_checkpoint: LostCheckpoint = LostCheckpoint.REFUSE

    @property
    def group_id(self) -> str:
        return self.group or self.name

    @property
    def checkpoint_uri(self) -> str:
        path = local_path(self.checkpoint)
        return str(self.checkpoint) if path is None else path.absolute().as_uri()


class Beginning(Enum):
    """Where an admitted query begins or goes on."""

    NEW = "new"
    CHECKPOINT = "from its checkpoint"
    GROUP = "from its group's offsets"


@dataclass(frozen=True, slots=True)
class Admission:
    """A query that may start. sources: what to read in place of the spec's, in the same order."""

    spec: QuerySpec
    sources: tuple[KafkaSource, ...]
    beginning: Beginning
    topics: tuple[tuple[str, ...], ...]
    """The topics of each source now."""


def admit_query(spec: QuerySpec, cluster_of: Callable[[KafkaSource], KafkaCluster]) -> Admission:
    """Check that a query can start, and from where. Raises SourceError, QueryError or ClusterError.

    `cluster_of` gives a client of a source's cluster.
    """
    topics = tuple(tuple(check_source(source, cluster_of(source))) for source in spec.sources)
    marked: Offsets = {}
    writers: set[str] = set()
    for source, names in zip(spec.sources, topics, strict=True):
        for topic in names:
            commits = cluster_of(source).commits(spec.group_id, topic)
            marks = {marked_query(found.metadata) for found in commits.values()} - {None}
            if marks:
                marked[topic] = {partition: found.offset for partition, found in commits.items()}
                writers |= {writer for writer in marks if writer is not None}
    beginning = _beginning(spec, marked, writers - {ANY_QUERY})
    return Admission(spec, _sources(spec, topics, beginning, marked), beginning, topics)


def _beginning(spec: QuerySpec, marked: Offsets, writers: set[str]) -> Beginning:
    path = local_path(spec.checkpoint)
    if path is None:
        return Beginning.CHECKPOINT  # only Spark's file systems can tell whether there is one
    checkpoint = Checkpoint(path)
    if checkpoint.planned_batches:
        if writers - {checkpoint.query_id} and spec.on_lost_checkpoint is LostCheckpoint.REFUSE:
            raise LostCheckpointError(
                f"the checkpoint {path} does not belong to query {spec.name}, whose group {spec.group_id} "
                f"was written by query {', '.join(sorted(writers))}: put the right one back, or "
                "reset the query"
            )
        if spec.start_from_timestamp_ms is not None:
            log.info(
                "query %s goes on from its checkpoint: start_from_timestamp_ms is for a new one", spec.name
            )
        return Beginning.CHECKPOINT
    if not marked or spec.on_lost_checkpoint is LostCheckpoint.FROM_BEGINNING:
        return Beginning.NEW
    if spec.on_lost_checkpoint is LostCheckpoint.FROM_GROUP:
        return Beginning.GROUP
    raise LostCheckpointError(
        f"query {spec.name} has read {_brief(marked)} (by its group {spec.group_id}), but its checkpoint "
        f"{path} is gone: put it back, or start with on_lost_checkpoint=group to go on from the group's "
        "offsets, =beginning to begin again, or reset the query"
    )


def _sources(
    spec: QuerySpec, topics: Sequence[Sequence[str]], beginning: Beginning, marked: Offsets
) -> tuple[KafkaSource, ...]:
    if beginning is Beginning.GROUP:
        return tuple(
            replace(source, start=FromOffsets({topic: marked[topic] for topic in names if topic in marked}))
            for source, names in zip(spec.sources, topics, strict=True)
        )
    if spec.start_from_timestamp_ms is not None:
        start = FromTimestamp(spec.start_from_timestamp_ms)
        return tuple(replace(source, start=start) for source in spec.sources)
    return tuple(spec.sources)


def begin_positions(source: KafkaSource, topics: Sequence[str], cluster: KafkaCluster) -> Offsets:
    """The offsets at which a new query begins, for its group; partitions not named begin at their start."""
    match source.start:
        case FromOffsets(offsets):
            return {topic: dict(by_partition) for topic, by_partition in offsets.items()}
        case FromTimestamp(timestamp_ms):
            return {topic: cluster.positions_at(topic, timestamp_ms) for topic in topics}
        case Boundary.LATEST:
            return {topic: cluster.end_positions(topic) for topic in topics}
        case _:
            return {}


def query_failed(name: str, failure: Failure) -> QueryError:
    """The error for a query that Spark has ended."""
    return QueryError(f"query {name} failed: {failure}", failure)


def _brief(offsets: Offsets) -> str:
    return ", ".join(f"{topic} up to {sum(by.values())}" for topic, by in sorted(offsets.items()))


def reset_query(spec: QuerySpec) -> list[str]:
    """Forget a query that is not running: its checkpoint and its group's offsets. Returns a line for each.

    The next start begins as a new query does. After a kill at any line, the next call does the rest: first
    the checkpoint is renamed away, then the group deleted, then the files. Raises QueryError or ClusterError.
    """
    removed: list[str] = []
    path = local_path(spec.checkpoint)
    if path is None:
        raise QueryError(
            f"the checkpoint {spec.checkpoint} is not on this machine: remove it by its own tools"
        )
    _check_not_in_use(path, spec.name)
    if path.exists():
        path.rename(path.with_name(f".{path.name}.reset-{time.time_ns()}"))
        removed.append(f"checkpoint {path}")
    removed += [
        f"group {spec.group_id} on {source.bootstrap}"
        for source in spec.sources
        if source.cluster.delete_group(spec.group_id)
    ]
    if path.parent.is_dir():
        for leftover in path.parent.glob(f".{path.name}.reset-*"):
            shutil.rmtree(leftover)
    return removed


def _check_not_in_use(checkpoint: Path, name: str) -> None:
    """Raise QueryError if a session's JVM has its lock, two directories above the checkpoint (session.py)."""
    lock = checkpoint.parent.parent / "spark.lock"
    if sys.platform == "win32":  # the rename fails there while the JVM has files open
        return
    try:
        handle = os.open(lock, os.O_RDWR)
    except OSError:
        return
    try:
        import fcntl

        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise QueryError(f"a Spark session runs in {lock.parent}: stop it before {name} is reset") from error
    finally:
        os.close(handle)
