"""Spark's DDL texts of types -> Spark types without a JVM, which PySpark's own parser needs.

type    := name | DECIMAL(p, s) | ARRAY<type> | MAP<type, type> | STRUCT<field, …>
field   := name [:] type [NOT NULL] [COMMENT 'text']          a text of fields alone is a STRUCT
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

MAX_DEPTH: Final = 100
_TOKEN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|('(?:[^'\\]|\\.)*')|(\w+)|([<>(),:]))")
_NAMES: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "byte": ByteType(),
    "smallint": ShortType(),
    "short": ShortType(),
    "int": IntegerType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "long": LongType(),
    "float": FloatType(),
    "real": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ltz": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "decimal": DecimalType(10, 0),
    "dec": DecimalType(10, 0),
    "numeric": DecimalType(10, 0),
    "void": NullType(),
    "variant": VariantType(),
}


class DdlError(ValueError):
    """A text that is not a type; the message names the token that was found and the expected one."""


def parse_ddl(text: str) -> DataType:
    """A type, or the fields of a STRUCT. Raises DdlError."""
    parser = _Parser(list(_tokens(text)))
    if not parser.tokens:
        raise DdlError("the text is empty")
    found = parser.whole_type() if parser.is_one_type() else StructType(parser.fields(None, 0))
    parser.expect_end()
    return found


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each token: `quoted` names, `text` in quotes, `word`s; a mark is its own kind."""
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at, end)
        if match is None:
            raise DdlError(f"unexpected {text[at:].strip()[:20]!r}")
        at = match.end()
        quoted, said, word, mark = match.groups()
        if quoted is not None:
            yield "quoted", quoted.replace("``", "`")
        elif said is not None:
            yield "text", said
        elif word is not None:
            yield "word", word
        else:
            yield mark, mark


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self._at = 0

    def is_one_type(self) -> bool:
        """Whether the text is a type rather than fields: a lone name, or a name followed by `<` or `(`."""
        return len(self.tokens) == 1 or self.tokens[1][0] in ("<", "(")

    def whole_type(self) -> DataType:
        return self._type(0)

    def expect_end(self) -> None:
        if self._at < len(self.tokens):
            raise DdlError(f"unexpected {self.tokens[self._at][1]!r}")

    def fields(self, closing: str | None, depth: int) -> list[StructField]:
        found: list[StructField] = []
        while True:
            if closing is not None and self._peek() == closing and not found:
                return found
            kind, name = self._next("the name of a field")
            if kind not in ("word", "quoted"):
                raise DdlError(f"a field begins with its name, not with {name!r}")
            self._take(":")
            field_type = self._type(depth)
            nullable = not self._words("not", "null")
            if self._words("comment") and self._next("a comment")[0] != "text":
                raise DdlError("a comment is a text in quotes")
            found.append(StructField(name, field_type, nullable))
            if not self._take(","):
                return found

    def _type(self, depth: int) -> DataType:
        if depth > MAX_DEPTH:
            raise DdlError(f"types are nested at most {MAX_DEPTH} deep")
        kind, said = self._next("a type")
        name = said.lower()
        if kind != "word":
            raise DdlError(f"{said!r} is no type")
        if name in ("array", "map", "struct"):
            self._must("<")
            made = self._container(name, depth + 1)
            self._must(">")
            return made
        if name == "interval":
            if not self._words("day", "to", "second"):
                raise DdlError("of the intervals only INTERVAL DAY TO SECOND is known")
            return DayTimeIntervalType()
        found = _NAMES.get(name)
        if found is None:
            raise DdlError(f"{said!r} is no type")
        if isinstance(found, DecimalType) and self._take("("):
            precision = self._number()
            scale = self._number() if self._take(",") else 0
            self._must(")")
            if not 0 <= scale <= precision or not 1 <= precision <= 38:
                raise DdlError(f"there is no DECIMAL({precision}, {scale})")
            return DecimalType(precision, scale)
        return found

    def _container(self, name: str, depth: int) -> DataType:
        if name == "array":
            return ArrayType(self._type(depth))
        if name == "struct":
            return StructType(self.fields(">", depth))
        key = self._type(depth)
        self._must(",")
        return MapType(key, self._type(depth))

    def _number(self) -> int:
        _, said = self._next("a number")
        if not said.isascii() or not said.isdigit():
            raise DdlError(f"{said!r} is no number")
        return int(said)

    def _peek(self) -> str | None:
        return self.tokens[self._at][0] if self._at < len(self.tokens) else None

    def _next(self, wanted: str) -> tuple[str, str]:
        if self._at >= len(self.tokens):
            raise DdlError(f"the text ends where {wanted} should be")
        self._at += 1
        return self.tokens[self._at - 1]

    def _take(self, mark: str) -> bool:
        if self._peek() == mark:
            self._at += 1
            return True
        return False

    def _must(self, mark: str) -> None:
        if not self._take(mark):
            found = self.tokens[self._at][1] if self._at < len(self.tokens) else "the end"
            raise DdlError(f"{mark!r} is missing before {found!r}")

    def _words(self, *words: str) -> bool:
        upcoming = self.tokens[self._at : self._at + len(words)]
        if [(kind, said.lower()) for kind, said in upcoming] != [("word", word) for word in words]:
            return False
        self._at += len(words)
        return True
