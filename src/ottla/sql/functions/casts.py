"""CAST: values of one type as those of another, and the texts of values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

from ottla.sql.functions import java_times
from ottla.sql.functions.java_times import DAY_MS
from ottla.sql.types.sql_types import Base, SqlType

_LIMITS = {Base.INTEGER: 2**31, Base.BIGINT: 2**63}


def java_double(value: float) -> str:
    """A double as Java writes it: 1.0E10, 0.001, NaN."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    power = exponent + len(text) - 1
    rest = text[1:].rstrip("0") or "0"
    return f"{'-' if sign else ''}{text[0]}.{rest}E{power}"


def date_text(days: int) -> str:
    """A DATE: 2021-10-11."""
    return java_times.to_date(days).isoformat()


def time_text(milliseconds: int) -> str:
    """A TIME: 13:25, 13:25:10, 13:25:10.123."""
    seconds, fraction = divmod(milliseconds, 1000)
    hours, rest = divmod(seconds, 3600)
    text = f"{hours:02}:{rest // 60:02}"
    if rest % 60 or fraction:
        text += f":{rest % 60:02}"
    return text + (f".{fraction:03}" if fraction else "")


def timestamp_text(timestamp_ms: int) -> str:
    """A TIMESTAMP: 2021-10-11T12:18:39.446."""
    time = java_times.to_datetime(timestamp_ms)
    return time.strftime(f"{time.year:04}-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03}"


def text_of(value: Any, of: SqlType) -> str:
    """A value as CAST AS STRING gives it; NULL within arrays, maps and structs is the word null."""
    if value is None:
        return "null"
    match of.base:
        case Base.BOOLEAN:
            return "true" if value else "false"
        case Base.DOUBLE:
            return java_double(value)
        case Base.DECIMAL:
            return f"{value:f}"
        case Base.DATE:
            return date_text(value)
        case Base.TIME:
            return time_text(value)
        case Base.TIMESTAMP:
            return timestamp_text(value)
        case Base.ARRAY:
            return "[" + ", ".join(text_of(each, of.elements[0]) for each in value) + "]"
        case Base.MAP:
            pairs = (f"{text_of(k, of.elements[0])}={text_of(v, of.elements[1])}" for k, v in value.items())
            return "{" + ", ".join(pairs) + "}"
        case Base.STRUCT:
            return "Struct{" + ",".join(f"{n}={text_of(value.get(n), t)}" for n, t in of.fields) + "}"
        case _:
            return str(value)


def caster(given: SqlType, to: SqlType) -> Callable[[Any], Any] | None:
    """The cast of values that are not NULL; None where there is none. A cast raises ValueError."""
    if given == to or given.base is Base.UNKNOWN:
        return lambda value: value
    if to.base is Base.STRING:
        return None if given.base is Base.BYTES else lambda value: text_of(value, given)
    if to.is_number and (given.is_number or given.base is Base.STRING):
        return _to_number(given, to)
    match given.base, to.base:
        case Base.STRING, Base.BOOLEAN:
            return lambda text: text.strip().lower() == "true"
        case Base.STRING, Base.DATE:
            return lambda text: java_times.to_days(java_times.parsed(text[:10], "yyyy-MM-dd").date())
        case Base.STRING, Base.TIME:
            return _time
        case Base.STRING, Base.TIMESTAMP:
            return _timestamp
        case Base.TIMESTAMP, Base.DATE:
            return lambda time: time // DAY_MS
        case Base.TIMESTAMP, Base.TIME:
            return lambda time: time % DAY_MS
        case Base.DATE, Base.TIMESTAMP:
            return lambda days: days * DAY_MS
        case (Base.ARRAY, Base.ARRAY) | (Base.MAP, Base.MAP):
            return _within(given, to)
        case Base.STRUCT, Base.STRUCT:
            return _struct(given, to)
    return None


def to_decimal(value: Decimal, to: SqlType) -> Decimal:
    """A decimal of a type, rounded half up. Raises ValueError where it has too many digits."""
    with localcontext() as context:
        context.prec = 80
        found = value.quantize(Decimal(1).scaleb(-to.scale), ROUND_HALF_UP)
    if found and found.adjusted() >= to.precision - to.scale:
        raise ValueError(f"{value} does not fit {to}")
    return found


def _to_number(given: SqlType, to: SqlType) -> Callable[[Any], Any]:
    match to.base:
        case Base.DOUBLE:
            return _double if given.base is Base.STRING else float
        case Base.DECIMAL:
            return lambda value: to_decimal(_as_decimal(value), to)
        case _:
            limit = _LIMITS[to.base]

            def whole(value: Any) -> int:
                if isinstance(value, str):
                    if not re.fullmatch(r"[+-]?\d+(\.\d*)?", value := value.strip()):
                        raise ValueError(f"{value!r} is not a whole number")
                    value = Decimal(value)
                if isinstance(value, float) and not math.isfinite(value):
                    raise ValueError(f"{value} is not a whole number")
                found = int(value)
                if not -limit <= found < limit:
                    raise ValueError(f"{value} does not fit {to}")
                return found

            return whole


def _double(text: str) -> float:
    if not re.fullmatch(r"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|NaN|Infinity)\s*", text):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _as_decimal(value: Any) -> Decimal:
    try:
        found = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except InvalidOperation:
        raise ValueError(f"{value!r} is not a number") from None
    if not found.is_finite():
        raise ValueError(f"{value} is not a decimal")
    return found


def _time(text: str) -> int:
    found = re.fullmatch(r"(\d{1,2})(?::(\d{1,2}))?(?::(\d{1,2})(?:\.(\d{1,9}))?)?", text)
    if found is None:
        raise ValueError(f"{text!r} is not a time: HH:mm:ss")
    hours, minutes, seconds = (int(found[each] or 0) for each in (1, 2, 3))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(f"{text!r} is not a time of day")
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + int((found[4] or "").ljust(3, "0")[:3])


def _timestamp(text: str) -> int:
    try:
        if re.fullmatch(r"\d{4}", text):
            text += "-01-01"
        if re.fullmatch(r"\d{4}-\d{2}", text):
            text += "-01"
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}T\d{2}", text):
            text += ":00"
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time in ISO 8601") from None
    return java_times.to_timestamp(time if time.tzinfo else time.replace(tzinfo=UTC))


def _within(given: SqlType, to: SqlType) -> Callable[[Any], Any] | None:
    casts = [caster(a, b) for a, b in zip(given.elements, to.elements, strict=True)]
    if any(each is None for each in casts):
        return None
    known = [_or_null(each) for each in casts if each is not None]
    if to.base is Base.ARRAY:
        return lambda value: [known[0](each) for each in value]
    return lambda value: {known[0](k): known[1](v) for k, v in value.items()}


def _struct(given: SqlType, to: SqlType) -> Callable[[Any], Any] | None:
    casts: dict[str, Callable[[Any], Any]] = {}
    for name, wanted in to.fields:
        if (of := given.field_named(name)) is None:
            continue
        if (found := caster(of, wanted)) is None:
            return None
        casts[name] = _or_null(found)
    names = [name for name, _ in to.fields]
    return lambda value: {n: casts[n](value.get(n)) if n in casts else None for n in names}


def _or_null(cast: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else cast(value)
