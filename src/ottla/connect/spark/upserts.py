"""Rows that replace or delete rows by their ids: the last record of each id in a batch, and the MERGE of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.connect.spark.columns import ColumnsError, quoted
from ottla.connect.spark.sink import KEY, OFFSET, PARTITION, VALUE, struct_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

DELETED: Final = "__ottla_deleted"
_ORDER: Final = "__ottla_order"
_RANK: Final = "__ottla_rank"


def last_rows(records: DataFrame, ids: Sequence[str]) -> DataFrame:
    """The columns of the values, and DELETED: the last record of each id, by offset.

    An id comes from the value, or where that has no such field or is null, from the key: a field of it, or
    the key itself for a single id. Raises ColumnsError for an id that is in neither; a null in it ends the
    batch.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    kind = struct_of(records.schema[VALUE].dataType)
    is_struct = records.schema[VALUE].dataType.typeName() == "struct"
    columns = {
        each.name: F.col(VALUE).getField(each.name) if is_struct else F.col(VALUE) for each in kind.fields
    }
    for name in ids:
        columns[name] = _id(records, name, columns.get(name), len(ids))
    order = F.struct(F.col(OFFSET), F.col(PARTITION))
    rows = records.select(
        *(column.alias(name) for name, column in columns.items()),
        F.col(VALUE).isNull().alias(DELETED),
        order.alias(_ORDER),
    )
    window = Window.partitionBy(*(quoted(name) for name in ids)).orderBy(F.col(_ORDER).desc())
    ranked = rows.withColumn(_RANK, F.row_number().over(window))
    return ranked.where(F.col(_RANK) == 1).drop(_RANK, _ORDER)


def _id(records: DataFrame, name: str, value: Column | None, count: int) -> Column:
    from pyspark.sql import functions as F

    found = [] if value is None else [value]
    key = records.schema[KEY].dataType if KEY in records.columns else None
    if key is not None and key.typeName() == "struct":
        if name in key.fieldNames():  # type: ignore[attr-defined]
            found.append(F.col(KEY).getField(name))
    elif key is not None and count == 1:
        if value is None:
            found.append(F.col(KEY))
        else:
            found.append(F.col(KEY).try_cast(_type_of(records, name)))
    if not found:
        raise ColumnsError(f"the id column {name} is in neither the records' values nor their keys")
    told = F.format_string(
        f"the id column {name.replace('%', '%%')} is null at partition=%d, offset=%d",
        F.col(PARTITION),
        F.col(OFFSET),
    )
    return F.coalesce(*found, F.raise_error(told))


def _type_of(records: DataFrame, name: str) -> str:
    kind: StructType = struct_of(records.schema[VALUE].dataType)
    return kind[name].dataType.simpleString()


def merge_text(table: str, view: str, columns: Sequence[str], ids: Sequence[str]) -> str:
    """The MERGE of a view with DELETED into a table."""
    match = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in ids)
    changed = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in columns)
    names = ", ".join(quoted(name) for name in columns)
    values = ", ".join(f"s.{quoted(name)}" for name in columns)
    return (
        f"MERGE INTO {table} t USING {view} s ON {match} "
        f"WHEN MATCHED AND s.{DELETED} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {changed} "
        f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({names}) VALUES ({values})"
    )
