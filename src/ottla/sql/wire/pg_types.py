"""SQL's types as PostgreSQL's: their OIDs, and values as text and as binary.

PostgreSQL's documentation, "Frontend/Backend Protocol", and its catalogue pg_type for OIDs. Maps and structs
are jsonb; other arrays than those of scalars too.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import orjson

from ottla.sql.rows.json_values import date_text, time_text, to_client
from ottla.sql.types.sql_types import Base, SqlType, text_literal

TEXT_FORMAT: Final = 0
BINARY_FORMAT: Final = 1
TEXT_OID: Final = 25
_UNIX_EPOCH_DAYS: Final = (datetime.date(2000, 1, 1) - datetime.date(1970, 1, 1)).days
_UNIX_EPOCH_MS: Final = _UNIX_EPOCH_DAYS * 86_400_000
_NUMERIC_BASE: Final = 10_000
_ARRAY_QUOTED: Final = frozenset('{}",\\ \t\n\r\v\f')


@dataclass(frozen=True, slots=True)
class PgType:
    """A type. size: in bytes, -1 for those of any size; array: the OID of arrays of it."""

    oid: int
    name: str
    size: int
    array: int


_BY_BASE: Final = {
    Base.BOOLEAN: PgType(16, "bool", 1, 1000),
    Base.INTEGER: PgType(23, "int4", 4, 1007),
    Base.BIGINT: PgType(20, "int8", 8, 1016),
    Base.DOUBLE: PgType(701, "float8", 8, 1022),
    Base.DECIMAL: PgType(1700, "numeric", -1, 1231),
    Base.STRING: PgType(TEXT_OID, "text", -1, 1009),
    Base.BYTES: PgType(17, "bytea", -1, 1001),
    Base.DATE: PgType(1082, "date", 4, 1182),
    Base.TIME: PgType(1083, "time", 8, 1183),
    Base.TIMESTAMP: PgType(1114, "timestamp", 8, 1115),
}
_JSON: Final = PgType(3802, "jsonb", -1, 3807)


def pg_type(of: SqlType) -> PgType:
    """The type that stands for one of SQL's."""
    if of.base is Base.ARRAY and of.elements[0].base in _BY_BASE:
        inner = _BY_BASE[of.elements[0].base]
        return PgType(inner.array, f"_{inner.name}", -1, 0)
    return _BY_BASE.get(of.base, _JSON)


def modifier(of: SqlType) -> int:
    """The type's modifier: precision and scale of decimals, -1 for none."""
    return ((of.precision << 16) | of.scale) + 4 if of.base is Base.DECIMAL else -1


Encode = Callable[[Any], bytes]


def encoder(of: SqlType, form: int) -> Encode:
    """What makes the bytes of a value that is not NULL."""
    return _binary(of) if form == BINARY_FORMAT else _text(of)


def _text(of: SqlType) -> Encode:
    match of.base:
        case Base.BOOLEAN:
            return lambda value: b"t" if value else b"f"
        case Base.STRING:
            return lambda value: str(value).replace("\0", "").encode()
        case Base.BYTES:
            return lambda value: b"\\x" + value.hex().encode()
        case Base.DATE:
            return lambda value: date_text(value).encode()
        case Base.TIME:
            return lambda value: time_text(value).encode()
        case Base.TIMESTAMP:
            return _timestamp_text
        case Base.DOUBLE:
            return _double_text
        case Base.DECIMAL:
            return lambda value: format(value, "f").encode()
        case Base.ARRAY if of.elements[0].base in _BY_BASE:
            element = _text(of.elements[0])
            return lambda value: b"{" + b",".join(_array_item(each, element) for each in value) + b"}"
        case Base.ARRAY | Base.MAP | Base.STRUCT:
            shown = to_client(of)
            return lambda value: orjson.dumps(shown(value))
    return lambda value: str(value).encode()


def _timestamp_text(ms: int) -> bytes:
    days, of_day = divmod(ms, 86_400_000)
    return f"{date_text(days)} {time_text(of_day)}".encode()


def _double_text(value: float) -> bytes:
    text = repr(value)
    return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(text, text).encode()


def _array_item(value: Any, element: Encode) -> bytes:
    if value is None:
        return b"NULL"
    text = element(value).decode()
    if not text or text.upper() == "NULL" or _ARRAY_QUOTED & set(text):
        return ('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"').encode()
    return text.encode()


def _binary(of: SqlType) -> Encode:
    match of.base:
        case Base.BOOLEAN:
            return lambda value: b"\x01" if value else b"\x00"
        case Base.INTEGER:
            return struct.Struct(">i").pack
        case Base.BIGINT:
            return struct.Struct(">q").pack
        case Base.DOUBLE:
            return struct.Struct(">d").pack
        case Base.BYTES:
            return bytes
        case Base.DATE:
            return lambda value: struct.pack(">i", value - _UNIX_EPOCH_DAYS)
        case Base.TIME:
            return lambda value: struct.pack(">q", value * 1000)
        case Base.TIMESTAMP:
            return lambda value: struct.pack(">q", (value - _UNIX_EPOCH_MS) * 1000)
        case Base.DECIMAL:
            return numeric_bytes
        case Base.ARRAY if of.elements[0].base in _BY_BASE:
            return _array_binary(of.elements[0])
        case Base.ARRAY | Base.MAP | Base.STRUCT:
            text = _text(of)
            return lambda value: b"\x01" + text(value)  # jsonb's version
    return _text(of)


def _array_binary(of: SqlType) -> Encode:
    element, oid = _binary(of), _BY_BASE[of.base].oid

    def encode(values: list[Any]) -> bytes:
        has_nulls = int(any(each is None for each in values))
        if not values:
            return struct.pack(">iiI", 0, 0, oid)
        parts = [struct.pack(">iiIii", 1, has_nulls, oid, len(values), 1)]
        for each in values:
            if each is None:
                parts.append(struct.pack(">i", -1))
            else:
                data = element(each)
                parts.append(struct.pack(">i", len(data)) + data)
        return b"".join(parts)

    return encode


def numeric_bytes(value: Decimal) -> bytes:
    """A decimal as PostgreSQL sends it: groups of four digits."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    text = "".join(map(str, digits)) + "0" * max(exponent, 0)
    text = text.rjust(scale, "0")
    whole, fraction = text[: len(text) - scale], text[len(text) - scale :]
    whole = whole.lstrip("0")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + fraction)[at : at + 4]) for at in range(0, len(whole + fraction), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    if not groups:
        weight, sign = 0, 0
    head = struct.pack(">hhHH", len(groups), weight, 0x4000 if sign else 0, scale)
    return head + b"".join(struct.pack(">h", each) for each in groups)


class BadParameter(ValueError):
    """A parameter that can't be read."""


def parameter_text(data: bytes | None, oid: int, form: int) -> str:
    """A parameter as a literal of SQL. Raises BadParameter."""
    if data is None:
        return "NULL"
    if form == BINARY_FORMAT:
        return _binary_literal(data, oid)
    try:
        text = data.decode()
    except UnicodeDecodeError as problem:
        raise BadParameter(f"a parameter is not in UTF-8: {problem}") from None
    if oid in (20, 21, 23, 700, 701, 1700):
        return _number(text)
    if oid == 16:
        return "TRUE" if text.lower() in ("t", "true", "1", "on", "yes") else "FALSE"
    return text_literal(text)


def _number(text: str) -> str:
    try:
        Decimal(text)
    except ArithmeticError:
        raise BadParameter(f"{text!r:.80} is no number") from None
    return text


def _binary_literal(data: bytes, oid: int) -> str:
    numbers = {21: ">h", 23: ">i", 20: ">q", 700: ">f", 701: ">d"}
    try:
        if oid in numbers:
            return repr(struct.unpack(numbers[oid], data)[0])
        if oid == 16:
            return "TRUE" if data == b"\x01" else "FALSE"
        if oid in (0, TEXT_OID, 1043, 705, 19):
            return text_literal(data.decode())
    except (struct.error, UnicodeDecodeError) as problem:
        raise BadParameter(f"a parameter of type {oid} can't be read: {problem}") from None
    raise BadParameter(f"parameters of type {oid} are taken as text alone")
