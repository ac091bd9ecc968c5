"""Values between JSON and SQL's types: as they stand in topics, and as they are answered to clients."""

from __future__ import annotations

import base64
import binascii
import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import orjson

from ottla.connect.data.json_text import read_json
from ottla.connect.data.schema import DataError
from ottla.sql.functions import casts
from ottla.sql.types.bad_value import BadValue
from ottla.sql.types.sql_types import Base, SqlType

Convert = Callable[[Any], Any]
_EPOCH: Final = datetime.date(1970, 1, 1)
_DAY_MS: Final = 86_400_000
_LIMITS: Final = {Base.INTEGER: 2**31, Base.BIGINT: 2**63}


def parsed(data: bytes, exact: bool) -> Any:
    """The value of a JSON text. exact: decimals keep all their digits. Raises BadValue."""
    try:
        return read_json(data, exact=exact)
    except DataError as problem:
        raise BadValue(str(problem)) from None


def has_decimals(of: SqlType) -> bool:
    """Whether numbers of a type need all their digits."""
    inner = (*of.elements, *(each for _, each in of.fields))
    return of.base is Base.DECIMAL or any(map(has_decimals, inner))


def from_json(of: SqlType) -> Convert:
    """What makes a value of a type out of parsed JSON; None stays None. Raises BadValue."""
    present = _from_json(of)
    return lambda value: None if value is None else present(value)


def _from_json(of: SqlType) -> Convert:
    match of.base:
        case Base.STRING:
            return lambda value: value if isinstance(value, str) else _text_of(value)
        case Base.BOOLEAN:
            return _of_type(bool, of)
        case Base.INTEGER | Base.BIGINT | Base.DATE | Base.TIME | Base.TIMESTAMP:
            return _whole(of)
        case Base.DOUBLE:
            return _double
        case Base.DECIMAL:
            return lambda value: _decimal(value, of)
        case Base.BYTES:
            return _bytes
        case Base.ARRAY:
            element = from_json(of.elements[0])
            return lambda value: [element(each) for each in _checked(value, list, of)]
        case Base.MAP:
            inner = from_json(of.elements[1])
            return lambda value: {key: inner(each) for key, each in _checked(value, dict, of).items()}
        case Base.STRUCT:
            return _struct(of)
    return lambda value: value


def _struct(of: SqlType) -> Convert:
    fields = [(name, name.lower(), from_json(each)) for name, each in of.fields]

    def convert(value: Any) -> dict[str, Any]:
        given = _checked(value, dict, of)
        return {
            name: each(given[name] if name in given else given.get(lower)) for name, lower, each in fields
        }

    return convert


def _text_of(value: Any) -> str:
    if isinstance(value, dict | list):
        return orjson.dumps(value, default=float).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _checked(value: Any, wanted: type, of: SqlType) -> Any:
    if isinstance(value, wanted):
        return value
    raise BadValue(f"{value!r:.80} is no {of}")


def _of_type(wanted: type, of: SqlType) -> Convert:
    return lambda value: _checked(value, wanted, of)


def _whole(of: SqlType) -> Convert:
    limit = _LIMITS.get(of.base, 2**63 if of.base is Base.TIMESTAMP else 2**31)

    def convert(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit:
            return value
        if isinstance(value, float | Decimal) and value == int(value) and -limit <= value < limit:
            return int(value)
        raise BadValue(f"{value!r:.80} is no {of}")

    return convert


def _double(value: Any) -> float:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value.replace("Infinity", "inf"))
    raise BadValue(f"{value!r:.80} is no DOUBLE")


def _decimal(value: Any, of: SqlType) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise BadValue(f"{value!r:.80} is no {of}")
    try:
        return casts.to_decimal(Decimal(str(value)), of)
    except (ValueError, ArithmeticError):
        raise BadValue(f"{value!r:.80} is no {of}") from None


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_checked(value, str, SqlType(Base.BYTES)), validate=True)
    except binascii.Error:
        raise BadValue(f"{value!r:.80} is no base64") from None


def to_topic(of: SqlType) -> Convert:
    """What makes a value ready for `topic_json`; None stays None."""
    present = _writer(of, shown=False)
    return lambda value: None if value is None else present(value)


def to_client(of: SqlType) -> Convert:
    """What makes a value ready for `topic_json`, with dates and times as texts, as ksqlDB answers them."""
    present = _writer(of, shown=True)
    return lambda value: None if value is None else present(value)


def _writer(of: SqlType, *, shown: bool) -> Convert:
    def inner(each: SqlType) -> Convert:
        return to_client(each) if shown else to_topic(each)

    match of.base:
        case Base.DECIMAL:
            return lambda value: orjson.Fragment(format(value, "f"))
        case Base.BYTES:
            return lambda value: base64.b64encode(value).decode()
        case Base.DOUBLE:
            return _json_double
        case Base.DATE if shown:
            return date_text
        case Base.TIME if shown:
            return time_text
        case Base.TIMESTAMP if shown:
            return timestamp_text
        case Base.ARRAY:
            element = inner(of.elements[0])
            return lambda value: [element(each) for each in value]
        case Base.MAP:
            entry = inner(of.elements[1])
            return lambda value: {key: entry(each) for key, each in value.items()}
        case Base.STRUCT:
            fields = [(name, inner(each)) for name, each in of.fields]
            return lambda value: {name: each(value.get(name)) for name, each in fields}
    return lambda value: value


def json_text(value: Any) -> bytes:
    """The compact JSON of what `to_topic` or `to_client` gave."""
    return orjson.dumps(value)


def _json_double(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def date_text(days: int) -> str:
    """2026-01-31, of days since 1970; a number where there is no such date."""
    try:
        return (_EPOCH + datetime.timedelta(days=days)).isoformat()
    except OverflowError:
        return str(days)


def time_text(ms: int) -> str:
    """13:51:30, with milliseconds where there are some."""
    seconds, rest = divmod(ms % _DAY_MS, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{rest:03d}" if rest else text


def timestamp_text(ms: int) -> str:
    """2026-01-31T13:51:30.000, in UTC."""
    days, of_day = divmod(ms, _DAY_MS)
    seconds, rest = divmod(of_day, 1000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}"
    return f"{date_text(days)}T{clock}"
