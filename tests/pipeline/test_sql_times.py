"""TIMESTAMP of WITH: the times of records that queries write, and of tables that are read, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.sql.testing import ScriptDriver

SCRIPT = """
CREATE STREAM s (id INT KEY, ms BIGINT, said STRING) WITH (kafka_topic='s', value_format='json');
CREATE TABLE u (id INT PRIMARY KEY, name STRING, changed BIGINT)
    WITH (kafka_topic='u', value_format='json', timestamp='changed');
CREATE STREAM whole WITH (timestamp='at') AS SELECT id, ms * 10 AS at FROM s;
CREATE STREAM said WITH (timestamp='said', timestamp_format='yyyy-MM-dd') AS SELECT id, said FROM s;
CREATE STREAM by_key WITH (timestamp='k') AS SELECT ms AS k, said FROM s PARTITION BY ms;
CREATE TABLE names AS SELECT id, name, ROWTIME AS t FROM u;
"""

STATEFUL = """
CREATE STREAM s (id INT KEY, ms BIGINT) WITH (kafka_topic='s', value_format='json');
CREATE TABLE last WITH (timestamp='at') AS SELECT id, MAX(ms) AS at FROM s GROUP BY id HAVING MAX(ms) < 90;
CREATE TABLE hours WITH (timestamp='ends') AS SELECT id, COUNT(*) AS n, WINDOWEND AS we, WINDOWEND + 1 AS ends
    FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id;
"""


@pytest.fixture(scope="module")
def driver(spark: SparkSession) -> Iterator[ScriptDriver]:
    with ScriptDriver(SCRIPT, spark=spark) as found:
        found.insert("S", {"ID": 1, "MS": 7, "SAID": "1970-01-02"}, timestamp_ms=5000)
        found.insert("S", {"ID": 2, "MS": None, "SAID": "tomorrow"}, timestamp_ms=6000)
        found.insert("S", {"ID": 3, "MS": -1, "SAID": None}, timestamp_ms=7000)
        found.insert("U", {"ID": 1, "NAME": "anna", "CHANGED": 42}, timestamp_ms=8000)
        found.flush()
        found.insert("S", {"ID": 1, "MS": 99, "SAID": "1970-01-03"}, timestamp_ms=9000)
        found.insert("U", {"ID": 1}, timestamp_ms=9500)
        yield found


def rows(driver: ScriptDriver, name: str) -> list[dict[str, Any]]:
    return sorted(driver.rows(name), key=lambda row: str(row["ROWTIME"]))


def test_a_number_is_the_time(driver: ScriptDriver) -> None:
    assert rows(driver, "WHOLE") == [
        {"ID": 1, "AT": 70, "ROWTIME": 70},
        {"ID": 1, "AT": 990, "ROWTIME": 990},
    ]


def test_a_text_is_the_time_by_its_pattern(driver: ScriptDriver) -> None:
    assert rows(driver, "SAID") == [
        {"ID": 1, "SAID": "1970-01-03", "ROWTIME": 172_800_000},
        {"ID": 1, "SAID": "1970-01-02", "ROWTIME": 86_400_000},
    ]


def test_the_key_may_be_the_time(driver: ScriptDriver) -> None:
    assert [(each["K"], each["ROWTIME"]) for each in rows(driver, "BY_KEY")] == [(7, 7), (99, 99)]


def test_rows_without_a_time_are_dead_letters(driver: ScriptDriver) -> None:
    wrong = driver.dead_letters()

    # Of ID 2 and 3 each, of WHOLE and of BY_KEY.
    assert len([each for each in wrong if "no time, or one before 1970" in each]) == 4
    assert [each for each in wrong if "SAID is NULL" in each]
    assert [each for each in wrong if "'tomorrow' is not of the pattern yyyy-MM-dd" in each]


def test_a_table_that_is_read_takes_its_time_from_a_column(driver: ScriptDriver) -> None:
    assert driver.rows("NAMES") == [
        {"ID": 1, "NAME": "anna", "T": 42, "ROWTIME": 42},
        {"ID": 1, "ROWTIME": 9500},
    ]


@pytest.mark.long
def test_aggregates_have_the_time_and_deletions_their_own(spark: SparkSession) -> None:
    with ScriptDriver(STATEFUL, spark=spark) as driver:
        driver.insert("S", {"ID": 1, "MS": 7}, timestamp_ms=5000)
        driver.flush()
        driver.insert("S", {"ID": 1, "MS": 99}, timestamp_ms=9000)

        assert driver.rows("LAST") == [{"ID": 1, "AT": 7, "ROWTIME": 7}, {"ID": 1, "ROWTIME": 9000}]
        assert {each["ROWTIME"] for each in driver.rows("HOURS")} == {3_600_001}
