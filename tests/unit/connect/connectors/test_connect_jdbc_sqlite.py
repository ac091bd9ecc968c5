"""The JDBC source and sink on SQLite."""

from __future__ import annotations

import decimal
import sqlite3
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import strategies as st

from ottla.connect.data.building import decimal_schema, struct_schema
from ottla.connect.data.schema import DataError, Moment, Schema, Struct, Type
from ottla.connect.plugins.api import RetriableError
from ottla.connect.testing import read_records, write_records
from support.connect import jdbc
from support.connect.jdbc import records, rows_of, run, sink, source


@pytest.fixture
def new_url(tmp_path: Path) -> Callable[[], str]:
    numbers = count()
    return lambda: f"jdbc:sqlite:{tmp_path}/{next(numbers)}.db"


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    return new_url()


def test_rows_are_inserted_exactly_once(new_url: Callable[[], str]) -> None:
    jdbc.check_kills(new_url, {}, deletes=False, seed=1)


def test_rows_are_replaced_and_deleted_exactly_once(new_url: Callable[[], str]) -> None:
    jdbc.check_kills(new_url, jdbc.UPSERTS, deletes=True, seed=2)


def test_offsets_are_kept_by_connector_and_generation(url: str) -> None:
    jdbc.check_ledger(url)


def test_a_row_that_the_table_refuses_is_refused_alone(url: str) -> None:
    jdbc.check_refused_by_database(url)


def test_tables_follow_the_fields(url: str) -> None:
    jdbc.check_evolution(url)


def test_fields_that_are_null_get_their_defaults(url: str) -> None:
    jdbc.check_defaults(url)


def test_keys_come_of_kafka_the_key_or_the_value(url: str) -> None:
    jdbc.check_key_modes(url)


def test_tables_and_columns_have_any_names(url: str) -> None:
    jdbc.check_names(lambda: url, jdbc.names(max_bytes=200), '"', examples=15)


def test_values_come_back_as_they_were(url: str) -> None:
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    finite = jdbc.typed_values(digits=15, finite=True, text=text)
    jdbc.check_values(url, finite, examples=30)


def test_a_source_goes_on_from_each_offset(url: str) -> None:
    jdbc.check_restarts(url)


def test_a_growing_table_is_read_once(url: str) -> None:
    jdbc.check_growth(url, seed=3)


def test_rows_are_read_by_their_timestamps(url: str) -> None:
    jdbc.check_timestamps(url)


def test_a_query_is_read(url: str) -> None:
    jdbc.check_query(url)


def test_tables_are_chosen(url: str) -> None:
    jdbc.check_tables(url)


def test_a_locked_file_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.connect.connectors.jdbc.sqlite.BUSY_TIMEOUT_SECONDS", 0.01)
    url = f"jdbc:sqlite:{tmp_path}/d.db"
    schema = struct_schema([("id", Schema(Type.INT32))])
    now = 0.0
    writer = sink(url, {"max.retries": "2", "retry.backoff.ms": "1000"})
    writer._clock = lambda: now
    given = records(Struct(schema, {"id": 1}))
    writer.open([jdbc.PLACE])
    other = sqlite3.connect(tmp_path / "d.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RetriableError, match="locked"):
        writer.write(given)
    with pytest.raises(RetriableError, match="left alone"):
        writer.write(given)
    now += 1
    with pytest.raises(RetriableError, match="locked"):
        writer.write(given)
    now += 1
    with pytest.raises(Exception, match=r"max\.retries attempts failed"):
        writer.write(given)
    other.execute("ROLLBACK")
    other.close()
    writer.write(given)
    assert rows_of(url, "t") == [(1,)]


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (Schema(Type.FLOAT64, optional=True), float("nan")),
        (decimal_schema(3), decimal.Decimal("1234567890123.456")),
        (Schema(Type.STRING), "\ud800"),
        (Schema(Type.MAP, keys=Schema(Type.STRING), values=Schema(Type.STRING)), {}),
    ],
)
def test_what_sqlite_would_change_without_a_word_is_refused(url: str, type: Schema, value: object) -> None:
    given = records(Struct(struct_schema([("x", type)]), {"x": value}))
    assert write_records(sink(url), given) == given


def test_a_decimal_of_many_digits_fits_a_text(url: str) -> None:
    run(url, "CREATE TABLE t (x TEXT)")
    value = decimal.Decimal("1234567890123456789012345678.901")
    sink(url).write(records(Struct(struct_schema([("x", decimal_schema(3))]), {"x": value})))
    assert rows_of(url, "t") == [(str(value),)]


def test_timestamps_have_any_of_the_forms_that_sqlite_has(url: str) -> None:
    run(
        url,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME NOT NULL)",
        "INSERT INTO t VALUES (3, 1704067200000), (2, '2023-12-31T23:59:59.5+00:00'), (1, 2460310.5),"
        " (4, '2024-01-02 00:00:00')",
    )
    reader = source(url, {"mode": "timestamp+incrementing", "timestamp.column.name": "at"})
    (partition,) = reader.partitions()
    found = [each.record.value.values for each in read_records(reader, partition)]
    assert [(each["id"], each["at"]) for each in found] == [
        (2, Moment(1704067199500)),
        (1, Moment(1704067200000)),
        (3, Moment(1704067200000)),
        (4, Moment(1704153600000)),
    ]


def test_a_value_that_is_not_of_its_columns_type_is_named(url: str) -> None:
    run(url, "CREATE TABLE t (n SMALLINT)", "INSERT INTO t VALUES ('much')")
    reader = source(url)
    with pytest.raises(DataError, match="column 'n' has the value 'much'"):
        read_records(reader, reader.partitions()[0])
