"""EventRouter: the events of an outbox table, each to the topic of its aggregate."""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from ottla.config.setting import HIGH, LOW, MEDIUM, Table, boolean, by_name, choice, repeating_list, string
from ottla.config.settings import Settings
from ottla.config.validators import Rule
from ottla.connect.data.building import struct_schema
from ottla.connect.data.caches import keep
from ottla.connect.data.checking import check_value
from ottla.connect.data.java_regex import JavaRegex
from ottla.connect.data.java_text import value_text
from ottla.connect.data.json_text import read_json
from ottla.connect.data.record import Header, Record
from ottla.connect.data.schema import DataError, Field, Schema, Struct, Type
from ottla.connect.transforms.common import require_struct
from ottla.connect.transforms.debezium.envelopes import (
    AFTER,
    DELETE,
    OPERATION,
    UPDATE,
    VERSION,
    extracted,
    is_envelope,
    typed,
)
from ottla.connect.transforms.debezium.json_payload import payload_schema, payload_struct
from ottla.connect.transforms.expressions import valid_regex

_log = logging.getLogger(__name__)

PAYLOAD: Final = "payload"
_CACHED_SCHEMAS: Final = 1_000
_UNITS: Final = {
    "io.debezium.time.Timestamp": 1,
    "io.debezium.time.MicroTimestamp": 1_000,
    "io.debezium.time.NanoTimestamp": 1_000_000,
}


class Unexpected(enum.StrEnum):
    """What becomes of an update of the outbox table."""

    WARN = "warn"
    ERROR = "error"
    FATAL = "fatal"


class Nulls(enum.StrEnum):
    """What becomes of null within a JSON payload."""

    IGNORE = "ignore"
    OPTIONAL_BYTES = "optional_bytes"


class Missing(enum.StrEnum):
    """What becomes of an additional field that the table does not have."""

    ERROR = "error"
    IGNORE = "ignore"


class Place(enum.StrEnum):
    """Where an additional field goes."""

    HEADER = "header"
    ENVELOPE = "envelope"
    PARTITION = "partition"


def _placement_problem(items: tuple[str, ...]) -> str | None:
    for item in items:
        parts = item.split(":")
        if len(parts) not in (2, 3):
            return (
                "A comma-separated list of valid String pairs or trios is expected but got: "
                f"[{', '.join(items)}]"
            )
        if parts[1].strip().lower() not in set(Place):
            return f"{parts[1]} is none of {', '.join(Place)}"
    return None


OPERATION_INVALID: Final = choice(Unexpected)(
    "table.op.invalid.behavior",
    Unexpected.WARN,
    "What becomes of an update of the table: a warning or an error in the log, or the end of the task.",
    importance=MEDIUM,
)
EVENT_ID: Final = string("table.field.event.id", "id", "The column with the event's id.", importance=LOW)
EVENT_KEY: Final = string(
    "table.field.event.key", "aggregateid", "The column that becomes the key.", importance=LOW
)
EVENT_TYPE: Final = string(
    "table.field.event.type", "type", "The column with the event's type.", importance=LOW
)
EVENT_TIMESTAMP: Final = string.optional(
    "table.field.event.timestamp",
    "The column with the timestamp; else that of the change.",
    importance=MEDIUM,
)
EVENT_PAYLOAD: Final = string(
    "table.field.event.payload", "payload", "The column that becomes the value.", importance=LOW
)
PLACEMENT: Final = repeating_list(
    "table.fields.additional.placement",
    (),
    "More columns and where they go, as column:place or column:place:name; a place is header, envelope or "
    "partition.",
    Rule("pairs or trios with colons", _placement_problem),
    importance=HIGH,
)
ADDITIONAL_MISSING: Final = choice(Missing)(
    "table.field.additional.missing",
    Missing.ERROR,
    "What becomes of an additional column that is not there.",
    importance=MEDIUM,
)
SCHEMA_VERSION: Final = string.optional(
    "table.field.event.schema.version", "The column with the version of the payload's schema.", importance=LOW
)
ROUTE_BY_FIELD: Final = string(
    "route.by.field", "aggregatetype", "The column that gives the topic.", importance=HIGH
)
ROUTE_REGEX: Final = string(
    "route.topic.regex",
    "(?<routedByValue>.*)",
    "The regular expression that the column's value has to match.",
    valid_regex,
    importance=LOW,
)
ROUTE_REPLACEMENT: Final = string(
    "route.topic.replacement",
    "outbox.event.${routedByValue}",
    "The topic, with the groups of the expression.",
    importance=HIGH,
)
TOMBSTONE_ON_EMPTY: Final = boolean(
    "route.tombstone.on.empty.payload", False, "Whether an empty payload gives a tombstone.", importance=HIGH
)
EXPAND_JSON: Final = boolean(
    "table.expand.json.payload",
    False,
    "Whether a payload that is a JSON text becomes a struct.",
    importance=MEDIUM,
)
JSON_NULLS: Final = choice(Nulls)(
    "table.json.payload.null.behavior",
    Nulls.IGNORE,
    "What becomes of null within a JSON payload: left out, or kept as optional bytes.",
    importance=MEDIUM,
)


@dataclass(frozen=True, slots=True)
class _Additional:
    """A column that goes elsewhere than into the payload."""

    column: str
    place: Place
    name: str

    @classmethod
    def of(cls, text: str) -> _Additional:
        parts = [each.strip() for each in text.split(":")]
        return cls(parts[0], Place(parts[1].lower()), parts[2] if len(parts) == 3 else parts[0])


class EventRouter:
    """See Transform."""

    TABLE: ClassVar[Table] = Table(
        "EventRouter",
        by_name(
            (
                OPERATION_INVALID,
                EVENT_ID,
                EVENT_KEY,
                EVENT_TYPE,
                EVENT_TIMESTAMP,
                EVENT_PAYLOAD,
                PLACEMENT,
                ADDITIONAL_MISSING,
                SCHEMA_VERSION,
                ROUTE_BY_FIELD,
                ROUTE_REGEX,
                ROUTE_REPLACEMENT,
                TOMBSTONE_ON_EMPTY,
                EXPAND_JSON,
                JSON_NULLS,
            )
        ),
    )
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        self._settings = settings
        self._regex = JavaRegex(settings[ROUTE_REGEX])
        self._additional = [_Additional.of(each) for each in settings[PLACEMENT]]
        self._has_envelope = any(each.place is Place.ENVELOPE for each in self._additional)
        self._ignores_missing = settings[ADDITIONAL_MISSING] is Missing.IGNORE
        self._by_payload: dict[int, tuple[Schema, Schema]] = {}
        self._by_version: dict[Any, Schema] = {}

    def apply(self, record: Record) -> Record | None:
        """See Transform."""
        if record.value is None:
            return None
        if not is_envelope(record):
            return record
        envelope = require_struct(record.value, "Detect Debezium Operation", record.value_schema)
        operation = typed(envelope, OPERATION, Type.STRING)
        if operation == DELETE:
            return None
        if operation == UPDATE:
            self._refuse(record)
            return None
        schema, row = extracted(record, AFTER)
        return self._event(record, envelope, schema, require_struct(row, "Read Outbox Event", schema))

    def _refuse(self, record: Record) -> None:
        behavior = self._settings[OPERATION_INVALID]
        if behavior is Unexpected.FATAL:
            raise DataError(f"Unexpected update message received {value_text(record.key)}, fail.")
        level = logging.WARNING if behavior is Unexpected.WARN else logging.ERROR
        _log.log(
            level, "an update of the outbox table is ignored topic=%s offset=%s", record.topic, record.offset
        )

    def _event(self, record: Record, envelope: Struct, schema: Schema, row: Struct) -> Record:
        payload_field = self._found(schema, EVENT_PAYLOAD, "payload")
        timestamp_ms = self._timestamp_ms(envelope, row)
        id_field = self._found(schema, EVENT_ID, "event-id")
        headers = [*record.headers, Header("id", row.get(id_field.name), id_field.schema)]
        of_payload, payload = self._expanded(payload_field, row.get(payload_field.name))
        topic = typed(row, self._settings[ROUTE_BY_FIELD], Type.STRING)
        value_schema: Schema | None = of_payload
        value = payload
        partition: int | None = None
        if self._has_envelope:
            value_schema = self._envelope_schema(of_payload, schema, row, topic)
            check_value(of_payload, payload, PAYLOAD)
            value = Struct(value_schema, {PAYLOAD: payload} | self._envelope_values(schema, row))
        for each in self._present(schema):
            if each.place is Place.HEADER:
                field = schema.field(each.column)
                if field is None:
                    raise DataError(f"{each.column} is not a valid field name")
                headers.append(Header(each.name, row.get(each.column), field.schema))
            elif each.place is Place.PARTITION:
                partition = typed(row, each.column, Type.INT32)
        if self._settings[TOMBSTONE_ON_EMPTY] and _is_empty(payload, of_payload):
            value_schema, value = None, None
        key_field = schema.field(self._settings[EVENT_KEY])
        if key_field is None:
            raise DataError(f"{self._settings[EVENT_KEY]} is not a valid field name")
        if topic is None:
            raise DataError(f"the column {self._settings[ROUTE_BY_FIELD]} that gives the topic is null")
        return Record(
            self._routed(topic),
            partition,
            row.get(key_field.name),
            key_field.schema,
            value,
            value_schema,
            timestamp_ms,
            tuple(headers),
            record.offset,
        )

    def _found(self, schema: Schema, setting: Any, kind: str) -> Field:
        name = self._settings[setting]
        field = schema.field(name)
        if field is None:
            raise DataError(f"Unable to find {kind} field {name} in event")
        return field

    def _present(self, schema: Schema) -> list[_Additional]:
        if not self._ignores_missing:
            return self._additional
        return [each for each in self._additional if schema.field(each.column) is not None]

    def _routed(self, topic: str) -> str:
        if not self._regex.matches(topic):
            return topic
        return self._regex.replace_first(topic, self._settings[ROUTE_REPLACEMENT])

    def _expanded(self, field: Field, payload: Any) -> tuple[Schema, Any]:
        """The payload and its schema, a struct where it is the text of JSON and is to become one."""
        if not self._settings[EXPAND_JSON] or payload is None:
            return field.schema, payload
        if not isinstance(payload, str):
            _log.warning("the payload is not a string, so no JSON field=%s", field.name)
            return field.schema, payload
        try:
            if not payload.startswith(("{", "[")):
                raise DataError("the text begins with neither { nor [")
            node = read_json(payload.encode())
            keep_nulls = self._settings[JSON_NULLS] is Nulls.OPTIONAL_BYTES
            schema = payload_schema(field.name, node, keep_nulls=keep_nulls)
            if schema is None:
                raise DataError("no schema follows from the JSON")
            return schema, payload_struct(node, schema)
        except (DataError, RecursionError) as problem:
            _log.warning("the payload could not be read as JSON field=%s reason=%s", field.name, problem)
            return field.schema, payload

    def _timestamp_ms(self, envelope: Struct, row: Struct) -> int | None:
        name = self._settings[EVENT_TIMESTAMP]
        if name is None:
            return _ms_of(envelope)
        field = row.schema.field(name)
        if field is None:
            raise DataError(f"Unable to find timestamp field {name} in event")
        value = typed(row, name, Type.INT64)
        if value is None:
            return _ms_of(envelope)
        if field.schema.name is None:
            raise DataError(
                f"Unsupported field type {field.schema.type.name} (without logical schema name) for event "
                "timestamp"
            )
        unit = _UNITS.get(field.schema.name)
        if unit is None:
            raise DataError(f"Unsupported field type {field.schema.name} for event timestamp")
        return int(value // unit if value >= 0 else -(-value // unit))

    def _envelope_schema(self, payload: Schema, schema: Schema, row: Struct, topic: str) -> Schema:
        column = self._settings[SCHEMA_VERSION]
        if column is None:
            kept = self._by_payload.get(id(payload))
            if kept is None:
                kept = payload, self._built(payload, schema, topic)
                keep(self._by_payload, id(payload), kept, _CACHED_SCHEMAS)
            return kept[1]
        version = typed(row, column, Type.INT32)
        found = self._by_version.get(version)
        if found is None:
            found = replace(self._built(payload, schema, topic), version=version)
            keep(self._by_version, version, found, _CACHED_SCHEMAS)
        return found

    def _built(self, payload: Schema, schema: Schema, topic: str) -> Schema:
        fields = [(PAYLOAD, payload)]
        for each in self._present(schema):
            if each.place is Place.ENVELOPE:
                field = schema.field(each.column)
                if field is None:
                    raise DataError(f"Unable to find field {each.column} in event")
                fields.append((each.name, field.schema))
        if schema.name is None:
            name = topic
        else:
            space, dot, own = schema.name.rpartition(".")
            name = f"{space}{dot}{topic}.{own}"
        return struct_schema(fields, name=name)

    def _envelope_values(self, schema: Schema, row: Struct) -> dict[str, Any]:
        return {
            each.name: row.get(each.column) for each in self._present(schema) if each.place is Place.ENVELOPE
        }


def _ms_of(envelope: Struct) -> int | None:
    found: int | None = typed(envelope, "ts_ms", Type.INT64)
    return found


def _is_empty(payload: Any, schema: Schema) -> bool:
    return payload is None or not value_text(payload, schema).strip()
