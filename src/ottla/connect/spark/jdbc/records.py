"""Converted records as rows of a table: the shape that they have, and each row's text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructType

from ottla.connect.connectors.jdbc.address import System
from ottla.connect.connectors.jdbc.shapes import KAFKA_COLUMNS, Operation, Rules, Shape
from ottla.connect.connectors.jdbc.sink_settings import KeyMode
from ottla.connect.data.record import Record
from ottla.connect.data.schema import DataError, Schema, Struct
from ottla.connect.spark.jdbc.staging import GONE, LINE
from ottla.connect.spark.jdbc.texts import row_text, schema_of, struct_of_columns
from ottla.connect.spark.sink import KEY, OFFSET, ORIGIN_TOPIC, PARTITION, VALUE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class ShapedRecords:
    """Records of one shape. columns: those of the shape, in its order, with their types."""

    frame: DataFrame
    shape: Shape
    columns: tuple[tuple[Column, DataType], ...]
    deletes: bool

    def lines(self, system: System, zone: str) -> DataFrame:
        """The columns LINE and GONE of each record."""
        is_gone = F.col(VALUE).isNull()
        if not self.deletes:
            told = F.format_string(
                "a record without a value, and delete.enabled is false: topic=%s, partition=%d, offset=%d",
                *(F.col(each) for each in (ORIGIN_TOPIC, PARTITION, OFFSET)),
            )
            is_gone = F.when(is_gone, F.raise_error(told).cast("boolean")).otherwise(F.lit(False))
        gone = F.when(F.col(GONE), "1").otherwise("0")
        frame = self.frame.withColumn(GONE, is_gone)
        places: list[tuple[Column, DataType]] = [
            (F.col(PARTITION), IntegerType()),
            (F.col(OFFSET), LongType()),
        ]
        if system is System.POSTGRESQL:
            texts = F.concat_ws(",", F.col(PARTITION).cast("string"), F.col(OFFSET).cast("string"), gone)
        else:
            texts = F.concat_ws(",", *(each.cast("string") for each, _ in places), gone)
        line = F.concat(texts, F.lit(","), row_text(system, list(self.columns), zone))
        return frame.select(line.alias(LINE), F.col(GONE))


def shaped(frame: DataFrame, rules: Rules, topic: str) -> ShapedRecords | None:
    """The records of one topic by the shape that their types have; None: there are none with columns.

    Values without any field, of a topic that has only records without a value, are of the shape that deletes.
    Raises DataError.
    """
    key, value = _type_of(frame, KEY), frame.schema[VALUE].dataType
    if not isinstance(value, StructType):
        raise DataError("a row is made of a struct with its schema alone")
    if not value.fields and not rules.deletes:
        return None
    key_schema = None if key is None else _key_schema(key, rules)
    schema = struct_of_columns(value, _used(value, rules))
    record = Record(topic, None, None, key_schema, Struct(schema, {}) if value.fields else None, schema, None)
    shape = rules.shape_of(record)
    columns = [_columns_of_keys(each.name, key, value, rules) for each in shape.keys]
    fields = {rules.fold(each.name): each for each in value.fields}
    columns += [
        (F.col(VALUE).getField(fields[each.name].name), fields[each.name].dataType) for each in shape.others
    ]
    deletes = rules.deletes or shape.operation is Operation.DELETE
    return ShapedRecords(frame, shape, tuple(columns), deletes)


def _used(value: StructType, rules: Rules) -> frozenset[str] | None:
    """The fields that are written, None for all: the others may have any type."""
    if not rules.whitelist:
        return None
    columns = {rules.fold(each) for each in (*rules.whitelist, *rules.key_fields)}
    if rules.key_mode is KeyMode.RECORD_VALUE and not rules.key_fields:
        return None
    return frozenset(each.name for each in value.fields if rules.fold(each.name) in columns)


def _key_schema(kind: DataType, rules: Rules) -> Schema:
    if not isinstance(kind, StructType):
        return schema_of(kind)
    columns = {rules.fold(each) for each in rules.key_fields}
    only = frozenset(each.name for each in kind.fields if rules.fold(each.name) in columns)
    return struct_of_columns(kind, only if columns else None)


def _columns_of_keys(
    name: str, key: DataType | None, value: StructType, rules: Rules
) -> tuple[Column, DataType]:
    match rules.key_mode:
        case KeyMode.KAFKA:
            names = [rules.fold(each) for each in (rules.key_fields or KAFKA_COLUMNS)]
            kinds: list[tuple[str, DataType]] = [
                (ORIGIN_TOPIC, StringType()),
                (PARTITION, IntegerType()),
                (OFFSET, LongType()),
            ]
            column, kind = kinds[names.index(name)]
            return F.col(column), kind
        case KeyMode.RECORD_KEY if not isinstance(key, StructType):
            assert key is not None
            return F.col(KEY), key
    side = key if rules.key_mode is KeyMode.RECORD_KEY else value
    assert isinstance(side, StructType)
    field = next(each for each in side.fields if rules.fold(each.name) == name)
    return F.col(KEY if side is key else VALUE).getField(field.name), field.dataType


def _type_of(frame: DataFrame, side: str) -> DataType | None:
    return frame.schema[side].dataType if side in frame.columns else None
