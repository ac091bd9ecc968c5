"""Formats of the Schema Registry, and plain Protobuf, for Spark: the same codecs as those of rows in Python.

A worker asks the registry for a writer's schema when it meets its id first, and registers the columns' own
schema with the first record that it writes. A registry that does not answer fails the batch, which is tried
again; it never makes a dead letter.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

import orjson
import pyarrow as pa
from pyspark.sql.types import DataType

from ottla.connect.data.schema import DataError
from ottla.pipeline.formats.arrow_udf import decode_column, encode_column
from ottla.pipeline.formats.format import FormatError, in_one_line
from ottla.pipeline.formats.framed import spark_arrow_type, to_arrow
from ottla.pipeline.formats.transport import transport_text
from ottla.sql.catalog.sources import Column as SourceColumn
from ottla.sql.lowering.registry_values import RegistryForm
from ottla.sql.lowering.spark_types import spark_type, struct_of
from ottla.sql.types.bad_value import BadValue
from ottla.sql.types.sql_types import Base, SqlType

if TYPE_CHECKING:
    from pyspark.sql import Column

KEPT_FORMS: Final = 500


@dataclass(frozen=True, slots=True)
class RegistryFormat:
    """One side of a source's records. struct: the columns are fields, and not the whole value.

    registry: settings of its client, in pairs.
    """

    name: str
    topic: str
    columns: tuple[SourceColumn, ...]
    struct: bool
    is_key: bool
    registry: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def native(self) -> bool:
        return False

    def bind(self, topic: str | None, is_key: bool) -> Self:
        return self

    def data_type(self) -> DataType:
        if not self.struct:
            return spark_type(self.columns[0].type)
        return struct_of(tuple((each.name, each.type) for each in self.columns))

    def describe(self) -> str:
        return self.name.lower()

    def decode(self, column: Column, topic: Column | str, is_key: bool) -> Column:
        wanted = self.data_type()

        def decode(payloads: Sequence[bytes | None]) -> tuple[pa.Array, list[str | None]]:
            values, errors = self.read(payloads)
            return to_arrow(values, errors, spark_arrow_type(wanted), wanted), errors

        return decode_column(decode, wanted, column)

    def encode(self, column: Column, topic: str, is_key: bool) -> Column:
        return encode_column(self.write, transport_text(column, self.data_type()))

    def read(self, payloads: Sequence[bytes | None]) -> tuple[list[Any], list[str | None]]:
        """The values of payloads, as Arrow takes them, and why others are none."""
        form, to = _form(self), [(each.name, _to_arrow(each.type)) for each in self.columns]
        values: list[Any] = []
        errors: list[str | None] = []
        for payload in payloads:
            value, error = None, None
            if payload is not None:
                try:
                    found = form.read(bytes(payload))
                    cells = {name: convert(found[name]) for name, convert in to}
                    value = cells if self.struct else cells[to[0][0]]
                except (DataError, BadValue) as problem:
                    error = in_one_line(str(problem))
            values.append(value)
            errors.append(error)
        return values, errors

    def write(self, texts: Sequence[str | None]) -> list[bytes | None]:
        """The bytes of values in transport's JSON. Raises FormatError for what the format can't hold."""
        form, of = _form(self), [(each.name, _carried(each.type)) for each in self.columns]
        payloads: list[bytes | None] = []
        for text in texts:
            if text is None:
                payloads.append(None)
                continue
            found: Mapping[str, Any] = orjson.loads(text)
            cells = found if self.struct else {of[0][0]: found["v"]}
            try:
                payloads.append(form.write({name: convert(cells[name]) for name, convert in of}))
            except DataError as problem:
                raise FormatError(f"{self.topic}: {in_one_line(str(problem))}") from None
        return payloads


@lru_cache(maxsize=KEPT_FORMS)
def _form(of: RegistryFormat) -> RegistryForm:
    return RegistryForm(of.topic, of.name, of.columns, of.struct, of.is_key, dict(of.registry))


Convert = Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _to_arrow(of: SqlType) -> Convert:
    """SQL's values as Arrow takes them: maps are pairs."""
    match of.base:
        case Base.ARRAY:
            each = _to_arrow(of.elements[0])
            return lambda found: None if found is None else [each(one) for one in found]
        case Base.MAP:
            inner = _to_arrow(of.elements[1])
            return lambda found: None if found is None else [(key, inner(one)) for key, one in found.items()]
        case Base.STRUCT:
            fields = [(name, _to_arrow(one)) for name, one in of.fields]
            return lambda found: None if found is None else {name: to(found[name]) for name, to in fields}
    return _same


def _carried(of: SqlType) -> Convert:
    """Values as transport's JSON has them as SQL's."""
    match of.base:
        case Base.DECIMAL:
            return lambda found: None if found is None else Decimal(found)
        case Base.DOUBLE:
            return lambda found: None if found is None else float(found)
        case Base.BYTES:
            return lambda found: None if found is None else base64.b64decode(found)
        case Base.ARRAY:
            each = _carried(of.elements[0])
            return lambda found: None if found is None else [each(one) for one in found]
        case Base.MAP:
            inner = _carried(of.elements[1])
            return lambda found: None if found is None else {key: inner(one) for key, one in found.items()}
        case Base.STRUCT:
            fields = [(name, _carried(one)) for name, one in of.fields]
            return lambda found: None if found is None else {name: to(found[name]) for name, to in fields}
    return _same
