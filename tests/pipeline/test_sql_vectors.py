"""The user's functions over batches, on Spark: as columns where they can be, row by row elsewhere, alike."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from ottla.sql.functions.registry import Functions
from ottla.sql.testing import ScriptDriver

SCRIPT = """
CREATE STREAM s (id INT KEY, n BIGINT, t STRING) WITH (kafka_topic='s', value_format='json');
CREATE STREAM columns AS SELECT id, vector_twice(n) AS n, vector_shout(t) AS t, vector_twice(n) + 1 AS m
    FROM s WHERE vector_twice(n) > 0 OR n IS NULL;
CREATE STREAM rows AS SELECT id, row_twice(n) AS n, row_shout(t) AS t, row_twice(n) + 1 AS m FROM s
    WHERE row_twice(n) > 0 OR n IS NULL;
CREATE STREAM lazily AS SELECT id, CASE WHEN n = 13 THEN -1 ELSE vector_twice(n) END AS n,
    COALESCE(vector_twice(n), 5) AS m, INITCAP(vector_shout(t)) AS t FROM s;
"""


def vector_twice(numbers: pd.Series) -> pd.Series:
    if (numbers == 13).any():
        raise ValueError("thirteen")
    return numbers * 2


def row_twice(number: int) -> int:
    if number == 13:
        raise ValueError("thirteen")
    return number * 2


def vector_shout(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pc.utf8_upper(texts), "!", "")


def row_shout(text: str) -> str:
    return text.upper() + "!"


def functions() -> Functions:
    found = Functions()
    for name, twice, shout in (("vector", vector_twice, vector_shout), ("row", row_twice, row_shout)):
        found = found.with_scalar(f"{name}_twice", ["(BIGINT) -> BIGINT"], twice)
        found = found.with_scalar(f"{name}_shout", ["(STRING) -> STRING"], shout)
    return found


def test_batches_give_what_rows_give(spark: SparkSession) -> None:
    with ScriptDriver(SCRIPT, functions=functions(), spark=spark) as driver:
        for number, (n, text) in enumerate([(1, "a"), (13, "b"), (None, None), (5, "é"), (-4, "d")]):
            driver.insert("S", {"ID": number, "N": n, "T": text}, timestamp_ms=number)

        columns, rows, lazily = driver.rows("COLUMNS"), driver.rows("ROWS"), driver.rows("LAZILY")

    assert columns == rows
    assert [_values(each) for each in columns] == [(0, 2, "A!", 3), (2, None, None, None), (3, 10, "É!", 11)]
    assert [(each["ID"], each["N"], each["M"], each["T"]) for each in lazily] == [
        (0, 2, 2, "A!"),
        (1, -1, None, "B!"),
        (2, None, 5, None),
        (3, 10, 10, "É!"),
        (4, -8, -8, "D!"),
    ]


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["ID"], row["N"], row["T"], row["M"]
