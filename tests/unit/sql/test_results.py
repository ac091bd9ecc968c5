"""Statements and the rows that they write: ksqlDB's documented behaviour, by the plans alone, without Spark.

tests/pipeline/test_sql_results.py holds the same rows on Spark.
"""

from __future__ import annotations

import pytest

from support.sql.plan_runner import ScriptRun
from support.sql.results import Block, Case, blocks, found_rows, same_rows

BLOCKS = blocks()
CASES = [(block, case) for block in BLOCKS for case in block.cases]


@pytest.mark.parametrize(("block", "case"), CASES, ids=[case.statement for _, case in CASES])
def test_statement_writes_its_rows(block: Block, case: Case) -> None:
    run = ScriptRun(block.script + case.as_statement("OUT"))
    for each in block.rows:
        run.insert(each.source, each.row(run.catalog), each.at_ms)
    run.close()

    rows = run.table("OUT") if case.is_table else run.rows["OUT"]
    source = run.catalog.sources["OUT"]
    assert same_rows(case, found_rows(rows, source)), found_rows(rows, source)


def test_there_are_cases_of_every_kind() -> None:
    assert len(CASES) >= 150
    assert {block.title for block in BLOCKS} >= {
        "one stream",
        "two streams",
        "a stream and a table",
        "tables",
    }
