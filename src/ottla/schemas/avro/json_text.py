"""Reads and writes JSON as Java's Avro library (Jackson) does, where that differs from Python.

Comments are allowed, NaN is not, the last of equal keys counts, numbers are bounded. Floats are written as by
Java's Double.toString, control characters with upper-case hex digits.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

from ottla.schemas.format import InvalidSchema

MAX_TEXT_CHARS: Final = 4 << 20
MAX_DEPTH: Final = 200
"""The most levels of nested JSON values. Java allows 1,000; here each level takes several stack frames."""
MAX_NUMBER_CHARS: Final = 1000
_STRING_OR_COMMENT: Final = re.compile(r'"|/\*|//')
_REST_OF_STRING: Final = re.compile(r'(?:[^"\\]|\\.)*+"', re.DOTALL)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
_SHORT_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def read_json(text: str) -> Any:
    """The value of a JSON text. Raises InvalidSchema."""
    if len(text) > MAX_TEXT_CHARS:
        raise InvalidSchema(f"the schema has {len(text)} characters; {MAX_TEXT_CHARS} are allowed")
    if not text.strip():
        raise InvalidSchema("the schema is empty")
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        raise InvalidSchema(f"the schema is nested more than {MAX_DEPTH} deep") from None
    except ValueError as error:
        value = _read_commented(text, error)
    _check(value)
    return value


def _read_commented(text: str, first: ValueError) -> Any:
    plain = _without_comments(text)
    if plain != text:
        try:
            return _DECODER.decode(plain)
        except RecursionError:
            raise InvalidSchema(f"the schema is nested more than {MAX_DEPTH} deep") from None
        except ValueError as error:
            first = error
    raise InvalidSchema(f"the schema is not JSON: {first}") from None


def _without_comments(text: str) -> str:
    """The text without comments, except for one at its end, which Java does not accept.

    From a string or comment without an end, the text is left as it is."""
    kept = []
    start = position = 0
    while (found := _STRING_OR_COMMENT.search(text, position)) is not None:
        if found[0] == '"':
            string = _REST_OF_STRING.match(text, found.end())
            if string is None:
                break
            position = string.end()
            continue
        end = text.find("*/" if found[0] == "/*" else "\n", found.end())
        if end < 0 and found[0] == "/*":
            break
        kept.append(text[start : found.start()])
        start = position = len(text) if end < 0 else end + (2 if found[0] == "/*" else 0)
    if not text[start:].strip():
        return text
    return " ".join((*kept, text[start:]))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _bounded_int(digits: str) -> int:
    if len(digits) > MAX_NUMBER_CHARS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _bounded_float(digits: str) -> float:
    if len(digits) > MAX_NUMBER_CHARS:
        raise ValueError(f"a number of {len(digits)} digits")
    return float(digits)


_DECODER: Final = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_int=_bounded_int, parse_float=_bounded_float
)


def _check(value: Any) -> None:
    """Raise InvalidSchema for too deep nesting, or for half a surrogate pair, which could not be stored."""
    waiting = [(value, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise InvalidSchema(f"the schema is nested more than {MAX_DEPTH} deep")
        match node:
            case str():
                if _SURROGATE.search(node):
                    raise InvalidSchema(f"not Unicode: {node!r} has half of a surrogate pair")
            case list():
                waiting.extend((element, depth + 1) for element in node)
            case dict():
                for key, element in node.items():
                    waiting.append((key, depth))
                    waiting.append((element, depth + 1))


def write_json(value: Any, *, sort_keys: bool = False) -> str:
    """The text of a value without spaces; `sort_keys` orders the keys of all objects in it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return write_string(value)
        case int():
            return str(value)
        case float():
            return write_double(value)
        case list() | tuple():
            return "[" + ",".join(write_json(element, sort_keys=sort_keys) for element in value) + "]"
        case dict():
            names = sorted(value) if sort_keys else value
            return (
                "{"
                + ",".join(f"{write_string(n)}:{write_json(value[n], sort_keys=sort_keys)}" for n in names)
                + "}"
            )
        case _:
            raise TypeError(f"no JSON value: {value!r}")


def write_string(text: str) -> str:
    """A JSON string, in which only quotes, backslashes and control characters are escaped."""
    if _ESCAPED.search(text) is None:
        return f'"{text}"'
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def write_double(value: float) -> str:
    """A double as Java's Double.toString writes it; NaN and the infinities in quotes, as of Jackson."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    shortest = repr(abs(value))
    if len(shortest.partition("e")[0].replace(".", "").strip("0")) == 1:
        shortest = f"{abs(value):.1e}"  # Java writes the two closest digits: 4.9E-324
    mantissa, _, exponent = shortest.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = int(exponent or 0) + len(whole) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0") or "0"
    sign = "-" if value < 0 else ""
    if -3 < point <= 7:
        padded = digits.ljust(point, "0") if point > 0 else "0" * -point + digits
        whole, fraction = (padded[:point], padded[point:]) if point > 0 else ("0", padded)
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
