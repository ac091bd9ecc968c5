"""Logical types: Decimal, Date, Time and Timestamp as the bytes and whole numbers that stand for them."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Final

from ottla.connect.data.java_text import wrapped
from ottla.connect.data.schema import DATE, DECIMAL, SCALE, TIME, DataError, Moment, Schema, Type

DAY_MS: Final = 86_400_000
_EXACT: Final = decimal.Context(
    prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[decimal.InvalidOperation]
)


def decimal_scale(schema: Schema) -> int:
    """The digits after the point of a Decimal's schema. Raises DataError."""
    text = schema.parameters.get(SCALE)
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError:
        raise DataError("Invalid scale parameter found in Decimal schema: ") from None


def scale_of(value: decimal.Decimal) -> int:
    """A decimal's own digits after the point; negative for 1E+3."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise DataError(f"{value} is no decimal")
    return -exponent


def unscaled(value: decimal.Decimal) -> int:
    """The whole number of a decimal's digits."""
    return int(value.scaleb(scale_of(value), _EXACT))


def from_unscaled(number: int, scale: int) -> decimal.Decimal:
    """The decimal of a whole number and a count of digits after the point."""
    return decimal.Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def bytes_of_int(number: int) -> bytes:
    """As BigInteger.toByteArray: the shortest two's complement, most significant byte first."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


def unscaled_reader(schema: Schema) -> Callable[[decimal.Decimal], int]:
    """What makes whole numbers of the decimals of a schema; raises DataError where the scale is another."""
    text = schema.parameters.get(SCALE)
    scale = int(text) if text is not None and text.removeprefix("-").isdecimal() else None
    quantum = decimal.Decimal(1) if scale is None else decimal.Decimal((0, (1,), -scale))

    def read(value: decimal.Decimal) -> int:
        # The question for the same exponent takes a tenth of the time of the answer to which one it is.
        if scale is not None and value.same_quantum(quantum):
            return int(value.scaleb(scale, _EXACT))
        wanted, found = decimal_scale(schema) if scale is None else scale, scale_of(value)
        if wanted != found:
            raise DataError(
                "Decimal value has mismatching scale for given Decimal schema. "
                f"Schema has scale {wanted}, value has scale {found}."
            )
        return int(value.scaleb(found, _EXACT))

    return read


def decimal_bytes(schema: Schema, value: decimal.Decimal) -> bytes:
    """A decimal's bytes. Raises DataError where its scale is not the schema's."""
    return bytes_of_int(unscaled_reader(schema)(value))


def decimal_of_bytes(schema: Schema, data: bytes) -> decimal.Decimal:
    """The decimal of some bytes. Raises DataError."""
    if not data:
        raise DataError("Zero length BigInteger")
    return from_unscaled(int.from_bytes(data, "big", signed=True), decimal_scale(schema))


def moment_number(schema: Schema, value: Moment) -> int:
    """The number of a Date (days), Time or Timestamp (milliseconds). Raises DataError."""
    if schema.name == DATE:
        if value.epoch_ms % DAY_MS:
            raise DataError("Kafka Connect Date type should not have any time fields set to non-zero values.")
        return wrapped(value.epoch_ms // DAY_MS, Type.INT32)
    if schema.name == TIME and not 0 <= value.epoch_ms <= DAY_MS:
        raise DataError("Kafka Connect Time type should not have any date fields set to non-zero values.")
    return value.epoch_ms


def moment_of_number(schema: Schema, number: int) -> Moment:
    """The Date, Time or Timestamp of a number. Raises DataError."""
    if schema.name == DATE:
        return Moment(number * DAY_MS)
    if schema.name == TIME and not 0 <= number <= DAY_MS:
        raise DataError("Time values must use number of milliseconds greater than 0 and less than 86400000")
    return Moment(number)


def is_decimal(schema: Schema) -> bool:
    """Whether a schema's values are decimals."""
    return schema.name == DECIMAL
