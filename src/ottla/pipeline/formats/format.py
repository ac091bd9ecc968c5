"""The interface of all formats: how a topic's bytes become typed columns and columns become bytes.

A format is a small frozen value that exists before Spark is started: it can be pickled, compared and
described. It makes plain column expressions, so that it fits anywhere in a query:

    decode: BINARY -> STRUCT<value: T, error: STRING>     encode: T -> BINARY

At most one of `value` and `error` is set in a decoded row. Null bytes (a tombstone) are a null value and no
error, as is the format's own null (JSON's `null`). Any other bytes that are not of the format give an error:
one line that goes into the dead letter. Exceptions are for failures that no record has caused: a registry
that does not answer ends the batch and never makes a dead letter.

Formats of the Schema Registry look up their schema once, when they are bound to a topic, before the query
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
    """A format that can't be used as it is given: one line that says what to do. The query does not start."""


@runtime_checkable
class Format(Protocol):
    """The value of `key=` and `value=` of a source or a sink."""

    @property
    def native(self) -> bool:
        """Whether the format runs entirely within the JVM, as real-time mode requires."""

    def bind(self, topic: str | None, is_key: bool) -> Self:
        """The same format, ready for a topic: formats of the registry look up their schema.

        `topic` is None if there may be several (a pattern); a format of the registry then needs a subject or
        a schema of its own. Binding a bound format changes nothing. Raises FormatError.
        """

    def data_type(self) -> DataType:
        """The Spark type of the values. Raises FormatError if it is unknown until `bind`."""

    def decode(self, column: Column, topic: Column | str, is_key: bool) -> Column:
        """BINARY to STRUCT<value: data_type(), error: STRING>. Raises FormatError."""

    def encode(self, column: Column, topic: str, is_key: bool) -> Column:
        """Values to BINARY; null stays null. Raises FormatError."""

    def describe(self) -> str:
        """The format in a few words, for messages: `json`, `avro (orders-value, version 3)`."""


def decoded(value: Column, error: Column) -> Column:
    """The struct that every `decode` makes; its value is null if there is an error."""
    from pyspark.sql import functions as F

    return F.struct(F.when(error.isNull(), value).alias(VALUE), error.alias(ERROR))


def once(column: Column) -> Column:
    """A column that Spark can't repeat, for what is costly to make of it.

    Spark copies what a filter needs below the projection that makes it, and would decode a record once for
    the filter and once for the rest: twice the time for JSON. It leaves alone what is not deterministic.
    """
    from pyspark.sql import functions as F

    return F.when(F.spark_partition_id() >= 0, column)


def in_one_line(text: str) -> str:
    """An error's text as one line of bounded length, for a dead letter."""
    return " ".join(text[: 2 * MAX_ERROR_CHARACTERS].split())[:MAX_ERROR_CHARACTERS]
