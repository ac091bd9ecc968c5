"""A script's sources while a test runs: statements are added, rows go in, what was written is read.

Queries run on Spark as one application, which a statement can't be added to. So it starts with the first row
that is asked for, over all statements so far; a statement that comes later has it start anew, and all rows go
in again.

A table's key is written once a batch. So that each row counts, as in ksqlDB, each is a batch of its own where
there are tables or joins; without them the order of rows alone counts, and all are one batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.functions.registry import Functions
from ottla.sql.language.statements import Emit, Statement
from ottla.sql.lowering.evaluator import constant_values
from ottla.sql.plan.statement_plan import PutQuery, WriteRow, applied

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.sql.testing import ScriptDriver

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Inserted:
    """A row that a test gives."""

    source: str
    row: Mapping[str, Any]
    timestamp_ms: int


class Stage:
    """What a test works on. Use it as a context manager.

    spark: a session to use, else the process's own. registry: settings of its client, for its formats.
    """

    def __init__(
        self,
        functions: Functions | None = None,
        spark: SparkSession | None = None,
        registry: Mapping[str, str] | None = None,
    ) -> None:
        self._registry = registry
        self.functions = functions or Functions()
        self.catalog = Catalog()
        self._spark = spark
        self._statements: list[str] = []
        self._inserted: list[Inserted] = []
        self._waiting: list[Inserted] = []
        self._driver: ScriptDriver | None = None
        self._rows: dict[str, list[Row]] = {}
        self._taken: dict[str, int] = {}
        self._queries: list[PutQuery] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_driver()

    def carry_out(self, statement: Statement, text: str) -> None:
        """A statement of the language; INSERT INTO … VALUES is a row. Raises SqlError."""
        plan = Binder(self.catalog, self.functions).bind(statement)
        if isinstance(plan, WriteRow):
            row = constant_values(plan.values, self.functions)
            timestamp = row.pop("ROWTIME", None)
            self.insert(plan.target.name, row, 0 if timestamp is None else timestamp)
            return
        self.catalog = applied(plan, self.catalog)
        self._statements.append(text)
        if isinstance(plan, PutQuery):
            self._queries.append(plan)
        self._end_driver()

    def insert(self, name: str, row: Mapping[str, Any], timestamp_ms: int) -> None:
        """A row of a source; one without value columns deletes its key, if it is a table's."""
        given = Inserted(name, row, timestamp_ms)
        self._inserted.append(given)
        self._waiting.append(given)

    def next_row(self, name: str, *, is_last: bool) -> Row | None:
        """The next row of a source, None if there is none. is_last: no row is inserted any more."""
        self._run()
        taken = self._taken.get(name, 0)
        has_more = taken < len(self._rows_of(name))
        if not has_more and is_last and self._driver is not None and self._waits_for_the_end:
            self._driver.close_windows()
        rows = self._rows_of(name)
        if taken >= len(rows):
            return None
        self._taken[name] = taken + 1
        return rows[taken]

    def dead_letters(self) -> list[str]:
        """Why rows could not be read."""
        return [] if self._driver is None else self._driver.dead_letters()

    @property
    def _waits_for_the_end(self) -> bool:
        return any(each.query.emit is Emit.FINAL for each in self._queries)

    @property
    def _one_by_one(self) -> bool:
        return any(
            each.target.is_table or each.query.joins or any(of.source.is_table for of in each.query.sources)
            for each in self._queries
        )

    def _run(self) -> None:
        """Have all rows that wait go through the queries."""
        if self._driver is None and self._queries:
            from ottla.sql.testing import ScriptDriver

            script = "\n".join(f"{text};" for text in self._statements)
            self._driver = ScriptDriver(
                script, functions=self.functions, spark=self._spark, registry=self._registry
            )
            self._rows.clear()
            self._waiting = list(self._inserted)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._keep(each)
            if self._driver is not None and self._is_read(each.source):
                self._driver.insert(each.source, each.row, timestamp_ms=each.timestamp_ms)
                if self._one_by_one:
                    self._driver.flush()

    def _is_read(self, name: str) -> bool:
        topic = self.catalog.sources[name].topic
        return any(of.source.topic == topic for each in self._queries for of in each.query.sources)

    def _keep(self, inserted: Inserted) -> None:
        """Rows that are inserted are rows of every source over that topic."""
        topic = self.catalog.sources[inserted.source].topic
        for source in self.catalog.sources.values():
            if source.topic == topic:
                self._rows.setdefault(source.name, []).append(_row_of(source, inserted))

    def _rows_of(self, name: str) -> list[Row]:
        rows = self._rows.setdefault(name, [])
        if self._driver is not None and any(each.target.name == name for each in self._queries):
            rows += self._driver.rows(name)
        return rows

    def _end_driver(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.__exit__(None, None, None)


def _row_of(source: Source, inserted: Inserted) -> Row:
    names = [each.name for each in source.columns]
    deletes = source.is_table and not any(each.name in inserted.row for each in source.values)
    if deletes:
        names = [each.name for each in source.keys]
    return {**{name: inserted.row.get(name) for name in names}, "ROWTIME": inserted.timestamp_ms}
