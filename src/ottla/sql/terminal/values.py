"""Values of rows as texts: for people, for CSV, and as JSON that keeps a decimal's digits."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any, Final

NULL: Final = "NULL"


def json_text(value: Any) -> str:
    """A value as JSON; numbers that JSON has not (NaN) are texts."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case int():
            return str(value)
        case Decimal():
            return str(value) if value.is_finite() else json.dumps(str(value))
        case float():
            return repr(value) if math.isfinite(value) else json.dumps(repr(value))
        case dict():
            return (
                "{" + ", ".join(f"{json_text(str(k))}: {json_text(each)}" for k, each in value.items()) + "}"
            )
        case list() | tuple():
            return "[" + ", ".join(map(json_text, value)) + "]"
        case _:
            return json.dumps(str(value), ensure_ascii=False)


def text_of(value: Any) -> str:
    """A value as people read it: texts without quotes, NULL, lists and structs as JSON."""
    match value:
        case None:
            return NULL
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case _:
            return json_text(value)


def csv_text(value: Any) -> str:
    """A value in a field of CSV: nothing for NULL."""
    return "" if value is None else text_of(value)
