"""Values as texts without a schema, and back: as Connect's Values does for headers and literals.

A text is read as the narrowest type it can be: null, a boolean, a whole number of 8 to 64 bits, a float, a
decimal, a date, time or timestamp, an array, a map; else it is a string.
"""

from __future__ import annotations

import base64
import decimal
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect.data.building import (
    DATE_SCHEMA,
    REQUIRED,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    decimal_schema,
)
from ottla.connect.data.checking import BITS, java_class
from ottla.connect.data.dates import date_ms, date_text, time_ms, timestamp_ms
from ottla.connect.data.java_text import decimal_text, double_text, float32, float_text, wrapped
from ottla.connect.data.logical import scale_of
from ottla.connect.data.schema import DataError, Moment, Schema, Struct, Type

MAX_DEPTH: Final = 200
"""How deep arrays and maps of a text may lie in each other; deeper ones are read as a string."""
_MAX_DIGITS: Final = 1_000
_MAX_EXPONENT: Final = 10_000
_DELIMITERS: Final = frozenset(':,{}[]"')
_TRIMMED: Final = "".join(map(chr, range(0x21)))
_NUMBERS: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_CONTEXT: Final = decimal.Context(prec=_MAX_DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
Found = tuple[Schema | None, Any]
"""A schema, None where there is none, and a value of it."""


def schema_to_write(schema: Schema | None, value: Any, format_name: str) -> Schema | None:
    """The schema to write a value with, inferred where none is given; None where null is to be written.

    Raises DataError for a value of no schema.
    """
    if schema is None:
        if value is None:
            return None
        schema = infer_schema(value)
        if schema is None:
            raise DataError(f"{format_name} needs a schema, and the value has none")
    return None if value is None and schema.optional and schema.default is None else schema


def infer_schema(value: Any) -> Schema | None:
    """The schema of a value that has none; None where it, or one for all its elements, is unknown."""
    match value:
        case bool():
            return REQUIRED[Type.BOOLEAN]
        case str():
            return REQUIRED[Type.STRING]
        case int():
            return REQUIRED[Type.INT64]
        case float():
            return REQUIRED[Type.FLOAT64]
        case bytes():
            return REQUIRED[Type.BYTES]
        case list() if value:
            items = _common(value)
            return None if items is None else Schema(Type.ARRAY, values=items)
        case dict() if value:
            keys, values = _common(list(value)), _common(list(value.values()))
            return None if keys is None or values is None else Schema(Type.MAP, keys=keys, values=values)
        case Struct():
            return value.schema
    return None


def _common(values: list[Any]) -> Schema | None:
    found: Type | None = None
    optional = False
    for each in values:
        if each is None:
            optional = True
            continue
        schema = infer_schema(each)
        if schema is None or found not in (None, schema.type):
            return None
        found = schema.type
    return None if found is None else Schema(found, optional)


def value_to_string(value: Any, schema: Schema | None = None) -> str:
    """A value as a header's text. Raises DataError. schema: tells 32 bit floats from those of 64."""
    parts: list[str] = []
    _append(parts, value, schema, embedded=False)
    return "".join(parts)


def _append(parts: list[str], value: Any, schema: Schema | None, embedded: bool) -> None:
    match value:
        case None:
            parts.append("null")
        case bool():
            parts.append("true" if value else "false")
        case int():
            parts.append(str(value))
        case float():
            narrow = schema is not None and schema.type is Type.FLOAT32
            parts.append(float_text(value) if narrow else double_text(value))
        case decimal.Decimal():
            parts.append(decimal_text(value))
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'"{escaped}"' if embedded else value)
        case bytes():
            text = base64.b64encode(value).decode()
            parts.append(f'"{text}"' if embedded else text)
        case Moment():
            parts.append(date_text(value.epoch_ms))
        case list():
            items = None if schema is None else schema.values
            parts.append("[")
            for at, each in enumerate(value):
                parts.append("," if at else "")
                _append(parts, each, items, embedded=True)
            parts.append("]")
        case dict():
            keys, values = (None, None) if schema is None else (schema.keys, schema.values)
            parts.append("{")
            for at, (key, each) in enumerate(value.items()):
                parts.append("," if at else "")
                _append(parts, key, keys, embedded=True)
                parts.append(":")
                _append(parts, each, values, embedded=True)
            parts.append("}")
        case Struct():
            parts.append("{")
            for at, field in enumerate(value.schema.fields):
                parts.append("," if at else "")
                _append(parts, field.name, None, embedded=True)
                parts.append(":")
                _append(parts, value.get(field.name), field.schema, embedded=True)
            parts.append("}")
        case _:
            raise DataError(f"Failed to serialize unexpected value type {java_class(value)}: {value}")


def parse_string(text: str) -> Found:
    """The value that a text stands for, with its schema; (None, None) for null."""
    if not text:
        return REQUIRED[Type.STRING], text
    found = _Reading(text).value(0)
    return (None, None) if found is None else found


def number_of(value: Any) -> int | float | decimal.Decimal:
    """The number that a text stands for. Raises DataError."""
    if isinstance(value, int | float | decimal.Decimal):
        return value
    if isinstance(value, str):
        number = big_decimal(value)
        if number is not None:
            return number
    raise DataError(f"Unable to convert {value} (class {java_class(value)}) to a number")


def big_decimal(text: str) -> decimal.Decimal | None:
    """As the constructor of BigDecimal; None for a text that it refuses or that is too long for us."""
    if not text or len(text) > _MAX_DIGITS or not text.isascii():
        return None
    mantissa, mark, exponent = text.replace("E", "e").partition("e")
    digits = mantissa[1:] if mantissa[:1] in ("+", "-") else mantissa
    if not digits.replace(".", "", 1).isdigit():
        return None
    power = exponent[1:] if exponent[:1] in ("+", "-") else exponent
    if mark and not (power.isdigit() and len(power) <= 10):
        return None
    try:
        return decimal.Decimal(text, _CONTEXT)
    except decimal.InvalidOperation:
        return None


def long_of(number: int | float | decimal.Decimal) -> int:
    """As Number.longValue: towards zero, cut to 64 bits."""
    if isinstance(number, float):
        raise TypeError("floats are never read here")
    if isinstance(number, decimal.Decimal):
        exponent = number.as_tuple().exponent
        if isinstance(exponent, int) and exponent > _MAX_EXPONENT:
            return 0  # a multiple of 2**64
        number = int(number) if number.adjusted() >= 0 else 0
    return wrapped(number, Type.INT64)


@dataclass(slots=True)
class _Merged:
    """The schema that fits several values."""

    schema: Schema | None = None
    compatible: bool = True

    def add(self, found: Found | None) -> None:
        if found is None or found[0] is None or not self.compatible:
            return
        self.schema = found[0] if self.schema is None else _merged(self.schema, found[0])
        self.compatible = self.schema is not None


def _merged(first: Schema, second: Schema) -> Schema | None:
    if first.type is not second.type:
        if first.type in _NUMBERS and second.type in _NUMBERS:
            return max(first, second, key=lambda each: _NUMBERS.index(each.type))
        return None
    if first.optional == second.optional:
        return first if first.optional else second
    return first if first == second else None


class _Reading:
    """A text that is read token by token: delimiters, and what stands between them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._next: str | None = None
        self._last: str | None = None

    def value(self, depth: int) -> Found | None:
        """One value, None for null. Raises DataError within an array or map."""
        embedded = depth > 0
        if not self._has_next():
            return None
        if embedded and self._takes('"'):
            return self._quoted()
        for word, value in (("null", None), ("true", True), ("false", False)):
            if self._takes_alone(word, embedded):
                return None if value is None else (REQUIRED[Type.BOOLEAN], value)
        start = self._mark()
        try:
            if self._takes("["):
                return self._array(depth + 1)
            if self._takes("{"):
                return self._map(depth + 1)
        except DataError:
            self._rewind(start)
        token = self._take()
        if not token.strip():
            return REQUIRED[Type.STRING], token
        return self._scalar(token.strip(_TRIMMED), embedded)

    def _scalar(self, token: str, embedded: bool) -> Found:
        first = token[:1]
        if first.isdigit():
            found = self._temporal(token)
            if found is not None:
                return found
        if first.isdigit() or first in ("+", "-"):
            number = _number(token)
            if number is not None:
                return number
        if embedded:
            raise DataError("Failed to parse embedded value")
        return REQUIRED[Type.STRING], self._text

    def _temporal(self, token: str) -> Found | None:
        """Times and timestamps have colons, which are delimiters: they are five tokens."""
        start = self._mark()
        for _ in range(4):
            if not self._has_next():
                self._rewind(start)
                break
            self._take()
        else:
            found = _temporal(token + self._text[start : self._at])
            if found is not None:
                return found
            self._rewind(start)
        return _temporal(token)

    def _quoted(self) -> Found:
        parts: list[str] = []
        while self._has_next():
            if self._takes('"'):
                break
            parts.append(self._take())
        content = "".join(parts)
        return _temporal(content) or (REQUIRED[Type.STRING], content)

    def _array(self, depth: int) -> Found:
        self._check_depth(depth)
        result: list[Any] = []
        items = _Merged()
        while self._has_next():
            if self._takes("]"):
                if items.schema is None:
                    return Schema(Type.ARRAY), result
                schema = Schema(Type.ARRAY, values=items.schema)
                return schema, [_aligned(items.schema, each) for each in result]
            if self._takes(","):
                raise DataError(f"Unable to parse an empty array element: {self._text}")
            element = self.value(depth)
            items.add(element)
            result.append(None if element is None else element[1])
            here = self._mark()
            if self._takes("]"):
                self._rewind(here)
            elif not self._takes(","):
                raise DataError("Array elements missing ',' delimiter")
        raise DataError(f"Array is missing terminating ']': {self._text}")

    def _map(self, depth: int) -> Found:
        self._check_depth(depth)
        result: list[tuple[Any, Any]] = []
        keys, values = _Merged(), _Merged()
        while self._has_next():
            if self._takes("}"):
                return _map_of(keys.schema, values.schema, result)
            if self._takes(","):
                raise DataError(f"Unable to parse a map entry with no key or value: {self._text}")
            key = self.value(depth)
            if key is None or key[1] is None:
                raise DataError(f"Map entry may not have a null key: {self._text}")
            if not self._takes(":"):
                raise DataError(f"Map entry is missing ':' at {self._at} in {self._text}")
            value = self.value(depth)
            result.append((key[1], None if value is None else value[1]))
            self._takes(",")
            keys.add(key)
            values.add(value)
        raise DataError(f"Map is missing terminating '}}': {self._text}")

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise DataError(f"values lie more than {MAX_DEPTH} deep in each other")

    # -- tokens ---------------------------------------------------------------------------------------

    def _mark(self) -> int:
        return self._at - len(self._next or "")

    def _rewind(self, position: int) -> None:
        self._at, self._next, self._last = position, None, None

    def _has_next(self) -> bool:
        return self._next is not None or self._at < len(self._text)

    def _take(self) -> str:
        token = self._token() if self._next is None else self._next
        self._next, self._last = None, token
        return token

    def _takes(self, expected: str) -> bool:
        if self._next is None:
            if not self._has_next():
                return False
            self._next = self._token()
        while not self._next.strip() and self._at < len(self._text):
            self._next = self._token()
        if self._next.strip(_TRIMMED) != expected:
            return False
        self._next = None
        return True

    def _takes_alone(self, word: str, embedded: bool) -> bool:
        start = self._mark()
        if self._takes(word) and (embedded or not self._has_next()):
            return True
        self._rewind(start)
        return False

    def _token(self) -> str:
        start, escaped = self._at, False
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == "\\":
                escaped = not escaped
            elif character in _DELIMITERS and not escaped:
                if start == self._at:
                    self._at += 1
                break
            else:
                escaped = False
            self._at += 1
        return self._text[start : self._at]


def _map_of(keys: Schema | None, values: Schema | None, entries: list[tuple[Any, Any]]) -> Found:
    if keys is None:
        schema = Schema(Type.MAP)
    else:
        schema = Schema(Type.MAP, keys=keys, values=values)
        entries = [
            (_aligned(keys, key), value if values is None else _aligned(values, value))
            for key, value in entries
        ]
    try:
        return schema, dict(entries)
    except TypeError:
        raise DataError("an array or map can't be the key of a map here") from None


def _temporal(token: str) -> Found | None:
    text = token.replace("\\:", ":")
    for length, schema, read in (
        (13, TIME_SCHEMA, time_ms),
        (24, TIMESTAMP_SCHEMA, timestamp_ms),
        (10, DATE_SCHEMA, date_ms),
    ):
        if len(text) == length:
            found = read(text)
            return None if found is None else (schema, Moment(found))
    return None


def _number(token: str) -> Found | None:
    number = big_decimal(token)
    if number is None:
        return None
    size = abs(number)
    if number == 0 or 1 <= size <= decimal.Decimal("1e19"):
        whole = number.to_integral_value(context=_CONTEXT)
        if whole == number and -(1 << 63) <= (value := int(whole)) < 1 << 63:
            for kind in (Type.INT8, Type.INT16, Type.INT32, Type.INT64):
                if wrapped(value, kind) == value:
                    return REQUIRED[kind], value
    if scale_of(number) != 0:
        narrow, wide = float32(float(number)), float(number)
        if abs(narrow) != float("inf"):
            return REQUIRED[Type.FLOAT32], narrow
        if abs(wide) != float("inf"):
            return REQUIRED[Type.FLOAT64], wide
    return decimal_schema(scale_of(number)), number


def _aligned(schema: Schema, value: Any) -> Any:
    """A value as one of the schema that fits it and its neighbours. Raises DataError."""
    if value is None:
        if schema.optional:
            return None
        raise DataError("Unable to convert a null value to a schema that requires a value")
    match schema.type:
        case Type.FLOAT32 if isinstance(value, int | float):
            return float32(float(value))
        case Type.FLOAT64 if isinstance(value, int | float):
            return float(value)
        case kind if kind in BITS and isinstance(value, int):
            return value
        case Type.STRING:
            return value_to_string(value)
    return value
