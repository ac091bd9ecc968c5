"""Numbers of any size in the three forms of decimal.handling.mode."""

from __future__ import annotations

import decimal
import enum
from typing import Any, Final

from ottla.connect.cdc.core.column_form import ColumnForm, ConversionError
from ottla.connect.cdc.core.semantic_types import VARIABLE_SCALE_DECIMAL, decimal_of_precision
from ottla.connect.data.building import REQUIRED, decimal_schema
from ottla.connect.data.logical import bytes_of_int, unscaled
from ottla.connect.data.schema import Schema, Struct, Type

MAX_DIGITS: Final = 200_000
"""Before and after the point; PostgreSQL's numbers have up to 131,072 and 16,383."""
_CONTEXT: Final = decimal.Context(
    prec=MAX_DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, rounding=decimal.ROUND_HALF_UP
)
_SPECIAL: Final = {"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}


class DecimalMode(enum.StrEnum):
    """decimal.handling.mode."""

    PRECISE = "precise"
    DOUBLE = "double"
    STRING = "string"


def decimal_form(mode: DecimalMode, precision: int, scale: int) -> ColumnForm:
    """A number of fixed digits."""
    quantum = decimal.Decimal(1).scaleb(-scale)
    match mode:
        case DecimalMode.PRECISE:

            def convert(text: str) -> decimal.Decimal:
                return _finite(text).quantize(quantum, context=_CONTEXT)

            schema = decimal_of_precision(precision, scale)
            return ColumnForm(schema, convert, decimal.Decimal(0).quantize(quantum, context=_CONTEXT))
        case DecimalMode.DOUBLE:
            return ColumnForm(REQUIRED[Type.FLOAT64], float, 0.0)
        case DecimalMode.STRING:

            def convert_text(text: str) -> str:
                special = _SPECIAL.get(text)
                return special or _plain(_finite(text).quantize(quantum, context=_CONTEXT))

            return ColumnForm(
                REQUIRED[Type.STRING], convert_text, _plain(decimal.Decimal(0).quantize(quantum))
            )


def variable_decimal_form(mode: DecimalMode) -> ColumnForm:
    """A number of any digits: a struct of the scale and the digits, where it is to be precise."""
    match mode:
        case DecimalMode.PRECISE:
            return ColumnForm(VARIABLE_SCALE_DECIMAL, _variable, _variable("0"))
        case DecimalMode.DOUBLE:
            return ColumnForm(REQUIRED[Type.FLOAT64], float, 0.0)
        case DecimalMode.STRING:
            return ColumnForm(REQUIRED[Type.STRING], _plain_text, "0")


def money_form(mode: DecimalMode, fraction_digits: int) -> ColumnForm:
    """An amount, whose digits after the point the connector's settings say."""
    quantum = decimal.Decimal(1).scaleb(-fraction_digits)
    match mode:
        case DecimalMode.PRECISE:

            def convert(text: str) -> decimal.Decimal:
                return _money(text).quantize(quantum, context=_CONTEXT)

            return ColumnForm(decimal_schema(fraction_digits), convert, decimal.Decimal(0).quantize(quantum))
        case DecimalMode.DOUBLE:

            def convert_double(text: str) -> float:
                return float(_money(text))

            return ColumnForm(REQUIRED[Type.FLOAT64], convert_double, 0.0)
        case DecimalMode.STRING:

            def convert_text(text: str) -> str:
                return _plain(_money(text))

            fallback = _plain(decimal.Decimal(0).quantize(quantum))
            return ColumnForm(REQUIRED[Type.STRING], convert_text, fallback)


def decimal_of(schema: Schema, number: int) -> Any:
    """A whole number in a Decimal's or VariableScaleDecimal's schema."""
    if schema == VARIABLE_SCALE_DECIMAL:
        return _variable(str(number))
    quantum = decimal.Decimal(1).scaleb(-int(schema.parameters["scale"]))
    return decimal.Decimal(number).quantize(quantum, context=_CONTEXT)


def _finite(text: str) -> decimal.Decimal:
    if text in _SPECIAL:
        raise ConversionError(
            f"{text} is no Decimal: decimal.handling.mode has to be string or double for such values"
        )
    return _CONTEXT.create_decimal(text)


def _variable(text: str) -> Struct:
    number = _finite(text)
    if number:
        sign, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        kept = len(digits)
        while exponent < 0 and digits[kept - 1] == 0:
            kept, exponent = kept - 1, exponent + 1
        if exponent > 0:
            whole, scale = int(number), 0
        else:
            magnitude = int("".join(map(str, digits[:kept])))
            whole, scale = (-magnitude if sign else magnitude), -exponent
    else:
        whole, scale = 0, 0
    return Struct(VARIABLE_SCALE_DECIMAL, {"scale": scale, "value": bytes_of_int(whole)})


def _plain(number: decimal.Decimal) -> str:
    """As BigDecimal.toPlainString: a zero has no sign."""
    return format(number if unscaled(number) else number.copy_abs(), "f")


def _plain_text(text: str) -> str:
    return _SPECIAL.get(text) or _plain(_finite(text))


def _money(text: str) -> decimal.Decimal:
    """The amount of a text of any currency: '$1,234.11', '-$5.00', '($5.00)'."""
    negative = text[:1] in ("-", "(")
    digits = "".join(each for each in text if each.isdigit() or each == ".")
    number = _CONTEXT.create_decimal(digits)
    return -number if negative else number
