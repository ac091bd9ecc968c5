"""JSON as Jackson reads it: quickly where a text is plain, else with its liberties and its exact numbers."""

from __future__ import annotations

import decimal
import json
import re
from typing import Any, Final, NoReturn

import orjson

from ottla.connect.data.schema import DataError

NOT_WHOLE: Final = object()
"""Stands for a text that is not one plain JSON value."""
_LONG_NUMBER: Final = re.compile(rb"[0-9]{18}")
_STRINGS_AND_ZEROS: Final = re.compile(r'("(?:[^"\\]|\\.)*")|(?<![0-9.eE+-])(-?)0+(?=[0-9])', re.DOTALL)
_MAX_EXPONENT_DIGITS: Final = 9
_CONTEXT: Final = decimal.Context(prec=1_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_SPACE: Final = re.compile(r"[ \t\r\n]*")


def read_json(data: bytes, *, exact: bool = False) -> Any:
    """The value of a JSON text; None for an empty one; what follows the first value is ignored.

    exact: numbers with a point or exponent are decimals with all their digits. Raises DataError.
    """
    if not exact and is_plain(data):
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            pass  # Jackson may still read it
    return _read_slowly(data, exact)


def is_plain(data: bytes) -> bool:
    """Whether no whole number of a JSON text can have more than 64 bits."""
    return _LONG_NUMBER.search(data) is None


def read_whole_json(data: bytes, *, exact: bool = False) -> Any:
    """The value of a plain JSON text that has nothing besides it, NOT_WHOLE for another."""
    if not is_plain(data):
        return NOT_WHOLE
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return NOT_WHOLE
    return _read_slowly(data, exact) if exact else value


def _read_slowly(data: bytes, exact: bool) -> Any:
    decoder = json.JSONDecoder(
        parse_float=_decimal if exact else _float, parse_constant=_refuse_constant, strict=True
    )
    try:
        text = data.decode(json.detect_encoding(data)).lstrip("\ufeff")
        text = _without_leading_zeros(text)
        start = _space_end(text)
        if start == len(text):
            return None
        value, end = decoder.raw_decode(text, start)
        _check_end(value, text[end : end + 1])
    except (ValueError, RecursionError) as problem:
        raise DataError(
            "Converting byte[] to Kafka Connect data failed due to serialization error: "
            f"{str(problem) or type(problem).__name__}"
        ) from None
    return value


def _check_end(value: Any, following: str) -> None:
    """Raises ValueError where a word goes on behind the first value, or something stands behind a number."""
    is_word = value is None or isinstance(value, bool)
    if is_word and (following.isalnum() or following in ("_", "$")):
        raise ValueError("a word is none of JSON")
    if not is_word and isinstance(value, int | float | decimal.Decimal) and following.strip():
        raise ValueError("a number is followed by something else than space")


def _float(text: str) -> float:
    """Java's decimals, as which it reads numbers, have exponents of 32 bits."""
    if len(text.lower().partition("e")[2].lstrip("+-0")) > _MAX_EXPONENT_DIGITS:
        raise ValueError("the exponent of a number is too large")
    return float(text)


def _space_end(text: str) -> int:
    found = _SPACE.match(text)
    return 0 if found is None else found.end()


def _without_leading_zeros(text: str) -> str:
    return _STRINGS_AND_ZEROS.sub(lambda found: found[1] or found[2] or "", text)


def _decimal(text: str) -> decimal.Decimal:
    return decimal.Decimal(text, _CONTEXT)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def write_json(value: Any) -> bytes:
    """The compact JSON of a value. Raises DataError."""
    try:
        return orjson.dumps(value)
    except (orjson.JSONEncodeError, RecursionError) as problem:
        raise DataError(
            f"Converting Kafka Connect data to byte[] failed due to serialization error: {problem}"
        ) from None


def node_type(node: Any) -> str:
    """Jackson's name for the type of a JSON value."""
    match node:
        case None:
            return "NULL"
        case bool():
            return "BOOLEAN"
        case str():
            return "STRING"
        case list():
            return "ARRAY"
        case dict():
            return "OBJECT"
    return "NUMBER"
