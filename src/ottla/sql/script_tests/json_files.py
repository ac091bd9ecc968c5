"""Rows in JSON, as ksqlDB's ksql-test-runner reads them: what goes into topics, and what must come out.

    {"inputs": [{"topic": "orders", "timestamp": 0, "key": 1, "value": {"UNITS": 10}}]}
    {"outputs": [{"topic": "SUMS", "timestamp": 0, "key": 1, "value": {"SUM": 10},
                  "window": {"start": 0, "end": 60000, "type": "time"}}]}

A key or value of several columns is an object, or a text for DELIMITED; that of one column is its value.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.config.errors import UserError
from ottla.sql.catalog.sources import Catalog, Column, Source
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.language.statements import SetProperty, UnsetProperty
from ottla.sql.rows.json_values import from_json, parsed
from ottla.sql.script_tests.files import Do, ScriptTest, steps_of
from ottla.sql.script_tests.rows import Mismatch, check_row
from ottla.sql.script_tests.stage import Stage
from ottla.sql.terminal.problems import shown
from ottla.sql.types.bad_value import BadValue
from ottla.sql.types.sql_types import Base

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_RECORDS: Final = 100_000


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """One record of a file. window: begin and end in milliseconds; end is None where the file has none."""

    topic: str
    key: Any
    value: Any
    timestamp_ms: int | None
    window: tuple[int, int | None] | None


def records_of(text: bytes, name: str) -> list[JsonRecord]:
    """The records of a file; name: `inputs` or `outputs`. Raises UserError."""
    try:
        given = parsed(text, True)
    except BadValue as problem:
        raise UserError(f"it is no JSON: {problem}") from None
    found = given.get(name) if isinstance(given, Mapping) else None
    if not isinstance(found, list) or len(found) > MAX_RECORDS:
        raise UserError(f'it has no "{name}", a list of at most {MAX_RECORDS} records')
    return [_record(each, number) for number, each in enumerate(found, 1)]


def _record(given: Any, number: int) -> JsonRecord:
    if not isinstance(given, Mapping) or not isinstance(given.get("topic"), str):
        raise UserError(f"record {number} has no topic")
    timestamp = given.get("timestamp")
    if timestamp is not None and not _is_time(timestamp):
        raise UserError(f"record {number}: the timestamp is no whole number of milliseconds")
    window = given.get("window")
    bounds = None
    if window is not None:
        begin = window.get("start") if isinstance(window, Mapping) else None
        end = window.get("end") if isinstance(window, Mapping) else None
        if begin is None or not _is_time(begin) or not (end is None or _is_time(end)):
            raise UserError(f"record {number}: the window has no start in milliseconds")
        bounds = (int(begin), None if end is None else int(end))
    return JsonRecord(given["topic"], given.get("key"), given.get("value"), timestamp, bounds)


def _is_time(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def json_problem_of(
    statements: str,
    inputs: Sequence[JsonRecord],
    outputs: Sequence[JsonRecord],
    functions: Functions | None = None,
    spark: SparkSession | None = None,
    registry: Mapping[str, str] | None = None,
) -> str | None:
    """Why the outputs are not those of the statements on the inputs, in lines for a person; None if they are.

    registry: as of `Stage`.

    Each topic of the outputs must have these records, in their order, and no others.
    """
    test = ScriptTest("statements", statements, 1, 0, len(statements))
    try:
        with Stage(functions, spark, registry) as stage:
            for step in steps_of(test):
                match step:
                    case Do(statement=SetProperty() | UnsetProperty()):
                        pass
                    case Do():
                        stage.carry_out(step.statement, step.part.text)
                    case _:
                        raise SqlError("assertions stand in files of tests alone", step.part.at)
            for number, each in enumerate(inputs, 1):
                _give(each, f"input {number}", stage)
            _compare(outputs, stage)
    except SqlError as error:
        return shown(error, statements)
    except Mismatch as mismatch:
        return str(mismatch)
    return None


def _give(record: JsonRecord, what: str, stage: Stage) -> None:
    source = _source(record.topic, what, stage.catalog)
    if source.windowed is not None:
        raise SqlError(f"{what}: rows of {source.name}, whose keys have windows, can't be given")
    row = {**_columns(source.keys, record.key, source.key_format, False, source, what)}
    if record.value is not None:
        row |= _values(source, record.value, what)
    elif not source.is_table:
        raise SqlError(f"{what}: a record without a value is a row of no stream")
    stage.insert(source.name, row, record.timestamp_ms or 0)


def _compare(outputs: Sequence[JsonRecord], stage: Stage) -> None:
    by_topic: dict[str, list[tuple[int, JsonRecord]]] = {}
    for number, each in enumerate(outputs, 1):
        by_topic.setdefault(each.topic, []).append((number, each))
    for topic, records in by_topic.items():
        source = _source(topic, f"output {records[0][0]}", stage.catalog)
        for number, each in records:
            expected = _expected(source, each, f"output {number}")
            actual = stage.next_row(source.name, is_last=True)
            try:
                check_row(expected, actual, source, deletes=each.value is None)
            except Mismatch as mismatch:
                mismatch.what = f"output {number}: {mismatch.what}"
                raise
        if (more := stage.next_row(source.name, is_last=True)) is not None:
            what = f"the topic {topic} has more than {len(records)} records"
            raise Mismatch(what, tuple(more), None, more)


def _expected(source: Source, record: JsonRecord, what: str) -> dict[str, Any]:
    row = {**_columns(source.keys, record.key, source.key_format, False, source, what)}
    if record.value is not None:
        row |= _values(source, record.value, what)
    if record.timestamp_ms is not None:
        row["ROWTIME"] = record.timestamp_ms
    if record.window is not None:
        row["WINDOWSTART"] = record.window[0]
        if record.window[1] is not None:
            row["WINDOWEND"] = record.window[1]
    return row


def _source(topic: str, what: str, catalog: Catalog) -> Source:
    """The source over a topic: the one that a query writes, if there are several."""
    found = [each for each in catalog.sources.values() if each.topic == topic]
    if not found:
        raise SqlError(f"{what}: there is no stream or table over the topic {topic}")
    return next((each for each in found if each.written_by is not None), found[0])


def _values(source: Source, value: Any, what: str) -> dict[str, Any]:
    whole = len(source.values) == 1 and not source.wrap_single_value
    return _columns(source.values, value, source.value_format, not whole, source, what)


def _columns(
    columns: Sequence[Column], value: Any, form: str, wraps: bool, source: Source, what: str
) -> dict[str, Any]:
    """The columns of a key or a value. wraps: one column alone is a field of an object, too."""
    if not columns:
        return {}
    try:
        if form == "DELIMITED" and value is not None:
            cells = next(csv.reader([str(value)], delimiter=source.value_delimiter))
            if len(cells) != len(columns):
                raise BadValue(f"{value!r:.80} has {len(cells)} columns, not {len(columns)}")
            return {each.name: _cell(each, cell) for each, cell in zip(columns, cells, strict=True)}
        if len(columns) == 1 and (not wraps or form == "KAFKA"):
            return {columns[0].name: from_json(columns[0].type)(value)}
        if value is None:
            return {each.name: None for each in columns}
        if not isinstance(value, Mapping):
            raise BadValue(f"{value!r:.80} is no object of the columns")
        given = {str(name).upper(): each for name, each in value.items()} | dict(value)
        names = {each.name for each in columns}
        if unknown := [name for name in value if name not in names and name.upper() not in names]:
            raise BadValue(f"there is no column {unknown[0]}")
        return {each.name: from_json(each.type)(given.get(each.name)) for each in columns}
    except BadValue as problem:
        raise SqlError(f"{what}: {source.name}: {problem}") from None


def _cell(column: Column, text: str) -> Any:
    if text == "" or column.type.base in (Base.STRING, Base.BYTES):
        return from_json(column.type)(text or None)
    return from_json(column.type)(parsed(text.encode(), True))
