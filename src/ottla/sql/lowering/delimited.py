"""DELIMITED: a record's columns as a line of CSV, in their order; dates and times are whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from ottla.pipeline.formats.format import decoded

if TYPE_CHECKING:
    from pyspark.sql import Column

_CORRUPT = "corrupt of ottla"


@dataclass(frozen=True, slots=True)
class DelimitedFormat:
    """A struct's fields, or, where not `struct`, its one field alone."""

    type: StructType
    delimiter: str = ","
    struct: bool = True

    @property
    def native(self) -> bool:
        return True

    def bind(self, topic: str | None, is_key: bool) -> Self:
        return self

    def data_type(self) -> DataType:
        return self.type if self.struct else self.type.fields[0].dataType

    def decode(self, column: Column, topic: Column | str, is_key: bool) -> Column:
        text = F.when(F.is_valid_utf8(column), column.cast("string"))
        fields = [
            *((each.name, each.dataType.simpleString()) for each in self.type.fields),
            (_CORRUPT, "string"),
        ]
        schema = ", ".join(f"`{name.replace('`', '``')}` {of}" for name, of in fields)
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "sep": self.delimiter}
        parsed = F.from_csv(text, schema, options)
        names = [each.name for each in self.type.fields]
        columns = [parsed.getField(name).alias(name) for name in names]
        value = F.struct(*columns) if self.struct else parsed.getField(names[0])
        wrong = column.isNotNull() & (text.isNull() | parsed.getField(_CORRUPT).isNotNull())
        error = F.when(wrong, F.lit(f"the text is not {len(names)} columns of these types"))
        return decoded(F.when(column.isNotNull(), value), error)

    def encode(self, column: Column, topic: str, is_key: bool) -> Column:
        struct = column if self.struct else F.struct(column.alias(self.type.fields[0].name))
        text = F.to_csv(struct, {"sep": self.delimiter})
        return F.when(column.isNotNull(), F.encode(text, "utf-8"))

    def describe(self) -> str:
        return "delimited"
