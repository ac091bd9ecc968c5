"""Which form the columns of each of PostgreSQL's types have in records, as Debezium 3.6.1 gives them."""

from __future__ import annotations

import base64
import binascii
import enum
import json
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import md5
from typing import Any, Final

from ottla.connect.cdc.core import semantic_types as semantic
from ottla.connect.cdc.core.column_form import ABSENT, ColumnForm, bound_to
from ottla.connect.cdc.core.decimals import (
    DecimalMode,
    decimal_form,
    decimal_of,
    money_form,
    variable_decimal_form,
)
from ottla.connect.cdc.core.temporal import (
    TimePrecision,
    date_form,
    time_form,
    timestamp_form,
    zoned_time_form,
    zoned_timestamp_form,
)
from ottla.connect.cdc.postgres.literals import (
    array_elements,
    bits_of,
    hstore_pairs,
    interval_of,
    interval_text,
    interval_us,
    point_of,
    sparse_vector_of,
    vector_of,
)
from ottla.connect.cdc.postgres.types import (
    PostgresType,
    TypeKind,
    TypeRegistry,
    bit_length,
    numeric_precision,
    numeric_scale,
    time_digits,
)
from ottla.connect.data.building import OPTIONAL, REQUIRED, as_optional
from ottla.connect.data.java_text import float32
from ottla.connect.data.logical import moment_of_number
from ottla.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, DataError, Schema, Struct, Type

DEFAULT_PLACEHOLDER: Final = "__debezium_unavailable_value"
_EWKB_SRID: Final = 0x2000_0000
_EMPTY_GEOMETRY: Final = bytes.fromhex("010700000000000000")
_BYTEA_PREFIX: Final = "\\x"
_STRINGS: Final = frozenset(
    {
        *("bpchar", "varchar", "text", "name", "char", "citext", "isbn"),
        *("inet", "cidr", "macaddr", "macaddr8"),
        *("tsrange", "tstzrange", "daterange", "int4range", "numrange", "int8range"),
    }
)
_UNKNOWN_ARRAYS: Final = frozenset(
    {
        "_money",
        "_name",
        "_interval",
        "_varbit",
        "_bit",
        "_xml",
        "_point",
        "_refcursor",
        "int2vector",
        "oidvector",
    }
)
"""Arrays that Debezium leaves out, as if their types were unknown."""
_REQUIRED_ELEMENTS: Final = frozenset({"_isbn", "_tsvector", "_vector", "_halfvec", "_sparsevec"})


class HstoreMode(enum.StrEnum):
    """hstore.handling.mode."""

    JSON = "json"
    MAP = "map"


class IntervalMode(enum.StrEnum):
    """interval.handling.mode."""

    NUMERIC = "numeric"
    STRING = "string"


class BinaryMode(enum.StrEnum):
    """binary.handling.mode."""

    BYTES = "bytes"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class FormOptions:
    """The settings that say how values stand in records."""

    decimals: DecimalMode = DecimalMode.PRECISE
    times: TimePrecision = TimePrecision.ADAPTIVE
    hstores: HstoreMode = HstoreMode.JSON
    intervals: IntervalMode = IntervalMode.NUMERIC
    binaries: BinaryMode = BinaryMode.BYTES
    placeholder: str = DEFAULT_PLACEHOLDER
    include_unknown: bool = False
    money_digits: int = 2


def column_form(registry: TypeRegistry, oid: int, modifier: int, options: FormOptions) -> ColumnForm | None:
    """The form of a column of a type; None for one that records leave out."""
    found, modifier = registry.root(oid, modifier)
    if found is None:
        return _unknown(options)
    form = _form(registry, found, modifier, options)
    if form is None and found.name not in _UNKNOWN_ARRAYS:
        form = _unknown(options)
    return None if form is None else _with_placeholder(form, options)


def _form(registry: TypeRegistry, of: PostgresType, modifier: int, options: FormOptions) -> ColumnForm | None:
    if of.is_array:
        return _array(registry, of, modifier, options)
    if of.kind is TypeKind.ENUM:
        return ColumnForm(semantic.enumeration(of.labels), str, "")
    if of.name in _STRINGS:
        return ColumnForm(REQUIRED[Type.STRING], str, "")
    plain = _PLAIN.get(of.name)
    return plain or _of_options(of.name, modifier, options)


def _of_options(name: str, modifier: int, options: FormOptions) -> ColumnForm | None:
    """The form of a type whose form depends on the settings, or on the column's modifier."""
    match name:
        case "numeric":
            precision, scale = numeric_precision(modifier), numeric_scale(modifier)
            if precision == 0 and scale == 0:
                return variable_decimal_form(options.decimals)
            return decimal_form(options.decimals, precision, scale)
        case "money":
            return money_form(options.decimals, options.money_digits)
        case "date":
            return date_form(options.times)
        case "time":
            return time_form(options.times, time_digits(modifier))
        case "timestamp":
            return timestamp_form(options.times, time_digits(modifier))
        case "timestamptz":
            return zoned_timestamp_form(time_digits(modifier))
        case "timetz":
            return zoned_time_form()
        case "interval":
            if options.intervals is IntervalMode.STRING:
                return ColumnForm(
                    semantic.INTERVAL, lambda text: interval_text(interval_of(text)), "P0Y0M0DT0H0M0S"
                )
            return ColumnForm(semantic.MICRO_DURATION, lambda text: interval_us(interval_of(text)), 0)
        case "bit" | "varbit":
            return _bits(bit_length(modifier, is_varying=name == "varbit"))
        case "bytea":
            return _binary(options, _bytes_of)
        case "hstore":
            return _hstore(options)
    return None


# -- single types ------------------------------------------------------------------------------------


def _bits(length: int) -> ColumnForm:
    if length > 1:
        return ColumnForm(semantic.bits(length), bits_of, b"")
    return ColumnForm(REQUIRED[Type.BOOLEAN], lambda text: "1" in text, False)


def binary_value(mode: BinaryMode) -> tuple[Schema, Callable[[bytes], Any]]:
    """How bytes stand in records: a schema, and what makes its values."""
    match mode:
        case BinaryMode.BYTES:
            return REQUIRED[Type.BYTES], bytes
        case BinaryMode.BASE64:
            encode: Callable[[bytes], bytes] = base64.b64encode
        case BinaryMode.BASE64_URL_SAFE:
            encode = base64.urlsafe_b64encode
        case BinaryMode.HEX:
            encode = binascii.hexlify
    return REQUIRED[Type.STRING], lambda data: encode(data).decode("ascii")


def _binary(options: FormOptions, bytes_of: Callable[[str], bytes]) -> ColumnForm:
    """Bytes in the form of binary.handling.mode."""
    schema, convert = binary_value(options.binaries)
    if schema.type is Type.BYTES:
        return ColumnForm(schema, bytes_of, b"", options.placeholder.encode())
    return ColumnForm(schema, lambda text: convert(bytes_of(text)), "", options.placeholder)


def _bytes_of(text: str) -> bytes:
    if not text.startswith(_BYTEA_PREFIX):
        raise DataError("bytes that are not in hexadecimal digits: bytea_output has to be hex")
    return bytes.fromhex(text[2:])


def _hstore(options: FormOptions) -> ColumnForm:
    placeholder = {options.placeholder: options.placeholder}
    if options.hstores is HstoreMode.MAP:
        schema = Schema(Type.MAP, keys=REQUIRED[Type.STRING], values=OPTIONAL[Type.STRING])
        return ColumnForm(schema, hstore_pairs, {}, placeholder)
    return ColumnForm(
        semantic.JSON, lambda text: _json_text(hstore_pairs(text)), "{}", _json_text(placeholder)
    )


def _json_text(pairs: Mapping[str, str | None]) -> str:
    return json.dumps(pairs, ensure_ascii=False, separators=(",", ":"))


def _point_value(x: float, y: float) -> Struct:
    wkb = struct.pack("<BIdd", 1, 1, x, y)
    return Struct(semantic.POINT, {"x": x, "y": y, "wkb": wkb, "srid": None})


def _geometry_value(schema: Schema, ewkb: bytes) -> Struct:
    """A geometry as PostGIS writes it; the reference system stands in its bytes."""
    if len(ewkb) < 9:
        raise DataError("a geometry of less than 9 bytes")
    order = "<" if ewkb[0] else ">"
    (kind,) = struct.unpack_from(f"{order}I", ewkb, 1)
    srid = struct.unpack_from(f"{order}i", ewkb, 5)[0] if kind & _EWKB_SRID else None
    return Struct(schema, {"wkb": ewkb, "srid": srid})


def _geometry(schema: Schema) -> ColumnForm:
    return ColumnForm(
        schema,
        lambda text: _geometry_value(schema, bytes.fromhex(text)),
        _geometry_value(schema, _EMPTY_GEOMETRY),
    )


def _sparse_vector(text: str) -> Struct:
    dimensions, vector = sparse_vector_of(text)
    return Struct(semantic.SPARSE_DOUBLE_VECTOR, {"dimensions": dimensions, "vector": vector})


_PLAIN: Final[Mapping[str, ColumnForm]] = {
    "bool": ColumnForm(REQUIRED[Type.BOOLEAN], lambda text: text == "t", False),
    "int2": ColumnForm(REQUIRED[Type.INT16], int, 0),
    "int4": ColumnForm(REQUIRED[Type.INT32], int, 0),
    "int8": ColumnForm(REQUIRED[Type.INT64], int, 0),
    "oid": ColumnForm(REQUIRED[Type.INT64], int, 0),
    "float4": ColumnForm(REQUIRED[Type.FLOAT32], lambda text: float32(float(text)), 0.0),
    "float8": ColumnForm(REQUIRED[Type.FLOAT64], float, 0.0),
    "json": ColumnForm(semantic.JSON, str, ""),
    "jsonb": ColumnForm(semantic.JSON, str, ""),
    "xml": ColumnForm(semantic.XML, str, ""),
    "uuid": ColumnForm(semantic.UUID, str, ""),
    "ltree": ColumnForm(semantic.LTREE, str, ""),
    "tsvector": ColumnForm(semantic.TSVECTOR, str, ""),
    "point": ColumnForm(semantic.POINT, lambda text: _point_value(*point_of(text)), _point_value(0.0, 0.0)),
    "geometry": _geometry(semantic.GEOMETRY),
    "geography": _geometry(semantic.GEOGRAPHY),
    "vector": ColumnForm(semantic.DOUBLE_VECTOR, vector_of, []),
    "halfvec": ColumnForm(semantic.FLOAT_VECTOR, lambda text: list(map(float32, vector_of(text))), []),
    "sparsevec": ColumnForm(semantic.SPARSE_DOUBLE_VECTOR, _sparse_vector, []),
}


# -- arrays ------------------------------------------------------------------------------------------


def _array(
    registry: TypeRegistry, of: PostgresType, modifier: int, options: FormOptions
) -> ColumnForm | None:
    """The form of an array; of several dimensions, the elements stand in one row."""
    element = registry.find(of.element)
    if of.name in _UNKNOWN_ARRAYS or element is None:
        return None
    is_domain = element.kind is TypeKind.DOMAIN
    known = None if is_domain else _form(registry, element, modifier, options)
    form = known or _unknown(options)
    if form is None:
        return None
    is_required = known is None or element.kind is TypeKind.ENUM or of.name in _REQUIRED_ELEMENTS
    element_schema = form.schema if is_required else as_optional(form.schema)
    schema = Schema(Type.ARRAY, values=element_schema)
    convert_one, delimiter = bound_to(element_schema, form.convert), element.delimiter

    def convert(text: str) -> list[Any]:
        elements = array_elements(text, delimiter)
        return [None if each is None else convert_one(each) for each in elements]

    return ColumnForm(schema, convert, [])


# -- others ------------------------------------------------------------------------------------------


def _unknown(options: FormOptions) -> ColumnForm | None:
    """A type that has no form: its text's bytes, if include.unknown.datatypes says so."""
    return _binary(options, str.encode) if options.include_unknown else None


def _with_placeholder(form: ColumnForm, options: FormOptions) -> ColumnForm:
    if form.unavailable is not ABSENT:
        return form
    return replace(form, unavailable=_placeholder(form.schema, options))


def _placeholder(schema: Schema, options: FormOptions) -> Any:
    """What stands for a value that was not sent: the text, its bytes, or their numbers one by one."""
    text = options.placeholder
    data = text.encode()
    match schema.type:
        case Type.STRING:
            return text
        case Type.BYTES if schema.name != DECIMAL:
            return data
        case Type.STRUCT if schema.name in (semantic.GEOMETRY.name, semantic.GEOGRAPHY.name):
            return Struct(schema, {"wkb": data, "srid": None})
        case Type.ARRAY:
            assert schema.values is not None
            return _element_placeholder(schema.values, text, data)
    return ABSENT


def _element_placeholder(element: Schema, text: str, data: bytes) -> Any:
    match element.type:
        case Type.STRING if element.name == semantic.UUID.name:
            return [_uuid_of(data)]
        case Type.STRING:
            return [text]
        case Type.BYTES if element.name == DECIMAL:
            return [decimal_of(element, each) for each in data]
        case Type.BYTES:
            return [data]
        case Type.INT16 | Type.INT32 | Type.INT64 if element.name in (DATE, TIME, TIMESTAMP):
            return [moment_of_number(element, each) for each in data]
        case Type.INT16 | Type.INT32 | Type.INT64:
            return list(data)
        case Type.FLOAT32 | Type.FLOAT64:
            return [float(each) for each in data]
        case Type.STRUCT if element.name == semantic.VARIABLE_SCALE_DECIMAL.name:
            return [decimal_of(semantic.VARIABLE_SCALE_DECIMAL, each) for each in data]
    return ABSENT


def _uuid_of(data: bytes) -> str:
    """As UUID.nameUUIDFromBytes."""
    return str(uuid.UUID(bytes=md5(data, usedforsecurity=False).digest(), version=3))
