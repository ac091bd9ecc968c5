"""What the leader writes to connect-configs for each request: functions of the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ottla.connect.core.config_image import ConfigImage
from ottla.connect.core.config_records import (
    ConfigRecord,
    ConnectorConfig,
    OffsetsGeneration,
    Properties,
    RestartRequest,
    Target,
    TaskConfig,
    TaskCount,
    TaskRestart,
    TasksCommit,
)
from ottla.connect.core.errors import Refused, not_found, unknown_connector
from ottla.connect.core.ids import TargetState, TaskId

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decided(Generic[T]):
    """Records to store, all or none and in this order, and the answer that may be given then."""

    records: Sequence[ConfigRecord]
    answer: T


def create(
    image: ConfigImage, connector: str, properties: Properties, target: TargetState | None
) -> Decided[bool]:
    """A new connector. Raises Refused where it exists already."""
    if connector in image:
        raise Refused(409, f"Connector {connector} already exists")
    return _put(connector, properties, target, True)


def put(image: ConfigImage, connector: str, properties: Properties) -> Decided[bool]:
    """A connector's whole configuration; the answer: whether the connector is new."""
    return _put(connector, properties, None, connector not in image)


def _put(connector: str, properties: Properties, target: TargetState | None, is_new: bool) -> Decided[bool]:
    # The state first: the configuration's record is the one that starts the connector.
    first = [] if target is None else [Target(connector, target)]
    return Decided([*first, ConnectorConfig(connector, dict(properties))], is_new)


def patched(image: ConfigImage, connector: str, patch: Mapping[str, str | None]) -> dict[str, str]:
    """A configuration with some values changed, None: taken out. Raises Refused for an unknown connector."""
    config = image.config(connector)
    if config is None:
        raise not_found(connector)
    found: dict[str, str | None] = {**config, **patch}
    return {name: value for name, value in found.items() if value is not None}


def delete(image: ConfigImage, connector: str) -> Decided[None]:
    """A connector's end. Raises Refused for an unknown one."""
    if connector not in image:
        raise not_found(connector)
    return Decided([ConnectorConfig(connector, None), Target(connector, None)], None)


def set_target(image: ConfigImage, connector: str, target: TargetState) -> Decided[None]:
    """Pause, resume or stop a connector. A stopped one has no tasks. Raises Refused for an unknown one."""
    if connector not in image:
        raise unknown_connector(connector)
    if target is TargetState.STOPPED:
        return Decided([TasksCommit(connector, 0), Target(connector, target)], None)
    return Decided([Target(connector, target)], None)


def set_tasks(image: ConfigImage, connector: str, configs: Sequence[Properties]) -> Decided[bool]:
    """The configurations of a connector's tasks; the answer: whether they are other ones than before.

    Raises Refused for an unknown connector, and for one that is stopped.
    """
    if connector not in image:
        raise not_found(connector)
    if configs and image.target(connector) is TargetState.STOPPED:
        raise Refused(400, f"Cannot submit non-empty set of task configs for stopped connector {connector}")
    is_known = not image.is_inconsistent(connector) and image.task_generation(connector) >= 0
    if is_known and list(image.task_configs(connector)) == [dict(each) for each in configs]:
        return Decided([], False)
    tasks: list[ConfigRecord] = [TaskConfig(connector, task, dict(each)) for task, each in enumerate(configs)]
    return Decided([*tasks, TasksCommit(connector, len(configs))], True)


def set_fenced(image: ConfigImage, connector: str) -> Decided[None]:
    """The former tasks of a connector are fenced. Raises Refused for an unknown one."""
    if connector not in image:
        raise not_found(connector)
    return Decided([TaskCount(connector, image.task_count(connector))], None)


def restart(image: ConfigImage, request: RestartRequest) -> Decided[None]:
    """Restart a connector and perhaps its tasks. Raises Refused for an unknown one."""
    if request.connector not in image:
        raise Refused(404, f"Unknown connector: {request.connector}")
    return Decided([request], None)


def restart_task(image: ConfigImage, task: TaskId) -> Decided[None]:
    """Restart one task. Raises Refused for an unknown one."""
    if task.connector not in image:
        raise Refused(404, f"Unknown connector: {task.connector}")
    if image.task_config(task.connector, task.task) is None:
        raise Refused(404, f"Unknown task: {task}")
    return Decided([TaskRestart(task.connector, task.task)], None)


def next_generation(image: ConfigImage, connector: str) -> Decided[int]:
    """The connector's offsets are changed by hand: what was derived from the former ones is of no use."""
    generation = image.generation(connector) + 1
    return Decided([OffsetsGeneration(connector, generation)], generation)


def require_stopped(image: ConfigImage, connector: str) -> None:
    """Raises Refused for a connector whose offsets can't be changed now."""
    if connector not in image:
        raise not_found(connector)
    if image.target(connector) is not TargetState.STOPPED or image.task_count(connector):
        raise Refused(
            400,
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done "
            "for the specified connector by issuing a 'PUT' request to the "
            f"'/connectors/{connector}/stop' endpoint",
        )
