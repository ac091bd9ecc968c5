"""The JDBC source and sink on a real MariaDB."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import strategies as st

from ottla.connect.data.building import struct_schema
from ottla.connect.data.schema import Moment, Schema, Struct, Type
from ottla.connect.plugins.api import RetriableError
from ottla.connect.testing import write_records
from support.connect import jdbc
from support.connect.jdbc import read_bulk, records, rows_of, run, sink

pytest.importorskip("pymysql")

from support.servers.mariadb import mariadb, mariadb_programs

pytestmark = [pytest.mark.system("mariadbd", "mariadb-server"), pytest.mark.long]

_numbers = count()


@pytest.fixture(scope="module")
def mariadb_port() -> Iterator[int]:
    programs = mariadb_programs()
    if programs is None:
        pytest.skip("MariaDB is not installed: apt-get install mariadb-server")
    with mariadb(programs) as port:
        yield port


@pytest.fixture
def url(mariadb_port: int) -> str:
    """A database of its own for each test."""
    name = f"connect_{next(_numbers)}"
    place = f"jdbc:mariadb://127.0.0.1:{mariadb_port}/"
    run(f"{place}mysql?user=ottla", f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    return f"{place}{name}?user=ottla"


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
    # A table's name is a file's: it has fewer bytes there than characters here.
    names = jdbc.names(max_bytes=40, max_character=0xFFFF)
    jdbc.check_names(lambda: url, names, "`", examples=10)


def test_values_come_back_as_they_were(url: str) -> None:
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    jdbc.check_values(url, jdbc.typed_values(digits=59, finite=True, text=text), examples=20)


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


def test_every_type_of_column_has_a_value(url: str) -> None:
    run(
        url,
        "CREATE TABLE t (a TINYINT UNSIGNED, b INT UNSIGNED, c FLOAT, d DECIMAL(30, 4), e YEAR, f CHAR(3),"
        " g BIT(1), h BIT(12), i ENUM('x', 'y'), j SET('p', 'q'), k TIME(3), l DATETIME(6),"
        " m TIMESTAMP(3) NULL,"
        " n JSON, o BLOB, p DATE, q BIGINT AUTO_INCREMENT PRIMARY KEY, r MEDIUMINT,"
        " s LONGTEXT, u BIGINT UNSIGNED)",
        """INSERT INTO t VALUES (255, 4294967295, 0.1, 1.25, 2024, 'a', b'1', b'101', 'y', 'p,q',
        '12:00:00.5', '2024-01-01 00:00:00.123456', '2024-01-01 00:00:00', '{"x": 1}', x'00ff',
        '0001-01-01', NULL, -8388608, 'text', 9223372036854775807)""",
    )
    (row,) = read_bulk(url, "t")
    values = dict(row.values)
    assert values.pop("c") == pytest.approx(0.1)
    assert values == {
        "a": 255,
        "b": 4294967295,
        "d": decimal.Decimal("1.2500"),
        "e": 2024,
        "f": "a",
        "g": b"\1",
        "h": b"\0\5",
        "i": "y",
        "j": "p,q",
        "k": Moment(43_200_500),
        "l": Moment(1_704_067_200_123),
        "m": Moment(1_704_067_200_000),
        "n": '{"x": 1}',
        "o": b"\0\xff",
        "p": Moment(-62_135_596_800_000),
        "q": 1,
        "r": -8388608,
        "s": "text",
        "u": 9223372036854775807,
    }


@pytest.mark.parametrize("modes", ["", "NO_BACKSLASH_ESCAPES"])
def test_texts_with_quotes_and_backslashes_are_only_texts(url: str, modes: str) -> None:
    words = [*jdbc.WORDS, "\\'", "'; DROP TABLE t; -- ", '\\"', "\0", "%(x)s"]
    schema = struct_schema([("word", Schema(Type.STRING)), ("data", Schema(Type.BYTES))])
    run(url, f"SET GLOBAL sql_mode = '{modes}'")
    try:
        given = records(*(Struct(schema, {"word": each, "data": each.encode()}) for each in words))
        assert write_records(sink(url), given) == []
    finally:
        run(url, "SET GLOBAL sql_mode = ''")
    assert rows_of(url, "t") == [(each, each.encode()) for each in words]


def test_a_text_that_is_too_long_is_refused_alone(url: str) -> None:
    run(url, "CREATE TABLE t (word VARCHAR(3))")
    schema = struct_schema([("word", Schema(Type.STRING))])
    given = records(*(Struct(schema, {"word": each}) for each in ("abc", "abcd", "xyz")))
    assert [each.offset for each in write_records(sink(url), given)] == [1]
    assert rows_of(url, "t") == [("abc",), ("xyz",)]


def test_a_server_that_closed_the_connection_is_tried_again(url: str) -> None:
    schema = struct_schema([("id", Schema(Type.INT32))])
    writer = sink(url, {"retry.backoff.ms": "0"})
    writer.open([jdbc.PLACE])
    assert writer._database is not None
    ((connection,),) = writer._database.select("SELECT connection_id()")
    run(url, f"KILL {connection}")
    given = records(Struct(schema, {"id": 1}))
    with pytest.raises(RetriableError, match="MariaDB at"):
        writer.write(given)
    writer.write(given)
    assert rows_of(url, "t") == [(1,)]


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(RetriableError, match="MariaDB at") as failure:
        sink("jdbc:mysql://127.0.0.1:1/nothing?user=u&password=secret").open([jdbc.PLACE])
    assert "secret" not in str(failure.value)
