"""Columns of tables: their kinds, and the Connect schema and values that each gives a source's records.

The mapping is Confluent's, by the JDBC type of a column:
https://docs.confluent.io/kafka-connectors/jdbc/current/source-connector/overview.html
Types that it leaves out (arrays, ranges, intervals, addresses …) come as the texts that the database gives.
"""

from __future__ import annotations

import decimal
import enum
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from ottla.connect.connectors.jdbc.moments import (
    NS_PER_MS,
    UTC,
    read_date_ms,
    read_time_ms,
    read_timestamp_ns,
    timestamp_text,
)
from ottla.connect.data.building import (
    DATE_SCHEMA,
    REQUIRED,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    as_optional,
    decimal_schema,
)
from ottla.connect.data.schema import DataError, Moment, Schema, Type

MAX_INTEGER_DIGITS: Final = 18
_UNIX_EPOCH_JULIAN_DAY: Final = 2_440_587.5
_FLOAT32: Final = struct.Struct("<f")
_EXACT: Final = decimal.Context(prec=2000)
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


class ColumnKind(enum.Enum):
    """What a column holds, as JDBC tells its types apart."""

    BOOLEAN = enum.auto()
    INT8 = enum.auto()
    INT16 = enum.auto()
    INT32 = enum.auto()
    INT64 = enum.auto()
    FLOAT32 = enum.auto()
    FLOAT64 = enum.auto()
    NUMERIC = enum.auto()
    DECIMAL = enum.auto()
    """As NUMERIC, but numeric.mapping does not touch it: MariaDB's."""
    TEXT = enum.auto()
    BYTES = enum.auto()
    DATE = enum.auto()
    TIME = enum.auto()
    TIMESTAMP = enum.auto()
    ANY = enum.auto()
    """Without a type: an expression, or a column of SQLite. Its values say what it is."""


class NumericMapping(enum.StrEnum):
    """numeric.mapping: what becomes of NUMERIC columns."""

    NONE = "none"
    PRECISION_ONLY = "precision_only"
    BEST_FIT = "best_fit"
    BEST_FIT_EAGER_DOUBLE = "best_fit_eager_double"


class Granularity(enum.StrEnum):
    """timestamp.granularity: what becomes of TIMESTAMP columns."""

    CONNECT_LOGICAL = "connect_logical"
    MICROS_LONG = "micros_long"
    MICROS_STRING = "micros_string"
    MICROS_ISO_DATETIME_STRING = "micros_iso_datetime_string"
    NANOS_LONG = "nanos_long"
    NANOS_STRING = "nanos_string"
    NANOS_ISO_DATETIME_STRING = "nanos_iso_datetime_string"


@dataclass(frozen=True, slots=True)
class Column:
    """A column. precision, scale: of a NUMERIC or DECIMAL, None where it has none. declared: in SQL."""

    name: str
    kind: ColumnKind
    nullable: bool = True
    precision: int | None = None
    scale: int | None = None
    is_auto: bool = False
    is_key: bool = False
    declared: str = ""


@dataclass(frozen=True, slots=True)
class Mapping:
    """How columns become fields."""

    numeric: NumericMapping = NumericMapping.NONE
    granularity: Granularity = Granularity.CONNECT_LOGICAL
    zone: ZoneInfo = UTC


@dataclass(frozen=True, slots=True)
class FieldOf:
    """The field of a column: its schema, and what makes its values of those that the database gives."""

    name: str
    schema: Schema
    convert: Callable[[Any], Any]


def field_of(column: Column, mapping: Mapping, values: Sequence[Any]) -> FieldOf:
    """The field of a column. values: the column's in a batch, which decide where its type does not."""
    kind = column.kind
    if kind is ColumnKind.ANY:
        kind = _kind_of(values)
    match kind:
        case ColumnKind.NUMERIC | ColumnKind.DECIMAL:
            schema, convert = _numeric(column, kind, mapping.numeric, values)
        case ColumnKind.TIMESTAMP:
            schema, convert = _timestamp(mapping)
        case _:
            schema, convert = _PLAIN[kind]
    return FieldOf(column.name, as_optional(schema) if column.nullable else schema, convert)


def converted(field: FieldOf, value: Any) -> Any:
    """A value of a field, None for none. Raises DataError, which names the column."""
    if value is None:
        return None
    try:
        return field.convert(value)
    except (DataError, ValueError, TypeError, OverflowError, decimal.InvalidOperation) as problem:
        reason = str(problem) or type(problem).__name__
        raise DataError(f"column {field.name!r} has the value {str(value)[:100]!r}: {reason}") from None


def moment_ns(value: Any, zone: ZoneInfo) -> int:
    """A timestamp's value in nanoseconds since 1970; numbers are SQLite's: milliseconds, or Julian days."""
    match value:
        case str():
            return read_timestamp_ns(value, zone)
        case bool():
            raise DataError("is no timestamp")
        case int():
            return value * NS_PER_MS
        case float():
            return round((value - _UNIX_EPOCH_JULIAN_DAY) * 86_400_000) * NS_PER_MS
    raise DataError("is no timestamp")


# -- the schema of each kind ------------------------------------------------------------------------


def _kind_of(values: Sequence[Any]) -> ColumnKind:
    types = {type(each) for each in values if each is not None}
    if types <= {int} and types:
        return ColumnKind.INT64
    if types <= {int, float} and types:
        return ColumnKind.FLOAT64
    return ColumnKind.BYTES if types == {bytes} else ColumnKind.TEXT


def _whole(type: Type) -> tuple[Schema, Callable[[Any], Any]]:
    limit = 1 << (_BITS[type] - 1)

    def convert(value: Any) -> int:
        number = int(value) if not isinstance(value, float) or value.is_integer() else None
        if number is None or number != (decimal.Decimal(value) if isinstance(value, str) else value):
            raise DataError("is no whole number")
        if not -limit <= number < limit:
            raise DataError(f"does not fit {type.name}")
        return number

    return REQUIRED[type], convert


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str) else str(value)


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() in ("1", "t", "true", "yes", "on")
    return bool(value)


def _float32(value: Any) -> float:
    """The number of 32 bits that a database's shortest text stands for."""
    number = float(value)
    return float(_FLOAT32.unpack(_FLOAT32.pack(number))[0])


def _date(value: Any) -> Moment:
    if isinstance(value, str):
        return Moment(read_date_ms(value))
    ms = moment_ns(value, UTC) // NS_PER_MS
    return Moment(ms - ms % 86_400_000)


def _time(value: Any) -> Moment:
    return Moment(read_time_ms(value) if isinstance(value, str) else int(value))


_PLAIN: Final[dict[ColumnKind, tuple[Schema, Callable[[Any], Any]]]] = {
    ColumnKind.BOOLEAN: (REQUIRED[Type.BOOLEAN], _boolean),
    ColumnKind.INT8: _whole(Type.INT8),
    ColumnKind.INT16: _whole(Type.INT16),
    ColumnKind.INT32: _whole(Type.INT32),
    ColumnKind.INT64: _whole(Type.INT64),
    ColumnKind.FLOAT32: (REQUIRED[Type.FLOAT32], _float32),
    ColumnKind.FLOAT64: (REQUIRED[Type.FLOAT64], float),
    ColumnKind.TEXT: (REQUIRED[Type.STRING], _text),
    ColumnKind.BYTES: (REQUIRED[Type.BYTES], _bytes),
    ColumnKind.DATE: (DATE_SCHEMA, _date),
    ColumnKind.TIME: (TIME_SCHEMA, _time),
}


def _numeric(
    column: Column, kind: ColumnKind, mapping: NumericMapping, values: Sequence[Any]
) -> tuple[Schema, Callable[[Any], Any]]:
    precision, scale = column.precision, column.scale
    mapped = NumericMapping.NONE if kind is ColumnKind.DECIMAL else mapping
    if mapped is not NumericMapping.NONE and precision is not None and scale is not None:
        fits = precision <= MAX_INTEGER_DIGITS
        if fits and (scale == 0 or (scale < 0 and mapped is not NumericMapping.PRECISION_ONLY)):
            return _whole(_integer_type(precision))
        if scale > 0 and (
            mapped is NumericMapping.BEST_FIT_EAGER_DOUBLE or (mapped is NumericMapping.BEST_FIT and fits)
        ):
            return REQUIRED[Type.FLOAT64], float
    if precision is None and mapped is NumericMapping.BEST_FIT_EAGER_DOUBLE:
        return REQUIRED[Type.FLOAT64], float
    if scale is None:
        scale = max((_scale_of(each) for each in values if each is not None), default=0)
    return decimal_schema(scale), _decimal_reader(scale)


def _integer_type(precision: int) -> Type:
    for digits, type in ((9, Type.INT64), (4, Type.INT32), (2, Type.INT16)):
        if precision > digits:
            return type
    return Type.INT8


def _as_decimal(value: Any) -> decimal.Decimal:
    if isinstance(value, decimal.Decimal):
        return value
    return decimal.Decimal(repr(value) if isinstance(value, float) else value)


def _scale_of(value: Any) -> int:
    try:
        exponent = _as_decimal(value).as_tuple().exponent
    except (decimal.InvalidOperation, ValueError, TypeError):
        return 0
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _decimal_reader(scale: int) -> Callable[[Any], decimal.Decimal]:
    unit = decimal.Decimal(1).scaleb(-scale)

    def read(value: Any) -> decimal.Decimal:
        number = _as_decimal(value)
        if not number.is_finite():
            raise DataError("is no Decimal; with numeric.mapping=best_fit_eager_double it can be a FLOAT64")
        fixed = number.quantize(unit, context=_EXACT)
        if fixed != number:
            raise DataError(f"has more than {scale} digits behind the point")
        return fixed

    return read


def _timestamp(mapping: Mapping) -> tuple[Schema, Callable[[Any], Any]]:
    zone = mapping.zone
    per_unit = 1000 if mapping.granularity.startswith("micros") else 1
    digits = 6 if per_unit == 1000 else 9
    match mapping.granularity:
        case Granularity.CONNECT_LOGICAL:
            return TIMESTAMP_SCHEMA, lambda value: Moment(moment_ns(value, zone) // NS_PER_MS)
        case Granularity.MICROS_LONG | Granularity.NANOS_LONG:
            return REQUIRED[Type.INT64], lambda value: _long(moment_ns(value, zone) // per_unit)
        case Granularity.MICROS_STRING | Granularity.NANOS_STRING:
            return REQUIRED[Type.STRING], lambda value: str(moment_ns(value, zone) // per_unit)
    return REQUIRED[Type.STRING], lambda value: _iso(moment_ns(value, zone), zone, digits)


def _long(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise DataError("does not fit INT64")
    return value


def _iso(ns: int, zone: ZoneInfo, digits: int) -> str:
    return timestamp_text(ns, zone, digits=digits).replace(" ", "T", 1)
