"""Which form the columns of each of MariaDB's types have in records, as Debezium 3.5.0 gives them.

A value comes from the binary log (see row_values) or, as a text of SQL, from a SELECT or a default:
`from_text` makes of the latter what the log has.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import enum
import re
import socket
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect.cdc.core import semantic_types as semantic
from ottla.connect.cdc.core.column_form import Cell, ColumnForm, ConversionError
from ottla.connect.cdc.core.decimals import DecimalMode, decimal_form
from ottla.connect.cdc.core.temporal import (
    DAY_US,
    TimePrecision,
    date_form,
    time_text,
    timestamp_form,
    timestamp_text,
    timestamp_us,
)
from ottla.connect.cdc.mariadb.charsets import decoder
from ottla.connect.cdc.mariadb.ddl import EPOCH
from ottla.connect.cdc.mariadb.model import Column
from ottla.connect.data.building import REQUIRED, TIME_SCHEMA
from ottla.connect.data.java_text import float32
from ottla.connect.data.schema import Moment, Schema, Struct, Type

YEAR: Final = Schema(Type.INT32, name="io.debezium.time.Year", version=1)
_EMPTY_GEOMETRY: Final = bytes.fromhex("010700000000000000")
_BITS: Final = {
    **dict.fromkeys(("TINYINT", "INT1", "BOOL", "BOOLEAN"), 8),
    **dict.fromkeys(("SMALLINT", "INT2"), 16),
    **dict.fromkeys(("MEDIUMINT", "MIDDLEINT", "INT3"), 24),
    **dict.fromkeys(("INT", "INTEGER", "INT4"), 32),
    **dict.fromkeys(("BIGINT", "INT8", "SERIAL"), 64),
}
_GEOMETRIES: Final = frozenset(
    {
        *("GEOMETRY", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON"),
        *("GEOMETRYCOLLECTION", "GEOMCOLLECTION"),
    }
)
_TEXTS: Final = frozenset(
    {
        *("CHAR", "CHARACTER", "VARCHAR", "NCHAR", "NVARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"),
        "LONG",
    }
)
_BYTES: Final = frozenset({"BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"})
_DECIMALS: Final = frozenset({"DECIMAL", "DEC", "FIXED", "NUMERIC"})
_DOUBLES: Final = frozenset({"DOUBLE", "DOUBLE PRECISION", "REAL", "FLOAT8"})
_TIME: Final = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_ZERO_PART: Final = re.compile(r"0000-|\d+-00-|\d+-\d\d-00")


class BigintUnsignedMode(enum.StrEnum):
    """bigint.unsigned.handling.mode."""

    LONG = "long"
    PRECISE = "precise"


class BinaryMode(enum.StrEnum):
    """binary.handling.mode."""

    BYTES = "bytes"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class FormOptions:
    """The settings that say how values stand in records. adjusts_years: enable.time.adjuster."""

    decimals: DecimalMode = DecimalMode.PRECISE
    times: TimePrecision = TimePrecision.ADAPTIVE_TIME_MICROSECONDS
    bigints: BigintUnsignedMode = BigintUnsignedMode.LONG
    binaries: BinaryMode = BinaryMode.BYTES
    adjusts_years: bool = True


def column_form(column: Column, options: FormOptions) -> ColumnForm | None:
    """The form of a column; None for a type that records leave out."""
    kind = column.base_type
    if kind in _BITS:
        return _integer(column, options)
    if kind in _TEXTS:
        return _text(REQUIRED[Type.STRING], column, "")
    if kind in _BYTES:
        return _binary(column, options)
    if kind in _DECIMALS:
        return decimal_form(options.decimals, column.length or 10, column.scale or 0)
    if kind in _DOUBLES:
        return ColumnForm(REQUIRED[Type.FLOAT64], float, 0.0)
    if kind in _GEOMETRIES:
        return ColumnForm(semantic.GEOMETRY, _geometry, _geometry(b"\0\0\0\0" + _EMPTY_GEOMETRY))
    return _of_kind(kind, column, options)


def _of_kind(kind: str, column: Column, options: FormOptions) -> ColumnForm | None:
    match kind:
        case "FLOAT" | "FLOAT4":
            is_single = column.scale is None and (column.length or 0) <= 24
            schema = REQUIRED[Type.FLOAT32 if is_single else Type.FLOAT64]
            return ColumnForm(schema, float32 if column.scale is not None or is_single else float, 0.0)
        case "DATE":
            return _dated(date_form(options.times), column, options)
        case "DATETIME":
            return _dated(timestamp_form(options.times, column.length or 0), column, options)
        case "TIMESTAMP":
            return _timestamp(column)
        case "TIME":
            return _time(options.times)
        case "YEAR":
            return ColumnForm(YEAR, lambda cell: _adjusted_year(cell, options), 0)
        case "BIT":
            return _bits(column.length or 1)
        case "ENUM":
            return _enum(column)
        case "SET":
            return _set(column)
        case "JSON":
            return _text(semantic.JSON, column, "{}")
        case "POINT":
            return ColumnForm(semantic.POINT, _point, Struct(semantic.POINT, {"x": 0.0, "y": 0.0}))
        case "UUID":
            return ColumnForm(semantic.UUID, _uuid, "")
        case "INET6" | "INET4":
            return ColumnForm(REQUIRED[Type.STRING], _address(kind), "")
    return None


# -- numbers ----------------------------------------------------------------------------------------


def _integer(column: Column, options: FormOptions) -> ColumnForm:
    bits = _BITS[column.base_type]
    mask = (1 << bits) - 1
    if not column.is_unsigned:
        schema = REQUIRED[Type.INT16 if bits <= 16 else Type.INT32 if bits <= 32 else Type.INT64]
        return ColumnForm(schema, int, 0)
    if bits == 64 and options.bigints is BigintUnsignedMode.PRECISE:
        # Debezium takes the digits of such a number in precise form whatever decimal.handling.mode says.
        schema = semantic.decimal_of_precision(20, 0)
        return ColumnForm(schema, lambda cell: decimal.Decimal(cell & mask), decimal.Decimal(0))
    if bits == 64:
        return ColumnForm(REQUIRED[Type.INT64], _signed_64, 0)
    schema = REQUIRED[Type.INT16 if bits == 8 else Type.INT32 if bits <= 24 else Type.INT64]
    return ColumnForm(schema, lambda cell: cell & mask, 0)


def _signed_64(cell: int) -> int:
    return cell - (1 << 64) if cell >= 1 << 63 else cell


def _bits(length: int) -> ColumnForm:
    """Bits, of which the log and SELECT have the highest byte first."""
    if length == 1:
        return ColumnForm(REQUIRED[Type.BOOLEAN], lambda cell: cell[-1:] == b"\x01", False)
    size = (length + 7) // 8
    return ColumnForm(semantic.bits(length), lambda cell: cell.rjust(size, b"\0")[::-1], b"")


# -- texts and bytes --------------------------------------------------------------------------------


def _text(schema: Schema, column: Column, fallback: str) -> ColumnForm:
    decode = decoder(column.charset)

    def convert(cell: bytes | str) -> str:
        return cell if isinstance(cell, str) else decode(cell)

    return ColumnForm(schema, convert, fallback)


def _binary(column: Column, options: FormOptions) -> ColumnForm:
    width = (column.length or 1) if column.base_type == "BINARY" else 0

    def padded(cell: bytes) -> bytes:
        return cell.ljust(width, b"\0") if len(cell) < width else bytes(cell)

    match options.binaries:
        case BinaryMode.BYTES:
            return ColumnForm(REQUIRED[Type.BYTES], padded, b"")
        case BinaryMode.BASE64:
            encode: Callable[[bytes], bytes] = base64.b64encode
        case BinaryMode.BASE64_URL_SAFE:
            encode = base64.urlsafe_b64encode
        case BinaryMode.HEX:
            encode = binascii.hexlify
    return ColumnForm(REQUIRED[Type.STRING], lambda cell: encode(padded(cell)).decode("ascii"), "")


def allowed(column: Column) -> str:
    """The options of an ENUM or SET as the parameter of its schema: a comma within one has a backslash."""
    return ",".join(each.replace(",", "\\,") for each in column.options)


def _enum(column: Column) -> ColumnForm:
    options = ("", *column.options)

    def convert(cell: int | str) -> str:
        return cell if isinstance(cell, str) else options[cell]

    schema = Schema(
        Type.STRING, name="io.debezium.data.Enum", version=1, parameters={"allowed": allowed(column)}
    )
    return ColumnForm(schema, convert, "")


def _set(column: Column) -> ColumnForm:
    options = column.options

    def convert(cell: int | str) -> str:
        if isinstance(cell, str):
            return cell
        return ",".join(each for place, each in enumerate(options) if cell >> place & 1)

    schema = Schema(
        Type.STRING, name="io.debezium.data.EnumSet", version=1, parameters={"allowed": allowed(column)}
    )
    return ColumnForm(schema, convert, "")


def _uuid(cell: bytes | str) -> str:
    return cell if isinstance(cell, str) else str(uuid.UUID(bytes=cell.ljust(16, b"\0")))


def _address(kind: str) -> Callable[[bytes | str], str]:
    """An address; the log leaves out zeros at its end."""
    family, size = (socket.AF_INET, 4) if kind == "INET4" else (socket.AF_INET6, 16)

    def convert(cell: bytes | str) -> str:
        return cell if isinstance(cell, str) else socket.inet_ntop(family, cell.ljust(size, b"\0"))

    return convert


# -- geometry ---------------------------------------------------------------------------------------


def _geometry(cell: bytes) -> Struct:
    """Four bytes with the reference system's number, then well-known bytes."""
    srid = int.from_bytes(cell[:4], "little")
    return Struct(semantic.GEOMETRY, {"wkb": cell[4:], "srid": srid or None})


def _point(cell: bytes) -> Struct:
    if len(cell) != 25:
        raise ConversionError("a POINT that is none")
    srid, wkb = int.from_bytes(cell[:4], "little"), cell[4:]
    x, y = struct.unpack_from("<dd" if wkb[0] else ">dd", wkb, 5)
    return Struct(semantic.POINT, {"x": x, "y": y, "wkb": wkb, "srid": srid or None})


# -- times ------------------------------------------------------------------------------------------


def _adjusted_year(year: int, options: FormOptions) -> int:
    """Years of two digits, as enable.time.adjuster says."""
    if options.adjusts_years and year <= 99:
        return year + (2000 if year <= 69 else 1900)
    return year


def _dated(form: ColumnForm, column: Column, options: FormOptions) -> ColumnForm:
    """A date, perhaps with a time: one with a zero for its year, month or day is no date at all."""
    convert, zero = form.convert, None if column.is_nullable else form.fallback

    def of_text(text: str) -> Any:
        if text[4] == "-" and _ZERO_PART.match(text):
            return zero
        if options.adjusts_years and text[:2] == "00":
            text = f"{_adjusted_year(int(text[:4]), options):04d}{text[4:]}"
        return convert(text)

    return ColumnForm(form.schema, of_text, form.fallback)


def _timestamp(column: Column) -> ColumnForm:
    """A moment; zero stands for 0000-00-00."""
    digits = column.length or 0
    zero = None if column.is_nullable else "1970-01-01T00:00:00Z"

    def convert(us: int) -> str | None:
        return timestamp_text(us, digits) if us else zero

    return ColumnForm(semantic.ZONED_TIMESTAMP, convert, "1970-01-01T00:00:00Z")


def _time(mode: TimePrecision) -> ColumnForm:
    """A length of time, from -838:59:59 to 838:59:59."""
    match mode:
        case TimePrecision.CONNECT:
            return ColumnForm(TIME_SCHEMA, lambda us: Moment(_of_day(us) // 1000), Moment(0))
        case TimePrecision.ISOSTRING:
            return ColumnForm(semantic.ISO_TIME, lambda us: f"{time_text(_of_day(us))}Z", "00:00:00Z")
        case TimePrecision.NANOSECONDS:
            return ColumnForm(semantic.NANO_TIME, lambda us: us * 1000, 0)
    return ColumnForm(semantic.MICRO_TIME, int, 0)


def _of_day(us: int) -> int:
    if not 0 <= us < DAY_US:
        raise ConversionError(
            f"a time of {us // 1_000_000} seconds is none of a day: time.precision.mode has to be another one"
        )
    return us


# -- from texts -------------------------------------------------------------------------------------


def from_text(column: Column) -> Callable[[bytes], Cell]:
    """What makes of SELECT's bytes, in UTF-8 where they are a text, what the log has."""
    kind = column.base_type
    if kind in _BITS or kind == "YEAR":
        return int
    if kind in _DOUBLES or kind in ("FLOAT", "FLOAT4"):
        return float
    if kind in _BYTES or kind in _GEOMETRIES or kind in ("POINT", "BIT"):
        return bytes
    if kind == "TIME":
        return lambda data: time_us(data.decode("ascii"))
    if kind == "TIMESTAMP":
        return lambda data: moment_us(data.decode("ascii"))
    return lambda data: data.decode("utf-8")


def time_us(text: str) -> int:
    """The microseconds of '-838:59:59.123'. Raises ValueError."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no time")
    sign, hours, minutes, seconds, fraction = found.groups()
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    us = whole * 1_000_000 + int((fraction or "0").ljust(6, "0"))
    return -us if sign else us


def moment_us(text: str) -> int:
    """The microseconds since 1970 of a TIMESTAMP in UTC; 0 for a zero one. Raises ValueError."""
    return 0 if text.startswith("0000-") else timestamp_us(text)


# -- defaults ---------------------------------------------------------------------------------------


def default_value(column: Column, form: ColumnForm) -> Any:
    """The default of a column's schema, None for none."""
    if column.default is None:
        return None
    try:
        found = form.convert(_default_cell(column, column.default))
    except (ValueError, ArithmeticError, IndexError, TypeError):
        return None
    return None if isinstance(found, Struct) else found


def _default_cell(column: Column, text: str) -> Cell:
    kind = column.base_type
    stripped = text.strip()
    if kind in _BITS or kind == "YEAR":
        known = {"true": 1, "false": 0}.get(stripped.lower())
        return known if known is not None else _rounded(stripped)
    if kind == "BIT":
        if (column.length or 1) == 1:
            return b"\x01" if stripped.lower() in ("true", "1") else b"\x00"
        return int(stripped, 2).to_bytes(((column.length or 1) + 7) // 8, "big")
    if kind in _DOUBLES or kind in ("FLOAT", "FLOAT4"):
        return float(stripped)
    if kind in _DECIMALS:
        return {"true": "1", "false": "0"}.get(stripped.lower(), stripped)
    if kind in _BYTES:
        return text.encode()
    if kind == "TIMESTAMP":
        if stripped == EPOCH or stripped == "0" or _ZERO_PART.match(stripped):
            return 0
        return moment_us(stripped)
    if kind == "TIME":
        return time_us(stripped.rpartition(" ")[2])
    if kind == "DATE":
        return "0000-00-00" if stripped == "0" else stripped[:10]
    if kind == "DATETIME":
        if stripped == "0":
            return "0000-00-00 00:00:00"
        return stripped if len(stripped) > 10 else f"{stripped} 00:00:00"
    return text


def _rounded(text: str) -> int:
    number = decimal.Decimal(text)
    return int(number.to_integral_value(decimal.ROUND_HALF_UP))
