"""The records of connect-configs as bytes: schemaless JSON with the keys and fields of Java's workers.

A record that is not understood (of a later version, or damaged) is left out, as Java's workers do.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from ottla.connect.core.config_records import (
    ConfigRecord,
    ConnectorConfig,
    LoggerLevel,
    OffsetsGeneration,
    Properties,
    RestartRequest,
    SessionKey,
    Target,
    TaskConfig,
    TaskCount,
    TaskRestart,
    TasksCommit,
)
from ottla.connect.core.ids import TargetState
from ottla.replicated.records import Record

CONNECTOR: Final = "connector-"
TASK: Final = "task-"
COMMIT: Final = "commit-"
TARGET: Final = "target-state-"
FENCING: Final = "tasks-fencing-"
RESTART: Final = "restart-connector-"
LOGGER: Final = "logger-cluster-"
SESSION_KEY: Final = "session-key"
GENERATION: Final = "ottla-generation-"
TASK_RESTART: Final = "ottla-restart-task-"
MAX_TASKS: Final = 1_000_000


def encode(record: ConfigRecord) -> Record:
    """The record as it is written."""
    match record:
        case ConnectorConfig(connector, properties):
            return _record(CONNECTOR + connector, None if properties is None else _configuration(properties))
        case TaskConfig(connector, task, properties):
            return _record(f"{TASK}{connector}-{task}", _configuration(properties))
        case TasksCommit(connector, tasks):
            return _record(COMMIT + connector, {"tasks": tasks})
        case Target(connector, state):
            return _record(TARGET + connector, None if state is None else _target(state))
        case TaskCount(connector, tasks):
            return _record(FENCING + connector, {"task-count": tasks})
        case SessionKey(key, algorithm, created_ms):
            text = base64.b64encode(key).decode()
            fields = {"key": text, "algorithm": algorithm, "creation-timestamp": created_ms}
            return _record(SESSION_KEY, fields)
        case RestartRequest(connector, include_tasks, only_failed):
            return _record(RESTART + connector, {"include-tasks": include_tasks, "only-failed": only_failed})
        case TaskRestart(connector, task):
            return _record(TASK_RESTART + connector, {"task": task})
        case LoggerLevel(logger, level):
            return _record(LOGGER + logger, {"level": level})
        case OffsetsGeneration(connector, generation):
            return _record(GENERATION + connector, {"generation": generation})


def decode(key_bytes: bytes, value_bytes: bytes | None) -> ConfigRecord | None:
    """The record that these bytes are; None for one that is not understood."""
    try:
        key = key_bytes.decode()
        value = None if value_bytes is None else orjson.loads(value_bytes)
        return _decoded(key, value)
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
        return None


def _decoded(key: str, value: Any) -> ConfigRecord | None:
    if value is None:
        if key.startswith(CONNECTOR):
            return ConnectorConfig(key.removeprefix(CONNECTOR), None)
        return Target(key.removeprefix(TARGET), None) if key.startswith(TARGET) else None
    if not isinstance(value, dict):
        return None
    for prefix, read in _READERS.items():
        if key.startswith(prefix):
            return read(key.removeprefix(prefix), value)
    return None


def _task(name: str, value: Mapping[str, Any]) -> ConfigRecord:
    connector, _, task = name.rpartition("-")
    return TaskConfig(connector, _count(int(task)), _properties(value))


def _session_key(_name: str, value: Mapping[str, Any]) -> ConfigRecord:
    key = base64.b64decode(value["key"], validate=True)
    return SessionKey(key, _text(value["algorithm"]), _integer(value["creation-timestamp"]))


_READERS: Final[Mapping[str, Callable[[str, Mapping[str, Any]], ConfigRecord]]] = {
    TARGET: lambda name, value: Target(name, _target_of(value)),
    FENCING: lambda name, value: TaskCount(name, _count(value["task-count"])),
    RESTART: lambda name, value: RestartRequest(
        name, value.get("include-tasks") is True, value.get("only-failed") is True
    ),
    LOGGER: lambda name, value: LoggerLevel(name, _text(value["level"])),
    SESSION_KEY: _session_key,
    GENERATION: lambda name, value: OffsetsGeneration(name, _integer(value["generation"])),
    TASK_RESTART: lambda name, value: TaskRestart(name, _count(value["task"])),
    COMMIT: lambda name, value: TasksCommit(name, _count(value["tasks"])),
    CONNECTOR: lambda name, value: ConnectorConfig(name, _properties(value)),
    TASK: _task,
}


def _record(key: str, value: Any) -> Record:
    return Record(key.encode(), None if value is None else orjson.dumps(value))


def _configuration(properties: Properties) -> dict[str, Any]:
    return {"properties": dict(properties)}


def _target(state: TargetState) -> dict[str, str]:
    """Workers before 3.5 know no STOPPED: they pause the connector."""
    older = TargetState.PAUSED if state is TargetState.STOPPED else state
    return {"state": older, "state.v2": state}


def _target_of(value: Mapping[str, Any]) -> TargetState:
    newer = value.get("state.v2")
    if isinstance(newer, str) and newer in TargetState.__members__:
        return TargetState(newer)
    return TargetState(value["state"])


def _properties(value: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a configuration. A null, which Java's workers allow, is as good as no value."""
    return {name: _text(each) for name, each in value["properties"].items() if each is not None}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _count(value: Any) -> int:
    if not 0 <= _integer(value) <= MAX_TASKS:
        raise ValueError
    return _integer(value)
