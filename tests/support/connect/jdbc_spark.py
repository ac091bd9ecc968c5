"""What the JDBC sink on Spark must do on every database system: what the sink in Python does."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC as UTC_ZONE
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.connect.connectors.jdbc.address import read_address
from ottla.connect.connectors.jdbc.database import STAGE_PREFIX, Refused
from ottla.connect.connectors.jdbc.shapes import Operation, Shape, Source
from ottla.connect.data.building import struct_schema
from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.data.schema import Moment, Schema, Struct, Type
from ottla.connect.spark.jdbc.sink import JdbcSparkSink, JdbcTarget
from ottla.connect.spark.jdbc.staging import StageWriter
from ottla.connect.spark.jdbc.systems import Stage
from ottla.connect.spark.ledger import Fenced, Ledger, Owner
from ottla.connect.spark.sink import Batch, Context
from ottla.connect.testing import settings_of
from support.connect import jdbc
from support.connect.jdbc import DAY_MS, FIRST_DAY, LAST_DAY, ROW, drawn_row, rows_of, run

TOPIC = "t"
PARTITIONS = 3
_KINDS: dict[str, DataType] = {
    "id": IntegerType(),
    "word": StringType(),
    "ratio": DoubleType(),
    "flag": BooleanType(),
    "amount": DecimalType(38, 2),
    "data": BinaryType(),
    "day": DateType(),
    "at": TimestampType(),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC_ZONE)
NAMES = (
    "x",
    "Order",
    "select",
    "a b",
    'quo"te',
    "b`t",
    "%s",
    "ünï",
    "d.o.t",
    "attempt",
    "c0",
    "gone",
    "s",
    "t",
)
"""Names of columns that are words, signs and columns of stages."""


class SparkSink:
    """A sink's target, and how far it has written."""

    def __init__(self, spark: SparkSession, url: str, texts: Mapping[str, str], generation: int = 0) -> None:
        given = {"connection.url": url, "auto.create": "true", **texts}
        self.spark = spark
        self.sink = JdbcSparkSink(settings_of(JdbcSparkSink, given))
        name = texts.get("name", "spark")
        run = f"run-{random.SystemRandom().randrange(1 << 40)}"
        self.target = JdbcTarget(self.sink, Context(Owner("cluster", name), generation, run))
        self.ledger = self.target.ledger() or Ledger(generation, 0, {})

    def write(self, records: Sequence[SinkRecord], schema: StructType) -> None:
        """Write a batch of records, spread over several tasks."""
        batch = self.batch(records, schema)
        self.target.write(batch)
        self.ledger = batch.ledger

    def batch(self, records: Sequence[SinkRecord], schema: StructType) -> Batch:
        rows = [
            (
                each.record.key,
                each.record.value,
                each.record.topic,
                each.place.topic,
                each.place.partition,
                each.offset,
                _EPOCH,
            )
            for each in records
        ]
        frame = self.spark.createDataFrame(rows, schema).repartition(PARTITIONS)
        ends: dict[str, dict[int, int]] = {}
        for each in records:
            ends.setdefault(each.place.topic, {})[each.place.partition] = each.offset + 1
        begins = {
            topic: {place: self.ledger.ends.get(topic, {}).get(place, 0) for place in places}
            for topic, places in ends.items()
        }
        return Batch(frame, begins, self.ledger.after(ends))


def frame_schema(value: StructType, key: DataType | None = None) -> StructType:
    """The columns of a batch."""
    return StructType(
        [
            StructField("key", key or StringType()),
            StructField("value", value),
            StructField("topic", StringType()),
            StructField("origin_topic", StringType()),
            StructField("partition", IntegerType()),
            StructField("offset", LongType()),
            StructField("timestamp", TimestampType()),
        ]
    )


def _spark_row(row: Struct | None, names: Mapping[str, str]) -> tuple[Any, ...] | None:
    if row is None:
        return None
    found = []
    for name in names:
        value = row.values[names[name]]
        if isinstance(value, Moment):
            moment = _EPOCH + timedelta(milliseconds=value.epoch_ms)
            found.append(moment.date() if name == "day" else moment)
        else:
            found.append(value)
    return tuple(found)


@dataclasses.dataclass(frozen=True, slots=True)
class Drawn:
    """Rows of every type, with names drawn at random. names: of the fields, by those of ROW."""

    names: Mapping[str, str]
    schema: Schema
    key: Schema

    @classmethod
    def of(cls, chance: random.Random) -> Drawn:
        chosen = chance.sample(NAMES, len(ROW.fields))
        names = {field.name: name for field, name in zip(ROW.fields, chosen, strict=True)}
        schema = struct_schema([(names[each.name], each.schema) for each in ROW.fields])
        return cls(names, schema, struct_schema([(names["id"], Schema(Type.INT32))]))

    def row(self, chance: random.Random, id: int) -> Struct:
        values = dict(drawn_row(chance, id).values)
        if values["word"] is not None:
            values["word"] += chance.choice(("", "\r\n", "\t", "\n\\.\n"))
        values["day"] = _within(values["day"])
        values["at"] = _within(values["at"])
        return Struct(self.schema, {self.names[name]: value for name, value in values.items()})

    @property
    def frame(self) -> StructType:
        nullable = {each.name: each.schema.optional for each in ROW.fields}
        fields = [StructField(self.names[name], kind, nullable[name]) for name, kind in _KINDS.items()]
        return frame_schema(
            StructType(fields), StructType([StructField(self.names["id"], IntegerType(), False)])
        )

    def as_spark(self, each: SinkRecord) -> SinkRecord:
        """The record with values that Spark takes."""
        record = each.record
        return dataclasses.replace(
            each,
            record=dataclasses.replace(
                record,
                key=(record.key.values[self.names["id"]],),
                value=_spark_row(record.value, self.names),
            ),
        )


def _within(moment: Moment | None) -> Moment | None:
    """Within the years that Python's dates have in every zone."""
    if moment is None:
        return None
    return Moment(min(max(moment.epoch_ms, (FIRST_DAY + 2) * DAY_MS), (LAST_DAY - 2) * DAY_MS))


def check_as_in_python(spark: SparkSession, url: str, texts: Mapping[str, str], seed: int) -> None:
    """Random batches leave the same rows as in the sink in Python; other columns of a row stay, or begin anew
    where it was deleted."""
    chance = random.Random(seed)
    drawn = Drawn.of(chance)
    tables = "python 1%", "spark 1%"
    mark = "`" if "mariadb" in url else '"'
    python = jdbc.sink(url, {**texts, "name": "python", "table.name.format": f"{mark}{tables[0]}{mark}"})
    on_spark = SparkSink(
        spark, url, {**texts, "name": "spark", "table.name.format": f"{mark}{tables[1]}{mark}"}
    )
    mode, deletes = texts.get("insert.mode", "insert"), texts.get("delete.enabled") == "true"
    if mode == "update":
        _fill(url, texts, drawn, chance, [f"{mark}{each}{mark}" for each in tables])
    offsets = [chance.randrange(50) for _ in range(2)]
    there: set[int] = set()
    python.open([TopicPartition(TOPIC, each) for each in range(2)])
    for number in range(4):
        given = []
        for _ in range(chance.choice((1, 5, 60))):
            partition = chance.randrange(2)
            id = chance.randrange(12) * 2 + partition
            is_gone = deletes and chance.random() < 0.3 and (number > 0 or len(given) > 0)  # makes the table
            if mode == "insert" and deletes:
                is_gone = id in there
                there ^= {id}
            value = None if is_gone else drawn.row(chance, id)
            key = Struct(drawn.key, {drawn.names["id"]: id})
            record = Record(
                TOPIC, partition, key, drawn.key, value, None if value is None else drawn.schema, 0
            )
            given.append(SinkRecord(record, TopicPartition(TOPIC, partition), offsets[partition]))
            offsets[partition] += chance.choice((1, 1, 3))
        python.write(given)
        on_spark.write([drawn.as_spark(each) for each in given], drawn.frame)
        found = [Counter(map(repr, rows_of(url, each))) for each in tables]
        assert found[0] == found[1], f"batch {number}"
        if number == 0:
            for each in tables:
                run(url, f"ALTER TABLE {mark}{each}{mark} ADD extra INT DEFAULT 5")
        run(*(url, *(f"UPDATE {mark}{each}{mark} SET extra = extra + 1" for each in tables)))
    assert found[0]
    assert stages(url) == []
    python.close()


def _fill(url: str, texts: Mapping[str, str], drawn: Drawn, chance: random.Random, names: list[str]) -> None:
    rows = [drawn.row(chance, id) for id in range(24)]
    keys = [Struct(drawn.key, {drawn.names["id"]: id}) for id in range(24)]
    for number, each in enumerate(names):
        given = {**texts, "insert.mode": "insert", "table.name.format": each, "name": f"filler {number}"}
        with closing(jdbc.sink(url, given)) as filler:
            filler.open([jdbc.PLACE])
            filler.write(jdbc.records(*rows, keys=keys, key_schema=drawn.key))


def stages(url: str) -> list[str]:
    """The stages that there are."""
    with closing(jdbc.database(url)) as opened:
        rows = opened.select(
            f"SELECT table_name FROM information_schema.tables WHERE left(table_name, 12) = '{STAGE_PREFIX}'"
        )
    return [str(name) for (name,) in rows]


_ID = StructType([StructField("id", IntegerType(), False)])
_ID_SCHEMA = struct_schema([("id", Schema(Type.INT32))])


def _ids(ids: Sequence[int], first: int) -> list[SinkRecord]:
    return [
        SinkRecord(Record(TOPIC, 0, None, None, (id,), None, 0), TopicPartition(TOPIC, 0), first + at)
        for at, id in enumerate(ids)
    ]


def check_one_run_writes(spark: SparkSession, url: str) -> None:
    """A run whose records another one has written is refused, and so is one of an older generation; a batch
    that was written is not written again; stages of killed runs go; the sink in Python goes on."""
    schema = frame_schema(_ID)
    first = SparkSink(spark, url, {})
    assert first.target.ledger() is None
    first.write(_ids([0, 1, 2], 0), schema)
    before = first.batch(_ids([3, 4], 3), schema)
    first.target.write(before)
    first.target.write(before)
    assert sorted(rows_of(url, TOPIC)) == [(0,), (1,), (2,), (3,), (4,)]
    second = SparkSink(spark, url, {})
    assert second.ledger.ends == {TOPIC: {0: 5}}
    second.write(_ids([5], 5), schema)
    first.ledger = before.ledger
    with pytest.raises(Fenced):
        first.write(_ids([5, 6], 5), schema)
    run(url, f"CREATE TABLE {first.target._prefix}killed_0 (attempt BIGINT)")
    assert stages(url)
    newer = SparkSink(spark, url, {}, generation=1)
    assert stages(url) == []
    assert newer.target.ledger() is None
    with pytest.raises(Fenced):
        second.write(_ids([6], 6), schema)
    with pytest.raises(Fenced):
        SparkSink(spark, url, {})
    python = jdbc.sink(url, {"name": "spark"})
    assert python.open([TopicPartition(TOPIC, 0)]) == {TopicPartition(TOPIC, 0): 6}
    python.write(
        [
            dataclasses.replace(
                each,
                record=dataclasses.replace(
                    each.record, value=Struct(_ID_SCHEMA, {"id": 6}), value_schema=_ID_SCHEMA
                ),
            )
            for each in _ids([6], 6)
        ]
    )
    python.close()
    assert sorted(rows_of(url, TOPIC)) == [(id,) for id in range(7)]


def check_nothing_of_a_refused_batch(spark: SparkSession, url: str) -> None:
    """A row that breaks a rule of the table leaves rows and offsets as they were, and no stage."""
    run(url, "CREATE TABLE t (id INT NOT NULL, CHECK (id <> 3))")
    schema = frame_schema(_ID)
    writer = SparkSink(spark, url, {})
    writer.write(_ids([1], 0), schema)
    with pytest.raises(Refused):
        writer.write(_ids([2, 3, 4], 1), schema)
    assert rows_of(url, "t") == [(1,)]
    assert stages(url) == []
    assert SparkSink(spark, url, {}).ledger.ends == {TOPIC: {0: 1}}


def check_attempts(url: str, line: str) -> None:
    """Of a task that was attempted twice, the rows of the attempt that counts alone are taken.

    line: a row's text as the system has it, but for {id}.
    """
    run(url, "CREATE TABLE t (id INT NOT NULL)")
    source = Source("id", Schema(Type.INT32), lambda each: each)
    with closing(jdbc.database(url)) as opened:
        address = read_address(url)
        stage = Stage(
            address.system,
            f"{STAGE_PREFIX}test",
            opened.table_of(["t"]),
            Shape(Operation.INSERT, (), (source,)),
        )
        opened.run(stage.creation(opened))
        ids = list(range(2000))
        rows = pa.RecordBatch.from_pydict(
            {"line": [line.format(id=id) for id in ids], "gone": [False] * 2000}
        )
        writer = StageWriter(address, stage.name, stage.columns)
        found = [next(iter(writer.write([rows, rows.slice(0, 0)]))).to_pylist()[0] for _ in range(2)]
        assert [(each["staged"], each["deleted"]) for each in found] == [(2000, 0)] * 2
        assert opened.select(f"SELECT count(*) FROM {stage.name}") == [(4000,)]
        with opened.transaction(()):
            for each in stage.taking(opened, [found[1]["attempt"]], deletes=False):
                opened.run(each)
        opened.run(f"DROP TABLE {stage.name}")
    assert sorted(rows_of(url, "t")) == [(id,) for id in ids]
