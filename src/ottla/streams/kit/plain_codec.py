"""Kafka's own serializers in Python, for the few values of a test: a Spark job takes a hundred times as long.

Only plain values are done here. Any other one, of which Spark's error is wanted, is left to the format's own
columns: both functions return None then.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.pipeline.formats.format import Format
from ottla.pipeline.formats.primitives import Primitive, PrimitiveFormat

_NUMBERS: Final = {
    Primitive.INT16: struct.Struct(">h"),
    Primitive.INT32: struct.Struct(">i"),
    Primitive.INT64: struct.Struct(">q"),
    Primitive.FLOAT64: struct.Struct(">d"),
}
_BOOLEANS: Final = {b"\x00": False, b"\x01": True}


def plainly_encoded(given: Format, values: Sequence[Any]) -> list[bytes | None] | None:
    """The bytes of values of a format, null for null; None where Spark is to encode them."""
    return _each(_encoder(given), values)


def plainly_decoded(given: Format, found: Sequence[bytes | None]) -> list[Any] | None:
    """The values in bytes of a format, null for null; None where Spark is to decode them."""
    return _each(_decoder(given), found)


def _each(function: Callable[[Any], Any] | None, given: Sequence[Any]) -> list[Any] | None:
    if function is None:
        return None
    try:
        return [None if each is None else function(each) for each in given]
    except (struct.error, UnicodeError, KeyError, TypeError, AttributeError):
        return None


def _encoder(given: Format) -> Callable[[Any], bytes] | None:
    match given:
        case PrimitiveFormat(Primitive.BYTES):
            return bytes
        case PrimitiveFormat(Primitive.TEXT):
            return lambda text: str.encode(text, "utf-8")
        case PrimitiveFormat(Primitive.BOOLEAN):
            return {value: data for data, value in _BOOLEANS.items()}.__getitem__
        case PrimitiveFormat(kind) if kind in _NUMBERS:
            return _NUMBERS[kind].pack
    return None


def _decoder(given: Format) -> Callable[[bytes], Any] | None:
    match given:
        case PrimitiveFormat(Primitive.BYTES):
            return bytes
        case PrimitiveFormat(Primitive.TEXT):
            return lambda data: data.decode("utf-8")
        case PrimitiveFormat(Primitive.BOOLEAN):
            return _BOOLEANS.__getitem__
        case PrimitiveFormat(kind) if kind in _NUMBERS:
            number = _NUMBERS[kind]
            return lambda data: number.unpack(data)[0]
    return None
