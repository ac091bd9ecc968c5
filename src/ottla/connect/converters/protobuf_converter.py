"""ProtobufConverter: Protobuf behind the frame of the Schema Registry."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError

from ottla.config.setting import LOW, Table, boolean, integer
from ottla.connect.converters.protobuf_schemas import (
    ProtobufWriting,
    is_map,
    message_of,
    message_schema,
    wrapper_of,
)
from ottla.connect.converters.registry_schemas import REGISTRY_SETTINGS, VERSION, RegistrySchemas
from ottla.connect.converters.settings import table
from ottla.connect.data.caches import SchemaCache, keep
from ottla.connect.data.calendar import day_number, day_of
from ottla.connect.data.logical import DAY_MS, moment_number
from ottla.connect.data.schema import DATE, TIME, TIMESTAMP, DataError, Moment, Schema, Struct, Type
from ottla.connect.plugins.configuring import configured
from ottla.schemas import framing
from ottla.schemas.model import SchemaType
from ottla.schemas.protobuf.protobuf_format import ProtobufSchema

OPTIONAL_KEYWORD: Final = boolean(
    "optional.for.nullables", False, "Whether fields that may be null are `optional`.", importance=LOW
)
CACHE_SIZE: Final = integer(
    "schemas.cache.size", 1000, "The number of schemas that are kept ready.", importance=LOW
)
_MAX_CACHED: Final = 10_000
_MAX_LONG: Final = 1 << 63


class ProtobufConverter:
    """See Converter. One thread uses an object."""

    TABLE: ClassVar[Table] = table("Protobuf converter", *REGISTRY_SETTINGS, OPTIONAL_KEYWORD, CACHE_SIZE)
    VERSION: ClassVar[str] = VERSION

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        """See Converter."""
        settings = configured(self.TABLE, properties)
        self._registry = RegistrySchemas(settings, SchemaType.PROTOBUF, is_key)
        self._optional_keyword = settings[OPTIONAL_KEYWORD]
        self._limit = max(1, min(settings[CACHE_SIZE], _MAX_CACHED))
        self._texts: SchemaCache[tuple[str, str]] = SchemaCache(self._text, self._limit)
        self._readers: dict[tuple[int, tuple[int, ...]], tuple[Any, Schema]] = {}

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See Converter."""
        if value is None:
            return None
        if schema is None or not isinstance(value, Struct):
            raise DataError("Protobuf writes structs with a schema alone")
        text, name = self._texts.get(schema)
        found = self._registry.to_write(topic, text, name)
        assert isinstance(found.parsed, ProtobufSchema)
        try:
            path = found.parsed.index_path(name)
            message: Any = found.parsed.message_class(path)()
            fill_message(message, value)
            return framing.frame(found.id, message.SerializeToString(), path)
        except (LookupError, ValueError, TypeError, EncodeError) as problem:
            raise DataError(f"Failed to serialize Protobuf data from topic {topic}: {problem}") from None

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        """See Converter."""
        if data is None:
            return None, None
        found, framed = self._registry.to_read(data)
        try:
            path, body = framing.split_message_index(framed)
            made, schema = self._reader(found.id, path, found.parsed)
            message = made()
            message.ParseFromString(bytes(body))
        except (framing.UnframedPayload, LookupError, DecodeError) as problem:
            raise DataError(f"Failed to deserialize data for topic {topic} to Protobuf: {problem}") from None
        return schema, read_message(message, schema)

    def _text(self, schema: Schema) -> tuple[str, str]:
        file = ProtobufWriting(self._optional_keyword).file(schema)
        name = file.message_type[0].name
        full = f"{file.package}.{name}" if file.package else name
        return base64.b64encode(file.SerializeToString()).decode(), full

    def _reader(self, schema_id: int, path: tuple[int, ...], parsed: Any) -> tuple[Any, Schema]:
        kept = self._readers.get((schema_id, path))
        if kept is None:
            made = parsed.message_class(path)
            kept = made, message_schema(made.DESCRIPTOR)
            keep(self._readers, (schema_id, path), kept, self._limit)
        return kept


def fill_message(message: Any, value: Struct) -> None:
    """Write a struct into a message, field by field, by their names."""
    fields = message.DESCRIPTOR.fields_by_name
    for each in value.schema.fields:
        given = value.get(each.name)
        found = fields.get(each.name)
        if given is None or found is None:
            continue
        if each.schema.type is Type.MAP:
            _fill_map(message, found, each.schema, given)
        elif each.schema.type is Type.ARRAY:
            assert each.schema.values is not None
            _fill_list(getattr(message, each.name), each.schema.values, given)
        elif found.message_type is not None:
            _fill_inner(getattr(message, each.name), each.schema, given)
        else:
            setattr(message, each.name, given)


def _fill_list(made: Any, schema: Schema, values: list[Any]) -> None:
    for each in values:
        if each is None:
            raise DataError("Protobuf has no null in an array")
        if schema.type is Type.STRUCT or schema.name in (DATE, TIME, TIMESTAMP):
            _fill_inner(made.add(), schema, each)
        else:
            made.append(each)


def _fill_map(message: Any, field: FieldDescriptor, schema: Schema, values: dict[Any, Any]) -> None:
    assert schema.values is not None
    of_message = schema.values.type is Type.STRUCT or schema.values.name in (DATE, TIME, TIMESTAMP)
    made = getattr(message, field.name)
    for key, each in values.items():
        if key is None or each is None:
            raise DataError("Protobuf has no null in a map")
        if message_of(field).GetOptions().map_entry:
            if of_message:
                _fill_inner(made[key], schema.values, each)
            else:
                made[key] = each
            continue
        entry = made.add(key=key)
        if of_message:
            _fill_inner(entry.value, schema.values, each)
        else:
            entry.value = each


def _fill_inner(message: Any, schema: Schema, value: Any) -> None:
    if isinstance(value, Struct):
        message.SetInParent()
        fill_message(message, value)
    elif isinstance(value, Moment):
        _fill_moment(message, schema, value)
    else:
        message.value = value


def _fill_moment(message: Any, schema: Schema, value: Moment) -> None:
    message.SetInParent()
    if schema.name == DATE:
        day = day_of(moment_number(schema, value))
        message.year, message.month, message.day = day.year, day.month, day.day
    elif schema.name == TIME:
        seconds, ms = divmod(moment_number(schema, value), 1_000)
        message.hours, message.minutes, message.seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
        message.nanos = ms * 1_000_000
    else:
        message.seconds, message.nanos = value.epoch_ms // 1_000, value.epoch_ms % 1_000 * 1_000_000


def read_message(message: Any, schema: Schema) -> Struct:
    values: dict[str, Any] = {}
    for each, field in zip(message.DESCRIPTOR.fields, schema.fields, strict=True):
        values[each.name] = _read_field(message, each, field.schema)
    return Struct(schema, values)


def _read_field(message: Any, each: FieldDescriptor, schema: Schema) -> Any:
    found = getattr(message, each.name)
    if is_map(each):
        assert schema.keys is not None
        assert schema.values is not None
        keys, values = message_of(each).fields
        if message_of(each).GetOptions().map_entry:
            pairs = [(key, found[key]) for key in found]
        else:
            pairs = [(entry.key, entry.value) for entry in found]
        return {_read_one(k, keys, schema.keys): _read_one(v, values, schema.values) for k, v in pairs}
    if each.is_repeated:
        assert schema.values is not None
        return [_read_one(item, each, schema.values) for item in found]
    if each.has_presence and not message.HasField(each.name):
        return None
    return _read_one(found, each, schema)


def _read_one(value: Any, each: FieldDescriptor, schema: Schema) -> Any:
    if each.enum_type is not None:
        known = each.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if each.message_type is None:
        return value if not isinstance(value, int) or value < _MAX_LONG else value - 2 * _MAX_LONG
    if wrapper_of(each):
        return value.value
    match schema.name:
        case str() if schema.name == DATE:
            return Moment(day_number(value.year, value.month, value.day) * DAY_MS)
        case str() if schema.name == TIME:
            seconds = value.hours * 3600 + value.minutes * 60 + value.seconds
            return Moment(seconds * 1_000 + value.nanos // 1_000_000)
        case str() if schema.name == TIMESTAMP:
            return Moment(value.seconds * 1_000 + value.nanos // 1_000_000)
    return read_message(value, schema)
