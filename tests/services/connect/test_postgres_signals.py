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
SCANNED = "TABLE_SCAN_COMPLETED"
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


def signal(connection: Connection, kind: str, /, **data: Any) -> None:
    """Write a signal; names have underscores for hyphens."""
    fields = json.dumps({name.replace("_", "-"): value for name, value in data.items()})
    id = str(random.getrandbits(60))
    connection.execute("INSERT INTO signals VALUES (%s, %s, %s)", (id, kind, fields))


def execute(connection: Connection, /, *tables: str, **data: Any) -> None:
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


def test_pause_resume_and_stop(url: str, connection: Connection) -> None:
    connection.execute(SIGNAL_TABLE)
    for name in ("a", "b", "c"):
        fill(connection, name, 30)
    given = config(url, **NOTES)
    with closing(Reading(given)) as reading:
        reading.turn()
        execute(connection, r"public\.[a-c]")
        until(reading, lambda records: len(rows_of(records, "a")) > 7)
        signal(connection, "pause-snapshot")
        until(reading, lambda records: "PAUSED" in dict(notes(records)))
        rest = ends(reading, connection, "c")
        assert len(rows_of(rest, "a")) <= 7  # of the chunk that was read
        offset = reading.offset
    with closing(Reading(given, offset)) as again:  # it pauses through a restart
        assert not rows_of(ends(again, connection, "b"), "a")
        signal(connection, "stop-snapshot", data_collections=["public.b"], type="incremental")
        found = until(again, lambda records: "ABORTED" in dict(notes(records)))
        assert dict(notes(found))["ABORTED"]["data_collections"] == "public.b"
        signal(connection, "resume-snapshot")
        found = until(again, is_done)
        assert "RESUMED" in dict(notes(found))
        assert [each[1] for each in rows_of(found, "c")] == [-1, *range(1, 31)]
        assert not rows_of(found, "b")
        execute(connection, "public.a")
        until(again, lambda records: "STARTED" in dict(notes(records)))
        signal(connection, "stop-snapshot")
        found = until(again, lambda records: "ABORTED" in dict(notes(records)))
        assert len(rows_of(found, "a")) < 30
        assert not progress_of(again.offset or {}).progress.is_running


def test_tables_without_a_key_and_unknown_ones_are_told_and_left(url: str, connection: Connection) -> None:
    connection.execute(SIGNAL_TABLE)
    connection.execute("CREATE TABLE keyless (id integer, v text)")
    connection.execute("INSERT INTO keyless SELECT n / 3, n::text FROM generate_series(0, 40) n")
    connection.execute("INSERT INTO keyless SELECT NULL, n::text FROM generate_series(50, 60) n")
    connection.execute("ALTER TABLE keyless REPLICA IDENTITY FULL")
    connection.execute("CREATE TABLE empty (id integer PRIMARY KEY, v text)")
    fill(connection, "t", 9)
    with closing(Reading(config(url, **NOTES))) as reading:
        reading.turn()
        execute(connection, "public.keyless", "public.nowhere", "public.empty", "public.t")
        found = until(reading, is_done)
        scans = {data["scanned_collection"]: data["status"] for type, data in notes(found) if type == SCANNED}
        assert scans == {
            "public.keyless": "NO_PRIMARY_KEY",
            "public.nowhere": "UNKNOWN_SCHEMA",
            "public.empty": "EMPTY",
            "public.t": "SUCCEEDED",
        }
        assert len(rows_of(found, "t")) == 9
        # Rows with one value of the surrogate key, NULL too, are read at once: none is left out.
        execute(connection, "public.keyless", surrogate_key="id")
        found = until(reading, is_done)
        expected = [(n // 3, str(n)) for n in range(41)] + [(None, str(n)) for n in range(50, 61)]
        assert sorted(rows_of(found, "keyless"), key=lambda each: int(each[2])) == [
            ("r", *each) for each in expected
        ]
        execute(connection, "public.t", surrogate_key="nothing")
        execute(
            connection,
            "public.t",
            additional_conditions=[{"data-collection": "public.t", "filter": "no such SQL"}],
        )
        found = until(reading, lambda records: [type for type, _ in notes(records)].count(SCANNED) == 2)
        assert [data["status"] for type, data in notes(found) if type == SCANNED] == [
            "SQL_EXCEPTION",
            "SQL_EXCEPTION",
        ]
        for data in ("nonsense", "[]", '{"data-collections": [7]}', '{"data-collections": ["("]}'):
            id = str(random.getrandbits(60))
            connection.execute("INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)", (id, data))
        signal(connection, "no-such-type")
        assert not notes(ends(reading, connection, "t"))


def test_a_condition_and_a_key_of_two_columns(url: str, connection: Connection) -> None:
    connection.execute(SIGNAL_TABLE)
    connection.execute("CREATE TABLE t (a text, id bigint, v text, PRIMARY KEY (a, id))")
    words = ["it's", 'a "quoted"', "back\\slash", "tab\there", "ü", ""]
    rng = random.Random()
    rows = {(rng.choice(words), rng.randrange(-20, 20)): str(rng.random()) for _ in range(150)}
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, %s, %s)", [(*key, text) for key, text in rows.items()])
    with closing(Reading(config(url, incremental_snapshot_chunk_size="4", **NOTES))) as reading:
        reading.turn()
        conditions = [{"data-collection": "PUBLIC.T", "filter": "id > 0 OR id < -10"}]
        execute(connection, "public.t", additional_conditions=conditions)
        found = rows_of(until(reading, is_done), "t")
    expected = sorted((id, text) for (_, id), text in rows.items() if id > 0 or id < -10)
    assert sorted((id, text) for _, id, text in found) == expected


def test_columns_that_change_while_a_chunk_waits(url: str, connection: Connection) -> None:
    connection.execute(SIGNAL_TABLE)
    fill(connection, "t", 40)
    connection.execute("""
        CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            ALTER TABLE t ADD COLUMN IF NOT EXISTS w integer NOT NULL DEFAULT 7;
            RETURN NEW;
        END $$""")
    connection.execute("""
        CREATE TRIGGER change BEFORE INSERT ON signals FOR EACH ROW
        WHEN (NEW.type = 'snapshot-window-close') EXECUTE FUNCTION change()""")
    with closing(Reading(config(url, **NOTES))) as reading:
        reading.turn()
        execute(connection, "public.t")
        found = until(reading, is_done)
        rows = [
            each.record.value.values["after"].values for each in found if each.record.topic == "srv.public.t"
        ]
        assert [(each["id"], each.get("w")) for each in rows] == [(n, 7) for n in range(1, 41)]
        # Another key: the table is read from its first row again.
        connection.execute("DROP TRIGGER change ON signals")
        connection.execute("UPDATE t SET w = id")
        execute(connection, "public.t")
        until(reading, lambda records: sum(each[0] == "r" for each in rows_of(records, "t")) >= 7)
        connection.execute("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (v, w)")
        found = until(reading, is_done)
        assert {each[1] for each in rows_of(found, "t")} == set(range(1, 41))


def test_a_blocking_snapshot_is_as_of_one_place(url: str, connection: Connection) -> None:
    connection.execute(SIGNAL_TABLE)
    for name in ("a", "b"):
        fill(connection, name, 30)
    given = config(url, max_batch_size="10", **NOTES)
    data = {
        "type": "blocking",
        "additional_conditions": [{"data-collection": "public.b", "filter": "id <= 5"}],
    }
    with closing(Reading(given)) as reading:
        reading.turn()
        execute(connection, "public.a", "public.b", **data)
        connection.execute("UPDATE a SET v = 'new' WHERE id = 1")
        found = until(reading, lambda records: len(rows_of(records, "a")) > 15)
        offset = reading.offset
        rest = [*found, *until(reading, is_done)]
        assert [each[1] for each in rows_of(rest, "b")] == [1, 2, 3, 4, 5]
        assert ("u", 1, "new") in rows_of(rest, "a")
        copied = [each for each in rows_of(rest, "a") if each[0] == "r"]
        assert sorted(copied) == sorted([("r", 1, "new"), *(("r", n, f"old{n}") for n in range(2, 31))])
        connection.execute("UPDATE a SET v = 'newer' WHERE id = 2")
        assert rows_of(ends(reading, connection, "a"), "a") == [("u", 2, "newer"), ("c", -1, "end")]
    # After a kill in its midst it is made anew.
    with closing(Reading(given, offset)) as again:
        found = until(again, is_done)
        copied = [each for each in rows_of(found, "a") if each[0] == "r"]
        assert len(copied) == 31 and ("r", 2, "newer") in copied
        execute(
            connection,
            "public.a",
            type="blocking",
            additional_conditions=[{"data-collection": "public.a", "filter": "nonsense ="}],
        )
        until(again, lambda records: "ABORTED" in dict(notes(records)))
        ends(again, connection, "b")
        assert not progress_of(again.offset or {}).progress.blocking


def test_the_first_copy_is_told(url: str, connection: Connection) -> None:
    fill(connection, "a", 5)
    fill(connection, "b", 3)
    given = config(url, snapshot_mode="initial", **NOTES)
    del given["signal.data.collection"]
    with closing(Reading(given)) as reading:
        found = until(reading, is_done)
    told = [(type, data.get("scanned_collection")) for type, data in notes(found)]
    assert told == [
        ("STARTED", None),
        ("IN_PROGRESS", None),
        ("TABLE_SCAN_COMPLETED", "public.a"),
        ("IN_PROGRESS", None),
        ("TABLE_SCAN_COMPLETED", "public.b"),
        ("COMPLETED", None),
    ]


def test_a_file_is_taken_once_whenever_the_connector_is_killed(
    url: str, connection: Connection, tmp_path: Path
) -> None:
    fill(connection, "t", 5)
    file = tmp_path / "signals.txt"
    given = config(url, signal_enabled_channels="file", **NOTES) | {"signal.file": str(file)}
    del given["signal.data.collection"]
    line = {"id": "7", "type": "execute-snapshot", "data": {"data-collections": ["public.t"]}}
    file.write_text(json.dumps(line) + "\nnonsense\n")
    with closing(Reading(given)) as reading:
        until(reading, lambda records: bool(notes(records)))  # and nothing of it is committed
    assert not file.exists()
    with closing(Reading(given)) as reading:
        found = until(reading, is_done)
        assert len(rows_of(found, "t")) == 5
        offset = reading.offset
    with closing(Reading(given, offset)) as reading:  # committed, and killed before the file was removed
        assert not notes(ends(reading, connection, "t"))
    assert not list(tmp_path.iterdir())
