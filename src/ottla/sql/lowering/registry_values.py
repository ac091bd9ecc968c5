"""Rows in AVRO, JSON_SR and PROTOBUF: by Connect's converters, whose values become SQL's."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

from ottla.connect.data.building import (
    DATE_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    as_optional,
    decimal_schema,
    struct_schema,
)
from ottla.connect.data.logical import moment_number
from ottla.connect.data.schema import Moment, Schema, Struct, Type
from ottla.sql.catalog.sources import Column
from ottla.sql.functions import casts
from ottla.sql.types.bad_value import BadValue
from ottla.sql.types.sql_types import Base, SqlType

REGISTRY_FORMATS: Final[Mapping[str, str]] = {
    "AVRO": "ottla.connect.converters.avro_converter:AvroConverter",
    "JSON_SR": "ottla.connect.converters.json_schema_converter:JsonSchemaConverter",
    "PROTOBUF": "ottla.connect.converters.protobuf_converter:ProtobufConverter",
}
NO_REGISTRY: Final = "PROTOBUF_NOSR"
"""Protobuf without a registry: the columns are its schema."""
_NAME: Final = "io.confluent.ksql.avro_schemas.KsqlDataSourceSchema"
_SCALARS: Final = {
    Base.BOOLEAN: Type.BOOLEAN,
    Base.INTEGER: Type.INT32,
    Base.BIGINT: Type.INT64,
    Base.DOUBLE: Type.FLOAT64,
    Base.STRING: Type.STRING,
    Base.BYTES: Type.BYTES,
}
_TIMES: Final = {Base.DATE: DATE_SCHEMA, Base.TIME: TIME_SCHEMA, Base.TIMESTAMP: TIMESTAMP_SCHEMA}
_DAY_MS: Final = 86_400_000


class RegistryForm:
    """One side of a source's records: its key or its value."""

    def __init__(
        self,
        topic: str,
        name: str,
        columns: Sequence[Column],
        is_struct: bool,
        is_key: bool,
        registry: Mapping[str, str],
    ) -> None:
        self._lock = threading.Lock()
        """One thread uses a converter at a time."""
        self._topic = topic
        self._columns = columns
        # Protobuf has messages alone: a single column is its message's one field.
        is_struct = is_struct or name.startswith("PROTOBUF")
        self._is_struct = is_struct
        fields = [(each.name, schema_of(each.type)) for each in columns]
        self._schema = struct_schema(fields, name=_NAME) if is_struct else as_optional(fields[0][1])
        self._converter: Any
        if name == NO_REGISTRY:
            from ottla.sql.lowering.plain_protobuf import PlainProtobuf

            self._converter = PlainProtobuf(self._schema)
        else:
            module, _, attribute = REGISTRY_FORMATS[name].partition(":")
            self._converter = getattr(import_module(module), attribute)()
            self._converter.configure(dict(registry), is_key)

    def read(self, data: bytes) -> Mapping[str, Any]:
        """The columns of some bytes. Raises DataError, BadValue."""
        with self._lock:
            _, found = self._converter.to_connect(self._topic, data)
        if not self._is_struct:
            column = self._columns[0]
            return {column.name: value_of(found, column.type)}
        if not isinstance(found, Struct):
            raise BadValue("it is no record of fields")
        named = {name.upper(): value for name, value in found.values.items()}
        exact = found.values
        return {
            each.name: value_of(
                exact[each.name] if each.name in exact else named.get(each.name.upper()), each.type
            )
            for each in self._columns
        }

    def write(self, values: Mapping[str, Any]) -> bytes | None:
        """The bytes of columns. Raises DataError."""
        given: Any
        if self._is_struct:
            cells = {each.name: connect_value(values.get(each.name), each.type) for each in self._columns}
            given = Struct(self._schema, cells)
        else:
            column = self._columns[0]
            given = connect_value(values.get(column.name), column.type)
        with self._lock:
            found: bytes | None = self._converter.from_connect(self._topic, self._schema, given)
        return found


def schema_of(of: SqlType) -> Schema:
    """Connect's schema of a type; every value may be NULL."""
    if of.base in _SCALARS:
        return Schema(_SCALARS[of.base], optional=True)
    if of.base in _TIMES:
        return as_optional(_TIMES[of.base])
    match of.base:
        case Base.DECIMAL:
            return decimal_schema(of.scale, optional=True)
        case Base.ARRAY:
            return Schema(Type.ARRAY, optional=True, values=schema_of(of.elements[0]))
        case Base.MAP:
            keys = Schema(Type.STRING, optional=True)
            return Schema(Type.MAP, optional=True, keys=keys, values=schema_of(of.elements[1]))
        case _:
            return struct_schema([(name, schema_of(each)) for name, each in of.fields], optional=True)


def connect_value(value: Any, of: SqlType) -> Any:
    """A value of a type as Connect has it."""
    if value is None:
        return None
    match of.base:
        case Base.DECIMAL:
            return casts.to_decimal(value, of)
        case Base.DATE:
            return Moment(value * _DAY_MS)
        case Base.TIME | Base.TIMESTAMP:
            return Moment(value)
        case Base.ARRAY:
            return [connect_value(each, of.elements[0]) for each in value]
        case Base.MAP:
            return {key: connect_value(each, of.elements[1]) for key, each in value.items()}
        case Base.STRUCT:
            cells = {name: connect_value(value.get(name), each) for name, each in of.fields}
            return Struct(schema_of(of), cells)
    return value


def value_of(value: Any, of: SqlType) -> Any:
    """One of Connect's values as one of a type. Raises BadValue."""
    if value is None:
        return None
    match of.base:
        case Base.DATE | Base.TIME | Base.TIMESTAMP if isinstance(value, Moment):
            return moment_number(_TIMES[of.base], value)
        case Base.DECIMAL if isinstance(value, Decimal | int | float):
            return casts.to_decimal(Decimal(str(value)), of)
        case Base.DOUBLE if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case Base.INTEGER | Base.BIGINT | Base.DATE | Base.TIME | Base.TIMESTAMP if type(value) is int:
            return value
        case Base.STRING if isinstance(value, str):
            return value
        case Base.BYTES if isinstance(value, bytes):
            return value
        case Base.BOOLEAN if isinstance(value, bool):
            return value
        case Base.ARRAY if isinstance(value, list):
            return [value_of(each, of.elements[0]) for each in value]
        case Base.MAP if isinstance(value, dict):
            return {str(key): value_of(each, of.elements[1]) for key, each in value.items()}
        case Base.STRUCT if isinstance(value, Struct):
            named = {name.upper(): each for name, each in value.values.items()}
            return {name: value_of(named.get(name.upper()), each) for name, each in of.fields}
    raise BadValue(f"{value!r:.80} is no {of}")
