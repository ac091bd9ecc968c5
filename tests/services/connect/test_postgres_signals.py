"""Signals to the PostgreSQL source on a real server: snapshots while the stream goes on."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ottla.connect.cdc.core.progress import progress_of
from ottla.connect.data.record import SourceOffset, SourceRecord
from support.connect.cdc.postgres_changes import Reading, configuration
from support.servers.postgresql import postgresql, postgresql_programs

pytestmark = pytest.mark.slow

Connection = psycopg.Connection[Any]
SIGNAL_TABLE = "CREATE TABLE signals (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data text)"
NOTES = {"notification_enabled_channels": "sink", "notification_sink_topic_name": "notes"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with postgresql(programs, "wal_level=logical", "max_replication_slots=40", "max_wal_senders=40") as url:
        yield url


@pytest.fixture
def url(server: str, request: pytest.FixtureRequest) -> str:
    """A database of the test's own."""
    name = f"t{abs(hash(request.node.name)) % 10**12}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return f"{server.rpartition('/')[0]}/{name}"


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with psycopg.connect(url, autocommit=True) as opened:
        yield opened


def config(url: str, **others: str) -> dict[str, str]:
    """A configuration without a first copy; signals come by the table."""
    given = {
        "slot_name": f"slot_{url.rpartition('/')[2]}",
        "snapshot_mode": "no_data",
        "signal_data_collection": "public.signals",
        "incremental_snapshot_chunk_size": "7",
        "signal_poll_interval_ms": "1",
        "tombstones_on_delete": "false",
        "extended_headers_enabled": "false",
    }
    return configuration(url, **{**given, **others})


def fill(connection: Connection, name: str, rows: int) -> None:
    connection.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY, v text)".encode())
    connection.execute(f"INSERT INTO {name} SELECT n, 'old' || n FROM generate_series(1, {rows}) n".encode())


def signal(connection: Connection, type: str, **data: Any) -> None:
    """Write a signal; names have underscores for hyphens."""
    fields = json.dumps({name.replace("_", "-"): value for name, value in data.items()})
    id = str(random.getrandbits(60))
    connection.execute("INSERT INTO signals VALUES (%s, %s, %s)", (id, type, fields))


def execute(connection: Connection, *tables: str, **data: Any) -> None:
    signal(connection, "execute-snapshot", data_collections=list(tables), **data)


def rows_of(records: Sequence[SourceRecord], table: str) -> list[tuple[str, Any, Any]]:
    """Operations, ids and texts of a table's records."""
    found = []
    for each in records:
        if each.record.topic == f"srv.public.{table}":
            value = each.record.value.values
            row = (value["after"] or value["before"]).values
            found.append((value["op"], row["id"], row["v"]))
    return found


def notes(records: Sequence[SourceRecord]) -> list[tuple[str, dict[str, str]]]:
    found = [each.record.value.values for each in records if each.record.topic == "notes"]
    return [(each["type"], each["additional_data"]) for each in found]


def until(
    reading: Reading, done: Callable[[list[SourceRecord]], bool], turns: int = 20_000
) -> list[SourceRecord]:
    """All records until something holds."""
    found: list[SourceRecord] = []
    for _ in range(turns):
        found += reading.turn()
        if done(found):
            return found
    raise AssertionError([str(each.record.value)[:200] for each in found[-20:]])


def is_done(records: Sequence[SourceRecord]) -> bool:
    return any(type == "COMPLETED" for type, _ in notes(records))


def ends(reading: Reading, connection: Connection, table: str) -> list[SourceRecord]:
    """All records up to a last row."""
    connection.execute(f"INSERT INTO {table} VALUES (-1, 'end')".encode())
    return until(reading, lambda found: ("c", -1, "end") in rows_of(found, table))


@pytest.mark.parametrize("strategy", ["insert_insert", "insert_delete", "read_only", "no_table"])
def test_a_signal_copies_a_table_while_its_changes_are_streamed(
    url: str, connection: Connection, strategy: str, tmp_path: Path
) -> None:
    connection.execute(SIGNAL_TABLE)
    fill(connection, "t", 50)
    others = dict(NOTES)
    if strategy.startswith("insert"):
        others["incremental_snapshot_watermarking_strategy"] = strategy
    if strategy == "read_only":
        others["read_only"] = "true"
    file = tmp_path / "signals.txt"
    given = config(url, **others)
    if strategy == "no_table":
        del given["signal.data.collection"]
        given |= {"signal.enabled.channels": "file", "signal.file": str(file)}
    with closing(Reading(given)) as reading:
        assert not reading.turn()
        if strategy == "no_table":
            data = {"data-collections": ["public.t"]}
            file.write_text(json.dumps({"id": "1", "type": "execute-snapshot", "data": data}) + "\n")
        else:
            execute(connection, "public.t")
        found = until(reading, is_done)
    copied = rows_of(found, "t")
    assert copied == [("r", n, f"old{n}") for n in range(1, 51)]
    read = [each for each in found if each.record.topic == "srv.public.t"]
    assert {each.record.value.values["source"].values["snapshot"] for each in read} == {"incremental"}
    types = [type for type, _ in notes(found)]
    assert types == ["STARTED", *["IN_PROGRESS"] * 8, "TABLE_SCAN_COMPLETED", "COMPLETED"]
    assert notes(found)[-2][1]["total_rows_scanned"] == "50"
    marks = connection.execute("SELECT type, count(*) FROM signals GROUP BY 1 ORDER BY 1").fetchall()
    expected = {
        "insert_insert": [("execute-snapshot", 1), ("snapshot-window-close", 8), ("snapshot-window-open", 8)],
        "insert_delete": [("execute-snapshot", 1)],
        "read_only": [("execute-snapshot", 1)],
        "no_table": [],
    }
    assert marks == expected[strategy]


def test_rows_that_change_within_a_window_come_by_the_stream_alone(url: str, connection: Connection) -> None:
    connection.execute(SIGNAL_TABLE)
    fill(connection, "t", 20)
    # What the trigger does is behind the reading of the first chunk, and before the window's end.
    connection.execute("""
        CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            UPDATE t SET v = 'new' WHERE id IN (3, 12) AND v <> 'new';
            DELETE FROM t WHERE id IN (4, 13);
            INSERT INTO t VALUES (100, 'new') ON CONFLICT DO NOTHING;
            RETURN NEW;
        END $$""")
    connection.execute("""
        CREATE TRIGGER change BEFORE INSERT ON signals FOR EACH ROW
        WHEN (NEW.type = 'snapshot-window-close') EXECUTE FUNCTION change()""")
    with closing(Reading(config(url, **NOTES))) as reading:
        reading.turn()
        execute(connection, "public.t")
        found = rows_of(until(reading, is_done), "t")
    expected = [("u", 3, "new"), ("u", 12, "new"), ("d", 4, None), ("d", 13, None), ("c", 100, "new")]
    assert found[:5] == expected
    copied = {id: text for _, id, text in found[5:]}
    assert [operation for operation, _, _ in found[5:]] == ["r"] * 17
    assert copied == {12: "new"} | {n: f"old{n}" for n in range(1, 21) if n not in (3, 4, 12, 13)}


@pytest.mark.parametrize("read_only", ["false", "true"])
def test_snapshots_that_are_cut_short_again_and_again_end_in_the_databases_state(
    url: str, connection: Connection, read_only: str
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    connection.execute(SIGNAL_TABLE)
    fill(connection, "t", 300)
    given = config(url, read_only=read_only, incremental_snapshot_chunk_size="19")
    stop = threading.Event()

    def write() -> None:
        own = random.Random(seed)
        with psycopg.connect(url, autocommit=True) as writer:
            for number in range(10_000_000):
                if stop.is_set():
                    break
                id = own.randrange(1, 400)
                if own.random() < 0.3:
                    writer.execute("DELETE FROM t WHERE id = %s", (id,))
                else:
                    writer.execute(
                        "INSERT INTO t VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
                        (id, f"{number:09d}"),
                    )
                stop.wait(own.random() * 0.002)

    offset: SourceOffset | None = None
    records: list[SourceRecord] = []
    with closing(Reading(given)) as reading:
        reading.turn()
        execute(connection, "public.t")
        records += until(reading, lambda found: len(found) > 2)
        offset = reading.offset
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(15):
            with closing(Reading(given, offset)) as reading:
                for _ in range(rng.randrange(60)):
                    batch = reading.turn()
                    taken = batch[: rng.randrange(len(batch) + 1)] if rng.random() < 0.1 else batch
                    records += taken
                    offset = taken[-1].source_offset if taken else offset
                    if len(taken) < len(batch):
                        break
    finally:
        stop.set()
        writer.join()
    with closing(Reading(given, offset)) as reading:
        records += until(
            reading, lambda _: not progress_of(reading.offset or {}).progress.is_running, 200_000
        )
        records += ends(reading, connection, "t")
    state: dict[int, str] = {}
    for operation, id, text in rows_of(records, "t"):
        if operation == "d":
            state.pop(id, None)
            continue
        if operation == "r" and id in state:
            assert text >= state[id] or state[id].startswith("old"), f"seed {seed}: {id} goes back to {text}"
        state[id] = text
    assert state == dict(connection.execute("SELECT id, v FROM t").fetchall()), f"seed {seed}"
