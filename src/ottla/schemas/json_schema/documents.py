"""Reads and writes JSON texts of schemas: within bounds, and with every number spelt as it was."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

import orjson

from ottla.schemas.format import InvalidSchema

MAX_TEXT_CHARACTERS: Final = 1 << 20
"""About as many bytes as Kafka's default limit of a message: a longer schema could not be stored."""
MAX_DEPTH: Final = 64
"""The deepest nesting of arrays and objects; the meta-schemas' validators take several frames a level."""
MAX_VALUES: Final = 20_000
"""The most values in a document. Bounds the time for checking and comparing it."""

_LONGEST_PLAIN_INTEGER: Final = 18
"""The number of digits that surely fits orjson's 64 bits."""


class Real(float):
    """A number with a fraction or an exponent that keeps its spelling (1.10, 1e2)."""

    text: str


class LongInteger(int):
    """An integer that may not fit 64 bits."""


def read_json(text: str) -> Any:
    """The value of a JSON text; of equal keys the last counts. Raises InvalidSchema."""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise InvalidSchema(f"the schema is longer than {MAX_TEXT_CHARACTERS} characters")
    try:
        value = json.loads(text, parse_float=_real, parse_int=_integer, parse_constant=_refuse_constant)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as problem:  # also for a number with more digits than Python converts
        raise InvalidSchema(f"the schema is not JSON: {problem}") from None
    _check_bounds(value)
    return value


def write_json(value: Any, *, sort_keys: bool = False) -> str:
    """The JSON text of a value, without blanks and with numbers as they were read. Raises InvalidSchema."""
    option = orjson.OPT_PASSTHROUGH_SUBCLASS | (orjson.OPT_SORT_KEYS if sort_keys else 0)
    try:
        return orjson.dumps(value, default=_spelling, option=option).decode()
    except TypeError as problem:  # half a surrogate pair can't be encoded in UTF-8
        raise InvalidSchema(f"the schema can't be written as UTF-8: {problem}") from None


def json_key(value: Any) -> object:
    """A hashable key that is equal for equal JSON values: 1 and 1.0 are equal, 1 and true are not."""
    match value:
        case bool():
            return ("boolean", value)
        case list():
            return ("array", tuple(json_key(item) for item in value))
        case dict():
            return ("object", frozenset((name, json_key(item)) for name, item in value.items()))
        case _:
            return value


def _real(text: str) -> Real:
    number = Real(text)
    number.text = text
    return number


def _integer(text: str) -> int:
    return int(text) if len(text) <= _LONGEST_PLAIN_INTEGER else LongInteger(text)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON value")


def _spelling(value: object) -> orjson.Fragment:
    match value:
        case Real():
            return orjson.Fragment(value.text)
        case LongInteger():
            return orjson.Fragment(str(int(value)))
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _too_deep() -> InvalidSchema:
    return InvalidSchema(f"the schema is nested more than {MAX_DEPTH} levels deep")


def _check_bounds(value: Any) -> None:
    level, depth, count = [value], 0, 1
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep()
        inner: list[Any] = []
        for item in level:
            match item:
                case dict():
                    count += len(item)
                    inner.extend(below for below in item.values() if isinstance(below, (dict, list)))
                case list():
                    count += len(item)
                    inner.extend(below for below in item if isinstance(below, (dict, list)))
        if count > MAX_VALUES:
            raise InvalidSchema(f"the schema has more than {MAX_VALUES} values")
        level = inner
