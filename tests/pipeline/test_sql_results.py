"""The statements of tests/unit/sql/results.txt over one source on Spark, several as one application.

Where there are two sources, each row would have to be a batch, which takes Spark minutes a statement.
"""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from ottla.sql.testing import ScriptDriver
from support.sql.results import Block, blocks, found_rows, same_rows

pytestmark = pytest.mark.long
AT_ONCE = 12
"""Statements of one application: each is a query of Spark's, with threads and state of its own."""
PARTS = [
    (block, first)
    for block in blocks()
    if len({each.source for each in block.rows}) == 1
    for first in range(0, len(block.cases), AT_ONCE)
]


@pytest.mark.parametrize(("block", "first"), PARTS, ids=[f"{block.title} {first}" for block, first in PARTS])
def test_statements_write_their_rows(block: Block, first: int, spark: SparkSession) -> None:
    cases = block.cases[first : first + AT_ONCE]
    made = "".join(case.as_statement(f"OUT_{number}") for number, case in enumerate(cases))
    wrong = []
    with ScriptDriver(block.script + made, spark=spark) as driver:
        for each in block.rows:
            driver.insert(each.source, each.row(driver.catalog), timestamp_ms=each.at_ms)
        driver.flush()
        driver.close_windows()
        for number, case in enumerate(cases):
            name = f"OUT_{number}"
            rows = driver.table(name) if case.is_table else driver.rows(name)
            found = found_rows(rows, driver.catalog.sources[name])
            if not same_rows(case, found, ordered=False):
                wrong.append(f"{case.statement}\n  expected {case.expected}\n  found {tuple(found)}")
        assert driver.dead_letters() == []
    assert not wrong, "\n".join(wrong)
