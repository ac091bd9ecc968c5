"""The test kit's Python values: those that fit a Spark type come out equal, others are refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pyarrow
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from ottla.pipeline.formats import spark_type
from ottla.streams.kit.kit_values import (
    ValueOfWrongType,
    from_arrow_value,
    hashable,
    milliseconds,
    to_arrow_value,
)


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int
    y: int | None = None


@dataclass(frozen=True)
class Shape:
    points: list[Point]
    named: dict[str, Point] | None


@pytest.mark.parametrize(
    ("ddl", "value", "out"),
    [
        ("BIGINT", 2**62, 2**62),
        ("INT", None, None),
        ("DOUBLE", 1, 1.0),
        ("STRING", Colour.RED, "red"),
        ("STRING", UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("BINARY", bytearray(b"x"), b"x"),
        ("DECIMAL(10, 2)", Decimal("1.5"), Decimal("1.50")),
        ("DATE", date(2025, 1, 2), date(2025, 1, 2)),
        ("TIMESTAMP", datetime(2025, 1, 2, 3, 4, 5, 6), datetime(2025, 1, 2, 3, 4, 5, 6)),  # noqa: DTZ001
        (
            "TIMESTAMP",
            datetime(2025, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))),
            datetime(2025, 1, 2, 1),  # noqa: DTZ001
        ),
        ("ARRAY<INT>", (1, None), [1, None]),
        ("MAP<STRING, ARRAY<INT>>", {"a": [1]}, {"a": [1]}),
        ("STRUCT<x: BIGINT, y: BIGINT>", Point(1), {"x": 1, "y": None}),
        ("STRUCT<x: BIGINT, y: BIGINT>", {"y": 2}, {"x": None, "y": 2}),
        ("STRUCT<x: BIGINT, y: BIGINT>", (1, 2), {"x": 1, "y": 2}),
    ],
)
def test_values_go_through_arrow_unchanged(ddl: str, value: Any, out: Any) -> None:
    wanted = spark_type(ddl)

    (arrow,) = pyarrow.array([to_arrow_value(value, wanted, "it")], to_arrow_type(wanted)).to_pylist()

    assert from_arrow_value(arrow, wanted) == out


@pytest.mark.parametrize(
    ("ddl", "value", "problem"),
    [
        ("BIGINT", "1", "it is bigint, not str: '1'"),
        ("BIGINT", True, "it is bigint, not bool: True"),
        ("BIGINT", 1.5, "it is bigint, not float: 1.5"),
        ("BOOLEAN", 1, "it is boolean, not int: 1"),
        ("STRING", b"x", "it is string, not bytes: b'x'"),
        ("ARRAY<STRING>", "abc", "it is array<string>, not str: 'abc'"),
        ("ARRAY<STRUCT<x: INT>>", [{"x": 1}, {"x": "1"}], "it[1].x is int, not str: '1'"),
        ("MAP<STRING, INT>", {"a": "1"}, "it['a'] is int, not str: '1'"),
        ("STRUCT<x: INT>", {"x": 1, "z": 2}, "it has no field 'z': its fields are x"),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_its_place(ddl: str, value: Any, problem: str) -> None:
    with pytest.raises(ValueOfWrongType) as raised:
        to_arrow_value(value, spark_type(ddl), "it")

    assert str(raised.value) == problem


def test_structs_come_as_the_dataclass_that_was_asked_for() -> None:
    point = "STRUCT<x: BIGINT, y: BIGINT>"
    shape = spark_type(f"STRUCT<points: ARRAY<{point}>, named: MAP<STRING, {point}>>")
    found = {"points": [{"x": 1, "y": 2}], "named": [("a", {"x": 3, "y": None})]}

    assert from_arrow_value(found, shape, Shape) == Shape([Point(1, 2)], {"a": Point(3)})


def test_keys_can_be_keys_of_a_dictionary() -> None:
    key = hashable({"key": "anna", "start": [1, 2]})

    assert {key: 1}["anna", (1, 2)] == 1
    assert key.start == (1, 2)
    assert hashable("plain") == "plain"


def test_times_are_milliseconds_of_utc() -> None:
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 1)) == 1_000  # noqa: DTZ001
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 1, 999_999, tzinfo=UTC)) == 1_999
    assert milliseconds(5) == 5
    for wrong in ("now", True, 1.5):
        with pytest.raises(ValueOfWrongType):
            milliseconds(wrong)  # type: ignore[arg-type]
