"""The JSON of records of the registry's topics, read field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson


class UnreadableRecord(ValueError):
    """A record that is not one of the registry's; the message says why."""


def object_of(data: bytes, part: str) -> dict[str, Any]:
    """The object that is a record's key or value (`part`). Raises UnreadableRecord."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        raise UnreadableRecord(f"its {part} is no JSON: {problem}") from None
    if not isinstance(value, dict):
        raise UnreadableRecord(f"its {part} is no JSON object")
    return value


def text_in(found: Mapping[str, Any], name: str) -> str:
    """The text of this field. Raises UnreadableRecord."""
    value = found.get(name)
    if not isinstance(value, str):
        raise UnreadableRecord(f"its {name} is no text")
    return value


def integer_in(found: Mapping[str, Any], name: str, highest: int) -> int:
    """The number of this field, from 1 to `highest`. Raises UnreadableRecord."""
    value = found.get(name)
    if type(value) is not int or not 1 <= value <= highest:
        raise UnreadableRecord(f"its {name} is no number from 1 to {highest}")
    return value
