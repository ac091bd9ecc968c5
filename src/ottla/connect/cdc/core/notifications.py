"""Notifications: what happens to snapshots, as records of a topic, in Debezium's form; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ottla.connect.data.building import REQUIRED, struct_schema
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema, Struct, Type

INCREMENTAL: Final = "Incremental Snapshot"
INITIAL: Final = "Initial Snapshot"
CONNECTOR_NAME: Final = "connector_name"
_ROOM: Final = "io.debezium.connector.common"
_STRING: Final = REQUIRED[Type.STRING]
KEY: Final = replace(struct_schema((("id", _STRING),), name=f"{_ROOM}.NotificationKey"), version=1)
VALUE: Final = replace(
    struct_schema(
        (
            ("id", _STRING),
            ("type", _STRING),
            ("aggregate_type", _STRING),
            ("additional_data", Schema(Type.MAP, optional=True, keys=_STRING, values=_STRING)),
            ("timestamp", REQUIRED[Type.INT64]),
        ),
        name=f"{_ROOM}.Notification",
    ),
    version=1,
)


@dataclass(frozen=True, slots=True)
class Notification:
    """One. id: of the signal that asked for the snapshot, or a number of its own."""

    id: str
    aggregate: str
    type: str
    data: Mapping[str, str]
    time_ms: int

    def record(self, topic: str) -> Record:
        """As a record."""
        value = {
            "id": self.id,
            "type": self.type,
            "aggregate_type": self.aggregate,
            "additional_data": dict(self.data),
            "timestamp": self.time_ms,
        }
        return Record(topic, None, Struct(KEY, {"id": self.id}), KEY, Struct(VALUE, value), VALUE)
