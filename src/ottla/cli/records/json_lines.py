"""Records as JSON, one object a line: `ottla consume --json` writes them, `ottla produce --json` reads them.

Bytes that are UTF-8 are a string, others {"base64": "…"}, and no key or value is null. Headers are an object;
a list of [name, value] where a name is there twice, or is not UTF-8. Nothing is lost on the way and back:
every record has one such line, and its line gives the same bytes again.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

from ottla.protocol.record_columns import Headers, RecordColumns

BASE64: Final = "base64"
_READ: Final = frozenset({"key", "value", "headers", "partition", "timestamp"})
_IGNORED: Final = frozenset({"topic", "offset", "control"})
_LARGEST_INT64: Final = (1 << 63) - 1
_LARGEST_INT32: Final = (1 << 31) - 1

quoted: Callable[[str], str] = encode_basestring
"""A text as JSON, in quotation marks."""


class BadLine(Exception):
    """A line that is no record; the message says why."""


class JsonRecord(NamedTuple):
    """The record of a line. key, value: as JSON gives them. timestamp, partition: None if the line has
    none.
    """

    key: Any
    value: Any
    headers: Headers
    partition: int | None
    timestamp_ms: int | None


# -- writing -------------------------------------------------------------------------------------------------


def bytes_json(data: bytes | None) -> str:
    """A key, a value or a header's value as JSON."""
    if data is None:
        return "null"
    try:
        return quoted(data.decode())
    except UnicodeDecodeError:
        return f'{{"base64": "{binascii.b2a_base64(data, newline=False).decode()}"}}'


def headers_json(headers: Headers) -> str:
    """The headers of a record as JSON."""
    if not headers:
        return "{}"
    names = [name for name, _ in headers]
    if len(set(names)) == len(names) and not any(map(_is_escaped, names)):
        return f"{{{', '.join(f'{quoted(name)}: {bytes_json(value)}' for name, value in headers)}}}"
    pairs = (f"[{bytes_json(_name_bytes(name))}, {bytes_json(value)}]" for name, value in headers)
    return f"[{', '.join(pairs)}]"


def json_lines(
    topic: str,
    partition: int,
    columns: RecordColumns,
    keys: Iterable[str],
    values: Iterable[str],
    control: bool = False,
) -> bytes:
    """The lines of a batch's records. keys, values: as JSON (`bytes_json`). control: they are control
    records.
    """
    start = f'{{"topic": {quoted(topic)}, "partition": {partition}, "offset": '
    end = ', "control": true}' if control else "}"
    lines = [
        f'{start}{offset}, "timestamp": {timestamp}, "key": {key}, "value": {value}, '
        f'"headers": {headers_json(headers) if headers else "{}"}{end}'
        for offset, timestamp, key, value, headers in zip(
            columns.offsets, columns.timestamps, keys, values, columns.headers, strict=True
        )
    ]
    lines.append("")
    return "\n".join(lines).encode()


def _is_escaped(name: str) -> bool:
    return not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name)


def _name_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


# -- reading -------------------------------------------------------------------------------------------------


def parse_line(line: bytes) -> JsonRecord:
    """The record of a line. Raises BadLine."""
    try:
        found = _DECODER.decode(line.decode())
    except UnicodeDecodeError:
        raise BadLine('the line is not UTF-8; other bytes are written as {"base64": …}') from None
    except BadLine:
        raise
    except RecursionError:
        raise BadLine("the JSON is nested too deeply") from None
    except ValueError as problem:
        raise BadLine(f"not JSON: {problem}") from None
    if not isinstance(found, dict):
        raise BadLine(f"a record is a JSON object, not {_kind(found)}")
    if not found.keys() <= _READ:
        for name in found.keys() - _READ - _IGNORED:
            from ottla.cli.frame.errors import did_you_mean

            raise BadLine(f"a record has no {name[:60]!r}{did_you_mean(name, _READ)}")
    return JsonRecord(
        found.get("key"),
        found.get("value"),
        _headers(found.get("headers")) if "headers" in found else (),
        _number(found, "partition", 0, _LARGEST_INT32),
        _number(found, "timestamp", -1, _LARGEST_INT64),
    )


def bytes_of(value: Any, name: str) -> bytes | None:
    """The bytes of a key, a value or a header's value. name: the part's, for errors. Raises BadLine."""
    match value:
        case None:
            return None
        case str():
            try:
                return value.encode()
            except UnicodeEncodeError:
                raise BadLine(f"{name}: half of a surrogate pair is no text") from None
        case {"base64": str(text)} if len(value) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except ValueError as problem:
                raise BadLine(f"{name}: {problem}") from None
    raise BadLine(f'{name} is {_kind(value)}, not a string, null or {{"base64": "…"}}')


def _headers(given: Any) -> Headers:
    match given:
        case None:
            return ()
        case dict():
            pairs: Sequence[Any] = list(given.items())
        case list():
            pairs = given
        case _:
            raise BadLine(f"headers is {_kind(given)}, not an object or a list of [name, value]")
    found = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise BadLine("a header is [name, value]")
        name = bytes_of(pair[0], "a header's name")
        if name is None:
            raise BadLine("a header's name is null")
        found.append((name.decode("utf-8", "surrogateescape"), bytes_of(pair[1], "a header's value")))
    return tuple(found)


def _number(found: dict[str, Any], name: str, least: int, most: int) -> int | None:
    number = found.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool):
        raise BadLine(f"{name} is {_kind(number)}, not a whole number")
    if not least <= number <= most:
        raise BadLine(f"{name} is outside of {least} to {most}")
    return number


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise BadLine(f"{repeated[:60]!r} is there twice; headers with one name are a list of [name, value]")
    return found


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_without_repeats)
