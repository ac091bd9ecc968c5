"""Spark types from Python annotations and DDL texts, without a Spark."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.pipeline.formats import FormatError, json, spark_type, spark_type_of


class State(enum.Enum):
    NEW = "new"
    PAID = "paid"


@dataclass
class Line:
    sku: str
    count: Annotated[int, IntegerType()]


@dataclass
class Order:
    id: int
    lines: list[Line]
    state: State
    note: str | None
    total: Decimal
    at: dt.datetime
    tags: dict[str, float | None] = field(default_factory=dict)


class Point(NamedTuple):
    x: float
    y: float = 0.0


class Person(TypedDict):
    name: str
    born: NotRequired[dt.date]


@dataclass
class Node:
    next: Node | None


LINE = StructType([StructField("sku", StringType(), False), StructField("count", IntegerType(), False)])


def test_a_dataclass_is_a_struct_whose_fields_are_there() -> None:
    assert spark_type_of(Order) == StructType(
        [
            StructField("id", LongType(), False),
            StructField("lines", ArrayType(LINE, False), False),
            StructField("state", StringType(), False),
            StructField("note", StringType(), True),
            StructField("total", DecimalType(38, 18), False),
            StructField("at", TimestampType(), False),
            StructField("tags", MapType(StringType(), DoubleType(), True), True),
        ]
    )


@pytest.mark.parametrize(
    ("annotation", "wanted"),
    [
        (bool, BooleanType()),
        (bytes, BinaryType()),
        (uuid.UUID, StringType()),
        (dt.date, DateType()),
        (str | None, StringType()),
        (Literal["a", "b"], StringType()),
        (Sequence[int], ArrayType(LongType(), False)),
        (tuple[int, ...], ArrayType(LongType(), False)),
        (set[str | None], ArrayType(StringType(), True)),
        (Mapping[str, int], MapType(StringType(), LongType(), False)),
        (Point, StructType([StructField("x", DoubleType(), False), StructField("y", DoubleType(), True)])),
        (
            Person,
            StructType([StructField("name", StringType(), False), StructField("born", DateType(), True)]),
        ),
    ],
)
def test_annotations(annotation: Any, wanted: DataType) -> None:
    assert spark_type_of(annotation) == wanted


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (int | str, "only `T | None`"),
        (object, "no type for object"),
        (list, "no type for list"),
        (Node, "Node contains itself"),
        (Any, "no type for"),
    ],
)
def test_what_spark_has_no_type_for_is_told(annotation: Any, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        spark_type_of(annotation)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("INT", IntegerType()),
        ("decimal(5,2)", DecimalType(5, 2)),
        ("array<map<string, bigint>>", ArrayType(MapType(StringType(), LongType()))),
        ("struct<>", StructType([])),
        (
            "sku STRING NOT NULL COMMENT 'it''s', `a b`: STRUCT<x: INT>".replace("it''s", "its"),
            StructType(
                [
                    StructField("sku", StringType(), False),
                    StructField("a b", StructType([StructField("x", IntegerType())])),
                ]
            ),
        ),
    ],
)
def test_ddl(text: str, wanted: DataType) -> None:
    assert spark_type(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a INT,",
        "a INT b",
        "ARRAY<INT",
        "ARRAY<>",
        "DECIMAL(50)",
        "DECIMAL(x)",
        "a INT; drop",
        "<",
        "MAP<INT>",
        "ARRAY<" * 200 + "INT" + ">" * 200,
    ],
)
def test_texts_that_are_no_type_are_refused(text: str) -> None:
    with pytest.raises(FormatError, match="no Spark type"):
        spark_type(text)


def test_a_type_is_read_back_from_the_text_that_spark_prints() -> None:
    for wanted in (LINE, spark_type_of(Order)):
        assert spark_type(wanted.simpleString()).simpleString() == wanted.simpleString()


@pytest.mark.parametrize("text", ["a INTERVAL DAY TO SECOND", "MAP<INT, STRING>", "VOID"])
def test_json_names_a_type_that_it_can_not_express(text: str) -> None:
    with pytest.raises(FormatError, match="JSON has"):
        json(text)
