"""What SQL has beyond ksqlDB, on Spark: the first rows of each key, deduplication, windows that cumulate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.sql.testing import ScriptDriver

pytestmark = pytest.mark.long

SCRIPT = """
CREATE STREAM s (id INT KEY, page STRING, ms BIGINT) WITH (kafka_topic='s', value_format='json');
CREATE TABLE top AS SELECT rn, page, ms, id
    FROM (SELECT page, id, ms, ROW_NUMBER() OVER (PARTITION BY page ORDER BY ms DESC, id) AS rn FROM s
          WHERE ms > 0) WHERE rn <= 2 AND ms <> 5;
CREATE TABLE firsts AS SELECT page, id, ms
    FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY page, id ORDER BY ROWTIME) AS rn FROM s) WHERE rn = 1;
CREATE TABLE lasts AS SELECT t.page AS p, ms * 2 AS twice
    FROM (SELECT page, ms, ROW_NUMBER() OVER (PARTITION BY page ORDER BY ROWTIME DESC) AS rn FROM s) t
    WHERE 1 >= t.rn;
CREATE TABLE growing AS SELECT page, COUNT(*) AS n FROM s
    WINDOW CUMULATE (SIZE 30 SECONDS, STEP 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY page;
CREATE TABLE grown AS SELECT page, COUNT(*) AS n FROM s
    WINDOW CUMULATE (SIZE 30 SECONDS, STEP 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY page EMIT FINAL;
"""
ROWS = [
    (1, "x", 3, 1_000),
    (2, "x", 7, 12_000),
    (1, "x", 9, 11_000),
    (3, "x", 7, 31_000),
    (1, "y", None, 5_000),
    (1, "y", 5, 5_000),
    (2, None, 8, 5_000),
]


@pytest.fixture(scope="module")
def driver(spark: SparkSession) -> Iterator[ScriptDriver]:
    with ScriptDriver(SCRIPT, spark=spark) as found:
        for number, page, ms, at_ms in ROWS:
            found.insert("S", {"ID": number, "PAGE": page, "MS": ms}, timestamp_ms=at_ms)
        found.flush()
        found.close_windows()
        yield found


def table(driver: ScriptDriver, name: str) -> list[dict[str, Any]]:
    return sorted(driver.table(name), key=lambda row: str({**row, "ROWTIME": 0}))


def test_the_first_rows_of_each_key_by_an_order(driver: ScriptDriver) -> None:
    assert table(driver, "TOP") == [
        {"RN": 1, "PAGE": "x", "MS": 9, "ID": 1, "ROWTIME": 11_000},
        {"RN": 2, "PAGE": "x", "MS": 7, "ID": 2, "ROWTIME": 12_000},
    ]


def test_duplicates_are_left_out_and_the_first_stays(driver: ScriptDriver) -> None:
    assert [(each["PAGE"], each["ID"], each["MS"]) for each in table(driver, "FIRSTS")] == [
        ("x", 1, 3),
        ("x", 2, 7),
        ("x", 3, 7),
        ("y", 1, None),
    ]


def test_the_last_row_of_a_key(driver: ScriptDriver) -> None:
    assert table(driver, "LASTS") == [
        {"P": "x", "TWICE": 14, "ROWTIME": 31_000},
        {"P": "y", "TWICE": 10, "ROWTIME": 5_000},
    ]


def windows(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((each["PAGE"], each["WINDOWSTART"], each["WINDOWEND"], each["N"]) for each in rows)


def test_windows_cumulate(driver: ScriptDriver) -> None:
    expected = [
        ("x", 0, 10_000, 1),
        ("x", 0, 20_000, 3),
        ("x", 0, 30_000, 3),
        ("x", 30_000, 40_000, 1),
        ("x", 30_000, 50_000, 1),
        ("x", 30_000, 60_000, 1),
        ("y", 0, 10_000, 2),
        ("y", 0, 20_000, 2),
        ("y", 0, 30_000, 2),
    ]

    assert windows(driver.table("GROWING")) == expected
    assert windows(driver.rows("GROWN")) == expected
