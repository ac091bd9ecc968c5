"""The JDBC source and sink on a real PostgreSQL."""

from __future__ import annotations

import decimal

import psycopg
import pytest
from hypothesis import strategies as st

from ottla.connect.connectors.jdbc.moments import INFINITY_MS, MINUS_INFINITY_MS
from ottla.connect.data.building import TIMESTAMP_SCHEMA, struct_schema
from ottla.connect.data.schema import Moment, Schema, Struct, Type
from ottla.connect.plugins.api import RetriableError
from ottla.connect.testing import read_records, write_records
from support.connect import jdbc
from support.connect.jdbc import read_bulk, records, rows_of, run, sink, source

pytestmark = pytest.mark.system("psql", "postgresql")


@pytest.fixture
def url(postgresql_url: str) -> str:
    return jdbc_url(postgresql_url)


def jdbc_url(url: str) -> str:
    place = url.removeprefix("postgresql://ottla@")
    return f"jdbc:postgresql://{place}?user=ottla"


def emptied(url: str) -> str:
    """The same database without the tables that a test has."""
    run(url, "DROP TABLE IF EXISTS one, two, ottla_connect_offsets")
    return url


def test_rows_are_inserted_exactly_once(url: str) -> None:
    jdbc.check_kills(lambda: emptied(url), {}, deletes=False, seed=1)


def test_rows_are_replaced_and_deleted_exactly_once(url: str) -> None:
    jdbc.check_kills(lambda: emptied(url), jdbc.UPSERTS, deletes=True, seed=2)


def test_offsets_are_kept_by_connector_and_generation(url: str) -> None:
    jdbc.check_ledger(url)


def test_a_row_that_the_table_refuses_is_refused_alone(url: str) -> None:
    jdbc.check_refused_by_database(url)


def test_tables_follow_the_fields(url: str) -> None:
    jdbc.check_evolution(url)


def test_keys_come_of_kafka_the_key_or_the_value(url: str) -> None:
    jdbc.check_key_modes(url)


def test_tables_and_columns_have_any_names(url: str) -> None:
    jdbc.check_names(lambda: url, jdbc.names(max_bytes=63), '"', examples=10)


def test_values_come_back_as_they_were(url: str) -> None:
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
    jdbc.check_values(url, jdbc.typed_values(digits=60, finite=False, text=text), examples=20)


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


def test_names_without_quotes_are_in_lower_case(url: str) -> None:
    schema = struct_schema([("Id", Schema(Type.INT32)), ("Select", Schema(Type.STRING))])
    given = records(Struct(schema, {"Id": 1, "Select": "x"}))
    sink(url, {"quote.sql.identifiers": "never", "table.name.format": "Public.Order"}).write(given)
    assert rows_of(url, "order") == [(1, "x")]
    assert dict(read_bulk(url, "order")[0].values) == {"id": 1, "select": "x"}


def test_every_type_of_column_has_a_value(url: str) -> None:
    run(
        url,
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN cents AS numeric(9, 2)",
        "CREATE TABLE t (a smallint, b oid, c real, d numeric, e cents, f char(3), g uuid, h jsonb, i mood,"
        " j int[], k interval, l inet, m int4range, n bytea, o time, p timetz, q timestamptz, r date,"
        " s bit(1), t money, u xml, v bigserial, w text GENERATED ALWAYS AS ('x') STORED)",
        """INSERT INTO t VALUES (-7, 4294967295, 0.1, 1.250, 3.5, 'a', '00000000-0000-0000-0000-000000000001',
        '{"x": [1]}', 'happy', '{1,NULL}', '1 day 02:00', '::1/64', '[1,5)', '\\x00ff', '24:00', '12:00+02',
        '2024-01-01 12:00+02', '0044-03-15 BC', B'1', 1.5, '<a/>')""",
    )
    (row,) = read_bulk(url, "t")
    values = dict(row.values)
    assert values.pop("c") == pytest.approx(0.1)
    assert values == {
        "a": -7,
        "b": 4294967295,
        "d": decimal.Decimal("1.250"),
        "e": decimal.Decimal("3.50"),
        "f": "a  ",
        "g": "00000000-0000-0000-0000-000000000001",
        "h": '{"x": [1]}',
        "i": "happy",
        "j": "{1,NULL}",
        "k": "P1DT2H",
        "l": "::1/64",
        "m": "[1,5)",
        "n": b"\0\xff",
        "o": Moment(86_400_000),
        "p": Moment(10 * 3_600_000),
        "q": Moment(1_704_103_200_000),
        "r": Moment(-63_517_824_000_000),
        "s": True,
        "t": "$1.50",
        "u": "<a/>",
        "v": 1,
        "w": "x",
    }


def test_texts_are_written_to_columns_of_any_type(url: str) -> None:
    run(url, "CREATE TABLE t (g uuid, h jsonb, l inet, j int[])")
    names = ("g", "h", "l")
    schema = struct_schema(
        [
            *((each, Schema(Type.STRING)) for each in names),
            ("j", Schema(Type.ARRAY, values=Schema(Type.INT32))),
        ]
    )
    values = {"g": "00000000-0000-0000-0000-000000000001", "h": '{"x": 1}', "l": "::1", "j": [1, None, 3]}
    good, bad = Struct(schema, values), Struct(schema, {**values, "g": "none"})
    assert [each.offset for each in write_records(sink(url), records(good, bad, good))] == [1]
    assert rows_of(url, "t") == [(values["g"], values["h"], values["l"], "{1,NULL,3}")] * 2


def test_infinity_comes_and_goes_as_the_numbers_of_the_jdbc_driver(url: str) -> None:
    moments = [Moment(INFINITY_MS), Moment(MINUS_INFINITY_MS), Moment(253_402_300_800_000)]
    schema = struct_schema([("at", TIMESTAMP_SCHEMA)])
    sink(url).write(records(*(Struct(schema, {"at": each}) for each in moments)))
    assert [row[0] for row in rows_of(url, "t")] == ["infinity", "-infinity", "10000-01-01 00:00:00"]
    assert [each.values["at"] for each in read_bulk(url, "t")] == moments


def test_timestamps_are_in_the_zone_of_the_setting_unless_they_have_one(url: str) -> None:
    run(url, "CREATE TABLE t (at timestamp(3) NOT NULL, zoned timestamptz(3))")
    schema = struct_schema([("at", TIMESTAMP_SCHEMA), ("zoned", TIMESTAMP_SCHEMA)])
    moment = Moment(1_720_000_000_123)
    zone = {"db.timezone": "Europe/Berlin"}
    sink(url, zone).write(records(Struct(schema, {"at": moment, "zoned": moment})))
    assert rows_of(url, "t") == [("2024-07-03 11:46:40.123", "2024-07-03 09:46:40.123+00")]
    assert dict(read_bulk(url, "t", zone)[0].values) == {"at": moment, "zoned": moment}
    reader = source(url, {**zone, "mode": "timestamp", "timestamp.column.name": "at"})
    (partition,) = reader.partitions()
    (found,) = read_records(reader, partition)
    assert found.source_offset["timestamp"] == moment.epoch_ms
    assert read_records(reader, partition, found.source_offset) == []
    reader.close()


@pytest.mark.parametrize(
    ("mapping", "types"),
    [
        ("none", ["bytes", "bytes", "bytes", "bytes", "bytes"]),
        ("precision_only", ["int8", "int64", "bytes", "bytes", "bytes"]),
        ("best_fit", ["int8", "int64", "float64", "bytes", "bytes"]),
        ("best_fit_eager_double", ["int8", "int64", "float64", "float64", "float64"]),
    ],
)
def test_numerics_become_what_the_mapping_says(url: str, mapping: str, types: list[str]) -> None:
    run(
        url,
        "CREATE TABLE t (a numeric(2), b numeric(18), c numeric(18, 4), d numeric(30, 4), e numeric)",
        "INSERT INTO t VALUES (7, 7, 7.5, 7.5, 7.5)",
    )
    (row,) = read_bulk(url, "t", {"numeric.mapping": mapping})
    assert [each.schema.type.value for each in row.schema.fields] == types
    assert list(row.values.values()) == [7, 7, 7.5, 7.5, 7.5]


def test_a_server_that_closed_the_connection_is_tried_again(url: str, postgresql_url: str) -> None:
    schema = struct_schema([("id", Schema(Type.INT32))])
    writer = sink(url, {"retry.backoff.ms": "0"})
    writer.open([jdbc.PLACE])
    with psycopg.connect(postgresql_url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'ottla' AND datname = current_database()"
        )
    given = records(Struct(schema, {"id": 1}))
    with pytest.raises(RetriableError, match="PostgreSQL"):
        writer.write(given)
    writer.write(given)
    assert rows_of(url, "t") == [(1,)]


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(RetriableError, match="PostgreSQL at") as failure:
        sink("jdbc:postgresql://127.0.0.1:1/nothing?user=u&password=secret").open([jdbc.PLACE])
    assert "secret" not in str(failure.value)
