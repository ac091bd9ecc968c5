"""Numeric functions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, Decimal
from typing import Any

from ottla.sql.functions.function import ScalarFunction, on, scalar
from ottla.sql.types.sql_types import SqlType, decimal

_EARTH_KM, _EARTH_MILES = 6371.0, 3959.0
MAX_SERIES = 1_000_000


def _same(arguments: Sequence[SqlType]) -> SqlType:
    return arguments[0]


def _whole(arguments: Sequence[SqlType]) -> SqlType:
    given = arguments[0]
    return decimal(min(max(given.precision - given.scale + 1, 1), 38), 0)


def _of_double(of: Callable[[float], float]) -> Callable[[float], float]:
    """A function of `math`'s with Java's answers: NaN outside of the domain, infinity beyond the range."""

    def answered(value: float) -> float:
        if math.isnan(value):
            return math.nan
        try:
            return of(value)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return answered


def _double(name: str, summary: str, of: Callable[[float], float]) -> ScalarFunction:
    return scalar(name, summary, on("(DOUBLE) -> DOUBLE", _of_double(of)), group="numeric")


def _logarithm(value: float) -> float:
    return -math.inf if value == 0 else math.log(value)


def _log(base: float, value: float) -> float:
    if base <= 0 or base == 1 or value < 0:
        return math.nan
    return -math.inf if value == 0 else math.log(value) / math.log(base)


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


def _half_up(value: Decimal, places: int) -> Decimal:
    """Rounded to the nearer, halves in the positive direction."""
    step = Decimal(1).scaleb(-places)
    return ((value / step + Decimal("0.5")).to_integral_value(ROUND_FLOOR)) * step


def round_double(value: float, places: int = 0) -> float:
    """ROUND of a DOUBLE."""
    return value if not math.isfinite(value) else float(_half_up(Decimal(repr(value)), places))


def _round_to_long(value: float) -> int:
    """ROUND(DOUBLE), which is a BIGINT: NaN is 0, beyond the range the range's end, as in Java."""
    if math.isnan(value):
        return 0
    return max(
        min(math.floor(value + 0.5) if math.isfinite(value) else int(math.copysign(2**63, value)), 2**63 - 1),
        -(2**63),
    )


def _truncated(value: Decimal, places: int) -> Decimal:
    return (
        value.quantize(Decimal(1).scaleb(-places), ROUND_DOWN) if places >= 0 else _cut_whole(value, -places)
    )


def _cut_whole(value: Decimal, places: int) -> Decimal:
    step = 10**places
    return Decimal(int(value) // step * step if value >= 0 else -(-int(value) // step * step))


def _trunc_double(value: float, places: int) -> float:
    return value if not math.isfinite(value) else float(_truncated(Decimal(repr(value)), places))


def _cube_root(value: float) -> float:
    found = math.cbrt(value)
    whole = float(round(found)) if math.isfinite(found) else found
    return whole if whole**3 == value else found


def _cotangent(value: float) -> float:
    return math.copysign(math.inf, value) if value == 0 else 1 / math.tan(value)


def _distance(lat1: float, lon1: float, lat2: float, lon2: float, unit: str = "KM") -> float:
    if not (-90 <= lat1 <= 90 and -90 <= lat2 <= 90 and -180 <= lon1 <= 180 and -180 <= lon2 <= 180):
        raise ValueError("latitudes are from -90 to 90, longitudes from -180 to 180")
    if unit.upper()[:1] not in ("K", "M"):
        raise ValueError(f"GEO_DISTANCE has the units KM and MILES, not {unit}")
    radius = _EARTH_KM if unit.upper().startswith("K") else _EARTH_MILES
    first, second = math.radians(lat1), math.radians(lat2)
    half = math.sin((second - first) / 2) ** 2
    half += math.cos(first) * math.cos(second) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    return 2 * radius * math.asin(math.sqrt(half))


def _series(start: int, end: int, step: int | None = None) -> list[int]:
    if step is None:
        step = 1 if end >= start else -1
    if step == 0:
        raise ValueError("GENERATE_SERIES step is not 0")
    if (end - start) * step < 0:
        raise ValueError("GENERATE_SERIES step goes away from the end")
    if abs(end - start) // abs(step) >= MAX_SERIES:
        raise ValueError(f"GENERATE_SERIES gives at most {MAX_SERIES:,} values")
    return list(range(start, end + (1 if step > 0 else -1), step))


def _extreme(choose: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    def chosen(*values: Any) -> Any:
        present = [each for each in values if each is not None]
        return choose(present) if present else None

    return chosen


def _sign(value: Any) -> int:
    return int(value > 0) - int(value < 0)


def _absolute(value: Any) -> Any:
    return abs(value)


def _to_places(value: Decimal, places: int = 0) -> Decimal:
    return _half_up(value, places)


NUMERIC = (
    scalar(
        "ABS",
        "the absolute value",
        on("(INT) -> INT", _absolute),
        on("(BIGINT) -> BIGINT", _absolute),
        on("(DECIMAL) -> DECIMAL", _absolute, returns=_same),
        on("(DOUBLE) -> DOUBLE", _absolute),
        group="numeric",
    ),
    _double("ACOS", "the inverse cosine, in radians", math.acos),
    _double("ASIN", "the inverse sine, in radians", math.asin),
    scalar(
        "AS_VALUE",
        "a copy of a key column for the value",
        on("(T) -> T", lambda value: value, nulls=True),
        group="numeric",
    ),
    _double("ATAN", "the inverse tangent, in radians", math.atan),
    scalar(
        "ATAN2",
        "the angle of the point (x, y), given y and x",
        on("(DOUBLE, DOUBLE) -> DOUBLE", math.atan2),
        group="numeric",
    ),
    _double("CBRT", "the cube root", _cube_root),
    scalar(
        "CEIL",
        "the smallest whole number that is not less",
        on("(INT) -> INT", lambda value: value),
        on("(BIGINT) -> BIGINT", lambda value: value),
        on("(DECIMAL) -> DECIMAL", lambda value: value.to_integral_value(ROUND_CEILING), returns=_whole),
        on("(DOUBLE) -> DOUBLE", lambda value: float(math.ceil(value)) if math.isfinite(value) else value),
        group="numeric",
    ),
    _double("COS", "the cosine of radians", math.cos),
    _double("COSH", "the hyperbolic cosine", math.cosh),
    _double("COT", "the cotangent of radians", _cotangent),
    _double("DEGREES", "degrees of radians", math.degrees),
    _double("EXP", "e raised to the value", math.exp),
    scalar(
        "FLOOR",
        "the largest whole number that is not more",
        on("(INT) -> INT", lambda value: value),
        on("(BIGINT) -> BIGINT", lambda value: value),
        on("(DECIMAL) -> DECIMAL", lambda value: value.to_integral_value(ROUND_FLOOR), returns=_whole),
        on("(DOUBLE) -> DOUBLE", lambda value: float(math.floor(value)) if math.isfinite(value) else value),
        group="numeric",
    ),
    scalar(
        "GENERATE_SERIES",
        "an array of the numbers from start to end",
        on("(INT, INT) -> ARRAY<INT>", _series),
        on("(INT, INT, INT) -> ARRAY<INT>", _series),
        on("(BIGINT, BIGINT) -> ARRAY<BIGINT>", _series),
        on("(BIGINT, BIGINT, INT) -> ARRAY<BIGINT>", _series),
        group="numeric",
    ),
    scalar(
        "GEO_DISTANCE",
        "the distance of two points on the earth, in KM or MILES",
        on("(DOUBLE, DOUBLE, DOUBLE, DOUBLE) -> DOUBLE", _distance),
        on("(DOUBLE, DOUBLE, DOUBLE, DOUBLE, STRING) -> DOUBLE", _distance),
        group="numeric",
    ),
    scalar(
        "GREATEST",
        "the largest value that is not NULL",
        on("(T, T...) -> T", _extreme(max), nulls=True),
        group="numeric",
    ),
    scalar(
        "LEAST",
        "the smallest value that is not NULL",
        on("(T, T...) -> T", _extreme(min), nulls=True),
        group="numeric",
    ),
    _double("LN", "the natural logarithm", _logarithm),
    scalar(
        "LOG",
        "the logarithm to base 10, or to the given base",
        on("(DOUBLE) -> DOUBLE", lambda value: _log(10.0, value) if value <= 0 else math.log10(value)),
        on("(DOUBLE, DOUBLE) -> DOUBLE", _log),
        group="numeric",
    ),
    scalar("PI", "π", on("() -> DOUBLE", lambda: math.pi), group="numeric"),
    scalar(
        "POWER", "the base raised to the exponent", on("(DOUBLE, DOUBLE) -> DOUBLE", _power), group="numeric"
    ),
    _double("RADIANS", "radians of degrees", math.radians),
    scalar(
        "RANDOM",
        "a random number from 0 to 1",
        on("() -> DOUBLE", random.random),
        group="numeric",
        stable=False,
    ),
    scalar(
        "ROUND",
        "rounded to a number of places, halves upwards",
        on("(BIGINT) -> BIGINT", lambda value: value),
        on("(DOUBLE) -> BIGINT", _round_to_long),
        on("(DECIMAL) -> DECIMAL", _to_places, returns=_whole),
        on("(DOUBLE, INT) -> DOUBLE", round_double),
        on("(DECIMAL, INT) -> DECIMAL", _to_places, returns=_same),
        group="numeric",
    ),
    scalar(
        "SIGN",
        "-1, 0 or 1",
        on("(INT) -> INT", _sign),
        on("(BIGINT) -> INT", _sign),
        on("(DECIMAL) -> INT", _sign),
        on("(DOUBLE) -> INT", _sign),
        group="numeric",
    ),
    _double("SIN", "the sine of radians", math.sin),
    _double("SINH", "the hyperbolic sine", math.sinh),
    _double("SQRT", "the square root", math.sqrt),
    _double("TAN", "the tangent of radians", math.tan),
    _double("TANH", "the hyperbolic tangent", math.tanh),
    scalar(
        "TRUNC",
        "cut to a number of places",
        on("(BIGINT) -> BIGINT", lambda value: value),
        on("(DOUBLE) -> BIGINT", lambda value: int(value) if math.isfinite(value) else _round_to_long(value)),
        on("(DECIMAL) -> DECIMAL", lambda value: _truncated(value, 0), returns=_whole),
        on("(BIGINT, INT) -> BIGINT", lambda value, places: int(_truncated(Decimal(value), min(places, 0)))),
        on("(DOUBLE, INT) -> DOUBLE", _trunc_double),
        on("(DECIMAL, INT) -> DECIMAL", _truncated, returns=_same),
        group="numeric",
    ),
)
