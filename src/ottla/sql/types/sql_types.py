"""The types of columns and expressions.

Python's values for them: bool, int, float, Decimal, str, bytes, list, and dict for maps and structs. DATE is
days since 1970, TIME milliseconds of the day, TIMESTAMP milliseconds since 1970, all int: as they are in
topics.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from ottla.sql.language.errors import SqlError
from ottla.sql.language.expressions import TypeText
from ottla.sql.language.parser import parse_type
from ottla.sql.language.token_stream import RESERVED

MAX_PRECISION = 38
"""Digits of a decimal: Spark's limit. ksqlDB has none."""


class Base(Enum):
    """Kinds of types, by the names that they are shown with. UNKNOWN is the type of NULL."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BYTES = "BYTES"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"
    LAMBDA = "LAMBDA"
    UNKNOWN = "NULL"


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type. elements: of an array one, of a map key and value, of a lambda parameters and result."""

    base: Base
    precision: int = 0
    scale: int = 0
    elements: tuple[SqlType, ...] = ()
    fields: tuple[tuple[str, SqlType], ...] = field(default=())

    def __str__(self) -> str:
        match self.base:
            case Base.DECIMAL:
                return f"DECIMAL({self.precision}, {self.scale})"
            case Base.ARRAY | Base.MAP:
                return f"{self.base.value}<{', '.join(map(str, self.elements))}>"
            case Base.STRUCT:
                return f"STRUCT<{', '.join(f'{quoted(name)} {of}' for name, of in self.fields)}>"
            case Base.LAMBDA:
                *parameters, result = map(str, self.elements)
                return f"({', '.join(parameters)}) => {result}"
            case _:
                return str(self.base.value)

    @property
    def is_number(self) -> bool:
        return self.base in NUMBERS

    @property
    def is_time(self) -> bool:
        return self.base in TIMES

    def field_named(self, name: str) -> SqlType | None:
        """The type of a struct's field."""
        return next((of for each, of in self.fields if each == name), None)


BOOLEAN = SqlType(Base.BOOLEAN)
INTEGER = SqlType(Base.INTEGER)
BIGINT = SqlType(Base.BIGINT)
DOUBLE = SqlType(Base.DOUBLE)
STRING = SqlType(Base.STRING)
BYTES = SqlType(Base.BYTES)
DATE = SqlType(Base.DATE)
TIME = SqlType(Base.TIME)
TIMESTAMP = SqlType(Base.TIMESTAMP)
UNKNOWN = SqlType(Base.UNKNOWN)
NUMBERS = (Base.INTEGER, Base.BIGINT, Base.DECIMAL, Base.DOUBLE)
"""From narrow to wide."""
TIMES = (Base.DATE, Base.TIME, Base.TIMESTAMP)

_BY_NAME = {
    "BOOLEAN": BOOLEAN,
    "BOOL": BOOLEAN,
    "INT": INTEGER,
    "INTEGER": INTEGER,
    "BIGINT": BIGINT,
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "VARCHAR": STRING,
    "BYTES": BYTES,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
}
_SLIPS = {"FLOAT": "DOUBLE", "LONG": "BIGINT", "TEXT": "STRING", "CHAR": "STRING", "SMALLINT": "INT"}
_PLAIN = re.compile(r"[A-Z_][A-Z0-9_]*")


def decimal(precision: int, scale: int) -> SqlType:
    """DECIMAL(precision, scale)."""
    return SqlType(Base.DECIMAL, precision, scale)


def array(element: SqlType) -> SqlType:
    """ARRAY<element>."""
    return SqlType(Base.ARRAY, elements=(element,))


def map_of(key: SqlType, value: SqlType) -> SqlType:
    """MAP<key, value>."""
    return SqlType(Base.MAP, elements=(key, value))


def struct(*fields: tuple[str, SqlType]) -> SqlType:
    """STRUCT<fields>."""
    return SqlType(Base.STRUCT, fields=fields)


def quoted(name: str) -> str:
    """A name as it has to be written: with backticks where it needs them."""
    plain = _PLAIN.fullmatch(name) is not None and name not in RESERVED
    return name if plain else "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A text as it has to be written."""
    return "'" + text.replace("'", "''") + "'"


def type_of(text: TypeText, named: dict[str, SqlType] | None = None) -> SqlType:
    """The type that a text says. named: the types of CREATE TYPE. Raises SqlError."""
    if text.name in ("ARRAY", "MAP"):
        wanted = 1 if text.name == "ARRAY" else 2
        if len(text.elements) != wanted:
            shape = "ARRAY<type>" if wanted == 1 else "MAP<key type, value type>"
            raise SqlError(f"{text.name} is written {shape}", text.at)
        return SqlType(Base[text.name], elements=tuple(type_of(each, named) for each in text.elements))
    if text.name == "STRUCT":
        names = [name for name, _ in text.fields]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SqlError(f"the struct has two fields {twice}", text.at)
        return SqlType(Base.STRUCT, fields=tuple((name, type_of(each, named)) for name, each in text.fields))
    if text.name in ("DECIMAL", "DEC", "NUMERIC"):
        return _decimal(text)
    found = _BY_NAME.get(text.name) or (named or {}).get(text.name)
    if found is None:
        advice = _SLIPS.get(text.name)
        raise SqlError(
            f"there is no type {text.name}", text.at, f"use {advice}" if advice else "CREATE TYPE makes one"
        )
    if text.sizes and found is not STRING:
        raise SqlError(f"{text.name} takes no size", text.at)
    return found


def parsed_type(text: str) -> SqlType:
    """The type that `str()` of one, or a user, has written. Raises SqlError."""
    return UNKNOWN if text == "NULL" else type_of(parse_type(text))


def _decimal(text: TypeText) -> SqlType:
    if len(text.sizes) != 2:
        raise SqlError("DECIMAL needs precision and scale", text.at, "DECIMAL(10, 2)")
    precision, scale = text.sizes
    if not 1 <= precision <= MAX_PRECISION or scale > precision:
        raise SqlError(
            f"DECIMAL({precision}, {scale}) can't be",
            text.at,
            f"1 to {MAX_PRECISION} digits, of them at most all after the point",
        )
    return decimal(precision, scale)
