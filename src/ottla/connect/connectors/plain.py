"""Connect's values as plain JSON values, and as the texts that Java gives them."""

from __future__ import annotations

import base64
import decimal
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ottla.connect.data.schema import DataError, Moment, Struct

MAX_DEPTH: Final = 200
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON can hold it: structs as objects, bytes in Base64, decimals as texts, moments in ms.

    Raises DataError for a value that is nested too deep, or of a type that Connect does not have.
    """
    if depth > MAX_DEPTH:
        raise DataError(f"a value is nested deeper than {MAX_DEPTH} levels")
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case Struct():
            return {each.name: plain(value.get(each.name), depth + 1) for each in value.schema.fields}
        case Mapping():
            return {_key_text(key): plain(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [plain(item, depth + 1) for item in value]
        case decimal.Decimal():
            return format(value, "f")
        case Moment():
            return value.epoch_ms
    raise DataError(f"a value of type {type(value).__name__} has no form in JSON")


def json_text(value: Any) -> str:
    """The value as compact JSON. Raises DataError, also for NaN, infinities and half surrogate pairs."""
    try:
        text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except ValueError as problem:
        raise DataError(str(problem)) from None
    return text


def key_text(value: Any) -> str:
    """A record's key as a text: texts as they are, bytes as UTF-8, numbers in digits, all others in JSON.

    Raises DataError.
    """
    match value:
        case str():
            try:
                value.encode()
            except UnicodeEncodeError as problem:
                raise DataError(str(problem)) from None
            return value
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError as problem:
                raise DataError(f"a key of bytes is not UTF-8: {problem}") from None
    return json_text(value)


def java_text(value: Any) -> str:
    """The value as Java's String.valueOf prints it, but bytes as UTF-8 and moments in UTC."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.decode("utf-8", "replace")
        case Struct():
            given = ((each.name, value.get(each.name)) for each in value.schema.fields)
            return (
                "Struct{"
                + ",".join(f"{name}={java_text(item)}" for name, item in given if item is not None)
                + "}"
            )
        case Mapping():
            return "{" + ", ".join(f"{java_text(key)}={java_text(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(java_text, value)) + "]"
        case Moment():
            return (_EPOCH + timedelta(milliseconds=value.epoch_ms)).strftime("%a %b %d %H:%M:%S UTC %Y")
    return str(value)


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else json_text(key)
