"""Tests of SQL's statements on Spark: rows drawn at random, whose results are worked out here."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ottla.sql.script_tests.files import script_tests_of
from ottla.sql.script_tests.json_files import JsonRecord, json_problem_of
from ottla.sql.script_tests.running import problem_of
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess


def test_every_change_of_a_table_is_asserted_in_its_order(spark: SparkSession) -> None:
    dice = random.Random()
    rows = [(dice.choice("ab"), dice.randrange(100), dice.randrange(60_000)) for _ in range(5)]
    lines, counts = [], {"a": (0, 0), "b": (0, 0)}
    for item, units, _ in rows:
        count, total = counts[item]
        counts[item] = count + 1, total + units
        lines.append(
            f"ASSERT VALUES counts (item, n, total) VALUES ('{item}', {count + 1}, {total + units});"
        )
    text = "\n".join(
        [
            "--@test: counted",
            "CREATE STREAM orders (item STRING, units INT) WITH (kafka_topic='o', value_format='JSON');",
            "CREATE TABLE counts AS SELECT item, COUNT(*) AS n, SUM(units) AS total"
            " FROM orders GROUP BY item;",
            *(f"INSERT INTO orders (item, units, rowtime) VALUES ('{i}', {u}, {t});" for i, u, t in rows),
        ]
    )
    (right,) = script_tests_of("\n".join([text, *lines]))
    assert problem_of(right, spark=spark) is None, rows
    item, units, _ = rows[-1]
    lines[-1] = f"ASSERT VALUES counts (item, total) VALUES ('{item}', {counts[item][1] + 1});"
    (wrong,) = script_tests_of("\n".join([text, *lines]))
    assert "the row of COUNTS is another one" in (problem_of(wrong, spark=spark) or ""), rows


def test_records_in_and_out_of_windows(spark: SparkSession) -> None:
    dice = random.Random()
    statements = (
        "CREATE STREAM o (id INT KEY, item STRING, units INT)"
        " WITH (kafka_topic='o', value_format='DELIMITED');"
        "CREATE TABLE w WITH (value_format='JSON') AS SELECT item, COUNT(*) AS n, MAX(units) AS most FROM o"
        " WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY item;"
    )
    rows = [(dice.choice("xy"), dice.randrange(100), dice.randrange(30_000)) for _ in range(4)]
    given = [JsonRecord("o", n, f"{item},{units}", at, None) for n, (item, units, at) in enumerate(rows)]
    windows: dict[tuple[str, int], list[int]] = {}
    wanted = []
    for item, units, at in rows:
        begin = at // 10_000 * 10_000
        seen = windows.setdefault((item, begin), [])
        seen.append(units)
        value = {"N": len(seen), "MOST": max(seen)}
        wanted.append(JsonRecord("W", item, value, None, (begin, begin + 10_000)))
    assert json_problem_of(statements, given, wanted, spark=spark) is None, rows


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("registry")
    with (
        OttlaBroker.start(directory / "broker") as broker,
        ServiceProcess.start("registry", broker.bootstrap, directory) as service,
    ):
        yield service.url


@pytest.mark.parametrize("given", ["AVRO", "PROTOBUF", "JSON_SR"])
def test_formats_of_a_schema_registry(spark: SparkSession, registry: str, given: str) -> None:
    dice = random.Random()
    rows = [(dice.randrange(-(2**31), 2**31), f"ä {dice.random()}") for _ in range(3)]
    topic = f"{given}-{dice.randrange(2**32)}"
    text = "\n".join(
        [
            "--@test: louder",
            "CREATE STREAM o (id INT KEY, name STRING, size INT) WITH"
            f" (kafka_topic='{topic}', key_format='KAFKA', value_format='{given}');",
            f"CREATE STREAM p WITH (kafka_topic='{topic}-p') AS SELECT id, UCASE(name) AS n, size FROM o;",
            *(f"INSERT INTO o (id, name, size) VALUES ({i}, '{n}', {i});" for i, n in rows),
            *(f"ASSERT VALUES p (id, n, size) VALUES ({i}, '{n.upper()}', {i});" for i, n in rows),
        ]
    )
    (one,) = script_tests_of(text)
    assert problem_of(one, spark=spark, registry={"schema.registry.url": registry}) is None, rows
    assert "needs a Schema Registry" in (problem_of(one, spark=spark) or "")
