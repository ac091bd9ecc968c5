"""Settings of the lake sinks that can't be, and types: of Connect's schemas, merged, changes of tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from ottla.config.errors import ConfigError
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.connect.plugins.catalog import Catalog, Engine, Kind
from ottla.connect.spark.columns import missing
from ottla.connect.spark.delta import DeltaSink
from ottla.connect.spark.files.layout import Layout
from ottla.connect.spark.files.sink import FileSink
from ottla.connect.spark.iceberg.catalog import catalog_properties
from ottla.connect.spark.iceberg.sink import IcebergSink, partitioning
from ottla.connect.spark.plugins import PLUGINS
from ottla.connect.spark.types import merged, spark_type_of_connect
from ottla.connect.spark.values import values_of


def made(kind: Any, given: Mapping[str, str]) -> Any:
    return kind(Settings(kind.TABLE, from_mapping(given)))


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (IcebergSink, {"iceberg.tables": "db.t"}, "iceberg.catalog.warehouse"),
        (IcebergSink, {"iceberg.catalog.warehouse": "/w"}, "iceberg.tables"),
        (IcebergSink, {"iceberg.tables": "t", "iceberg.catalog.warehouse": "/w"}, "namespace.table"),
        (IcebergSink, {"iceberg.tables": "d.t", "iceberg.catalog.warehouse": "s3a://b/w"}, "rest or jdbc"),
        (
            IcebergSink,
            {
                "iceberg.tables": "d.t",
                "iceberg.catalog.warehouse": "/w",
                "iceberg.tables.upsert-mode-enabled": "true",
            },
            "id-columns",
        ),
        (DeltaSink, {}, "delta.path"),
        (DeltaSink, {"delta.path": "s3a://bucket/t"}, "delta.s3.single-writer"),
        (DeltaSink, {"delta.path": "/t", "delta.upsert-mode-enabled": "true"}, "delta.id-columns"),
        (FileSink, {}, "ottla.url"),
        (
            FileSink,
            {"ottla.url": "/t", "format.class": "io.confluent.AvroFormat"},
            "parquet, json, csv and orc",
        ),
        (FileSink, {"ottla.url": "/t", "partitioner.class": "Other"}, "DefaultPartitioner"),
        (FileSink, {"ottla.url": "/t", "partitioner.class": "FieldPartitioner"}, "partition.field.name"),
    ],
)
def test_settings_that_can_not_be_are_named(kind: Any, given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(kind, given)


def test_the_plugins_are_found_by_javas_names_and_load() -> None:
    catalog = Catalog(PLUGINS)
    for name in (
        "org.apache.iceberg.connect.IcebergSinkConnector",
        "io.tabular.iceberg.connect.IcebergSinkConnector",
        "io.confluent.connect.s3.S3SinkConnector",
        "io.confluent.connect.hdfs.HdfsSinkConnector",
        "DeltaSink",
    ):
        found = catalog.find(name, Kind.SINK)
        assert found is not None and found.engine is Engine.SPARK
        assert found.load().TABLE.find("value.schema") is not None


def test_a_catalogs_properties_go_to_spark_whole_and_two_catalogs_have_two_names() -> None:
    name, properties = catalog_properties("my-lake", {"uri": "http://h", "x.y": "1"}, {"fs.a": "b"})
    assert properties[f"spark.sql.catalog.{name}.type"] == "rest"
    assert properties[f"spark.sql.catalog.{name}.x.y"] == "1"
    assert properties[f"spark.sql.catalog.{name}.hadoop.fs.a"] == "b"
    assert properties[f"spark.sql.catalog.{name}.cache-enabled"] == "false"
    assert catalog_properties("my-lake", {"uri": "http://other"}, {})[0] != name


def test_a_partitioning_is_read_as_icebergs_connector_reads_it() -> None:
    assert partitioning("day(at), bucket(id, 16), region ,hours(x), truncate(n,4)") == [
        ("day", "at", None),
        ("bucket", "id", 16),
        ("identity", "region", None),
        ("hour", "x", None),
        ("truncate", "n", 4),
    ]
    assert partitioning("") == []
    for wrong in ("bucket(id)", "day(at, 3)", "week(at)", "day(", "(a)"):
        with pytest.raises(ConfigError):
            partitioning(wrong)


def test_a_staged_file_gets_its_name_from_its_directories() -> None:
    layout = Layout.of(Settings(FileSink.TABLE, from_mapping({"ottla.url": "/t"})))
    directories = "__ottla_t=a.b/__ottla_p=3/__ottla_s=120/__ottla_d=x%3Da%252Fb%2Fy%3D1"
    name = "part-00000-0a-c000.snappy.parquet"
    assert (
        layout.final(f"{directories}/{name}", 0) == "topics/a.b/x=a%2Fb/y=1/a.b+3+0000000120.snappy.parquet"
    )
    assert layout.final(f"{directories}/{name}", 1).endswith("/a.b+3+0000000120+1.snappy.parquet")
    routed = "__ottla_t=all%2Fa.b/__ottla_p=3/__ottla_s=120/__ottla_d=partition"
    assert layout.final(f"{routed}/{name}", 0) == "topics/all/partition=3/a.b+3+0000000120.snappy.parquet"


def test_a_converter_that_spark_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="connectors on Spark have the converters"):
        values_of("value", {"value.converter": "com.example.Own"}, {}, None)
    with pytest.raises(ConfigError, match=r"schema\.registry\.url"):
        values_of("value", {"value.converter": "AvroConverter"}, {}, None)
    of_worker = values_of("value", {}, {"value.converter": "StringConverter"}, None)
    assert of_worker.class_name == "StringConverter"


def test_types_of_connects_schemas() -> None:
    schema = {
        "type": "struct",
        "fields": [
            {"field": "id", "type": "int64"},
            {"field": "day", "type": "int32", "name": "org.apache.kafka.connect.data.Date", "optional": True},
            {"field": "tags", "type": "array", "items": {"type": "string", "optional": True}},
        ],
    }
    assert spark_type_of_connect(schema) == StructType(
        [
            StructField("id", LongType(), False),
            StructField("day", DateType(), True),
            StructField("tags", ArrayType(StringType(), True), False),
        ]
    )
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    for wrong in (None, 3, {}, {"type": "struct"}, {"type": "x"}, deep):
        with pytest.raises(ValueError):
            spark_type_of_connect(wrong)


def test_two_types_are_one_where_a_lake_can_promote_and_the_first_else() -> None:
    first = StructType([StructField("a", IntegerType(), False), StructField("b", LongType())])
    second = StructType(
        [StructField("a", LongType(), False), StructField("b", StringType()), StructField("c", FloatType())]
    )
    assert merged(first, second) == StructType(
        [StructField("a", LongType(), False), StructField("b", LongType()), StructField("c", FloatType())]
    )


def test_the_changes_that_a_table_needs() -> None:
    inner = StructType([StructField("x", FloatType())])
    table = StructType([StructField("a", IntegerType(), False), StructField("s", inner)])
    wider = StructType([StructField("x", DoubleType()), StructField("y`", StringType())])
    rows = StructType([StructField("a", LongType()), StructField("s", wider), StructField("n", inner)])
    assert [each.clause for each in missing(table, rows)] == [
        "ALTER COLUMN `a` DROP NOT NULL",
        "ALTER COLUMN `a` TYPE BIGINT",
        "ALTER COLUMN `s`.`x` TYPE DOUBLE",
        "ADD COLUMN `s`.`y``` STRING",
        "ADD COLUMN `n` STRUCT<`x`: FLOAT>",
    ]
    assert list(missing(table, table)) == []
