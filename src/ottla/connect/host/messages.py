"""What a worker and its hosts say to each other: a JSON object a line, on the host's stdin and stdout.

A host never decides: it runs what the worker names until the worker says stop, and tells how that ended. A
run is known by its `run` number, so that a late word of an ended run is never taken for its successor's.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class Role(enum.StrEnum):
    """What a run is: a connector (it finds source partitions), or one of its tasks."""

    CONNECTOR = "connector"
    SOURCE_TASK = "source-task"
    SINK_TASK = "sink-task"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a connector or task. task: its number; -1 for the connector itself, as in Connect."""

    connector: str
    task: int
    run: int


@dataclass(frozen=True, slots=True)
class Start:
    """Begin a run.

    config: the connector's configuration, with the values that ${provider:…} stands for. worker: the worker's
    own properties (bootstrap.servers, converters, topics, exactly.once.source.support, …). partitions: the
    source partitions of this task. offsets: [partition, offset] pairs of a source task, from connect-offsets.
    fence: how often the connector's tasks were fenced; part of every name that two runs must not share.
    paused: begin as after a Pause.
    """

    run: Run
    role: Role
    config: Mapping[str, str]
    worker: Mapping[str, str]
    partitions: Sequence[Mapping[str, Any]] = ()
    offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]] = ()
    fence: int = 0
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """End a run in order: flush, commit, close. The host answers with Ended; one that doesn't is killed."""

    run: Run


@dataclass(frozen=True, slots=True)
class Pause:
    """Let a run rest: it commits what it has done, keeps its partitions, and answers with Paused.

    An engine whose runs can't rest stops the run and answers with Ended, as for Stop; what resumes it is
    another Start.
    """

    run: Run


@dataclass(frozen=True, slots=True)
class Resume:
    """Let a paused run go on. The host answers with Running."""

    run: Run


Order = Start | Stop | Pause | Resume


@dataclass(frozen=True, slots=True)
class Running:
    """A run has begun: its connector is made, its first poll or assignment is under way."""

    run: Run


@dataclass(frozen=True, slots=True)
class Paused:
    """A run rests: all that it has done is committed."""

    run: Run


@dataclass(frozen=True, slots=True)
class Ended:
    """A run is over. trace: why it failed, and at which record; None where it was stopped or is done."""

    run: Run
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Partitions:
    """A connector's source partitions now: said by a run of Role.CONNECTOR at its start and changes."""

    run: Run
    partitions: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics that a run has used for the first time, for GET /connectors/C/topics."""

    run: Run
    topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class Figures:
    """Counters of a run since its start, said every few seconds: sent or written records, errors, lag.

    of_partitions: figures of single source partitions, by their names.
    """

    run: Run
    figures: Mapping[str, float] = field(default_factory=dict)
    of_partitions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


Event = Running | Paused | Ended | Partitions | Topics | Figures
