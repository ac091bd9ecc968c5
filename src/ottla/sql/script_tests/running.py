"""Runs one test of a script: its statements, its rows, and what it says must come of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.language.statements import InsertValues, SetProperty, UnsetProperty
from ottla.sql.script_tests.files import AssertRow, AssertSource, Do, ScriptTest, Step, steps_of
from ottla.sql.script_tests.rows import Mismatch, check_row, expected_row
from ottla.sql.script_tests.sources import check_source
from ottla.sql.script_tests.stage import Stage
from ottla.sql.terminal.problems import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def problem_of(
    test: ScriptTest,
    functions: Functions | None = None,
    spark: SparkSession | None = None,
    registry: Mapping[str, str] | None = None,
) -> str | None:
    """Why a test has failed, in lines for a person; None if it has passed. registry: as of `Stage`.

    A row that an assertion names must be the next one of its source; rows that none names are not looked at.
    """
    try:
        with Stage(functions, spark, registry) as stage:
            _run(list(steps_of(test)), stage)
    except SqlError as error:
        if not test.fails:
            return shown(error, test.text)
        if test.message is not None and test.message not in error.message:
            return f"the error is another one: {error.message}\n  expected: {test.message}"
        return None
    except _Unequal as unequal:
        # In ksqlDB an assertion that does not hold is an error that may be expected, too.
        if test.fails and (test.message is None or test.message in str(unequal.mismatch)):
            return None
        return f"line {unequal.line}: {unequal.mismatch}"
    return "no statement has failed, and one must" if test.fails else None


class _Unequal(Exception):
    def __init__(self, mismatch: Mismatch, line: int) -> None:
        super().__init__()
        self.mismatch = mismatch
        self.line = line


def _run(steps: Sequence[Step], stage: Stage) -> None:
    last_row = max((n for n, each in enumerate(steps) if _is_row(each)), default=-1)
    for number, step in enumerate(steps):
        try:
            match step:
                case Do(statement=SetProperty() | UnsetProperty()):
                    pass  # properties of a server's queries: where they start, how often they commit
                case Do():
                    stage.carry_out(step.statement, step.part.text)
                case AssertSource():
                    check_source(step.source, stage.catalog)
                case AssertRow():
                    _check(step, stage, is_last=number > last_row)
        except Mismatch as mismatch:
            raise _Unequal(mismatch, step.part.at.line) from None


def _check(step: AssertRow, stage: Stage, *, is_last: bool) -> None:
    expected = expected_row(step.row, stage.catalog, stage.functions)
    actual = stage.next_row(step.row.target, is_last=is_last)
    try:
        check_row(expected, actual, stage.catalog.sources[step.row.target], deletes=step.deletes)
    except Mismatch as mismatch:
        if mismatch.actual is None and (unread := stage.dead_letters()):
            mismatch.what += f"; a row could not be read: {unread[-1]:.300}"
        raise


def _is_row(step: Step) -> bool:
    return isinstance(step, Do) and isinstance(step.statement, InsertValues)
