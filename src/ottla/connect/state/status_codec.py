"""The records of connect-status as bytes: schemaless JSON with the keys and fields of Java's workers.

The field `revision` is ottla's own; Java's workers pass over fields that they don't know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from ottla.connect.core.ids import CONNECTOR, State, TaskId
from ottla.connect.core.status_image import Status, StatusRecord, TaskStatus, TopicStatus
from ottla.replicated.records import Record

CONNECTOR_STATUS: Final = "status-connector-"
TASK_STATUS: Final = "status-task-"
TOPIC_STATUS: Final = "status-topic-"
TOPIC_SEPARATOR: Final = ":connector-"
MAX_TRACE_CHARACTERS: Final = 64 << 10


def encode(record: StatusRecord) -> Record:
    """The record as it is written."""
    match record:
        case TaskStatus(id, status):
            key = (
                f"{CONNECTOR_STATUS}{id.connector}"
                if id.task == CONNECTOR
                else f"{TASK_STATUS}{id.connector}-{id.task}"
            )
            return Record(key.encode(), None if status is None else orjson.dumps(_status(status)))
        case TopicStatus(topic, connector, task, discovered_ms):
            key = f"{TOPIC_STATUS}{topic}{TOPIC_SEPARATOR}{connector}"
            fields = {
                "name": topic,
                "connector": connector,
                "task": task,
                "discoverTimestamp": discovered_ms,
            }
            return Record(key.encode(), None if task is None else orjson.dumps({"topic": fields}))


def decode(key_bytes: bytes, value_bytes: bytes | None) -> StatusRecord | None:
    """The record that these bytes are; None for one that is not understood."""
    try:
        key = key_bytes.decode()
        value = None if value_bytes is None else orjson.loads(value_bytes)
        if key.startswith(CONNECTOR_STATUS):
            return TaskStatus(TaskId(key.removeprefix(CONNECTOR_STATUS), CONNECTOR), _status_of(value))
        if key.startswith(TASK_STATUS):
            connector, _, task = key.removeprefix(TASK_STATUS).rpartition("-")
            return TaskStatus(TaskId(connector, int(task)), _status_of(value))
        if key.startswith(TOPIC_STATUS):
            topic, separator, connector = key.removeprefix(TOPIC_STATUS).partition(TOPIC_SEPARATOR)
            if not separator or value is None:
                return TopicStatus(topic, connector) if separator else None
            fields = value["topic"]
            return TopicStatus(topic, connector, int(fields["task"]), int(fields["discoverTimestamp"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def _status(status: Status) -> dict[str, Any]:
    return {
        "state": status.state,
        "trace": None if status.trace is None else status.trace[:MAX_TRACE_CHARACTERS],
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
        "revision": status.revision,
    }


def _status_of(value: Mapping[str, Any] | None) -> Status | None:
    if value is None or value["state"] == "DESTROYED":
        return None
    trace, version, revision = value.get("trace"), value.get("version"), value.get("revision")
    return Status(
        State(value["state"]),
        str(value["worker_id"]),
        int(value["generation"]),
        None if trace is None else str(trace),
        None if version is None else str(version),
        None if revision is None else int(revision),
    )
