"""The seconds that a run prints beside its budgets."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from support.suite.budgets import Budgets
from support.suite.processes import uses_spark

BUDGETS = {"tests/unit": 100, "tests/unit/storage": 30}


def report(nodeid: str, duration: float) -> pytest.TestReport:
    return cast(pytest.TestReport, SimpleNamespace(nodeid=nodeid, duration=duration))


class Terminal:
    """Keeps the lines that are written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.config = SimpleNamespace(option=SimpleNamespace(numprocesses=2))

    def section(self, title: str) -> None:
        self.lines.append(title)

    def write_line(self, line: str, **markup: bool) -> None:
        self.lines.append(line)


def printed(*reports: pytest.TestReport) -> list[str]:
    budgets, terminal = Budgets(BUDGETS), Terminal()
    for each in reports:
        budgets.pytest_runtest_logreport(each)
    budgets.pytest_terminal_summary(cast(Any, terminal))
    return terminal.lines


def test_seconds_count_for_the_innermost_folder_with_a_budget() -> None:
    lines = printed(
        report("tests/unit/storage/test_log.py::test_a[x/y::z]", 40),
        report("tests/unit/test_b.py::test_b", 30),
        report("tests/unit/core/test_c.py::TestC::test_c", 31),
        report("tests/new/deep/test_d.py::test_d", 1),
    )
    assert [line.split()[:4] for line in lines[1:4]] == [
        ["tests/unit", "61", "of", "100"],
        ["tests/unit/storage", "40", "of", "30"],
        ["tests/new", "1", "of", "0"],
    ]
    assert lines[4].split()[:4] == ["all", "102", "of", "130"]
    assert [line.split()[1] for line in lines[5:9]] == [
        "tests/unit/storage/test_log.py",
        "tests/unit/core/test_c.py",
        "tests/unit/test_b.py",
        "tests/new/deep/test_d.py",
    ]
    assert lines[9] == "ottla: over budget: tests/new, tests/unit/storage"


def test_a_short_run_prints_nothing() -> None:
    assert printed(report("tests/unit/test_a.py::test_a", 59)) == []


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("def test_a(cluster: Cluster, spark: SparkSession) -> None:", True),
        ("    spark_session: SparkPipelineSession,", True),
        ("from pyspark.sql import SparkSession", False),
        ("    my_spark: SparkSession", False),
    ],
)
def test_files_with_spark_are_told_by_their_text(tmp_path: Path, text: str, used: bool) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(text)
    assert uses_spark(path) is used
