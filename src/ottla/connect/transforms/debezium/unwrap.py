"""ExtractNewRecordState: the row of a change event in place of its envelope."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import LOW, MEDIUM, Table, boolean, by_name, choice, string
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.connect.data.building import OPTIONAL, REQUIRED, as_optional, struct_schema
from ottla.connect.data.caches import keep
from ottla.connect.data.record import Header, Record
from ottla.connect.data.schema import DataError, Schema, Struct, Type
from ottla.connect.transforms.common import (
    REPLACE_NULL_WITH_DEFAULT,
    copied,
    require_struct,
    sources_of,
)
from ottla.connect.transforms.debezium.envelopes import (
    AFTER,
    BEFORE,
    DELETE,
    OPERATION,
    SOURCE,
    VERSION,
    extracted,
    is_envelope,
    typed,
)
from ottla.connect.transforms.replace_field import ReplaceField
from ottla.connect.transforms.sides import KEY, VALUE, Side, headers_replaced, topic_replaced

DELETED: Final = "__deleted"
_CACHED_SCHEMAS: Final = 64
_WITHOUT_STRUCT: Final = frozenset((OPERATION, "ts_ms", "ts_us", "ts_ns"))
_OF_TRANSACTION: Final = frozenset(("id", "data_collection_order", "total_order"))


class Deletes(enum.StrEnum):
    """What becomes of events of deleted rows and of tombstones."""

    DROP = "drop"
    TOMBSTONE = "tombstone"
    REWRITE = "rewrite"
    REWRITE_WITH_TOMBSTONE = "rewrite-with-tombstone"
    DELETE_TO_TOMBSTONE = "delete-to-tombstone"


DELETE_HANDLING: Final = choice(Deletes)(
    "delete.tombstone.handling.mode",
    Deletes.TOMBSTONE,
    "What becomes of events of deleted rows: drop them and their tombstones; leave a tombstone; rewrite them "
    "to the old row with the field __deleted, without or with the tombstone; delete-to-tombstone turns the "
    "event into a tombstone and drops the tombstone behind it.",
    importance=MEDIUM,
)
ROUTE_BY_FIELD: Final = string(
    "route.by.field", "", "The field of the row that gives the topic.", importance=LOW
)
ADD_FIELDS_PREFIX: Final = string(
    "add.fields.prefix", "__", "The beginning of the names of added fields.", importance=LOW
)
ADD_FIELDS: Final = string(
    "add.fields",
    "",
    "Fields of the envelope to add to the row: op, table, source.ts_ms, or with a new name op:OPERATION.",
    importance=LOW,
)
ADD_HEADERS_PREFIX: Final = string(
    "add.headers.prefix", "__", "The beginning of the names of added headers.", importance=LOW
)
ADD_HEADERS: Final = string(
    "add.headers", "", "Fields of the envelope to add as headers, named as in add.fields.", importance=LOW
)
DROP_HEADER: Final = string.optional(
    "drop.fields.header.name", "The header with the list of fields to drop from the row.", importance=LOW
)
DROP_FROM_KEY: Final = boolean(
    "drop.fields.from.key", False, "Whether the fields are dropped from the key as well.", importance=LOW
)
DROP_COMPATIBLY: Final = boolean(
    "drop.fields.keep.schema.compatible",
    True,
    "Whether only fields that may be null are dropped.",
    importance=LOW,
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A field of an envelope. struct: the field that it lies in; None for the envelope itself."""

    struct: str | None
    field: str
    new_name: str

    @classmethod
    def of(cls, prefix: str, text: str) -> Reference:
        """Raises ConfigError."""
        path, *names = text.split(":")
        first, *rest = path.split(".")
        field = rest[0] if rest else first
        struct = first if rest else _struct_of(first)
        if len(names) > 1:
            raise ConfigError(f"Unexpected field name: {text}")
        if names:
            return cls(struct, field, prefix + names[0])
        return cls(struct, field, f"{prefix}{struct}_{field}" if rest else prefix + field)

    def schema(self, envelope: Schema) -> Schema | None:
        """The field's schema for a null as well; None where there is no such field. Raises DataError."""
        parent = envelope
        if self.struct is not None:
            found = envelope.field(self.struct)
            if found is None:
                raise DataError(f"{self.struct} is not a valid field name")
            parent = found.schema
        field = parent.field(self.field) or envelope.field(self.field)
        return None if field is None else replace(as_optional(field.schema), default=None)

    def value(self, envelope: Struct) -> Any:
        """The field's value, None where the struct that it lies in is null. Raises DataError."""
        parent = envelope if self.struct is None else envelope.get_without_default(self.struct)
        if parent is None:
            return None
        if parent.schema.field(self.field) is not None:
            return parent.values.get(self.field)
        return envelope.get_without_default(self.field)


def _struct_of(field: str) -> str | None:
    if field in _WITHOUT_STRUCT:
        return None
    if field in _OF_TRANSACTION:
        return "transaction"
    return field if field == "updateDescription" else SOURCE


def _references(prefix: str, text: str) -> list[Reference]:
    return [Reference.of(prefix, each.strip()) for each in text.split(",")] if text else []


class ExtractNewRecordState:
    """See Transform."""

    TABLE: ClassVar[Table] = Table(
        "ExtractNewRecordState",
        by_name(
            (
                DELETE_HANDLING,
                ROUTE_BY_FIELD,
                ADD_FIELDS_PREFIX,
                ADD_FIELDS,
                ADD_HEADERS_PREFIX,
                ADD_HEADERS,
                DROP_HEADER,
                DROP_FROM_KEY,
                DROP_COMPATIBLY,
                REPLACE_NULL_WITH_DEFAULT,
            )
        ),
    )
    VERSION: ClassVar[str] = VERSION

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        self._deletes = settings[DELETE_HANDLING]
        self._topic_field = settings[ROUTE_BY_FIELD]
        self._fields = _references(settings[ADD_FIELDS_PREFIX], settings[ADD_FIELDS])
        self._headers = _references(settings[ADD_HEADERS_PREFIX], settings[ADD_HEADERS])
        self._drop_header = settings[DROP_HEADER]
        self._drop_from_key = settings[DROP_FROM_KEY]
        self._drop_compatibly = settings[DROP_COMPATIBLY]
        self._replace_null = settings[REPLACE_NULL_WITH_DEFAULT]
        self._droppers: dict[tuple[str, tuple[str, ...]], ReplaceField] = {}
        self._with_fields: dict[tuple[int, int], tuple[Schema, Schema, Schema]] = {}
        self._marked: dict[int, tuple[Schema, Schema]] = {}

    def apply(self, record: Record) -> Record | None:
        """See Transform."""
        if record.value is None:
            if self._deletes is not Deletes.REWRITE_WITH_TOMBSTONE:
                return None
            return self._with_headers(record, None)
        if not is_envelope(record):
            return record
        envelope = require_struct(record.value, "field extraction", record.value_schema)
        record = self._with_headers(record, envelope)
        schema, row = extracted(record, AFTER)
        if row is not None:
            return self._row(record, envelope, schema, row)
        old_schema, old_row = extracted(record, BEFORE)
        return None if old_row is None else self._deleted(record, envelope, schema, old_schema, old_row)

    def _row(self, record: Record, envelope: Struct, schema: Schema, row: Any) -> Record:
        changed = self._marked_record(record, schema, row, "false")
        if self._topic_field:
            named = require_struct(changed.value, "Read record to set topic routing for CREATE / UPDATE")
            changed = _routed(changed, typed(named, self._topic_field, Type.STRING))
        return self._without_dropped(self._added(changed, envelope))

    def _deleted(
        self, record: Record, envelope: Struct, schema: Schema, old_schema: Schema, old_row: Any
    ) -> Record | None:
        match self._deletes:
            case Deletes.DROP:
                return None
            case Deletes.TOMBSTONE:
                changed = VALUE.replaced(record, schema, None)
            case Deletes.DELETE_TO_TOMBSTONE:
                changed = VALUE.replaced(record, None, None)
            case _:
                changed = self._marked_record(record, old_schema, old_row, "true")
        if self._topic_field:
            changed = _routed(changed, typed(old_row, self._topic_field, Type.STRING))
        changed = self._without_dropped(changed)
        return changed if changed.value is None else self._added(changed, envelope)

    def _marked_record(self, record: Record, schema: Schema, row: Any, deleted: str) -> Record:
        """The record with a row as its value, with __deleted where rows are rewritten."""
        rewrites = self._deletes in (Deletes.REWRITE, Deletes.REWRITE_WITH_TOMBSTONE)
        if not rewrites or not isinstance(row, Struct):
            return VALUE.replaced(record, schema, row)
        kept = self._marked.get(id(row.schema))
        if kept is None:
            fields = [(each.name, each.schema) for each in row.schema.fields]
            marked = struct_schema([*fields, (DELETED, OPTIONAL[Type.STRING])], like=row.schema)
            kept = row.schema, marked
            keep(self._marked, id(row.schema), kept, _CACHED_SCHEMAS)
        values = copied(sources_of(row.schema, self._replace_null), row) | {DELETED: deleted}
        return VALUE.replaced(record, kept[1], Struct(kept[1], values))

    def _with_headers(self, record: Record, envelope: Struct | None) -> Record:
        if not self._headers:
            return record
        added: list[Header] = []
        for each in self._headers:
            if envelope is None:
                if each.field == OPERATION:
                    added.append(Header(each.new_name, DELETE, REQUIRED[Type.STRING]))
                continue
            schema = each.schema(envelope.schema)
            if schema is not None:
                added.append(Header(each.new_name, each.value(envelope), schema))
        return headers_replaced(record, record.headers + tuple(added))

    def _added(self, record: Record, envelope: Struct) -> Record:
        row = require_struct(record.value, "source field insertion", record.value_schema)
        found = [(each, each.schema(envelope.schema)) for each in self._fields]
        given = [(each, schema) for each, schema in found if schema is not None]
        key = id(row.schema), id(envelope.schema)
        kept = self._with_fields.get(key)
        if kept is None:
            fields = [(each.name, each.schema) for each in row.schema.fields]
            wide = struct_schema(
                [*fields, *((each.new_name, schema) for each, schema in given)], like=row.schema
            )
            kept = row.schema, envelope.schema, wide
            keep(self._with_fields, key, kept, _CACHED_SCHEMAS)
        values = copied(sources_of(row.schema, replace_null=False), row)
        values |= {each.new_name: each.value(envelope) for each, _ in given}
        return VALUE.replaced(record, kept[2], Struct(kept[2], values))

    def _without_dropped(self, record: Record) -> Record:
        if not self._drop_header:
            return record
        header = next((each for each in record.headers if each.name == self._drop_header), None)
        if header is None or not header.value:
            return record
        names = tuple(map(str, header.value))
        if self._drop_from_key and record.key is not None:
            record = self._dropped(record, KEY, record.key_schema, names)
        return self._dropped(record, VALUE, record.value_schema, names)

    def _dropped(self, record: Record, side: Side, schema: Schema | None, names: tuple[str, ...]) -> Record:
        if self._drop_compatibly:
            fields = () if schema is None else schema.fields
            names = tuple(each.name for each in fields if each.schema.optional and each.name in names)
        if not names:
            return record
        dropper = self._droppers.get((side.name, names))
        if dropper is None:
            settings = Settings(ReplaceField.TABLE, from_mapping({"exclude": ",".join(names)}))
            dropper = ReplaceField(settings, side)
            keep(self._droppers, (side.name, names), dropper, _CACHED_SCHEMAS)
        return dropper.apply(record)


def _routed(record: Record, topic: str | None) -> Record:
    return topic_replaced(record, topic) if topic and topic.strip() else record
