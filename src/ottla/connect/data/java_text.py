"""Values as texts, as Java's String.valueOf writes them, and its arithmetic of whole numbers."""

from __future__ import annotations

import base64
import decimal
import math
import struct
from typing import Any, Final

from ottla.connect.data.checking import BITS
from ottla.connect.data.dates import date_text
from ottla.connect.data.schema import Moment, Schema, Struct, Type

_FLOAT: Final = struct.Struct(">f")
_FLOAT_DIGITS: Final = 9
_SMALLEST_NORMAL: Final = 2.0**-126


def float32(value: float) -> float:
    """The nearest number that 32 bits can hold."""
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def shortest_float32(value: float) -> float:
    """The number with the fewest digits that is the same in 32 bits: 1.1 for 1.10000002384185791015625."""
    if not math.isfinite(value):
        return value
    exact = float32(value)
    fewest = 6 if abs(exact) >= _SMALLEST_NORMAL else 2
    for digits in range(fewest, _FLOAT_DIGITS + 1):
        text = f"{exact:.{digits}g}"
        if float32(float(text)) == exact:
            return float(text)
    return exact


def double_text(value: float) -> str:
    """As Double.toString."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e7:
        return repr(value)
    mantissa, _, exponent = repr(size).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(digits) - len(fraction) - 1
    digits = digits.rstrip("0")
    if len(digits) == 1:  # Java gives two, of which the nearest: 4.9E-324
        tenths, _, exponent = f"{size:.1e}".partition("e")
        digits, power = tenths.replace(".", "").rstrip("0"), int(exponent)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def float_text(value: float) -> str:
    """As Float.toString, of a number that 32 bits can hold."""
    return double_text(shortest_float32(value))


def decimal_text(value: decimal.Decimal) -> str:
    """As BigDecimal.toString."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)) or "0"
    minus = "-" if sign and value else ""
    scale = -exponent
    adjusted = exponent + len(text) - 1
    if scale == 0:
        return minus + text
    if scale > 0 and adjusted >= -6:
        text = text.rjust(scale + 1, "0")
        return f"{minus}{text[:-scale]}.{text[-scale:]}"
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{minus}{text[0]}{fraction}E{adjusted:+d}"


def value_text(value: Any, schema: Schema | None = None) -> str:
    """As String.valueOf; but bytes, which Java gives by their address, are base64."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | str():
            return str(value)
        case float():
            narrow = schema is not None and schema.type is Type.FLOAT32
            return float_text(value) if narrow else double_text(value)
        case decimal.Decimal():
            return decimal_text(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Moment():
            return date_text(value.epoch_ms)
        case list():
            items = None if schema is None else schema.values
            return f"[{', '.join(value_text(each, items) for each in value)}]"
        case dict():
            keys, values = (None, None) if schema is None else (schema.keys, schema.values)
            entries = (f"{value_text(k, keys)}={value_text(v, values)}" for k, v in value.items())
            return f"{{{', '.join(entries)}}}"
        case Struct():
            given = ((each, value.values.get(each.name)) for each in value.schema.fields)
            shown = ",".join(f"{f.name}={value_text(v, f.schema)}" for f, v in given if v is not None)
            return f"Struct{{{shown}}}"
    return str(value)


def wrapped(value: int, type: Type) -> int:
    """A whole number cut to the bits of INT8 to INT64, as Java's casts do."""
    bits = BITS[type]
    return ((value + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1))


def whole_of_float(value: float, type: Type) -> int:
    """A float cast to INT8 to INT64: towards zero, the largest or smallest number where it is too large."""
    wide = Type.INT64 if type is Type.INT64 else Type.INT32
    if math.isnan(value):
        return 0
    limit = 1 << (BITS[wide] - 1)
    whole = (limit if value > 0 else -limit) if math.isinf(value) else int(value)
    return wrapped(max(-limit, min(limit - 1, whole)), type)


def parsed_double(text: str) -> float:
    """As Double.parseDouble. Raises ValueError."""
    word = text.strip("".join(map(chr, range(0x21))))
    bare = word.lstrip("+-")
    if len(word) - len(bare) > 1 or not bare:
        raise ValueError(text)
    if bare in ("NaN", "Infinity"):
        return float(word.replace("Infinity", "inf"))
    if bare[:2].lower() == "0x":
        return _hexadecimal(word)
    if bare[-1] in "fFdD":
        word, bare = word[:-1], bare[:-1]
    if not bare or not bare.isascii() or not set(bare) <= set("0123456789.eE+-"):
        raise ValueError(text)
    return float(word)


def _hexadecimal(word: str) -> float:
    body = word[:-1] if word[-1] in "fFdD" and "p" in word.lower() else word
    if "p" not in body.lower() or "_" in body:
        raise ValueError(word)
    try:
        return float.fromhex(body)
    except OverflowError:
        return -math.inf if word.startswith("-") else math.inf


def parsed_int(text: str, type: Type) -> int:
    """As Byte.parseByte to Long.parseLong: digits alone, with a sign. Raises ValueError."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal() or len(digits) > 100:
        raise ValueError(text)
    value = int(text)
    limit = 1 << (BITS[type] - 1)
    if not -limit <= value < limit:
        raise ValueError(text)
    return value
