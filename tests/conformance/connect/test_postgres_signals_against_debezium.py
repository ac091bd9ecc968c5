"""Debezium 3.6.1 and ours on one database, given the same signal: the same rows, and the same steps told.

Its windows end at other places of the stream; rows, schemas, their order and what is told are the same.
Debezium's offset amid a snapshot is one that ours goes on with.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ottla.connect.cdc.core.progress import COLLECTIONS, PRIMARY_KEY, progress_of
from support.connect.cdc.postgres_changes import Reading, configuration
from support.java.connect_oracle import tell_record
from support.java.debezium_source import DebeziumSource, compile_debezium, debezium_source
from support.servers.postgresql import postgresql, postgresql_programs

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

TIMEOUT_S = 60.0
CHUNK = "7"
TABLES = (
    "CREATE TABLE signals (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data text)",
    "CREATE TABLE numbers (id bigint PRIMARY KEY, v text, at timestamptz DEFAULT now())",
    "INSERT INTO numbers SELECT n * 1000000007::bigint, 'v' || n FROM generate_series(1, 40) n",
    "CREATE TABLE mixed (a text, b numeric(20, 4), c uuid, d smallint, v integer, PRIMARY KEY (a, b, c, d))",
    "INSERT INTO mixed SELECT chr(97 + n % 3), n / 8.0 - 2, md5(n::text)::uuid, n % 4, n "
    "FROM generate_series(1, 40) n",
    "CREATE TABLE nothing (id integer PRIMARY KEY)",
    "CREATE TABLE keyless (v integer)",
    "INSERT INTO keyless VALUES (1)",
)
WHEN = frozenset({"ts_ms", "ts_us", "ts_ns", "lsn", "sequence", "txId", "timestamp"})
RUN = "__debezium.context.runId"


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_debezium(tmp_path_factory.mktemp("debezium-signals"))


@pytest.fixture
def url() -> Iterator[str]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with postgresql(programs, "wal_level=logical") as running:
        yield running


def config(url: str, **others: str) -> dict[str, str]:
    return configuration(
        url,
        snapshot_mode="no_data",
        signal_data_collection="public.signals",
        incremental_snapshot_chunk_size=CHUNK,
        notification_enabled_channels="sink",
        notification_sink_topic_name="notes",
        **others,
    )


def execute(connection: psycopg.Connection[Any], id: str, *tables: str, **data: Any) -> None:
    fields = {"data-collections": [f"public.{each}" for each in tables], "type": "incremental", **data}
    connection.execute("INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)", (id, json.dumps(fields)))


def same(told: dict[str, Any]) -> dict[str, Any]:
    """A record without when and where it was made."""
    found = {name: _without(told[name]) for name in ("topic", "keySchema", "key", "valueSchema", "value")}
    found["headers"] = [each for each in told["headers"] if each[0] != RUN]
    return found


def _without(told: Any) -> Any:
    if isinstance(told, list) and len(told) == 2 and told[0] == "t":
        return ["t", [[name, _without(value)] for name, value in told[1] if name not in WHEN]]
    return told


def noted(told: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """A notification's type, and its data."""
    fields = dict(told["value"][1])
    return fields["type"][1], json.loads(json.dumps(_plain(fields["additional_data"])))


def _plain(told: Any) -> Any:
    match told:
        case ["m", pairs]:
            return {_plain(name): _plain(value) for name, value in pairs}
        case [_, value]:
            return value
    return told


def rows(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        same(each)
        for each in told
        if each["topic"].startswith("srv.public.") and "signals" not in each["topic"]
    ]


def notes(told: list[dict[str, Any]]) -> list[tuple[str, dict[str, str]]]:
    return [noted(each) for each in told if each["topic"] == "notes"]


def until_done(debezium: DebeziumSource) -> list[dict[str, Any]]:
    """Debezium's records until a snapshot is done."""
    found: list[dict[str, Any]] = []
    while not any(type == "COMPLETED" for type, _ in notes(found)):
        told = debezium.record(TIMEOUT_S)
        assert told is not None, debezium.log.read_text(encoding="utf-8")[-3000:]
        if told["topic"] != "notes" or noted(told)[1].get("connector_name") is None or _is_ours(told):
            found.append(told)
    return found


def _is_ours(told: dict[str, Any]) -> bool:
    """Whether a notification is of an incremental snapshot: those of the first copy are left out."""
    return dict(told["value"][1])["aggregate_type"][1] == "Incremental Snapshot"


def ours_until_done(reading: Reading) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + TIMEOUT_S
    while not any(type == "COMPLETED" for type, _ in notes(found)):
        found += [tell_record(each.record) for each in reading.turn()]
        assert time.monotonic() < deadline
    return found


def test_one_signal_gives_both_the_same_rows_and_steps(url: str, class_path: str, tmp_path: Path) -> None:
    given = config(url)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in TABLES:
            connection.execute(statement.encode())
        reading = Reading(given | {"slot.name": "ours"})
        with closing(reading), debezium_source(class_path, given, tmp_path / "debezium.log") as debezium:
            reading.turn()
            _both_listen(connection, debezium)
            conditions = [{"data-collection": "public.numbers", "filter": "v <> 'v3'"}]
            execute(
                connection,
                "asked",
                "numbers",
                "mixed",
                "nothing",
                "keyless",
                "unknown",
                **{"additional-conditions": conditions},
            )
            ours, theirs = ours_until_done(reading), until_done(debezium)
    assert len(rows(theirs)) == 79
    for at, (one, other) in enumerate(zip(rows(ours), rows(theirs), strict=True)):
        assert one == other, at
    assert notes(ours) == notes(theirs)


def _both_listen(connection: psycopg.Connection[Any], debezium: DebeziumSource) -> None:
    """Wait until Debezium streams: a row of a log signal comes back."""
    deadline = time.monotonic() + TIMEOUT_S
    for number in range(1000):
        assert time.monotonic() < deadline
        connection.execute(
            "INSERT INTO signals VALUES (%s, 'log', '{\"message\": \"hello\"}')", (f"hello{number}",)
        )
        told = debezium.record(2.0)
        while told is not None and told["topic"] == "notes":
            told = debezium.record(2.0)
        if told is not None:
            return


@pytest.mark.parametrize("table", ["numbers", "mixed"])
def test_a_snapshot_that_debezium_began_is_gone_on_with(
    url: str, class_path: str, tmp_path: Path, table: str
) -> None:
    given = config(url)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in TABLES:
            connection.execute(statement.encode())
        offset: dict[str, Any] = {}
        begun: list[dict[str, Any]] = []
        with debezium_source(class_path, given, tmp_path / "debezium.log") as debezium:
            _both_listen(connection, debezium)
            execute(connection, "asked", table, "keyless")
            while len(rows(begun)) < 17:  # within the third chunk
                told = debezium.record(TIMEOUT_S)
                assert told is not None
                begun.append(told)
                offset = told["sourceOffset"]
        assert PRIMARY_KEY in offset and COLLECTIONS in offset, offset
        resumed = progress_of(offset)
        assert resumed.warning is None and resumed.progress.last_key is not None
        with closing(Reading(given | {"slot.name": "debezium"}, offset)) as reading:
            ours = ours_until_done(reading)
        whole = {json.dumps(each["key"]) for each in [*rows(begun), *rows(ours)]}
        assert len(whole) == 40
        assert len(rows(ours)) == 40 - len(rows(begun))
