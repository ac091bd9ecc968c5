"""Connect's Decimal as columns: base64 of the unscaled number, big-endian, and numbers, as JSON has them.

An unscaled number of up to 38 digits is one of 128 bits. Spark has none, so it is put together from two of
64, of which the lower one has no sign.

A variant tells numbers from texts and keeps the digits of most numbers, but makes a DOUBLE of one that has an
exponent or more than 38 digits. The digits of those are found in their texts: where `MAY_BE_DOUBLE` says that
there may be such a number, the same JSON is read a second time with texts in place of decimals (`text_type`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

_TWO_TO_64: Final = 1 << 64
_BYTES: Final = 16
MAY_BE_DOUBLE: Final = r"[0-9][eE][+-]?[0-9]|[0-9.]{39}"
"""Matches each JSON with a number that a variant has as a DOUBLE, and some others."""
_FIRST_NUMBER: Final = r'\G((?:[^"0-9-]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+)(-?[0-9][0-9.eE+-]*+)'
"""The next number outside of texts, behind the last one. Possessive: Java would use its stack otherwise."""
_NUMBER: Final = r"^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,9}))?$"
_WHOLE: Final = "decimal(38,0)"
_NO_DECIMAL: Final = "a decimal is neither a number nor base64 of its bytes, or has more digits than its type"


def numbers_as_texts(text: Column) -> Column:
    """JSON with each number in quotes: Spark itself would make a DOUBLE of it before it made a text."""
    return F.regexp_replace(text, F.lit(_FIRST_NUMBER), F.lit('$1"$2"'))


def text_type(wanted: DataType) -> DataType | None:
    """What a value is read as for the texts of its decimals alone; None for one without decimals."""
    match wanted:
        case DecimalType():
            return StringType()
        case StructType():
            fields = [(each.name, text_type(each.dataType)) for each in wanted.fields]
            found = [StructField(name, kind) for name, kind in fields if kind is not None]
            return StructType(found) if found else None
        case ArrayType():
            items = text_type(wanted.elementType)
            return None if items is None else ArrayType(items)
        case MapType():
            values = text_type(wanted.valueType)
            return None if values is None else MapType(wanted.keyType, values)
    return None


def read_decimal(wire: Column, text: Column, wanted: DecimalType) -> Column:
    """The decimal of a variant: a number, or a text of base64. Null for one that is neither, or does not fit.

    text: as it stands in the JSON, null where it is not needed. A number that would have to be rounded does
    not fit.
    """
    kind = F.schema_of_variant(wire)
    plain = F.try_variant_get(wire, "$", "string")
    number = F.try_variant_get(wire, "$", f"decimal({wanted.precision},{wanted.scale})")
    fraction = F.length(F.regexp_extract(plain, r"\.(\d*?)0*$", 1))
    data = F.try_to_binary(F.when(kind == "STRING", plain), F.lit("base64"))
    is_whole = kind.rlike("^(DECIMAL|BIGINT)") & (fraction <= wanted.scale)
    return (
        F.when(kind == "STRING", _decimal_of_bytes(data, wanted))
        .when(kind == "DOUBLE", _decimal_of_text(text, wanted))
        .when(is_whole, number)
    )


def unread_decimal(wire: Column, text: Column, wanted: DataType) -> Column | None:
    """The error of a value with a decimal that can't be read, null if it has none; None without decimals.

    text: the same value as its `text_type`.
    """
    found: list[Column] = []
    match wanted:
        case DecimalType():
            there = wire.isNotNull() & ~F.is_variant_null(wire)
            return F.when(there & read_decimal(wire, text, wanted).isNull(), F.lit(_NO_DECIMAL))
        case StructType():
            for each in wanted.fields:
                if text_type(each.dataType) is None:
                    continue
                inner = unread_decimal(wire.getField(each.name), text.getField(each.name), each.dataType)
                found += [] if inner is None else [inner]
                if isinstance(each.dataType, DecimalType) and not each.nullable:
                    is_null = F.is_variant_null(wire.getField(each.name))
                    found.append(F.when(is_null, F.lit(f"{each.name} is missing or null")))
        case ArrayType() | MapType() if text_type(wanted) is not None:
            is_array = isinstance(wanted, ArrayType)
            kind = wanted.elementType if isinstance(wanted, ArrayType) else wanted.valueType
            values, texts = (wire, text) if is_array else (F.map_values(wire), F.map_values(text))

            def error_of(each: Column, at: Column) -> Column:
                error = unread_decimal(each, F.get(texts, at), kind)
                assert error is not None
                return error

            errors = F.filter(F.transform(values, error_of), lambda each: each.isNotNull())
            found.append(F.get(errors, 0))
    return F.coalesce(*found) if found else None


def _decimal_of_text(text: Column, wanted: DecimalType) -> Column:
    """The decimal of a JSON number's text; null for one that would have to be rounded, or has more digits."""
    whole, fraction, power = (F.regexp_extract(text, _NUMBER, part) for part in (1, 2, 3))
    digits = F.concat(whole, fraction)
    zeros = F.length(F.regexp_extract(digits, "(0*)$", 1))
    exponent = F.coalesce(power.try_cast("int"), F.lit(0))
    scale = F.length(fraction) - exponent - zeros
    # what has few digits behind the point is cast alone: 1E-999999999 would take Java's numbers for ever
    return F.when(digits.rlike("^0+$"), F.lit("0").cast(wanted)).when(
        text.rlike(_NUMBER) & (scale <= wanted.scale), text.try_cast(wanted)
    )


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
