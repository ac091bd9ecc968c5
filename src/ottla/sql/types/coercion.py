"""Which types stand for which: implicit casts, common types, results of arithmetic."""

from __future__ import annotations

from ottla.sql.types.sql_types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    MAX_PRECISION,
    NUMBERS,
    UNKNOWN,
    Base,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)


def as_decimal(of: SqlType) -> SqlType:
    """The decimal that holds all values of a whole number's type."""
    return decimal(10, 0) if of == INTEGER else decimal(19, 0) if of == BIGINT else of


def can_stand_for(given: SqlType, wanted: SqlType) -> bool:
    """Whether a value is cast without being told to: to a wider number; NULL is of every type."""
    if given in (wanted, UNKNOWN):
        return True
    if given.is_number and wanted.is_number:
        if wanted.base is Base.DECIMAL:
            if given.base is Base.DOUBLE:
                return False
            from_ = as_decimal(given)
            return (
                from_.precision - from_.scale <= wanted.precision - wanted.scale
                and from_.scale <= wanted.scale
            )
        return NUMBERS.index(given.base) <= NUMBERS.index(wanted.base)
    if given.base is wanted.base and given.base in (Base.ARRAY, Base.MAP):
        return all(map(can_stand_for, given.elements, wanted.elements))
    if given.base is wanted.base is Base.STRUCT:
        return all(
            (to := wanted.field_named(name)) is not None and can_stand_for(of, to)
            for name, of in given.fields
        )
    return False


def common_type(first: SqlType, second: SqlType) -> SqlType | None:
    """The narrowest type that both can stand for; None if there is none."""
    if can_stand_for(first, second):
        return second
    if can_stand_for(second, first):
        return first
    if first.is_number and second.is_number:
        left, right = as_decimal(first), as_decimal(second)
        if DOUBLE in (left, right):
            return DOUBLE
        scale = max(left.scale, right.scale)
        return bounded(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)
    if first.base is not second.base:
        return None
    if first.base in (Base.ARRAY, Base.MAP):
        elements = [common_type(a, b) for a, b in zip(first.elements, second.elements, strict=True)]
        if any(each is None for each in elements):
            return None
        known = [each for each in elements if each is not None]
        return array(known[0]) if first.base is Base.ARRAY else map_of(known[0], known[1])
    if first.base is Base.STRUCT:
        fields = dict(first.fields)
        for name, of in second.fields:
            common = common_type(fields[name], of) if name in fields else of
            if common is None:
                return None
            fields[name] = common
        return struct(*fields.items())
    return None


def arithmetic_type(operator: str, left: SqlType, right: SqlType) -> SqlType | None:
    """What `+ - * / %` of two numbers give; None where they are not for these types."""
    if UNKNOWN in (left, right):
        left, right = (right, right) if left == UNKNOWN else (left, left)
    if not (left.is_number and right.is_number):
        return None
    if DOUBLE in (left, right):
        return DOUBLE
    if Base.DECIMAL not in (left.base, right.base):
        return BIGINT if BIGINT in (left, right) else INTEGER
    left, right = as_decimal(left), as_decimal(right)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    match operator:
        case "+" | "-":
            scale = max(left.scale, right.scale)
            return bounded(whole + scale + 1, scale)
        case "*":
            return bounded(left.precision + right.precision + 1, left.scale + right.scale)
        case "/":
            scale = max(6, left.scale + right.precision + 1)
            return bounded(left.precision - left.scale + right.scale + scale, scale)
        case _:
            scale = max(left.scale, right.scale)
            digits = min(left.precision - left.scale, right.precision - right.scale) + scale
            return bounded(max(digits, 1), scale)


def bounded(precision: int, scale: int) -> SqlType:
    """A decimal within the limit: what is too much is taken from behind the point, six places are kept."""
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    kept = max(scale - (precision - MAX_PRECISION), min(scale, 6))
    return decimal(MAX_PRECISION, kept)
