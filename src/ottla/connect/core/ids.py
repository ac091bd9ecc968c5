"""Names of a Connect cluster's parts: connectors, tasks, and the states they can be in."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

CONNECTOR: Final = -1
"""In place of a task's number: the connector itself, as in Connect's assignments."""


class TaskId(NamedTuple):
    """A task of a connector, or the connector itself (task CONNECTOR)."""

    connector: str
    task: int

    def __str__(self) -> str:
        return self.connector if self.task == CONNECTOR else f"{self.connector}-{self.task}"


class TargetState(enum.StrEnum):
    """The state that users want a connector to be in."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class State(enum.StrEnum):
    """The state of a connector or task, as the REST API tells it."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"
