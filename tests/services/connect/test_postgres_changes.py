"""The PostgreSQL source on a real server: copies joined to the stream, the slot's place, what is refused."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from ottla.config.errors import ConfigError
from ottla.connect.cdc.postgres.position import Position, lsn_of
from ottla.connect.cdc.postgres.slots import SetupError
from ottla.connect.data.record import SourceOffset, SourceRecord
from support.connect.cdc.postgres_changes import Reading, configuration
from support.servers.postgresql import postgresql, postgresql_programs

pytestmark = pytest.mark.slow

Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with postgresql(programs, "wal_level=logical", "max_replication_slots=30", "max_wal_senders=30") as url:
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
    database = url.rpartition("/")[2]
    return configuration(url, slot_name=f"slot_{database}", **others)


def told(records: list[SourceRecord]) -> list[tuple[str, Any]]:
    """Operations, and the rows' texts."""
    found = []
    for each in records:
        value = each.record.value.values
        row = value["after"] or value["before"]
        found.append((value["op"], row.values["v"]))
    return found


def confirmed(connection: Connection, name: str) -> int:
    row = connection.execute(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", (name,)
    ).fetchone()
    assert row is not None
    return lsn_of(row[0])


def make_table(connection: Connection, name: str, *values: str) -> None:
    connection.execute(f"CREATE TABLE {name} (id serial PRIMARY KEY, v text)".encode())
    for value in values:
        connection.execute(f"INSERT INTO {name} (v) VALUES (%s)".encode(), (value,))


def test_rows_that_are_there_and_changes_after_them_come_once_while_others_write(
    url: str, connection: Connection
) -> None:
    make_table(connection, "t")
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(url, autocommit=True) as writer:
            for number in range(100_000):
                if stop.is_set():
                    break
                writer.execute("INSERT INTO t (v) VALUES (%s)", (str(number),))

    writer = threading.Thread(target=write)
    writer.start()
    found: list[SourceRecord] = []
    with closing(Reading(config(url))) as reading:
        try:
            while sum(value == "c" for value, _ in told(found)) < 50:
                found += reading.some()
        finally:
            stop.set()
            writer.join()
        row = connection.execute("SELECT count(*) FROM t").fetchone()
        assert row is not None
        found += reading.take(row[0] - len(found))
    values = [value for _, value in told(found)]
    assert sorted(values, key=int) == [str(number) for number in range(row[0])]
    operations = [operation for operation, _ in told(found)]
    assert operations == sorted(operations, reverse=True)  # r before c


def test_tables_that_were_copied_are_not_copied_again_after_a_kill(url: str, connection: Connection) -> None:
    for name in ("a", "b", "c"):
        make_table(connection, name, f"{name}1", f"{name}2")
    reading = Reading(config(url, max_batch_size="1"))
    first = reading.take(3)
    assert told(first) == [("r", "a1"), ("r", "a2"), ("r", "b1")]
    reading.close()
    connection.execute("UPDATE a SET v = 'a3' WHERE id = 1")
    connection.execute("DELETE FROM b WHERE id = 1")
    connection.execute("INSERT INTO b (v) VALUES ('b3')")
    connection.execute("DELETE FROM c WHERE id = 1")
    with closing(Reading(config(url, tombstones_on_delete="false"), reading.offset)) as again:
        rest = again.take(6)
        connection.execute("UPDATE b SET v = 'b4' WHERE id = 2")
        rest += again.take(1)
    found = [(each.record.topic[-1], *row) for each, row in zip(rest, told(rest), strict=True)]
    # a and what was copied of b are brought to the second run's place; what happened to c is in its copy.
    assert found[0] == ("a", "u", "a3")
    assert found[1][:2] == ("b", "d") and found[2] == ("b", "c", "b3")
    assert found[3:6] == [("b", "r", "b2"), ("b", "r", "b3"), ("c", "r", "c2")]
    assert found[6] == ("b", "u", "b4")


@pytest.mark.parametrize("round", range(4))
def test_copies_that_are_cut_short_again_and_again_end_in_the_databases_state(
    url: str, connection: Connection, round: int
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    tables = ("a", "b", "c")
    for name in tables:
        connection.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY, v text)".encode())
        connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL".encode())
        connection.execute(f"INSERT INTO {name} SELECT n, n::text FROM generate_series(1, 20) n".encode())
    offset: SourceOffset | None = None
    records: list[SourceRecord] = []
    for _ in range(8):
        with closing(
            Reading(config(url, max_batch_size="7", tombstones_on_delete="false"), offset)
        ) as reading:
            for _ in range(rng.randrange(12)):
                batch = reading.turn()
                taken = batch[: rng.randrange(len(batch) + 1)]
                records += taken
                offset = taken[-1].source_offset if taken else offset
                if len(taken) < len(batch):
                    break
                _change_something(connection, rng, tables)
        _change_something(connection, rng, tables)
    with closing(Reading(config(url, tombstones_on_delete="false"), offset)) as reading:
        connection.execute("INSERT INTO c VALUES (1000, 'end')")
        while not records or told(records[-1:])[0][1] != "end" or records[-1].record.topic[-1] != "c":
            records += reading.some()
    state: dict[str, dict[int, str]] = {name: {} for name in tables}
    for each in records:
        rows, value = state[each.record.topic[-1]], each.record.value.values
        id = each.record.key.values["id"]
        before = None if value["before"] is None else value["before"].values["v"]
        after = None if value["after"] is None else value["after"].values["v"]
        if value["op"] == "r":
            assert rows.get(id) in (None, after), f"seed {seed}: {id} is copied as {after} over {rows[id]}"
        else:
            assert before == rows.get(id) or id not in rows, f"seed {seed}: {value}"
        if after is None:
            rows.pop(id, None)
        else:
            rows[id] = after
    for name in tables:
        found = connection.execute(f"SELECT id, v FROM {name}".encode()).fetchall()
        assert state[name] == dict(found), f"seed {seed}: {name}"


def _change_something(connection: Connection, rng: random.Random, tables: tuple[str, ...]) -> None:
    for _ in range(rng.randrange(6)):
        name, id, text = rng.choice(tables), rng.randrange(1, 30), str(rng.randrange(10**9))
        statement = rng.choice(
            (
                f"INSERT INTO {name} VALUES ({id}, '{text}') ON CONFLICT (id) DO UPDATE SET v = excluded.v",
                f"UPDATE {name} SET v = '{text}' WHERE id = {id}",
                f"DELETE FROM {name} WHERE id = {id}",
            )
        )
        connection.execute(statement.encode())


def test_a_restart_goes_on_behind_any_record(url: str, connection: Connection) -> None:
    make_table(connection, "t", "old")
    rng = random.Random(5)
    offset: SourceOffset | None = None
    found: list[SourceRecord] = []
    with closing(Reading(config(url))) as reading:
        reading.take(1)
        offset = reading.offset
    for start in range(0, 60, 6):
        with connection.transaction():
            for number in range(start, start + 6):
                connection.execute("INSERT INTO t (v) VALUES (%s)", (str(number),))
    while len(found) < 60:
        with closing(Reading(config(url), offset)) as reading:
            batch = reading.some()
            taken = batch[: rng.randrange(1, 12)]
            found += taken
            offset = taken[-1].source_offset
    assert [value for _, value in told(found)] == [str(number) for number in range(60)]


def test_the_slot_moves_only_with_what_kafka_has_and_without_changes_too(
    url: str, connection: Connection
) -> None:
    name = config(url)["slot.name"]
    make_table(connection, "t", "a")
    given = config(url, status_update_interval_ms="1", table_include_list="public.t")
    with closing(Reading(given)) as reading:
        reading.take(1)
        reading.commit()
        connection.execute("INSERT INTO t (v) VALUES ('b')")
        reading.take(1)
        before = confirmed(connection, name)
        for _ in range(20):
            reading.turn()
        assert confirmed(connection, name) == before
        reading.commit()
        assert reading.offset is not None
        place = reading.offset["commit"]
        # At once, without a turn in which the server could ask.
        _until(lambda: confirmed(connection, name) >= place, turns=2000)
        # Nothing comes for this connector; the server's log grows even so.
        connection.execute("CREATE TABLE elsewhere AS SELECT generate_series(1, 1000)")
        row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
        assert row is not None
        there = lsn_of(row[0])
        _until(lambda: not reading.turn() and reading.offset["commit"] >= there, turns=20_000)
        assert confirmed(connection, name) < there  # Kafka does not have the offset yet
        reading.commit()
        _until(lambda: not reading.turn() and confirmed(connection, name) >= there, turns=20_000)


def _until(done: Any, turns: int = 200_000) -> None:
    assert any(done() for _ in range(turns))


def test_heartbeats_carry_the_place_and_run_a_statement(url: str, connection: Connection) -> None:
    make_table(connection, "t", "a")
    connection.execute("CREATE TABLE beats (at timestamptz)")
    given = config(
        url,
        heartbeat_interval_ms="1",
        table_include_list="public.t",
        heartbeat_action_query="INSERT INTO beats VALUES (now())",
    )
    with closing(Reading(given)) as reading:
        reading.take(1)
        batch = reading.some()
        assert batch[0].record.topic == "__debezium-heartbeat.srv"
        assert batch[0].record.key.values == {"serverName": "srv"}
        assert batch[0].source_offset["commit"] > 0
    row = connection.execute("SELECT count(*) FROM beats").fetchone()
    assert row is not None and row[0] >= 1


def test_logical_messages_come_once_each_in_their_place(url: str, connection: Connection) -> None:
    make_table(connection, "t", "a")
    with closing(Reading(config(url, message_prefix_exclude_list="hidden.*"))) as reading:
        reading.take(1)
        offset = reading.offset
    with connection.transaction():
        connection.execute("SELECT pg_logical_emit_message(true, 'p', 'first')")
        connection.execute("SELECT pg_logical_emit_message(true, 'hidden one', 'x')")
        connection.execute("INSERT INTO t (v) VALUES ('b')")
    connection.execute("SELECT pg_logical_emit_message(false, 'p', 'second')")
    connection.execute("SELECT pg_logical_emit_message(true, 'p', 'third')")
    found: list[Any] = []
    while len(found) < 4:
        with closing(Reading(config(url, message_prefix_exclude_list="hidden.*"), offset)) as reading:
            first = reading.some()[0]
        found.append(first.record)
        offset = first.source_offset
    assert [each.topic for each in found] == ["srv.message", "srv.public.t", "srv.message", "srv.message"]
    contents = [
        each.value.values["message"].values["content"] for each in found if each.topic == "srv.message"
    ]
    assert contents == [b"first", b"second", b"third"]


def test_a_lost_slot_is_told_or_the_tables_are_copied_again(url: str, connection: Connection) -> None:
    make_table(connection, "t", "a")
    with closing(Reading(config(url))) as reading:
        reading.take(1)
    connection.execute("SELECT pg_drop_replication_slot(%s)", (config(url)["slot.name"],))
    connection.execute("INSERT INTO t (v) VALUES ('b')")
    with closing(Reading(config(url), reading.offset)) as stopped, pytest.raises(SetupError, match="gone"):
        stopped.turn()
    with closing(Reading(config(url, snapshot_mode="when_needed"), reading.offset)) as again:
        assert told(again.take(2)) == [("r", "a"), ("r", "b")]


def test_modes_without_a_copy_and_with_nothing_else(url: str, connection: Connection) -> None:
    make_table(connection, "t", "a")
    with closing(Reading(config(url, snapshot_mode="no_data"))) as reading:
        assert not reading.turn()
        connection.execute("INSERT INTO t (v) VALUES ('b')")
        assert told(reading.take(1)) == [("c", "b")]
    with closing(Reading(config(url, snapshot_mode="initial_only"))) as reading:
        assert told(reading.take(2)) == [("r", "a"), ("r", "b")]
        with pytest.raises(StopIteration):
            reading.turn()


def test_a_publication_of_the_captured_tables_grows_with_them(url: str, connection: Connection) -> None:
    make_table(connection, "t", "a")
    given = config(url, publication_autocreate_mode="filtered", table_include_list="public.(t|u)")
    with closing(Reading(given)) as reading:
        reading.take(1)
    make_table(connection, "u", "b")
    make_table(connection, "other", "c")
    with closing(Reading(given, reading.offset)) as again:
        again.turn()
    rows = connection.execute("SELECT tablename FROM pg_publication_tables ORDER BY 1").fetchall()
    assert [row[0] for row in rows] == ["t", "u"]


def test_what_is_not_there_is_told(url: str, connection: Connection) -> None:
    make_table(connection, "t", "a")
    given = config(url, publication_autocreate_mode="disabled")
    with closing(Reading(given)) as reading, pytest.raises(SetupError, match="CREATE PUBLICATION"):
        reading.turn()
    with pytest.raises(ConfigError, match="table"):
        Reading(config(url, table_include_list="a", table_exclude_list="b"))
    assert Position(1).offset() == {"commit": 1}


@pytest.mark.parametrize("key", ["id bigint PRIMARY KEY", "id uuid PRIMARY KEY", "a text, id integer"])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_large_table_is_copied_in_ranges_of_its_key_and_its_done_ranges_are_not_copied_again(
    url: str, connection: Connection, key: str, threads: int
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    rows = rng.randrange(3000, 9000)
    connection.execute(f"CREATE TABLE big ({key}, v text)".encode())
    if key.startswith("a "):
        connection.execute("ALTER TABLE big ADD PRIMARY KEY (a, id)")
        made = "'it''s \\ ' || n % 7, n"
    else:
        made = "n * 3" if "bigint" in key else "md5(n::text)::uuid"
    connection.execute(f"INSERT INTO big SELECT {made}, n FROM generate_series(1, {rows}) n".encode())
    make_table(connection, "small", "one")
    connection.execute("CREATE TABLE nothing (id integer PRIMARY KEY, v text)")
    given = config(
        url,
        snapshot_max_threads=str(threads),
        ottla_snapshot_range_rows=str(rng.randrange(200, 700)),
        max_batch_size="97",
        tombstones_on_delete="false",
    )
    taken: list[SourceRecord] = []
    offset: SourceOffset | None = None
    for _ in range(3):
        with closing(Reading(given, offset)) as reading:
            before = len(taken)
            while len(taken) - before < rows // 4:
                batch = list(reading.some())
                taken += batch[: rng.randrange(1, len(batch) + 1)]
                if taken[-1] is not batch[-1]:
                    break
            offset = taken[-1].source_offset
        connection.execute(f"DELETE FROM big WHERE v::integer % 11 = {rng.randrange(11)}".encode())
        connection.execute("UPDATE big SET v = (v::integer + 100000)::text WHERE v::integer % 13 = 5")
    connection.execute("INSERT INTO small (v) VALUES ('end')")
    reads = sum(value == "r" for value, _ in told(taken))
    with closing(Reading(given, offset)) as reading:
        while ("c", "end") not in told(taken[-1:]) and ("r", "end") not in told(taken):
            taken += reading.some()
        while taken[-1].source_offset.get("snapshot") is not None:
            taken += reading.some()
    state: dict[Any, str] = {}
    for each in taken:
        if each.record.topic != "srv.public.big":
            continue
        id, value = tuple(each.record.key.values.values()), each.record.value.values
        if value["after"] is None:
            state.pop(id, None)
        else:
            state[id] = value["after"].values["v"]
    columns = "a, id" if key.startswith("a ") else "id::text" if "uuid" in key else "id"
    found = connection.execute(f"SELECT v, {columns} FROM big".encode()).fetchall()
    assert state == {tuple(row[1:]): row[0] for row in found}, f"seed {seed}"
    # Each kill repeats the ranges that were being read, and no more.
    copied = sum(value == "r" for value, _ in told(taken))
    assert copied < rows + 3 * threads * 1400 + 10, f"seed {seed}: {reads} {copied} of {rows}"
    marks = [each.record.value.values["source"].values["snapshot"] for each in taken]
    assert marks[0] == "first" and "last" in marks


RESELECTS = {
    "post.processors": "again",
    "again.type": "io.debezium.processors.reselect.ReselectColumnsPostProcessor",
}


def test_values_that_are_not_sent_are_read_again_where_a_processor_says_so(
    url: str, connection: Connection
) -> None:
    connection.execute(
        "CREATE TABLE big (k1 text, k2 integer, t text, b bytea, n boolean[], r numeric(400,2), "
        "plain text, small integer, PRIMARY KEY (k2, k1))"
    )
    connection.execute("ALTER TABLE big ALTER t SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL")
    connection.execute("ALTER TABLE big ALTER n SET STORAGE EXTERNAL")
    rows = {number: random.randbytes(4000).hex() for number in range(5)}
    with closing(Reading(config(url) | RESELECTS)) as reading:
        assert not reading.turn()
        for number, text in rows.items():
            connection.execute(
                "INSERT INTO big VALUES ('it''s', %s, %s, decode(%s, 'hex'), "
                "(SELECT array_agg(x > 9) FROM generate_series(1, 3000) x), NULL, NULL, 0)",
                (number, text, text),
            )
        reading.take(len(rows))
        connection.execute("UPDATE big SET small = 1")
        for each in reading.take(len(rows)):
            after = each.record.value.values["after"].values
            assert after["t"] == rows[after["k2"]] and after["b"] == bytes.fromhex(rows[after["k2"]])
            assert len(after["n"]) == 3000 and after["r"] is None and after["small"] == 1
        # A row that is gone when it is read again: told so, and its end follows.
        reading.close()
        connection.execute("UPDATE big SET small = 2 WHERE k2 = 0")
        connection.execute("DELETE FROM big WHERE k2 = 0")
        connection.execute("UPDATE big SET small = 3, plain = 'x' WHERE k2 = 1")
        connection.execute("UPDATE big SET t = 'newer' WHERE k2 = 1")
    given = config(url) | RESELECTS | {"again.reselect.columns.include.list": "public.big:(t|n|plain)"}
    with closing(Reading(given, reading.offset)) as again:
        gone, deleted, _, changed, newest = (
            None if each.record.value is None else each.record.value.values for each in again.take(5)
        )
    assert gone is not None and deleted is not None and changed is not None and newest is not None
    values = gone["after"].values
    # An array of booleans has no placeholder.
    assert values["t"] == "__debezium_unavailable_value" and values["n"] is None
    assert deleted["op"] == "d"
    # As the row is now, not as it was: the change that made it so comes behind.
    assert changed["after"].values["t"] == "newer" and changed["after"].values["plain"] == "x"
    assert changed["after"].values["b"] == b"__debezium_unavailable_value"  # not in the list
    assert newest["after"].values["t"] == "newer"


def test_processors_that_are_not_there_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"again\.type=org\.Mine"):
        Reading(config(url) | RESELECTS | {"again.type": "org.Mine"})
    with pytest.raises(ConfigError, match=r"reselect\.error\.handling\.mode"):
        Reading(config(url) | RESELECTS | {"again.reselect.error.handling.mode": "x"})


def test_a_slots_lag_is_told_and_what_the_server_keeps_for_it(
    url: str, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    make_table(connection, "t", "a")
    with closing(Reading(config(url, status_update_interval_ms="1"))) as reading:
        assert reading.connector.figures() == {}
        reading.take(1)
        assert "max_slot_wal_keep_size is not set" in caplog.text
        connection.execute("CREATE TABLE filled AS SELECT generate_series(1, 20000)")
        found = reading.connector.figures()
        assert found["slot-lag-bytes"] > 1_000_000 and found["slot-retained-bytes"] >= found["slot-lag-bytes"]
        assert found["slot-wal-status"] == 0 and "slot-safe-bytes" not in found
    assert "is about to be" not in caplog.text


def test_a_slot_that_lags_too_much_is_told_and_lost_then_copied_again(tmp_path_factory: Any) -> None:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    limits = ("wal_level=logical", "max_slot_wal_keep_size=1MB", "max_wal_size=32MB", "min_wal_size=32MB")
    with postgresql(programs, *limits) as url, psycopg.connect(url, autocommit=True) as connection:
        make_table(connection, "t", "a")
        given = configuration(url, table_include_list="public.t")
        with closing(Reading(given)) as reading:
            reading.take(1)
            reading.commit()
            reading.turn()
            assert reading.connector.figures()["slot-safe-bytes"] > 0
        connection.execute("INSERT INTO t (v) VALUES ('b')")
        for _ in range(10):
            connection.execute("CREATE TABLE filled AS SELECT generate_series(1, 100000)")
            connection.execute("DROP TABLE filled")
            connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")
        with closing(Reading(given, reading.offset)) as lost, pytest.raises(SetupError, match="is lost"):
            lost.turn()
        with closing(Reading(given | {"snapshot.mode": "when_needed"}, reading.offset)) as again:
            assert told(again.take(2)) == [("r", "a"), ("r", "b")]
            assert again.connector.figures()["slot-wal-status"] == 0


@pytest.mark.parametrize("heartbeats", ["0", "1"])
def test_an_idle_database_moves_its_slot_while_other_databases_write(
    url: str, connection: Connection, heartbeats: str
) -> None:
    name = config(url)["slot.name"]
    make_table(connection, "t", "a")
    other = f"other{heartbeats}"
    connection.execute(f"CREATE DATABASE {other}".encode())
    given = config(
        url,
        table_include_list="public.t",
        status_update_interval_ms="1",
        heartbeat_interval_ms=heartbeats,
        topic_heartbeat_prefix="beats",
    )
    with (
        closing(Reading(given)) as reading,
        psycopg.connect(f"{url.rpartition('/')[0]}/{other}", autocommit=True) as busy,
    ):
        reading.take(1)
        reading.commit()
        topics: set[str] = set()
        for _ in range(3):
            busy.execute("CREATE TABLE filled AS SELECT generate_series(1, 5000)")
            busy.execute("DROP TABLE filled")
            row = busy.execute("SELECT pg_current_wal_lsn()::text").fetchone()
            assert row is not None
            wanted = lsn_of(row[0])

            def moved(wanted: int = wanted) -> bool:
                topics.update(each.record.topic for each in reading.turn())
                reading.commit()
                return confirmed(connection, name) >= wanted

            _until(moved, turns=20_000)
        assert topics == ({"beats.srv"} if heartbeats == "1" else set())
        connection.execute("INSERT INTO t (v) VALUES ('b')")
        while not (found := [each for each in reading.some() if each.record.topic == "srv.public.t"]):
            pass
        assert told(found) == [("c", "b")]


@pytest.mark.parametrize("via_root", [True, False])
def test_partitions_come_as_their_table_or_as_themselves(
    url: str, connection: Connection, via_root: bool
) -> None:
    connection.execute("CREATE TABLE p (id integer PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    connection.execute("CREATE TABLE p_low PARTITION OF p FOR VALUES FROM (0) TO (3000)")
    connection.execute("CREATE TABLE p_high PARTITION OF p FOR VALUES FROM (3000) TO (9000)")
    connection.execute("INSERT INTO p SELECT n, n::text FROM generate_series(0, 5999) n")
    given = config(
        url,
        publish_via_partition_root=str(via_root).lower(),
        snapshot_max_threads="2",
        ottla_snapshot_range_rows="700",
    )
    with closing(Reading(given)) as reading:
        found = reading.take(6000)
        connection.execute("UPDATE p SET id = 6000 WHERE id = 1")
        found += reading.take(3)
    names = {"srv.public.p"} if via_root else {"srv.public.p_low", "srv.public.p_high"}
    assert {each.record.topic for each in found} == names
    assert {each.record.key.values["id"] for each in found[:6000]} == set(range(6000))
    assert [each.record.value and each.record.value.values["op"] for each in found[6000:]] == ["d", None, "c"]


def test_tables_that_are_not_copied_are_streamed_and_statements_select_rows(
    url: str, connection: Connection
) -> None:
    for name in ("a", "b", "c"):
        make_table(connection, name, f"{name}1", f"{name}2")
    given = config(
        url,
        snapshot_include_collection_list="public.(a|c)",
        snapshot_select_statement_overrides="public.c",
        max_batch_size="1",
    ) | {"snapshot.select.statement.overrides.public.c": "SELECT v, id FROM c WHERE v LIKE '%2' ORDER BY id;"}
    with closing(Reading(given)) as reading:
        assert told(reading.take(1)) == [("r", "a1")]
    # Before the copy is done: what is never copied is streamed even so.
    connection.execute("INSERT INTO b (v) VALUES ('b3')")
    with closing(Reading(given, reading.offset)) as again:
        assert told(again.take(4)) == [("c", "b3"), ("r", "a1"), ("r", "a2"), ("r", "c2")]
        connection.execute("UPDATE b SET v = 'b4' WHERE id = 1")
        assert told(again.take(1)) == [("u", "b4")]
    with pytest.raises(ConfigError, match=r"overrides\.public\.a is missing"):
        Reading(given | {"snapshot.select.statement.overrides": "public.a"})


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("column.mask.with.x.chars", "a", "no such setting"),
        ("column.truncate.to.0.chars", "a", "no such setting"),
        ("column.mask.hash.CRC.with.salt.a", "a", "no such hash"),
        ("column.mask.with.3.chars", "a[", "column.mask.with.3.chars"),
        ("converters", "mine", "transform"),
        ("snapshot.locking.mode", "custom", "snapshot.locking.mode"),
    ],
)
def test_settings_of_columns_that_make_no_sense_are_told(
    url: str, setting: str, value: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Reading(config(url) | {setting: value})


def test_a_stream_behind_a_copy_confirms_nothing_that_kafka_does_not_have(
    url: str, connection: Connection
) -> None:
    for name in ("a", "b"):
        make_table(connection, name, f"{name}1", f"{name}2")
    given = config(url, max_batch_size="1", status_update_interval_ms="1")
    with closing(Reading(given)) as first:
        first.take(2)
        kept = first.offset
    assert kept is not None
    connection.execute("DELETE FROM a WHERE id = 1")
    connection.execute("INSERT INTO b (v) VALUES ('b3')")
    with closing(Reading(given, kept)) as second:
        second.take(2 + 3)  # the delete and its tombstone, and b
        for _ in range(300):
            second.turn()
        # A kill here begins at the offset of before: its changes have to be there still.
        assert confirmed(connection, given["slot.name"]) <= kept["commit"]
        second.commit()
        _until(lambda: not second.turn() and confirmed(connection, given["slot.name"]) > kept["commit"])
    with closing(Reading(given, kept)) as again, pytest.raises(SetupError, match="offset was set back"):
        again.turn()
