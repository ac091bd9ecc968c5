"""Transforms of sinks on Spark give the records of the row path, as columns and record by record."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from ottla.client.access import ClusterAccess
from ottla.connect.data.schema import DECIMAL, Moment, Schema, Struct
from ottla.connect.host.conversion import Conversion as RowConversion
from ottla.connect.host.errors import StageError
from ottla.connect.host.settings import ErrorSettings, Tolerance
from ottla.connect.plugins.catalog import installed_plugins
from ottla.connect.spark.records import Conversion
from ottla.connect.spark.rows import RowSettings
from ottla.connect.spark.sink import VALUE
from ottla.connect.spark.transforms import Transforms
from ottla.connect.spark.values import values_of
from ottla.connect.transforms.chain import TransformChain
from support.connect.random_configs import KAFKA
from support.exploration import examples

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDS = 60
ROUNDS = examples(1, 4)
TOPICS = ("orders", "a-b", "b-a")
KAFKA_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
Given = tuple[bytes | None, bytes | None, str, int, int, datetime, list[tuple[str, bytes]] | None]
BASE = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
PLAIN = BASE | {"value.converter.schemas.enable": "false"}
DDL = "id BIGINT, name STRING, price DOUBLE, ok BOOLEAN, inner STRUCT<x: INT, y: STRING>"
FIELDS: list[dict[str, Any]] = [
    {"field": "id", "type": "int64", "optional": False},
    {"field": "name", "type": "string", "optional": True},
    {"field": "price", "type": "double", "optional": True},
    {"field": "ok", "type": "boolean", "optional": True},
    {
        "field": "inner",
        "type": "struct",
        "optional": True,
        "fields": [
            {"field": "x", "type": "int32", "optional": True},
            {"field": "y", "type": "string", "optional": True},
        ],
    },
]
SCHEMA: dict[str, Any] = {"type": "struct", "optional": True, "fields": FIELDS}


def chain(*stages: Mapping[str, str], **predicates: Mapping[str, str]) -> dict[str, str]:
    """The configuration of transforms, of which each is given by its own keys."""
    config = {"transforms": ",".join(f"t{at}" for at in range(len(stages)))}
    for at, stage in enumerate(stages):
        config |= {f"transforms.t{at}.{name}": text for name, text in stage.items()}
        config[f"transforms.t{at}.type"] = f"{KAFKA}.{stage['type']}"
    if predicates:
        config["predicates"] = ",".join(predicates)
    for alias, keys in predicates.items():
        config |= {f"predicates.{alias}.{name}": text for name, text in keys.items()}
        config[f"predicates.{alias}.type"] = f"{KAFKA}.predicates.{keys['type']}"
    return config


ROUTE = {"type": "RegexRouter", "regex": "(.*)-(.*)", "replacement": "$2_$1"}
INSERT = {"type": "InsertField$Value", "topic.field": "t", "offset.field": "o", "timestamp.field": "w"}
DROP = {"type": "Filter", "predicate": "p", "negate": "false"}
MASK = {"type": "MaskField$Value", "fields": "name,id"}
CAST = {"type": "Cast$Value", "spec": "id:string,ok:int8"}
FLAT = {"type": "Flatten$Value", "delimiter": "_"}
EXTRACT = {"type": "ExtractField$Value", "field": "inner"}
KEY = {"type": "ValueToKey", "fields": "id,name"}
HEADER = {"type": "InsertHeader", "header": "h", "value.literal": "1"}
HOIST = {"type": "HoistField$Value", "field": "up"}
RENAME = {"type": "ReplaceField$Value", "exclude": "price", "renames": "id:number"}
META = {"type": "SetSchemaMetadata$Value", "schema.name": "n.M"}
NUMBER = {"type": "Cast$Value", "spec": "name:int32"}
TOPIC_B = {"type": "TopicNameMatches", "pattern": "a-.*"}
TOMB = {"type": "RecordIsTombstone"}

CHAINS: dict[str, dict[str, str]] = {
    "route, insert, drop": chain(ROUTE, INSERT, DROP, p={"type": "TopicNameMatches", "pattern": "b_a"}),
    "mask and cast": chain(MASK, CAST, RENAME),
    "flatten": chain(FLAT, INSERT),
    "keys": chain(KEY),
    "an inner struct": chain(EXTRACT, MASK | {"fields": "x"}),
    "hoisted": chain(HOIST, INSERT),
    "named": chain(META),
    "no tombstones": chain(DROP, KEY, p=TOMB),
    "a scalar": chain(EXTRACT | {"field": "price"}),
    "headers": chain(HEADER, RENAME),
    "numbers of texts": chain(NUMBER),
    "one topic alone": chain(MASK | {"predicate": "p"}, p=TOPIC_B),
}


def random_values(source: random.Random, with_schema: bool) -> Iterable[bytes | None]:
    """Objects, those of which parts are null or missing, tombstones, and what is no JSON."""
    for _ in range(RECORDS):
        value: dict[str, Any] = {
            "id": source.randrange(-(1 << 40), 1 << 40),
            "name": source.choice(("a", "12", "true", "ü", None)),
            "price": source.choice((1.5, -0.25, None)),
            "ok": source.choice((True, False, None)),
            "inner": source.choice(({"x": source.randrange(99), "y": "t"}, {"x": None, "y": "z"}, None)),
        }
        kind = source.random()
        if kind < 0.1:
            yield None
        elif kind < 0.15:
            yield b"no json {"
        elif with_schema:
            payload = None if kind < 0.2 else value
            yield json.dumps({"schema": SCHEMA, "payload": payload}).encode()
        else:
            if kind < 0.5:
                value = {name: each for name, each in value.items() if each is not None}
            yield json.dumps(value).encode()


def records(source: random.Random, with_schema: bool) -> list[Given]:
    return [
        (
            source.choice((None, b"k%d" % at)),
            value,
            source.choice(TOPICS),
            at % 3,
            at,
            datetime.fromtimestamp(1_700_000_000 + at, UTC),
            source.choice((None, [("a", b"1")])),
        )
        for at, value in enumerate(random_values(source, with_schema))
    ]


class Message:
    """A record as a consumer gives it."""

    def __init__(self, given: Given) -> None:
        key, value, topic, partition, offset, at, headers = given
        self.key, self.value = lambda: key, lambda: value
        self.topic, self.partition, self.offset = lambda: topic, lambda: partition, lambda: offset
        self.timestamp = lambda: (1, round(at.timestamp() * 1000))
        self.headers = lambda: headers


def plain(value: Any, schema: Schema | None = None) -> Any:
    """A value of the row path or of Spark as plain data; fields that are null are left out."""
    match value:
        case Struct():
            return plain({each.name: value.get(each.name) for each in value.schema.fields})
        case Row():
            return plain(value.asDict())
        case dict():
            made = {name: plain(each) for name, each in value.items()}
            return {name: each for name, each in made.items() if each is not None and each != {}} or {}
        case list():
            return [plain(each) for each in value]
        case bytearray() | bytes():
            return base64.b64encode(bytes(value)).decode()
        case Moment():
            return value.epoch_ms
        case datetime():
            return round(value.timestamp() * 1000)
    return value


def by_rows(
    config: Mapping[str, str], given: list[Given]
) -> tuple[dict[int, Any], dict[int, tuple[str, str]]]:
    """What the row path gives: records by offset, and the stages and messages of those that it refuses."""
    conversion = RowConversion(installed_plugins(), config, {})
    made: dict[int, Any] = {}
    failed: dict[int, tuple[str, str]] = {}
    for each in given:
        message: Any = Message(each)
        try:
            found = conversion.to_record(message)
        except StageError as problem:
            failed[each[4]] = (problem.stage.value, str(problem.__cause__))
            continue
        if found is not None:
            made[each[4]] = (found.record.topic, plain(found.record.key), plain(found.record.value))
    return made, failed


def by_spark(
    spark: SparkSession, config: Mapping[str, str], given: list[Given], ddl: str | None = None
) -> tuple[dict[int, Any], dict[int, tuple[str, str]], bool]:
    """The same by a sink's conversion, and whether it went as columns."""
    key, value = values_of("key", config, {}, None), values_of("value", config, {}, ddl)
    errors = ErrorSettings(Tolerance.ALL, 0, 1, False, False, "", 1, False)
    transforms = Transforms(
        TransformChain.of(config, installed_plugins()), RowSettings(dict(config), {}, errors), key, value
    )
    conversion = Conversion("c", value, key, errors, ClusterAccess("nowhere:1"), transforms)
    frame = spark.createDataFrame(given, KAFKA_COLUMNS).coalesce(1)
    with conversion.records(frame, None, TOPICS) as (found, count):
        rows = found.collect()
        plan = found._jdf.queryExecution().toString()
    with transforms.applied(frame.withColumn("origin_topic", frame["topic"]), None, TOPICS, ()) as applied:
        failure = conversion._failure(applied).alias("f")
        failed = {
            row["offset"]: (row["f"]["stage"], row["f"]["message"])
            for row in applied.select("offset", failure).where("f IS NOT NULL").collect()
        }
    assert count == len(failed)
    made = {row["offset"]: (row["topic"], plain(row["key"]), plain(row[VALUE])) for row in rows}
    return made, failed, "MapInArrow" not in plan


AS_COLUMNS = {"route, insert, drop", "mask and cast", "flatten", "keys", "hoisted", "named", "a scalar"}


def same(found: dict[int, Any], expected: dict[int, Any]) -> None:
    # Of an object without any field, a null is left in a table.
    def told(records: dict[int, Any]) -> dict[int, Any]:
        return {at: tuple(None if part == {} else part for part in each) for at, each in records.items()}

    assert told(found) == told(expected)


def some_of(*quick: str) -> list[Any]:
    """All chains; but for these ones, the test is long."""
    return [each if each in quick else pytest.param(each, marks=pytest.mark.long) for each in CHAINS]


@pytest.mark.parametrize("name", some_of("route, insert, drop", "headers"))
def test_json_with_its_schema(spark: SparkSession, name: str) -> None:
    config = BASE | CHAINS[name]
    for seed in range(ROUNDS):
        given = records(random.Random(seed), True)
        good = [each for each in given if each[1] != b"no json {"]
        expected, refused = by_rows(config, good)
        found, failed, was_columns = by_spark(spark, config, good)
        same(found, expected)
        assert failed == refused
        assert was_columns or name not in AS_COLUMNS, name


@pytest.mark.parametrize("name", some_of("mask and cast"))
def test_json_without_a_schema_goes_record_by_record(spark: SparkSession, name: str) -> None:
    config = PLAIN | CHAINS[name]
    given = records(random.Random(name), False)
    expected, refused = by_rows(config, given)
    found, failed, was_columns = by_spark(spark, config, given)
    same(found, expected)
    assert failed == refused
    assert not was_columns


@pytest.mark.parametrize("name", some_of("flatten"))
def test_a_given_schema_is_that_of_the_values(spark: SparkSession, name: str) -> None:
    """As if the records carried it: the row path is given them so."""
    config = PLAIN | CHAINS[name]
    given = records(random.Random(name), False)
    node = SCHEMA | {"fields": [each | {"optional": True} for each in FIELDS]}
    with_schema = [
        (
            key,
            value
            and (
                value
                if value[-1:] == b"{"
                else b'{"schema":%b,"payload":%b}' % (json.dumps(node).encode(), value)
            ),
            *rest,
        )
        for key, value, *rest in given
    ]
    expected, refused = by_rows(BASE | CHAINS[name], with_schema)  # type: ignore[arg-type]
    found, failed, _ = by_spark(spark, config, given, DDL)
    same(found, expected)
    assert failed.keys() == refused.keys()
    assert {at: stage for at, (stage, _) in failed.items()} == {
        at: stage for at, (stage, _) in refused.items()
    }


def test_a_record_that_is_refused_ends_a_batch_that_tolerates_none(spark: SparkSession) -> None:
    config = PLAIN | CHAINS["numbers of texts"]
    key, value = values_of("key", config, {}, None), values_of("value", config, {}, None)
    errors = ErrorSettings(Tolerance.NONE, 0, 1, False, False, "", 1, False)
    transforms = Transforms(
        TransformChain.of(config, installed_plugins()), RowSettings(config, {}, errors), key, value
    )
    conversion = Conversion("c", value, key, errors, ClusterAccess("nowhere:1"), transforms)
    at = datetime.fromtimestamp(0, UTC)
    frame = spark.createDataFrame([(None, b'{"name": "x"}', "orders", 2, 7, at, None)], KAFKA_COLUMNS)
    with conversion.records(frame, None, TOPICS) as (found, _), pytest.raises(Exception) as told:
        found.collect()
    text = str(told.value)
    assert "TRANSFORMATION with class org.apache.kafka.connect.transforms.Cast$Value failed at" in text
    assert "topic=orders, partition=2, offset=7" in text


@pytest.mark.long
def test_decimals_come_through_the_row_path(spark: SparkSession) -> None:
    schema = {
        "type": "struct",
        "optional": False,
        "fields": [
            {
                "field": "d",
                "type": "bytes",
                "name": DECIMAL,
                "version": 1,
                "parameters": {"scale": "2"},
                "optional": False,
            },
        ],
    }
    data = json.dumps({"schema": schema, "payload": {"d": "AP8="}}).encode()
    given: list[Given] = [(None, data, "orders", 0, 0, datetime.fromtimestamp(0, UTC), None)]
    found, failed, was_columns = by_spark(spark, BASE | CHAINS["headers"] | {"transforms": "t0"}, given)
    assert (failed, was_columns) == ({}, False)
    assert found[0][2] == {"d": Decimal("2.55")}
