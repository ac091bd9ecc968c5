"""The parts of the JDBC connectors that ask no database: URLs, names, moments, offsets, groups, settings."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.config.errors import ConfigError
from ottla.connect.connectors.jdbc import polling
from ottla.connect.connectors.jdbc.address import BadUrl, System, read_address
from ottla.connect.connectors.jdbc.criteria import Place
from ottla.connect.connectors.jdbc.moments import (
    UTC,
    date_text,
    read_date_ms,
    read_time_ms,
    read_timestamp_ns,
    time_text,
    timestamp_text,
)
from ottla.connect.connectors.jdbc.names import TableId, quoted, split_name
from ottla.connect.connectors.jdbc.postgres import PostgresDatabase
from ottla.connect.connectors.jdbc.sink import JdbcSink
from ottla.connect.connectors.jdbc.source import JdbcSource
from ottla.connect.connectors.jdbc.tables import Selection, mapped
from ottla.connect.data.schema import DataError
from ottla.connect.testing import settings_of

DAY_MS = 86_400_000
PAGE = Path(__file__).parents[4] / "docs" / "connect.md"


@pytest.mark.parametrize(
    ("url", "system", "hosts", "database", "user"),
    [
        ("jdbc:postgresql://h:5433/d?user=u&password=p", System.POSTGRESQL, ("h:5433",), "d", "u"),
        ("jdbc:postgresql:d", System.POSTGRESQL, ("localhost",), "d", None),
        ("jdbc:postgresql://a,b:1/d%20x", System.POSTGRESQL, ("a", "b:1"), "d x", None),
        ("jdbc:mariadb://[::1]:3307/", System.MARIADB, ("[::1]:3307",), "", None),
        ("jdbc:mysql://h/d?useSSL=false", System.MARIADB, ("h",), "d", None),
        ("jdbc:sqlite:/a/b c.db", System.SQLITE, (), "/a/b c.db", None),
        ("jdbc:sqlite:file:a%20b.db", System.SQLITE, (), "a b.db", None),
    ],
)
def test_urls_name_databases(
    url: str, system: System, hosts: tuple[str, ...], database: str, user: str | None
) -> None:
    found = read_address(url)
    assert (found.system, found.hosts, found.database, found.user) == (system, hosts, database, user)
    assert read_address(url, "other").user == (None if system is System.SQLITE else "other")
    assert "p" not in repr(found.password or "")[1:-1] or "password" not in repr(found)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "postgresql://h/d",
        "jdbc:oracle:thin:@h:1521:x",
        "jdbc:sqlite:",
        "jdbc:sqlite::memory:",
        "jdbc:mysql://a,b/d",
        "jdbc:mysql://u:secret@h/d",
        "jdbc:postgresql://h:x/d",
        "jdbc:postgresql://h:70000/d",
        "jdbc:postgresql://h/d?nothing",
    ],
)
def test_other_urls_are_refused_without_being_told(url: str) -> None:
    with pytest.raises(BadUrl) as error:
        read_address(url)
    assert "secret" not in str(error.value)


@given(
    st.text(min_size=1).filter(lambda text: "\0" not in text and text.isprintable()), st.sampled_from('"`')
)
def test_a_quoted_name_is_read_as_it_was(name: str, mark: str) -> None:
    assert split_name(quoted(name, mark), mark) == [(name, True)]
    assert split_name(f"{quoted(name, mark)}.b", mark) == [(name, True), ("b", False)]


@pytest.mark.parametrize("name", ["", "a.", ".a", "a..b", '"a', '"a"b', "a.b.c.d", '""'])
def test_names_with_parts_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(DataError):
        split_name(name, '"')


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "x" * 64, "ü" * 32])
def test_names_that_postgresql_would_cut_or_refuse_are_refused(name: str) -> None:
    with pytest.raises(DataError):
        PostgresDatabase(read_address("jdbc:postgresql:d"), UTC).quote(name)


@pytest.mark.parametrize("name", ["x" * 65, "a ", "🙂"])
def test_names_that_mariadb_would_change_are_refused(name: str) -> None:
    mariadb = pytest.importorskip("ottla.connect.connectors.jdbc.mariadb")
    with pytest.raises(DataError):
        mariadb.MariaDatabase(read_address("jdbc:mysql://h/d"), UTC).quote(name)


@given(st.datetimes())
def test_timestamps_are_those_of_python(moment: datetime.datetime) -> None:
    ns = read_timestamp_ns(str(moment), UTC)
    assert ns == (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1) * 1000  # noqa: DTZ001
    assert timestamp_text(ns, UTC) == moment.isoformat(" ", "microseconds")


@given(
    st.integers(-(10**20), 10**20),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata"]),
)
def test_a_timestamp_with_its_offset_is_the_same_moment(ns: int, zone: str) -> None:
    text = timestamp_text(ns, ZoneInfo(zone), digits=9, offset=True)
    assert read_timestamp_ns(text, UTC) == ns


@given(st.integers(-2_400_000, 100_000_000))
def test_days_of_any_year_come_back(day: int) -> None:
    assert read_date_ms(date_text(day * DAY_MS)) == day * DAY_MS


@given(st.integers(0, DAY_MS))
def test_times_come_back(ms: int) -> None:
    assert read_time_ms(time_text(ms)) == ms


@pytest.mark.parametrize("text", ["", "2024-02-30", "2024-13-01", "x", "2024-01-01 10:61", "0000-00-00"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        read_timestamp_ns(text, UTC)


@given(st.none() | st.integers(), st.none() | st.integers(-(10**20), 10**20))
def test_a_place_is_its_offset(number: int | None, ns: int | None) -> None:
    assert Place.of(Place(number, ns).offset) == Place(number, ns)


@pytest.mark.parametrize(
    "offset", [{"incrementing": "1"}, {"timestamp": True}, {"timestamp": 1, "timestamp_nanos": 0.5}]
)
def test_an_offset_that_is_none_is_refused(offset: Mapping[str, object]) -> None:
    with pytest.raises(DataError):
        Place.of(offset)


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 6), max_size=30).map(sorted),
    st.integers(1, 5),
)
def test_rows_of_one_timestamp_are_in_one_batch(moments: list[int], size: int) -> None:
    placed = [((index,), Place(epoch_ns=moment)) for index, moment in enumerate(moments)]
    batches = [placed[start : start + size] for start in range(0, len(placed), size)]
    start = Place(epoch_ns=-1)
    found = list(polling.grouped(iter(batches), start))
    assert [row for batch in found for row, _ in batch] == [row for row, _ in placed]
    before = start
    for batch in found:
        index = batch[-1][0][0]
        # The offset behind each row leaves none out that comes later, and repeats no former batch.
        assert index + 1 == len(moments) or moments[index + 1] > moments[index]
        assert batch[-1][1] == Place(epoch_ns=moments[index])
        for row, place in batch:
            assert place.epoch_ns is not None
            assert all(moments[other] > place.epoch_ns for other in range(row[0] + 1, len(moments)))
            assert place.epoch_ns >= (before.epoch_ns or 0) or before == start
        before = batch[-1][1]


def test_too_many_rows_of_one_timestamp_are_given_with_the_place_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polling, "MAX_GROUP", 4)
    same = [((index,), Place(epoch_ns=7)) for index in range(10)]
    found = list(polling.grouped(iter([same[:3], same[3:6], same[6:9], same[9:]]), Place(epoch_ns=1)))
    assert [row[0] for batch in found for row, _ in batch] == list(range(10))
    assert [place.epoch_ns for batch in found for _, place in batch] == [1] * 9 + [7]


def test_tables_are_chosen_by_patterns_with_and_without_their_database() -> None:
    table = TableId("orders", "public")
    assert Selection(include=(r"public\.ord.*",), database="shop").chooses(table)
    assert Selection(include=(r"shop\.public\.orders",), database="shop").chooses(table)
    assert not Selection(include=(r"ord",), database="shop").chooses(table)
    assert not Selection(schema_pattern="pub").chooses(table)
    assert Selection(schema_pattern="p_b%", catalog_pattern="shop", database="shop").chooses(table)
    assert not Selection(schema_pattern="").chooses(table)
    assert Selection(named=frozenset(['"public"."orders"'])).chooses(table)
    assert mapped([r"x.*:[a]", r".*orders:[changed|made]"], table, "shop") == ["changed", "made"]


SOURCE = {"connection.url": "jdbc:sqlite:/x.db", "mode": "bulk", "topic.prefix": "p"}


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({"mode": "timestamp"}, "timestamp.column.name"),
        ({"mode": "sometimes"}, "mode"),
        ({"mode": "incrementing", "query": "SELECT 1"}, "incrementing.column.name"),
        ({"query": "SELECT 1", "table.whitelist": "a"}, "a query reads no tables"),
        ({"table.whitelist": "a", "table.blacklist": "b"}, "table.whitelist"),
        ({"table.include.list": "("}, "regular expression"),
        ({"table.types": "SYNONYM"}, "table.types"),
        ({"db.timezone": "Mars/Olympus"}, "db.timezone"),
        ({"dialect.name": "MySqlDatabaseDialect"}, "dialect.name"),
        ({"connection.url": "jdbc:oracle:scott:tiger"}, r"connection.url=\[hidden\]"),
        ({"connection.url": "jdbc:postgresql://h/d?sslfactory=x"}, "sslfactory"),
        ({"connection.url": "jdbc:mysql://h/d?trustStore=x"}, "trustStore"),
        ({"timestamp.column.name": "a", "timestamp.columns.mapping": ".*:b"}, "timestamp.column"),
        ({"timestamp.columns.mapping": "b"}, "pattern:column"),
    ],
)
def test_settings_of_a_source_that_contradict_are_named(texts: Mapping[str, str], problem: str) -> None:
    if "mysql" in texts.get("connection.url", ""):
        pytest.importorskip("pymysql")
    with pytest.raises(ConfigError, match=problem) as error:
        JdbcSource(settings_of(JdbcSource, {**SOURCE, **texts}))
    assert "tiger" not in str(error.value)


def test_the_connectors_of_the_page_can_be_made() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Databases by JDBC's names")[2]
    made = json.loads(section.partition("```json")[2].partition("```")[0])
    connectors: tuple[type[JdbcSource] | type[JdbcSink], ...] = (JdbcSource, JdbcSink)
    for each, connector in zip(made, connectors, strict=True):
        texts = {name: text for name, text in each["config"].items() if name in connector.TABLE.settings}
        assert texts.keys() >= {"connection.url"}
        connector(settings_of(connector, texts)).close()


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({"insert.mode": "upsert"}, "pk.mode"),
        ({"delete.enabled": "true", "pk.mode": "record_value"}, "delete.enabled"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, "pk.fields"),
        ({"table.types": ""}, "table.types"),
        ({"insert.mode": "merge"}, "insert.mode"),
    ],
)
def test_settings_of_a_sink_that_contradict_are_named(texts: Mapping[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        JdbcSink(settings_of(JdbcSink, {"connection.url": "jdbc:sqlite:/x.db", **texts}))
