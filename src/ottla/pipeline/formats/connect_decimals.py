"""Connect's Decimal as columns: base64 of the unscaled number, big-endian, and numbers, as JSON has them.

An unscaled number of up to 38 digits is one of 128 bits. Spark has none, so it is put together from two of
64, of which the lower one has no sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column

_TWO_TO_64: Final = 1 << 64
_BYTES: Final = 16
_DIGITS_OF_DOUBLE: Final = 9
_WHOLE: Final = "decimal(38,0)"
_NO_DECIMAL: Final = "a decimal is neither a number nor base64 of its bytes, or has more digits than its type"


def read_decimal(wire: Column, wanted: DecimalType) -> Column:
    """The decimal of a variant: a number, or a text of base64. Null for one that is neither, or does not fit.

    A number with an exponent is a DOUBLE to Spark. One with a few digits was written with these; one with
    more may have been rounded, and is refused.
    """
    kind = F.schema_of_variant(wire)
    text = F.try_variant_get(wire, "$", "string")
    number = F.try_variant_get(wire, "$", f"decimal({wanted.precision},{wanted.scale})")
    double = F.try_variant_get(wire, "$", "double")
    # a number that would have to be rounded is none of this scale
    fraction = F.length(F.regexp_extract(text, r"\.(\d*?)0*$", 1))
    digits = F.length(F.regexp_replace(F.regexp_extract(double.cast("string"), r"^-?([\d.]+)", 1), r"\.", ""))
    is_exact = F.when(
        kind == "DOUBLE", (number.cast("double") == double) & (digits <= _DIGITS_OF_DOUBLE)
    ).otherwise(kind.rlike("^(DECIMAL|BIGINT)") & (fraction <= wanted.scale))
    data = F.try_to_binary(F.when(kind == "STRING", text), F.lit("base64"))
    return F.when(kind == "STRING", _decimal_of_bytes(data, wanted)).when(is_exact, number)


def unread_decimal(wire: Column, wanted: DataType) -> Column | None:
    """The error of a value with a decimal that can't be read, null if it has none; None without decimals."""
    found: list[Column] = []
    match wanted:
        case DecimalType():
            there = wire.isNotNull() & ~F.is_variant_null(wire)
            return F.when(there & read_decimal(wire, wanted).isNull(), F.lit(_NO_DECIMAL))
        case StructType():
            for each in wanted.fields:
                inner = unread_decimal(wire.getField(each.name), each.dataType)
                found += [] if inner is None else [inner]
                if isinstance(each.dataType, DecimalType) and not each.nullable:
                    is_null = F.is_variant_null(wire.getField(each.name))
                    found.append(F.when(is_null, F.lit(f"{each.name} is missing or null")))
        case ArrayType() | MapType():
            kind = wanted.elementType if isinstance(wanted, ArrayType) else wanted.valueType
            values = wire if isinstance(wanted, ArrayType) else F.map_values(wire)
            if unread_decimal(F.lit(None).cast("variant"), kind) is not None:

                def error_of(each: Column) -> Column:
                    error = unread_decimal(each, kind)
                    assert error is not None
                    return error

                errors = F.filter(F.transform(values, error_of), lambda each: each.isNotNull())
                found.append(F.get(errors, 0))
    return F.coalesce(*found) if found else None


def _decimal_of_bytes(data: Column, wanted: DecimalType) -> Column:
    """The decimal of its unscaled bytes; null for none, more than 16 of them, or more digits than it has."""
    digits = F.hex(data)
    sign = F.when(F.substring(digits, 1, 1) >= "8", F.lit("F")).otherwise(F.lit("0"))
    all_digits = F.when(
        (F.length(digits) > 0) & (F.length(digits) <= 2 * _BYTES), F.lpad(digits, 2 * _BYTES, sign)
    )
    high = F.conv(F.substring(all_digits, 1, _BYTES), 16, -10).cast(_WHOLE)
    low = F.conv(F.substring(all_digits, _BYTES + 1, _BYTES), 16, 10).cast(_WHOLE)
    # from the side of zero, so that nothing on the way is larger than the result
    two_to_64 = F.lit(str(_TWO_TO_64)).cast("decimal(20,0)")
    is_negative = high < 0
    upper = F.when(is_negative, high + 1).otherwise(high).cast(_WHOLE)
    lower = F.when(is_negative, low - two_to_64).otherwise(low).cast(_WHOLE)
    number = F.try_add(F.try_multiply(upper, two_to_64), lower)
    text = F.regexp_replace(number.cast("string"), "^-", "")  # abs() keeps 34 digits alone
    padded = F.lpad(text, F.greatest(F.length(text), F.lit(wanted.scale + 1)), F.lit("0"))
    whole = F.length(padded) - wanted.scale
    point = F.concat(
        F.when(number < 0, F.lit("-")).otherwise(F.lit("")),
        F.substring(padded, F.lit(1), whole),
        F.lit("."),
        F.substring(padded, whole + 1, F.lit(wanted.scale)),
    )
    return point.try_cast(wanted)


def decimal_bytes(value: Column, scale: int) -> Column:
    """The shortest two's complement of a decimal's unscaled number, most significant byte first."""
    plain = F.regexp_replace(F.format_number(value, scale), "[,.]", "")
    number = plain.cast(_WHOLE)
    two_to_64 = F.lit(str(_TWO_TO_64)).cast("decimal(20,0)")
    rest = number % two_to_64
    low = F.when(rest < 0, rest + two_to_64).otherwise(rest).cast("decimal(20,0)")
    high = F.call_function("div", number, two_to_64) - F.when(rest < 0, F.lit(1)).otherwise(F.lit(0))
    digits = F.concat(
        F.lpad(F.hex(high), _BYTES, "0"), F.lpad(F.conv(low.cast("string"), 10, 16), _BYTES, "0")
    )
    return F.unhex(F.regexp_replace(digits, "^(?:(?:00)+(?=[0-7])|(?:FF)+(?=[89A-F]))", ""))
