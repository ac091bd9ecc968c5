"""Functions of JSON in texts."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from ottla.sql.functions import casts
from ottla.sql.functions.function import ScalarFunction, Variant, on, scalar
from ottla.sql.functions.signature import signature
from ottla.sql.types.sql_types import Base, SqlType

_STEP = re.compile(r"\.(?P<name>[^.\[\]'\"]+)|\[(?P<index>\d+)\]|\[(?P<quote>['\"])(?P<key>.*?)(?P=quote)\]")


def loads(text: str) -> Any:
    """JSON's value, numbers with a point as Decimal. Raises ValueError."""
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("the JSON is nested too deep") from None


def dumps(value: Any) -> str:
    """JSON's text, without spaces; decimals keep their digits."""
    match value:
        case dict():
            return "{" + ",".join(f"{dumps(str(key))}:{dumps(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ",".join(map(dumps, value)) + "]"
        case Decimal():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _read(text: str | None) -> Any:
    """The value of a text; ValueError's subclass for none is left to the caller."""
    if text is None:
        raise ValueError("NULL")
    return loads(text)


def _is_json(text: str | None) -> bool:
    try:
        _read(text)
    except ValueError:
        return False
    return True


def _of_kind(kind: type, made: Callable[[Any], Any]) -> Callable[[str | None], Any]:
    """A function of a JSON array or object; NULL for everything else."""

    def found(text: str | None) -> Any:
        try:
            value = _read(text)
        except ValueError:
            return None
        return made(value) if isinstance(value, kind) else None

    return found


def _concat(*texts: str | None) -> str | None:
    try:
        values = [_read(each) for each in texts]
    except ValueError:
        return None
    if all(isinstance(each, dict) for each in values):
        return dumps({key: value for each in values for key, value in each.items()})
    return dumps([one for each in values for one in (each if isinstance(each, list) else [each])])


def _extract(text: str, path: str) -> str | None:
    try:
        found = loads(text)
    except ValueError:
        return None
    if not path.startswith("$"):
        raise ValueError(f"a JSON path begins with $: {path}")
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"{path} is no JSON path of names and indices")
        at = step.end()
        name = step["name"] if step["name"] is not None else step["key"]
        if name is not None:
            found = found.get(name) if isinstance(found, dict) else None
        else:
            index = int(step["index"])
            found = found[index] if isinstance(found, list) and index < len(found) else None
        if found is None:
            return None
    return found if isinstance(found, str) else dumps(found)


def _contains(text: str, wanted: Any) -> bool:
    try:
        found = loads(text)
    except ValueError:
        return False
    return isinstance(found, list) and any(
        each == wanted and isinstance(each, bool) is isinstance(wanted, bool) for each in found
    )


def plain(value: Any, of: SqlType) -> Any:
    """A value as JSON has it: times as texts, bytes as base64."""
    if value is None:
        return None
    match of.base:
        case Base.DATE:
            return casts.date_text(value)
        case Base.TIME:
            return casts.time_text(value)
        case Base.TIMESTAMP:
            return casts.timestamp_text(value)
        case Base.BYTES:
            return base64.b64encode(value).decode()
        case Base.ARRAY:
            return [plain(each, of.elements[0]) for each in value]
        case Base.MAP:
            return {str(key): plain(each, of.elements[1]) for key, each in value.items()}
        case Base.STRUCT:
            return {name: plain(value.get(name), each) for name, each in of.fields}
    return value


def _to_json(types: Sequence[SqlType], value: Any) -> str:
    return dumps(plain(value, types[0]))


def _json(name: str, summary: str, *variants: Variant) -> ScalarFunction:
    return scalar(name, summary, *variants, group="JSON")


JSON = (
    _json(
        "EXTRACTJSONFIELD", "the value at a JSON path, as a text", on("(STRING, STRING) -> STRING", _extract)
    ),
    _json("IS_JSON_STRING", "whether the text is JSON", on("(STRING) -> BOOLEAN", _is_json, nulls=True)),
    _json("JSON_ARRAY_CONTAINS", "whether a JSON array has a value", on("(STRING, T) -> BOOLEAN", _contains)),
    _json(
        "JSON_ARRAY_LENGTH",
        "the length of a JSON array",
        on("(STRING) -> INT", _of_kind(list, len), nulls=True),
    ),
    _json("JSON_CONCAT", "JSON objects or arrays as one", on("(STRING...) -> STRING", _concat, nulls=True)),
    _json(
        "JSON_KEYS",
        "the keys of a JSON object",
        on("(STRING) -> ARRAY<STRING>", _of_kind(dict, list), nulls=True),
    ),
    _json(
        "JSON_RECORDS",
        "keys and values of a JSON object, as texts",
        on(
            "(STRING) -> MAP<STRING, STRING>",
            _of_kind(dict, lambda found: {key: dumps(value) for key, value in found.items()}),
            nulls=True,
        ),
    ),
    _json(
        "JSON_ITEMS",
        "the elements of a JSON array, as texts",
        on(
            "(STRING) -> ARRAY<STRING>",
            _of_kind(list, lambda found: [dumps(each) for each in found]),
            nulls=True,
        ),
    ),
    _json(
        "TO_JSON_STRING",
        "any value as JSON",
        Variant(signature("(T) -> STRING"), _to_json, nulls=True, typed=True),
    ),
)
