"""Plain JSON objects, which ottla's own class reads: row for row what `from_json` gives."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.pipeline.formats.json_format import JsonFormat
from ottla.pipeline.formats.plain_json import plain_rows

pytestmark = pytest.mark.spark
TYPES = (
    "NAME STRING, MS INT",
    "a BIGINT NOT NULL, b DOUBLE, c BOOLEAN, d STRING NOT NULL",
    "t STRING, T STRING, list ARRAY<INT>, rows ARRAY<STRUCT<x: DOUBLE, y: STRING NOT NULL>>",
    "o STRUCT<o: STRUCT<o: ARRAY<ARRAY<BIGINT>>>, n: INT>, s STRING",
)
NUMBERS = ("0", "-0", "7", "2147483647", "2147483648", "-9223372036854775808", "9223372036854775808")
ODD_NUMBERS = ("1.0", "-0.0", "1e3", "1e400", "5e-324", "NaN", "01", "+1", "1.", ".5", "-", "1e", "Infinity")
TEXTS = (
    '""',
    '"x"',
    '"\\u00e4"',
    '"ä€😀"',
    '"\\ud83d\\ude00"',
    '"\\ud83d"',
    '"\\n\\"\\\\"',
    '"NaN"',
    '"tab\there"',
    '"\\x"',
)
OTHERS = ("null", "true", "false", "[]", "{}", "[1,[2,{}]]", '{"y":"y"}', '[{"x":1,"y":"z"},null]', "nul", "")
BROKEN = (
    b"",
    b" ",
    b"null",
    b"[]",
    b"{",
    b"{}",
    b"{}}",
    b"{} {}",
    b"\xef\xbb\xbf{}",
    b"{\x00}\x00",
    b'{"a":1,}',
)


def document(dice: random.Random, names: tuple[str, ...]) -> bytes:
    """Mostly an object of these names; now and then something else."""
    if dice.random() < 0.05:
        return dice.choice(BROKEN)
    pairs = []
    for name in names:
        if dice.random() < 0.15:
            continue
        kinds = dice.choices((NUMBERS, ODD_NUMBERS, TEXTS, OTHERS), (8, 1, 8, 3))[0]
        pairs.append(f'"{name}"{dice.choice(("", " "))}:{dice.choice(kinds)}')
    if dice.random() < 0.2:
        pairs.append(f'"{dice.choice((*names, "other"))}":{dice.choice(OTHERS + NUMBERS)}')
    dice.shuffle(pairs)
    text = "{" + ",".join(pairs) + "}" + dice.choices(("", "\n", "x"), (20, 2, 1))[0]
    made = text.encode()
    if dice.random() < 0.03:
        at = dice.randrange(len(made))
        made = made[:at] + dice.choice((b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\x00")) + made[at + 1 :]
    return made


def plain_document(dice: random.Random, wanted: Any) -> Any:
    """A value that a type has."""
    kind = wanted["type"] if isinstance(wanted, dict) else wanted
    match kind:
        case "struct":
            return {each["name"]: plain_document(dice, each["type"]) for each in wanted["fields"]}
        case "array":
            return [plain_document(dice, wanted["elementType"]) for _ in range(dice.randrange(12))]
        case "string":
            return dice.choice(("", "x", "ä\n😀", "a" * 300))
        case "boolean":
            return dice.random() < 0.5
        case "double":
            return dice.choice((0.1, -1e300, 5, 1e-320))
        case _:
            return dice.randrange(-(2**31), 2**31)


@pytest.fixture(params=[False, True])
def lower_too(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether names in lower case are read too, in a session that tells names apart by case, as SQL's do."""
    spark.conf.set("spark.sql.caseSensitive", str(request.param))
    yield request.param
    spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("ddl", TYPES)
def test_objects_are_read_as_from_json_reads_them(spark: SparkSession, ddl: str, lower_too: bool) -> None:
    seed = random.randrange(1 << 30)
    dice, wanted = random.Random(seed), StructType.fromDDL(ddl)
    names = (*wanted.names, *(("x", "y", "n") if "ARRAY" in ddl else ()))
    if lower_too:
        names = (*names, *(each.lower() for each in names))
    made = [document(dice, names) for _ in range(600)]
    made += [json.dumps(plain_document(dice, wanted.jsonValue())).encode() for _ in range(200)]
    frame = spark.createDataFrame(
        [(at, each) for at, each in enumerate(made)] + [(-1, None)], "at INT, v BINARY"
    )
    format_ = JsonFormat(wanted, lower_too)
    given = frame.select("at", "v", format_.decode(F.col("v"), "", False).alias("wanted"))
    rows = plain_rows(spark, F.col("v"), wanted, lower_too=lower_too)
    assert rows is not None
    both = format_.decode_in_steps(given.withColumn("plain", rows), "v", "found")
    plain = 0
    for row in both.collect():
        assert row.found == row.wanted or repr(row.found) == repr(row.wanted), (seed, row.v)
        if row.plain is not None:
            plain += 1
            assert repr(row.plain) == repr(row.wanted.value), (seed, row.v)
        elif row.at >= 600:
            raise AssertionError(f"{row.v!r} is plain")
    assert plain >= 200


def test_types_that_need_spark_have_no_plain_rows(spark: SparkSession) -> None:
    for ddl in ("a DECIMAL(4,2)", "a TIMESTAMP", "a MAP<STRING, INT>", "a ARRAY<DATE>", "a BINARY"):
        assert plain_rows(spark, F.lit(b"{}"), StructType.fromDDL(ddl)) is None
