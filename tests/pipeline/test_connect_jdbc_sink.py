"""The JDBC sink on Spark on a real PostgreSQL and MariaDB: the rows that the sink in Python writes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from ottla.connect.connectors.jdbc.moments import (
    DAY_MS,
    NS_PER_MS,
    date_text,
    read_timestamp_ns,
    timestamp_text,
)
from ottla.connect.spark.jdbc.staging import lines, parts
from ottla.connect.spark.jdbc.texts import date_column, timestamp_column
from support.connect import jdbc_spark
from support.connect.jdbc import UPSERTS, run

pytestmark = [pytest.mark.spark, pytest.mark.system("psql", "postgresql")]

_numbers = itertools.count()
MODES = {
    "insert": {"pk.mode": "none"},
    "kafka": {"pk.mode": "kafka", "insert.mode": "upsert"},
    "upsert": UPSERTS,
    "value": {"insert.mode": "upsert", "pk.mode": "record_key"},
    "reinsert": {"pk.mode": "record_key", "delete.enabled": "true"},
    "update": {"insert.mode": "update", "pk.mode": "record_key", "delete.enabled": "true"},
}
SHORT = "upsert"


@pytest.fixture
def url(postgresql_url: str) -> str:
    return f"jdbc:postgresql://{postgresql_url.removeprefix('postgresql://ottla@')}?user=ottla"


@pytest.fixture(scope="module")
def mariadb_port() -> Iterator[int]:
    pytest.importorskip("pymysql")
    from support.servers.mariadb import mariadb, mariadb_programs

    programs = mariadb_programs()
    if programs is None:
        pytest.skip("MariaDB is not installed: apt-get install mariadb-server")
    with mariadb(programs) as port:
        yield port


@pytest.fixture
def mariadb_url(mariadb_port: int) -> str:
    name = f"connect_{next(_numbers)}"
    place = f"jdbc:mariadb://127.0.0.1:{mariadb_port}/"
    run(f"{place}mysql?user=ottla", f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    return f"{place}{name}?user=ottla"


@pytest.mark.parametrize(
    "mode", [each if each == SHORT else pytest.param(each, marks=pytest.mark.long) for each in MODES]
)
def test_rows_are_those_of_the_sink_in_python(spark: SparkSession, url: str, mode: str) -> None:
    jdbc_spark.check_as_in_python(spark, url, MODES[mode], seed=random.randrange(1 << 30))


@pytest.mark.long
def test_one_run_writes(spark: SparkSession, url: str) -> None:
    jdbc_spark.check_one_run_writes(spark, url)


def test_nothing_of_a_refused_batch_is_written(spark: SparkSession, url: str) -> None:
    jdbc_spark.check_nothing_of_a_refused_batch(spark, url)


def test_rows_of_an_attempt_that_does_not_count_are_left(url: str) -> None:
    jdbc_spark.check_attempts(url, "0,0,0,{id}\n")


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_rows_are_those_of_the_sink_in_python_on_mariadb(
    spark: SparkSession, mariadb_url: str, mode: str
) -> None:
    jdbc_spark.check_as_in_python(spark, mariadb_url, MODES[mode], seed=random.randrange(1 << 30))


@pytest.mark.long
def test_one_run_writes_on_mariadb(spark: SparkSession, mariadb_url: str) -> None:
    jdbc_spark.check_one_run_writes(spark, mariadb_url)


@pytest.mark.long
def test_nothing_of_a_refused_batch_is_written_on_mariadb(spark: SparkSession, mariadb_url: str) -> None:
    jdbc_spark.check_nothing_of_a_refused_batch(spark, mariadb_url)


@pytest.mark.long
def test_rows_of_an_attempt_that_does_not_count_are_left_on_mariadb(mariadb_url: str) -> None:
    jdbc_spark.check_attempts(mariadb_url, "0,0,0,{id}),")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns"])
def test_days_and_moments_are_written_as_databases_write_them(spark: SparkSession, zone: str) -> None:
    chance = random.Random()
    days = [chance.randrange(-1_200_000, 4_000_000) for _ in range(200)] + [-719_163, -719_162, 2_932_897]
    # without the seconds that zones were off before they had whole minutes
    moments = [chance.randrange(0, 4_000_000_000_000) for _ in range(200)]
    if zone == "UTC":
        moments += [day * DAY_MS + chance.randrange(DAY_MS) for day in days]
    frame = spark.createDataFrame([Row(day=day) for day in days])
    found = frame.select(
        "day", date_column(F.date_from_unix_date(F.col("day").cast("int"))).alias("text")
    ).collect()
    assert {row.day: row.text for row in found} == {day: date_text(day * DAY_MS) for day in days}
    frame = spark.createDataFrame([Row(ms=ms) for ms in moments])
    moment = F.timestamp_millis(F.col("ms"))
    rows = frame.select(
        "ms",
        timestamp_column(moment, zone, offset=True).alias("told"),
        timestamp_column(moment, zone, offset=False).alias("local"),
    ).collect()
    at = ZoneInfo(zone)
    for row in rows:
        assert read_timestamp_ns(row.told, at) == row.ms * NS_PER_MS
        expected = timestamp_text(row.ms * NS_PER_MS, at, digits=6)
        assert read_timestamp_ns(row.local, ZoneInfo("UTC")) == read_timestamp_ns(expected, ZoneInfo("UTC"))


def test_texts_of_a_batch_are_one_piece_of_memory() -> None:
    pa = pytest.importorskip("pyarrow")
    chance = random.Random()
    texts = ["x" * chance.choice((0, 1, 7, 300)) + "é" for _ in range(chance.randrange(1, 400))]
    array = pa.array(["before", *texts, "behind"]).slice(1, len(texts))
    whole = "".join(f"b,{each}" for each in texts).encode()
    assert bytes(lines("b,", array)) == whole
    limit = chance.choice((1, 50, 1000))
    found = [bytes(each) for each in parts("b,", array, limit)]
    assert b"".join(found) == whole
    assert all(each.startswith(b"b,") and (len(each) <= limit or each.count(b"b,") == 1) for each in found)
