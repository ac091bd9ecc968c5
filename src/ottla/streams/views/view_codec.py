"""A materialized table's keys and values between a topic's bytes, SQLite's values and JSON.

A key is stored as SQLite's own type where it has one, so that ranges are in the order of numbers, of text (by
code point) or of bytes; any other key is stored as its JSON in one canonical form. A windowed key is stored
as the key, the window's start and its end. Values are kept as JSON, as they are answered.

The bytes are those of `internal_formats`: this is its counterpart without Spark.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

Stored = int | float | str | bytes
"""A key as SQLite keeps it."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_INT64: Final = range(-(2**63), 2**63)


class TableKey(NamedTuple):
    """A stored key; start and end are 0 without windows, else milliseconds since 1970."""

    key: Stored
    start_ms: int
    end_ms: int


class TableCodec:
    """Reads and writes the keys and values of one table. Wrong bytes and wrong text raise ValueError."""

    def __init__(self, key_type: DataType, value_type: DataType) -> None:
        window = _windowed(key_type)
        self.windowed = window is not None
        self._key_type = key_type if window is None else window
        self._read_key = _reader(key_type)
        self._read_value = _json_reader(value_type)

    def key(self, data: bytes) -> TableKey:
        """The key that a record's bytes are."""
        if not self.windowed:
            return TableKey(self._read_key(data), 0, 0)
        whole = orjson.loads(data)
        start, end = (epoch_ms(datetime.fromisoformat(whole[name])) for name in ("start", "end"))
        return TableKey(_stored(whole["key"], self._key_type), start, end)

    def value(self, data: bytes) -> bytes:
        """The JSON text of the value that a record's bytes are."""
        return self._read_value(data)

    def key_from_text(self, text: str) -> Stored:
        """The key that `text` means: itself for text, base64 for bytes, JSON for the rest."""
        from pyspark.sql import types

        match self._key_type:
            case types.StringType():
                return text
            case types.BinaryType():
                return _stored(text, self._key_type)
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            value = text  # dates and times, without quotes
        return _stored(value, self._key_type)

    def key_json(self, stored: Stored) -> orjson.Fragment:
        """A stored key as it is answered."""
        from pyspark.sql import types

        match self._key_type:
            case types.StringType() | types.DoubleType() | types.FloatType():
                return orjson.Fragment(orjson.dumps(stored))
            case types.BinaryType():
                assert isinstance(stored, bytes)
                return orjson.Fragment(orjson.dumps(base64.b64encode(stored).decode()))
        return orjson.Fragment(stored if isinstance(stored, str) else orjson.dumps(stored))


def _windowed(key_type: DataType) -> DataType | None:
    """The type of the key within a windowed key, or None."""
    from pyspark.sql import types

    if not isinstance(key_type, types.StructType) or key_type.names != ["key", "start", "end"]:
        return None
    if not all(isinstance(key_type[name].dataType, types.TimestampType) for name in ("start", "end")):
        return None
    return key_type["key"].dataType


def _reader(key_type: DataType) -> Callable[[bytes], Stored]:
    from pyspark.sql import types

    match key_type:
        case types.StringType():
            return lambda data: data.decode()
        case types.BinaryType():
            return lambda data: data
        case types.LongType():
            return _number(">q")
        case types.IntegerType():
            return _number(">i")
        case types.DoubleType():
            read = _number(">d")
            return lambda data: _finite(read(data))
    return lambda data: _stored(orjson.loads(data), key_type)


def _json_reader(value_type: DataType) -> Callable[[bytes], bytes]:
    from pyspark.sql import types

    match value_type:
        case types.StringType():
            return lambda data: orjson.dumps(data.decode())
        case types.BinaryType():
            return lambda data: orjson.dumps(base64.b64encode(data).decode())
        case types.LongType() | types.IntegerType() | types.DoubleType():
            read = _reader(value_type)
            return lambda data: orjson.dumps(read(data))
    return bytes


def _number(layout: str) -> Callable[[bytes], Any]:
    packed = struct.Struct(layout)

    def read(data: bytes) -> Any:
        if len(data) != packed.size:
            raise ValueError(f"{len(data)} bytes are no number of {packed.size} bytes")
        return packed.unpack(data)[0]

    return read


def _finite(number: float) -> float | str:
    """JSON and SQLite's keys have no NaN; JSON has no infinity."""
    return number if math.isfinite(number) else str(number).replace("inf", "Infinity").replace("nan", "NaN")


def _stored(value: Any, key_type: DataType) -> Stored:
    """The stored form of a key's JSON value. Raises ValueError for one of another type."""
    from pyspark.sql import types

    expected = key_type.simpleString()
    match key_type:
        case types.StringType() if isinstance(value, str):
            return value
        case types.BinaryType() if isinstance(value, str):
            try:
                return base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
            except binascii.Error as error:
                raise ValueError(f"{value!r} is not base64: {error}") from None
        case types.IntegralType() if isinstance(value, int) and not isinstance(value, bool):
            if value not in _INT64:
                raise ValueError(f"{value} is no {expected}")
            return value
        case types.FractionalType() if isinstance(value, int | float) and not isinstance(value, bool):
            if not isinstance(key_type, types.DecimalType):
                return _finite(float(value))
        case types.DoubleType() | types.FloatType() if value in ("NaN", "Infinity", "-Infinity"):
            return str(value)
        case types.StringType() | types.BinaryType() | types.IntegralType() | types.DoubleType():
            raise ValueError(f"{value!r} is no {expected}")
    return orjson.dumps(_canonical(value, key_type)).decode()


def _canonical(value: Any, its_type: DataType) -> Any:
    """Equal values of a type become equal JSON."""
    from pyspark.sql import types

    if value is None:
        return None
    match its_type:
        case types.StructType():
            if not isinstance(value, dict):
                raise ValueError(f"{value!r} is no object with {', '.join(its_type.names)}")
            if unknown := value.keys() - set(its_type.names):
                raise ValueError(f"the key has no field {min(unknown)}: it has {', '.join(its_type.names)}")
            return {
                field.name: _canonical(value.get(field.name), field.dataType) for field in its_type.fields
            }
        case types.ArrayType():
            if not isinstance(value, list):
                raise ValueError(f"{value!r} is no list")
            return [_canonical(each, its_type.elementType) for each in value]
        case types.MapType():
            if not isinstance(value, dict):
                raise ValueError(f"{value!r} is no object")
            return {name: _canonical(value[name], its_type.valueType) for name in sorted(value)}
        case types.TimestampType():
            return datetime.isoformat(_time(value), timespec="microseconds").replace("+00:00", "Z")
        case types.DoubleType() | types.FloatType() if isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        case types.BooleanType() if not isinstance(value, bool):
            raise ValueError(f"{value!r} is neither true nor false")
        case types.StringType() if not isinstance(value, str):
            raise ValueError(f"{value!r} is no text")
    return value


def epoch_ms(time: datetime) -> int:
    """Whole milliseconds since 1970; a time without a zone is UTC."""
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND


def _time(value: Any) -> datetime:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no time: write 2026-01-31T12:00:00Z")
    time = datetime.fromisoformat(value)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
