"""JSON as typed columns, within the JVM: `from_json` made strict, `to_json` made faithful.

`from_json` alone reads the first value of a text and ignores the rest, takes an array for an object, makes
an empty text a null, and does not notice a missing field. Here each text becomes the one element of a list
within an object of ours, followed by a mark:

    {"v": [TEXT], "end of ottla": 1}

If the mark was read, the whole text was read, as one value; if the list does not have one element or the
parser reports a corrupt record, the text is not JSON of this type. Then fields that are NOT NULL must be
present, and a number must fit its type: a DOUBLE of 1e400 is an error and not an infinity. (A text written
to deceive, which closes our list and opens another one, `1],"w":[2`, still passes as its first value.)

Accepted: for a STRING any JSON value, as its JSON text; for a TIMESTAMP an ISO 8601 text or a number of
seconds; for BINARY base64; for NaN and the infinities the bare words or texts of that name. Of equal names
in an object the last one counts; names that the type does not have are left out; decimals are rounded to
their scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    DoubleType,
    FloatType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from ottla.pipeline.formats.arrow_udf import nullable_throughout
from ottla.pipeline.formats.format import ERROR, VALUE, FormatError, decoded, once
from ottla.pipeline.formats.json_spellings import both_spellings, one_spelling
from ottla.pipeline.formats.plain_json import plain_rows
from ottla.pipeline.formats.primitives import invalid_utf8
from ottla.pipeline.formats.python_types import TypeLike, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LIST: Final = "v"
_MARK: Final = "end of ottla"
_CORRUPT: Final = "corrupt of ottla"
_READ: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowNonNumericNumbers": "true",
    "allowUnquotedControlChars": "false",
    "allowSingleQuotes": "false",
}
_WRITE: Final = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
MAX_TYPE_CHARACTERS: Final = 120


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """JSON of one Spark type; without a type, any JSON as its text.

    lower_too: fields are read by their names in lower case too (json_spellings.py).
    """

    type: DataType | None = None
    lower_too: bool = False

    @classmethod
    def of(cls, wanted: TypeLike | None, *, lower_too: bool = False) -> JsonFormat:
        """The format of a Spark type, a DDL text or a Python annotation. Raises FormatError."""
        if wanted is None:
            return cls()
        found = spark_type(wanted)
        check_json_can_say(found)
        return cls(found, lower_too)

    @property
    def native(self) -> bool:
        return True

    def bind(self, topic: str | None, is_key: bool) -> Self:
        return self

    def data_type(self) -> DataType:
        return StringType() if self.type is None else self.type

    def describe(self) -> str:
        return "json"

    def decode(self, column: Column, topic: Column | str, is_key: bool) -> Column:
        text = column.cast("string")
        # Bytes that are not UTF-8 are kept from the parser, which would replace them.
        valid = F.when(F.is_valid_utf8(column), text)
        parsed = parse_json(valid, self._read_type())
        broken = invalid_utf8(column)

        def result(found: Column) -> Column:
            value = self._made(found.getField(VALUE))
            if self.type is None:
                value = F.when(value.isNotNull(), text)
            return decoded(value, F.coalesce(broken, found.getField(ERROR)))

        return F.get(F.transform(F.array(parsed), result), 0)

    def decode_in_steps(self, frame: DataFrame, column: str, into: str) -> DataFrame:
        """A frame with a column of bytes decoded into another one, as by `decode`, for less.

        Plain objects are read by a class of ottla's, and `from_json` is asked for the others alone; where
        there is no such class for a type or session, `from_json` has half of its cost. The format has a type.
        """
        bytes_of = F.col(column)
        rows = plain_rows(frame.sparkSession, bytes_of, self.data_type(), lower_too=self.lower_too)
        if rows is None:
            return self._parsed_in_steps(frame, column, into)
        plain = f"{into} plain of ottla"
        found = F.struct(F.col(plain).alias(VALUE), F.lit(None).cast("STRING").alias(ERROR))
        # Spark interprets the functions of higher order in `decode`, and for these rows alone: compiled steps
        # for them would make the whole too long for the JVM's compiler.
        others = self.decode(once(bytes_of), "", False)
        frame = frame.withColumn(plain, rows)
        return frame.withColumn(into, F.when(F.col(plain).isNotNull(), found).otherwise(others)).drop(plain)

    def _parsed_in_steps(self, frame: DataFrame, column: str, into: str) -> DataFrame:
        """Each step is a projection of its own, which Spark runs as compiled code.

        An expression alone binds what it mentions twice by functions of higher order, which Spark interprets.
        """
        text, parsed = f"{into} text of ottla", f"{into} parsed of ottla"
        bytes_of, read = F.col(column), self._read_type()
        frame = frame.withColumn(text, F.when(F.is_valid_utf8(bytes_of), bytes_of.cast("string")))
        frame = frame.withColumn(parsed, _parsed(once(F.col(text)), read))
        judged = _judged(F.col(parsed), F.col(text), read)
        error = F.coalesce(invalid_utf8(bytes_of), judged.getField(ERROR))
        value = self._made(judged.getField(VALUE))
        return frame.withColumn(into, decoded(value, error)).drop(text, parsed)

    def _read_type(self) -> DataType:
        """The type that `from_json` is asked for."""
        return both_spellings(self.data_type()) if self.lower_too else self.data_type()

    def _made(self, read: Column) -> Column:
        """What `from_json` has read, as a value of the type."""
        return one_spelling(read, self.data_type()) if self.lower_too else read

    def encode(self, column: Column, topic: str, is_key: bool) -> Column:
        text = column if self.type is None else json_text(column, self.type)
        return text.cast("BINARY")


def parse_json(text: Column, wanted: DataType) -> Column:
    """STRUCT<value, error> of a JSON text; both null for a null text. Ignore a value beside an error."""
    parsed = _parsed(text, wanted)
    # Bound to a name, because each mention of `parsed` would parse again: Spark does not share
    # subexpressions across conditions (measured on a busy machine: a third of the rate).
    bound = F.transform(F.array(parsed), lambda each: _judged(each, text, wanted))
    return F.get(bound, 0)


def _parsed(text: Column, wanted: DataType) -> Column:
    holder = StructType(
        [
            StructField(_LIST, ArrayType(wanted)),
            StructField(_MARK, StringType()),
            StructField(_CORRUPT, StringType()),
        ]
    )
    wrapped = F.concat(F.lit(f'{{"{_LIST}":['), text, F.lit(f'],"{_MARK}":1}}'))
    return F.from_json(wrapped, holder, _READ)


def _judged(parsed: Column, text: Column, wanted: DataType) -> Column:
    one_value = F.coalesce(F.size(parsed.getField(_LIST)) == 1, F.lit(False))
    whole = parsed.getField(_CORRUPT).isNull() & parsed.getField(_MARK).isNotNull() & one_value
    value = F.get(parsed.getField(_LIST), 0)
    # The kinds of error are told apart only in case of an error, as that parses a second time.
    other_type = F.lit(f"the text is not one JSON value of the type {_type_text(wanted)}")
    reason = F.when(F.try_parse_json(text).isNull(), F.lit("the text is not valid JSON")).otherwise(
        other_type
    )
    errors = [F.when(text.isNotNull() & ~whole, reason)]
    missing = _missing(value, wanted, "")
    if missing:
        errors.append(F.when(value.isNotNull(), F.coalesce(*missing)))
    infinite = list(_infinities(value, wanted))
    if infinite:
        # an infinity that the text does not spell out comes from a number that was too large
        some = infinite[0]
        for each in infinite[1:]:
            some = some | each
        said = text.contains("INF") | text.contains("Inf")
        errors.append(F.when(some & ~said, F.lit("a number does not fit its type")))
    return F.struct(value.alias(VALUE), F.coalesce(*errors).alias(ERROR))


def json_text(column: Column, its_type: DataType) -> Column:
    """A value as JSON text, with nulls and microseconds kept; a null value stays null."""
    if isinstance(its_type, StructType | ArrayType | MapType | VariantType):
        return F.to_json(column, _WRITE)
    # {"v":…} without its first five characters and its last
    held = F.to_json(F.struct(column.alias(_LIST)), _WRITE)
    return F.when(column.isNotNull(), F.substring(held, F.lit(6), F.length(held) - 6))


def check_json_can_say(wanted: DataType, path: str = "") -> None:
    """Raise FormatError for a type that `from_json` does not read."""
    match wanted:
        case StructType():
            for field in wanted.fields:
                check_json_can_say(field.dataType, f"{path}.{field.name}".removeprefix("."))
        case ArrayType():
            check_json_can_say(wanted.elementType, f"{path}[]")
        case MapType():
            if not isinstance(wanted.keyType, StringType):
                raise FormatError(
                    f"{path or 'the root'}: JSON has texts for keys, not {wanted.keyType.simpleString()}"
                )
            check_json_can_say(wanted.valueType, f"{path}{{}}")
        case DayTimeIntervalType() | YearMonthIntervalType() | NullType():
            raise FormatError(f"{path or 'the root'}: JSON has no {wanted.simpleString()}")


def _missing(value: Column, wanted: DataType, path: str) -> list[Column]:
    """One column for each NOT NULL field within: the field's path in rows where it is null."""
    found: list[Column] = []
    match wanted:
        case StructType():
            for field, inner in _fields(value, wanted):
                name = f"{path}.{field.name}".removeprefix(".")
                if not field.nullable:
                    found.append(F.when(inner.isNull(), F.lit(f"{name} is missing or null")))
                nested = _missing(inner, field.dataType, name)
                if nested:
                    found.append(F.when(inner.isNotNull(), F.coalesce(*nested)))
        case ArrayType():
            found += _missing_in(value, wanted.elementType, wanted.containsNull, f"{path}[]")
        case MapType():
            values = F.map_values(value)
            found += _missing_in(values, wanted.valueType, wanted.valueContainsNull, f"{path}{{}}")
    return found


def _missing_in(elements: Column, element_type: DataType, may_be_null: bool, path: str) -> list[Column]:
    found: list[Column] = []
    if not may_be_null:
        has_null = F.exists(elements, lambda element: element.isNull())
        found.append(F.when(has_null, F.lit(f"{path} has a null")))
    if _missing(F.lit(None), element_type, path):

        def first_of(element: Column) -> Column:
            return F.when(element.isNotNull(), F.coalesce(*_missing(element, element_type, path)))

        reasons = F.filter(F.transform(elements, first_of), lambda reason: reason.isNotNull())
        found.append(F.get(reasons, 0))
    return found


def _infinities(value: Column, wanted: DataType) -> Iterator[Column]:
    match wanted:
        case DoubleType() | FloatType():
            yield F.coalesce(F.abs(value) == float("inf"), F.lit(False))
        case StructType():
            for field, inner in _fields(value, wanted):
                yield from _infinities(inner, field.dataType)
        case ArrayType() | MapType():
            of = wanted.elementType if isinstance(wanted, ArrayType) else wanted.valueType
            elements = value if isinstance(wanted, ArrayType) else F.map_values(value)
            if any(True for _ in _infinities(F.lit(None), of)):

                def has_one(element: Column) -> Column:
                    found = F.lit(False)
                    for each in _infinities(element, of):
                        found = found | each
                    return found

                yield F.coalesce(F.exists(elements, has_one), F.lit(False))


def _fields(value: Column, wanted: StructType) -> Iterator[tuple[StructField, Column]]:
    """A struct's fields.

    Names that differ by case alone are one name to Spark's expressions, not to its reader of JSON: such a
    struct's fields get names of their own first.
    """
    names = wanted.names
    if len({each.lower() for each in names}) < len(names):
        names = [f"_{number}" for number in range(len(names))]
        types = [nullable_throughout(each.dataType) for each in wanted.fields]  # no cast makes NOT NULL
        value = value.cast(StructType(list(map(StructField, names, types))))
    for name, field in zip(names, wanted.fields, strict=True):
        yield field, value.getField(name)


def _type_text(wanted: DataType) -> str:
    text = wanted.simpleString()
    return text if len(text) <= MAX_TYPE_CHARACTERS else text[:MAX_TYPE_CHARACTERS] + "…"
