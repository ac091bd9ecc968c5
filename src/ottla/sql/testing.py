"""Statements on given rows, without a broker: what a script's streams and tables hold then.

    with ScriptDriver(script) as driver:
        driver.insert("PAGEVIEWS", {"ID": 1, "PAGE": "x"}, timestamp_ms=0)
        assert driver.rows("COUNTS")[-1]["N"] == 1

The script's queries run on Spark as one application of Streams in its test kit, formats included; those of a
Schema Registry need one (registry: settings of its client, as schema.registry.url). INSERT INTO … VALUES of
the script is written before the first row is read. Rows are dictionaries of the columns by name, and ROWTIME;
of windowed tables WINDOWSTART and WINDOWEND too; a deleted row has its key alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.functions import java_times
from ottla.sql.functions.registry import BUILT_IN, Functions
from ottla.sql.language.errors import START, SqlError
from ottla.sql.language.parser import parse_script
from ottla.sql.lowering.evaluator import constant_values
from ottla.sql.lowering.formats import topic_formats
from ottla.sql.lowering.query import Lowering
from ottla.sql.plan.statement_plan import PutQuery, StatementPlan, WriteRow, applied
from ottla.streams.dsl import Streams
from ottla.streams.testing import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.streams.kit.results import OutputRecord
    from ottla.streams.kit.testing import OutputTopic


class ScriptDriver:
    """Runs the queries of a script. Raises SqlError for a script that can't be."""

    def __init__(
        self,
        script: str,
        *,
        functions: Functions | None = None,
        spark: SparkSession | None = None,
        registry: Mapping[str, str] | None = None,
    ) -> None:
        self._functions = functions or Functions()
        self._registry = registry
        self.catalog = Catalog()
        self.plans: list[StatementPlan] = []
        user_functions = {name: each for name, each in self._functions.named.items() if name not in BUILT_IN}
        app = Streams("sql-script")
        lowering = Lowering(app, user_functions, registry=registry)
        written: list[WriteRow] = []
        for parsed in parse_script(script):
            plan = Binder(self.catalog, self._functions).bind(parsed.statement)
            self.catalog = applied(plan, self.catalog)
            self.plans.append(plan)
            if isinstance(plan, PutQuery):
                lowering.put(plan)
            elif isinstance(plan, WriteRow):
                written.append(plan)
        self._driver = TopologyTestDriver(app, spark, dead_letters=True)
        self._outputs: dict[str, OutputTopic] = {}
        for each in written:
            self._write(each)

    def __enter__(self) -> ScriptDriver:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._driver.close()

    def insert(
        self,
        name: str,
        row: Mapping[str, Any],
        *,
        timestamp_ms: int = 0,
        headers: Mapping[str, bytes | str] | None = None,
    ) -> None:
        """A row of a stream or table; a table's row of its key alone deletes that row."""
        source = self._source(name)
        formats = topic_formats(source, reads=False, registry=self._registry)
        given = {key: value for key, value in row.items() if key != "ROWTIME"}
        unknown = set(given) - {each.name for each in source.columns}
        if unknown:
            raise SqlError(f"{name} has no column {sorted(unknown)[0]}", None)
        keys = {each.name: given.get(each.name) for each in source.keys}
        values = {each.name: given.get(each.name) for each in source.values}
        key: Any = keys if formats.key_struct else next(iter(keys.values()), None)
        value: Any = values if formats.value_struct else next(iter(values.values()), None)
        if source.is_table and not any(each.name in given for each in source.values):
            value = None
        topic = self._driver.input(source.topic, key=formats.key, value=formats.value)
        topic.pipe(value, key, timestamp=timestamp_ms, headers=headers or {})

    def flush(self) -> None:
        """Run the rows that were inserted since the last run as one batch."""
        self._driver.flush()

    def close_windows(self) -> None:
        """Move event time so far that every window is closed."""
        self._driver.close_windows()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All rows that were written to a stream or table since this was asked last, in their order."""
        source = self._source(name)
        formats = topic_formats(source, reads=False, registry=self._registry)
        topic = self._outputs.get(name)
        if topic is None:
            topic = self._driver.output(source.topic, key=formats.key, value=formats.value)
            self._outputs[name] = topic
        return [_row(source, formats.key_struct, formats.value_struct, each) for each in topic.read_all()]

    def table(self, name: str) -> list[dict[str, Any]]:
        """A table's rows after all that was written since `rows` or this was asked last."""
        last: dict[Any, dict[str, Any]] = {}
        source = self._source(name)
        keys = [*(each.name for each in source.keys), "WINDOWSTART", "WINDOWEND"]
        for row in self.rows(name):
            key = tuple(row.get(each) for each in keys)
            last.pop(key, None)
            if any(each.name in row for each in source.values):
                last[key] = row
        return list(last.values())

    def dead_letters(self) -> list[str]:
        """Why records could not be read, each in a line."""
        return [each.message for each in self._driver.dead_letters()]

    def _source(self, name: str) -> Source:
        return self.catalog.source(name, START)

    def _write(self, plan: WriteRow) -> None:
        row = constant_values(plan.values, self._functions)
        timestamp = row.pop("ROWTIME", None)
        self.insert(plan.target.name, row, timestamp_ms=0 if timestamp is None else timestamp)


def _row(source: Source, key_struct: bool, value_struct: bool, record: OutputRecord) -> dict[str, Any]:
    row: dict[str, Any] = {}
    key = record.key
    if source.windowed is not None:
        row["WINDOWSTART"], row["WINDOWEND"] = _milliseconds(key[1]), _milliseconds(key[2])
        key = key[0]
    for number, column in enumerate(source.keys):
        row[column.name] = key[number] if key_struct and key is not None else key
    if record.value is not None:
        for column in source.values:
            row[column.name] = record.value[column.name] if value_struct else record.value
    row["ROWTIME"] = _milliseconds(record.timestamp)
    return row


def _milliseconds(time: datetime) -> int:
    return java_times.to_timestamp(time.replace(tzinfo=UTC))
