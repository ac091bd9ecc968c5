"""How the bytes of a topic become typed columns and columns become bytes: the interface of all formats.

A format is a small frozen value that is known before Spark is: it can be pickled, compared and described.
What it makes are plain column expressions, so that it fits anywhere in a query:

    decode: BINARY -> STRUCT<value: T, error: STRING>     encode: T -> BINARY

Of each decoded column at most one of `value` and `error` is set. Null bytes are a null value and no error
(a tombstone); so is what the format itself calls null (JSON's `null`). Everything else that is not of the
format is an error, told in one line that ends up in the dead letter. An exception is left to what is no
record's fault: a registry that does not answer ends the batch, it never makes a dead letter.

Formats of the Schema Registry learn their schema when they are bound to a topic, once, before the query
starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, Self, runtime_checkable

from ottla.config.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

VALUE: Final = "value"
ERROR: Final = "error"
MAX_ERROR_CHARACTERS: Final = 500


class FormatError(UserError):
    """A format that can't be used as asked; one line that says what to do. It stops the start of a query."""


@runtime_checkable
class Format(Protocol):
    """What `key=` and `value=` of a source or a sink take."""

    @property
    def native(self) -> bool:
        """Whether it runs within the JVM alone: real-time mode asks for it."""

    def bind(self, topic: str | None, is_key: bool) -> Self:
        """The same format with all that it has to know before a start: registry formats look up their schema.

        `topic` is None where there are many (a pattern); a registry format then needs a subject or a schema
        of its own. Binding what is bound changes nothing. Raises FormatError.
        """

    def data_type(self) -> DataType:
        """The Spark type of values. Raises FormatError where only `bind` would tell."""

    def decode(self, column: Column, topic: Column | str, is_key: bool) -> Column:
        """BINARY to STRUCT<value: data_type(), error: STRING>. Raises FormatError."""

    def encode(self, column: Column, topic: str, is_key: bool) -> Column:
        """Values to BINARY; null stays null. Raises FormatError."""

    def describe(self) -> str:
        """A few words for people: `json`, `avro (orders-value, version 3)`."""


def decoded(value: Column, error: Column) -> Column:
    """The struct that every `decode` makes: no value where there is an error."""
    from pyspark.sql import functions as F

    return F.struct(F.when(error.isNull(), value).alias(VALUE), error.alias(ERROR))


def in_one_line(text: str) -> str:
    """An error's text as it goes into a dead letter: one line, bounded."""
    return " ".join(text[: 2 * MAX_ERROR_CHARACTERS].split())[:MAX_ERROR_CHARACTERS]
