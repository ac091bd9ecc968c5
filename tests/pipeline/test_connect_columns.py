"""Chains as columns give the records that the row path gives."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from ottla.connect.data.record import Record
from ottla.connect.data.schema import TIMESTAMP, Field, Moment, Schema, Struct, Type
from ottla.connect.plugins.catalog import installed_plugins
from ottla.connect.transforms.chain import TransformChain
from ottla.connect.transforms.columns import COLUMNS, ColumnChain, compiled, spark_type
from support.connect.random_configs import KAFKA
from support.connect.random_values import RandomValues
from support.java.connect_oracle import tell, tell_schema

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROUNDS = 12
RECORDS = 20
TOPICS = ("orders", "a-b", "x.y.z")
_TYPES = (
    Type.INT8,
    Type.INT32,
    Type.INT64,
    Type.FLOAT32,
    Type.FLOAT64,
    Type.BOOLEAN,
    Type.STRING,
    Type.BYTES,
)


def random_struct(source: random.Random, depth: int) -> Schema:
    names = source.sample(("a", "b", "c", "a.b", "id"), source.randint(2, 5))
    fields = []
    for name in names:
        if depth and source.random() < 0.25:
            fields.append(Field(name, random_struct(source, depth - 1)))
        else:
            fields.append(Field(name, Schema(source.choice(_TYPES), source.random() < 0.5)))
    return Schema(Type.STRUCT, depth < 2 and source.random() < 0.5, fields=tuple(fields))


def random_chain(source: random.Random, schema: Schema) -> dict[str, str]:
    """A configuration of three transforms or fewer that fit a value's schema."""
    name = source.choice([each.name for each in schema.fields])
    scalars = [each for each in schema.fields if each.schema.type in (Type.INT64, Type.INT32, Type.STRING)]
    kinds: list[dict[str, str]] = [
        {
            "type": "InsertField$Value",
            "topic.field": "t",
            "offset.field": "o!",
            "timestamp.field": "w",
            "static.field": "s",
            "static.value": "text",
            "partition.field": "p?",
        },
        {"type": "ReplaceField$Value", "exclude": name, "renames": f"{schema.fields[-1].name}:new"},
        {"type": "HoistField$Value", "field": "up"},
        {"type": "ExtractField$Value", "field": name},
        {"type": "Flatten$Value", "delimiter": "_"},
        {"type": "ValueToKey", "fields": name},
        {"type": "SetSchemaMetadata$Value", "schema.name": "n.M"},
        {"type": "RegexRouter", "regex": "(.*)-(.*)", "replacement": "$2_$1"},
        {"type": "Filter", "predicate": "p", "negate": source.choice(("true", "false"))},
    ]
    if scalars:
        kinds.append({"type": "MaskField$Value", "fields": scalars[0].name})
        target = {Type.STRING: "boolean"}.get(
            scalars[0].schema.type, source.choice(("int8", "string", "float64", "boolean"))
        )
        kinds.append({"type": "Cast$Value", "spec": f"{scalars[0].name}:{target}"})
    config = {
        "predicates": "p",
        "predicates.p.type": f"{KAFKA}.predicates.TopicNameMatches",
        "predicates.p.pattern": ".*-.*|b_.*",
    }
    chosen = source.sample(kinds, source.randint(1, 2))
    # Those that are last change the value's fields, on which the others depend.
    chosen.sort(
        key=lambda kind: kind["type"].startswith(("ExtractField", "HoistField", "Flatten", "ReplaceField"))
    )
    config["transforms"] = ",".join(f"t{at}" for at in range(len(chosen)))
    for at, kind in enumerate(chosen):
        config |= {f"transforms.t{at}.{key}": text for key, text in kind.items()}
        config[f"transforms.t{at}.type"] = f"{KAFKA}.{kind['type']}"
    return config


def to_spark(value: Any) -> Any:
    if isinstance(value, Struct):
        return Row(*(to_spark(value.values.get(each.name)) for each in value.schema.fields))
    return value


def from_spark(value: Any, schema: Schema | None) -> Any:
    if value is None or schema is None:
        return None
    if schema.type is Type.STRUCT:
        return Struct(
            schema, {each.name: from_spark(value[at], each.schema) for at, each in enumerate(schema.fields)}
        )
    if schema.name == TIMESTAMP:
        return Moment(round(value.astimezone(UTC).timestamp() * 1000))
    return bytes(value) if schema.type is Type.BYTES else value


def told(record: Record) -> str:
    return repr((record.topic, tell(record.key, record.key_schema), tell(record.value, record.value_schema)))


def test_columns_give_the_records_of_the_row_path(spark: SparkSession) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    values = RandomValues(source)
    catalog = installed_plugins()
    compared = 0
    for _ in range(ROUNDS):
        schema = random_struct(source, 2)
        config = random_chain(source, schema)
        try:
            columns = compiled(TransformChain.of(config, catalog), None, schema, TOPICS)
        except ValueError:
            continue  # the chain does not fit the schema
        if columns is None:
            continue
        compared += 1
        records = [
            Record(
                source.choice(TOPICS),
                1,
                None,
                None,
                values.value(schema, null=0.0),
                schema,
                1_700_000_000_123 + at,
                (),
                at,
            )
            for at in range(RECORDS)
        ]
        chain = TransformChain.of(config, catalog)
        expected = [found for found in map(chain.apply, records) if found is not None]
        found = through_spark(spark, columns, records, schema)
        assert found == [told(each) for each in expected], (
            f"seed {seed} config {config} {tell_schema(schema)}"
        )
    assert compared >= ROUNDS // 3


def through_spark(
    spark: SparkSession, columns: ColumnChain, records: list[Record], schema: Schema
) -> list[str]:
    types = (StringType(), IntegerType(), LongType(), TimestampType(), StringType(), spark_type(schema))
    frame_type = StructType([StructField(name, each) for name, each in zip(COLUMNS, types, strict=True)])
    rows = [
        (
            each.topic,
            each.partition,
            each.offset,
            datetime.fromtimestamp((each.timestamp_ms or 0) / 1000, UTC),
            None,
            to_spark(each.value),
        )
        for each in records
    ]
    frame = columns.apply(spark.createDataFrame(rows, frame_type).coalesce(1))
    return [
        told(
            Record(
                row["topic"],
                key=from_spark(row["key"], columns.key_schema),
                key_schema=columns.key_schema,
                value=from_spark(row["value"], columns.value_schema),
                value_schema=columns.value_schema,
            )
        )
        for row in sorted(frame.collect(), key=lambda row: int(row["offset"]))
    ]


def test_a_chain_that_columns_cannot_do_gives_none() -> None:
    schema = Schema(Type.STRUCT, fields=(Field("a", Schema(Type.STRING)),))
    catalog = installed_plugins()
    for config in (
        {
            "transforms": "h",
            "transforms.h.type": f"{KAFKA}.InsertHeader",
            "transforms.h.header": "x",
            "transforms.h.value.literal": "1",
        },
        {"transforms": "c", "transforms.c.type": f"{KAFKA}.Cast$Value", "transforms.c.spec": "a:int32"},
    ):
        assert compiled(TransformChain.of(config, catalog), None, schema, TOPICS) is None
    config = {"transforms": "m", "transforms.m.type": f"{KAFKA}.MaskField$Value", "transforms.m.fields": "a"}
    assert compiled(TransformChain.of(config, catalog), None, None) is None
