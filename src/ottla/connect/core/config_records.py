"""The records of the topic connect-configs, as values; state/config_codec.py has their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.connect.core.ids import TargetState

Properties = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    """A connector's configuration; None: the connector is deleted."""

    connector: str
    properties: Properties | None


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """One task's configuration, which counts from the next TasksCommit on."""

    connector: str
    task: int
    properties: Properties


@dataclass(frozen=True, slots=True)
class TasksCommit:
    """The connector has this many tasks, whose configurations stand before this record."""

    connector: str
    tasks: int


@dataclass(frozen=True, slots=True)
class Target:
    """The state that a connector is to be in; None with the connector's deletion."""

    connector: str
    state: TargetState | None


@dataclass(frozen=True, slots=True)
class TaskCount:
    """The producers of former tasks are fenced; so many tasks may have producers from now on (KIP-618)."""

    connector: str
    tasks: int


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key that workers sign their requests to each other with (KIP-507)."""

    key: bytes
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """Restart a connector, and its tasks if they are included; only those that have failed (KIP-745)."""

    connector: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class TaskRestart:
    """Restart one task. A record of ottla's own, which Java's workers ignore."""

    connector: str
    task: int


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """The level of a logger on all workers (KIP-976)."""

    logger: str
    level: str


@dataclass(frozen=True, slots=True)
class OffsetsGeneration:
    """How often a connector's offsets were changed by hand. A record of ottla's own."""

    connector: str
    generation: int


ConfigRecord = (
    ConnectorConfig
    | TaskConfig
    | TasksCommit
    | Target
    | TaskCount
    | SessionKey
    | RestartRequest
    | TaskRestart
    | LoggerLevel
    | OffsetsGeneration
)
