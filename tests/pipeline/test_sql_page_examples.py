"""docs/sql.md: its script in Python and its file of tests, as readers copy them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.sql.script_tests.files import script_tests_of
from ottla.sql.script_tests.running import problem_of
from support.docs.blocks import fenced, section


def test_the_script_prints_its_table(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = fenced(section("sql.md", "A script, tried without a broker"), "python")
    call = "ScriptDriver(SCRIPT)"
    assert code.count(call) == 1
    names = {"spark": spark}  # the session of all tests, in place of one of its own
    exec(code.replace(call, "ScriptDriver(SCRIPT, spark=spark)"), names)
    (row,) = ast.literal_eval(capsys.readouterr().out)
    assert (row["PAGE"], row["N"], row["MEAN"]) == ("/", 1, 250.0)
    assert (row["WINDOWSTART"], row["WINDOWEND"]) == (0, 60_000)


def test_the_tests_of_statements_pass(spark: SparkSession, tmp_path: Path) -> None:
    (text,) = fenced(section("sql.md", "Tests of statements"), "sql")
    found = script_tests_of(text)
    assert [each.name for each in found] == ["orders are counted", "a column that is not there"]
    for each in found:
        assert problem_of(each, spark=spark) is None
    (wrong,) = script_tests_of(text.replace("VALUES (10, 'pen', 1)", "VALUES (10, 'pen', 2)"))[:1]
    assert problem_of(wrong, spark=spark) is not None
