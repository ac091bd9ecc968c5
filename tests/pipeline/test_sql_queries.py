"""SQL's queries on Spark, without a broker: what each kind of statement writes.

One application holds many queries, since each costs Spark a second of a start.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.sql.functions.registry import Functions, aggregate
from ottla.sql.testing import ScriptDriver

STATELESS = """
CREATE STREAM pv (id INT KEY, page STRING, ms BIGINT, price DECIMAL(6, 2), s STRUCT<a INT, b ARRAY<INT>>)
    WITH (kafka_topic='pv', value_format='json');
CREATE STREAM headed (v STRING, at STRING, one BYTES HEADER('x'),
    every ARRAY<STRUCT<key STRING, value BYTES>> HEADERS)
    WITH (kafka_topic='h', value_format='json', timestamp='at', timestamp_format='yyyy-MM-dd HH:mm');
CREATE STREAM with_headers WITH (value_format='kafka') AS
    SELECT FROM_BYTES(one, 'utf8') || v || every[1]->key AS all_of_it FROM headed;
CREATE STREAM halves (id INT KEY, d DOUBLE, s STRUCT<e DOUBLE, f ARRAY<STRUCT<g DOUBLE>>>)
    WITH (kafka_topic='halves', value_format='json');
CREATE STREAM doubled AS SELECT id, d * 2 AS d, s->e AS e, s->f[1]->g AS g FROM halves;
INSERT INTO halves VALUES (1, 0.5e0, STRUCT(e := 1.5e0, f := ARRAY[STRUCT(g := 2.5e0)]));
CREATE STREAM native AS SELECT id, UCASE(page) AS page, ms / 2 AS half, ms / (ms - 7) AS none, ROWTIME AS t
    FROM pv WHERE ms > 3 AND page LIKE 'x%';
CREATE STREAM mixed AS SELECT id, INITCAP(page) AS page, price * 2 AS twice, s->b[-1] AS last,
    TRANSFORM(s->b, x => x + id) AS more, REPEAT_TEXT(page) AS again FROM pv WHERE LEN(page) > 1;
CREATE STREAM by_page WITH (value_format='delimited') AS SELECT page, id, ms FROM pv PARTITION BY page;
CREATE STREAM rows AS SELECT id, EXPLODE(s->b) AS x, EXPLODE(ARRAY['a']) AS y FROM pv;
INSERT INTO mixed SELECT id, page, CAST(price AS DECIMAL(17, 2)) AS twice, s->a AS last, s->b AS more,
    page AS again FROM pv WHERE page = 'z';
INSERT INTO pv (id, page, ms, price, s, rowtime)
    VALUES (1, 'xa', 7, 2.5, STRUCT(a := 1, b := ARRAY[10, 20]), 5000);
"""
STATEFUL = """
CREATE STREAM pv (id INT KEY, page STRING, ms BIGINT, price DECIMAL(6, 2))
    WITH (kafka_topic='pv', value_format='json');
CREATE TABLE users (uid INT PRIMARY KEY, name STRING, home STRING)
    WITH (kafka_topic='u', value_format='json');
CREATE TABLE places (p STRING PRIMARY KEY, title STRING) WITH (kafka_topic='p', value_format='json');
CREATE TABLE ranks (uid INT PRIMARY KEY, rank INT) WITH (kafka_topic='r', value_format='json');
CREATE TABLE windows AS SELECT page, COUNT(*) AS n, SUM(ms) + 1 AS total FROM pv
    WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS) GROUP BY page HAVING COUNT(*) > 1;
CREATE TABLE lists AS SELECT page, id, COLLECT_LIST(ms) AS l, LATEST_BY_OFFSET(price) AS p, SUM(price) AS s,
    TOPK(ms, 2) AS top FROM pv GROUP BY page, id;
CREATE TABLE finals AS SELECT page, WINDOWSTART AS ws, COUNT(*) AS n FROM pv
    WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS) GROUP BY page EMIT FINAL;
CREATE STREAM named AS SELECT pv.id AS id, u.name AS name, page FROM pv LEFT JOIN users u ON pv.id = u.uid;
CREATE TABLE homes AS SELECT home, COUNT(*) AS n, PRODUCT(uid) AS p FROM users GROUP BY home;
CREATE TABLE titled AS SELECT u.uid AS uid, name, title FROM users u JOIN places p ON u.home = p.p;
CREATE STREAM pairs AS SELECT a.id AS id, a.page AS one, b.page AS other
    FROM pv a JOIN pv b WITHIN 5 SECONDS GRACE PERIOD 0 SECONDS ON a.id = b.id WHERE a.page < b.page;
CREATE TABLE either AS SELECT ROWKEY, u.uid AS uid, name, rank
    FROM users u FULL JOIN ranks r ON u.uid = r.uid;
CREATE STREAM sums AS SELECT ROWKEY AS k, a.id AS id, b.ms AS ms FROM pv a JOIN pv b
    WITHIN 5 SECONDS GRACE PERIOD 0 SECONDS ON a.id + 1 = b.id + 1 WHERE a.page < b.page AND ROWKEY > 1;
"""


def functions() -> Functions:
    product = aggregate(
        "(INT) -> BIGINT", lambda: 1, lambda a, v: a * v, lambda a, b: a * b, remove=lambda a, v: a // v
    )
    return (
        Functions()
        .with_scalar("repeat_text", ["(STRING) -> STRING"], lambda text: text * 2)
        .with_aggregate("product", [product])
    )


@pytest.fixture(scope="module")
def stateless(spark: SparkSession) -> Iterator[ScriptDriver]:
    with ScriptDriver(STATELESS, functions=functions(), spark=spark) as driver:
        driver.insert("PV", {"ID": 2, "PAGE": "z", "MS": 1}, timestamp_ms=6000)
        driver.insert("PV", {"ID": None, "PAGE": "xb", "MS": 9, "PRICE": Decimal("1.00")}, timestamp_ms=7000)
        driver.insert("HEADED", {"V": "-", "AT": "1970-01-01 00:02"}, headers={"y": "1", "x": "2"})
        yield driver


@pytest.fixture(scope="module")
def stateful(spark: SparkSession) -> Iterator[ScriptDriver]:
    with ScriptDriver(STATEFUL, functions=functions(), spark=spark) as driver:
        for number, name in ((1, "anna"), (2, "ben"), (3, "cem")):
            driver.insert("USERS", {"UID": number, "NAME": name, "HOME": "ab"[number % 2]})
        driver.insert("PLACES", {"P": "a", "TITLE": "Aachen"})
        for number in (2, 7):
            driver.insert("RANKS", {"UID": number, "RANK": number * 10})
        driver.flush()
        driver.insert("USERS", {"UID": 3})
        for number, page in enumerate(("x", "y", "x", "x")):
            row = {"ID": number % 2, "PAGE": page, "MS": number, "PRICE": Decimal("1.10")}
            driver.insert("PV", row, timestamp_ms=number * 1000)
        driver.flush()
        driver.close_windows()
        yield driver


def without_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "ROWTIME"} for row in rows]


def test_filter_and_projection_in_spark_have_sqls_results(stateless: ScriptDriver) -> None:
    assert stateless.rows("NATIVE") == [
        {"ID": 1, "PAGE": "XA", "HALF": 3, "NONE": None, "T": 5000, "ROWTIME": 5000},
        {"ID": None, "PAGE": "XB", "HALF": 4, "NONE": 4, "T": 7000, "ROWTIME": 7000},
    ]


def test_doubles_of_json_at_any_depth(stateless: ScriptDriver) -> None:
    assert without_time(stateless.rows("DOUBLED")) == [{"ID": 1, "D": 1.0, "E": 1.5, "G": 2.5}]


def test_functions_in_python_lambdas_and_an_insert_from_a_second_query(stateless: ScriptDriver) -> None:
    rows = sorted(without_time(stateless.rows("MIXED")), key=str)

    assert rows == [
        {"ID": 1, "PAGE": "Xa", "TWICE": Decimal("5.00"), "LAST": 20, "MORE": [11, 21], "AGAIN": "xaxa"},
        {"ID": 2, "PAGE": "z", "TWICE": None, "LAST": None, "MORE": None, "AGAIN": "z"},
        {"ID": None, "PAGE": "Xb", "TWICE": Decimal("2.00"), "LAST": None, "MORE": None, "AGAIN": "xbxb"},
    ]


def test_partition_by_makes_the_key_and_delimited_the_value(stateless: ScriptDriver) -> None:
    assert without_time(stateless.rows("BY_PAGE"))[:2] == [
        {"PAGE": "xa", "ID": 1, "MS": 7},
        {"PAGE": "z", "ID": 2, "MS": 1},
    ]


def test_table_functions_stand_side_by_side(stateless: ScriptDriver) -> None:
    rows = [each for each in without_time(stateless.rows("ROWS")) if each["ID"] == 1]

    assert rows == [{"ID": 1, "X": 10, "Y": "a"}, {"ID": 1, "X": 20, "Y": None}]


def test_headers_and_a_time_of_the_records_own(stateless: ScriptDriver) -> None:
    assert stateless.rows("WITH_HEADERS") == [{"ALL_OF_IT": "2-y", "ROWTIME": 120_000}]


def test_no_record_was_poison(stateless: ScriptDriver) -> None:
    assert stateless.dead_letters() == []


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_windows_and_having(stateful: ScriptDriver) -> None:
    assert without_time(stateful.table("WINDOWS")) == [
        {"WINDOWSTART": 0, "WINDOWEND": 60_000, "PAGE": "x", "N": 3, "TOTAL": 6}
    ]


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_aggregates_in_python_by_several_columns(stateful: ScriptDriver) -> None:
    rows = sorted(without_time(stateful.table("LISTS")), key=str)

    one, two = Decimal("1.10"), Decimal("2.20")
    assert rows == [
        {"PAGE": "x", "ID": 0, "L": [0, 2], "P": one, "S": two, "TOP": [2, 0]},
        {"PAGE": "x", "ID": 1, "L": [3], "P": one, "S": one, "TOP": [3]},
        {"PAGE": "y", "ID": 1, "L": [1], "P": one, "S": one, "TOP": [1]},
    ]


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_emit_final_sends_each_window_once(stateful: ScriptDriver) -> None:
    rows = sorted(without_time(stateful.rows("FINALS")), key=str)

    assert rows == [
        {"WINDOWSTART": 0, "WINDOWEND": 60_000, "PAGE": "x", "N": 3},
        {"WINDOWSTART": 0, "WINDOWEND": 60_000, "PAGE": "y", "N": 1},
    ]


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_stream_meets_a_table(stateful: ScriptDriver) -> None:
    rows = sorted(without_time(stateful.rows("NAMED")), key=str)

    assert rows == [
        {"ID": 0, "NAME": None, "PAGE": "x"},
        {"ID": 0, "NAME": None, "PAGE": "x"},
        {"ID": 1, "NAME": "anna", "PAGE": "x"},
        {"ID": 1, "NAME": "anna", "PAGE": "y"},
    ]


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_tables_groups_lose_rows_that_are_deleted(stateful: ScriptDriver) -> None:
    assert sorted(without_time(stateful.table("HOMES")), key=str) == [
        {"HOME": "a", "N": 1, "P": 2},
        {"HOME": "b", "N": 1, "P": 1},
    ]


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_tables_meet_by_a_foreign_key(stateful: ScriptDriver) -> None:
    assert without_time(stateful.table("TITLED")) == [{"UID": 2, "NAME": "ben", "TITLE": "Aachen"}]


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_streams_meet_within_a_time(stateful: ScriptDriver) -> None:
    rows = sorted(without_time(stateful.rows("PAIRS")), key=str)

    assert rows == [{"ID": 1, "ONE": "x", "OTHER": "y"}]


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_full_join_has_the_key_of_either_side(stateful: ScriptDriver) -> None:
    rows = sorted(without_time(stateful.table("EITHER")), key=str)

    assert rows == [
        {"ROWKEY": 1, "UID": 1, "NAME": "anna", "RANK": None},
        {"ROWKEY": 2, "UID": 2, "NAME": "ben", "RANK": 20},
        {"ROWKEY": 7, "UID": None, "NAME": None, "RANK": 70},
    ]


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_the_key_of_a_join_by_expressions_is_rowkey(stateful: ScriptDriver) -> None:
    assert without_time(stateful.rows("SUMS")) == [{"K": 2, "ID": 1, "MS": 1}]
