"""The MariaDB source on a real server: copies, the binary log, restarts, DDL, and what it refuses."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.cdc.mariadb import connector
from ottla.connect.cdc.mariadb.binlog import BinlogError
from ottla.connect.cdc.mariadb.column_forms import FormOptions, column_form, default_value
from ottla.connect.cdc.mariadb.ddl import carry_out
from ottla.connect.cdc.mariadb.model import Table, TableId, Tables
from ottla.connect.cdc.mariadb.replication import BinlogConnection
from ottla.connect.cdc.mariadb.server import SetupError, read_charsets
from ottla.connect.cdc.mariadb.translation import StreamError
from ottla.connect.data.record import SourceProgress, SourceRecord
from ottla.connect.plugins.api import RetriableError
from support.connect.cdc import mariadb_types as types
from support.connect.cdc.mariadb_changes import (
    PREFIX,
    Reading,
    configuration,
    connection,
    execute,
    has_mariadb,
    logging_mariadb,
)

pytestmark = pytest.mark.skipif(
    not has_mariadb(), reason="MariaDB is not installed: apt-get install mariadb-server"
)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with logging_mariadb("--log-bin-compress=ON", "--log-bin-compress-min-len=10") as running:
        yield running


@pytest.fixture
def database(port: int) -> Iterator[str]:
    """A new database of a random name."""
    name = f"d{random.getrandbits(32):08x}"
    execute(port, f"CREATE DATABASE {name}")
    yield name
    execute(port, f"DROP DATABASE {name}")


def config_of(port: int, database: str, tmp_path: Path, **others: str) -> dict[str, str]:
    given = {"database_include_list": database, "include_schema_changes": "false", **others}
    return configuration(port, tmp_path / "history", extended_headers_enabled="false", **given)


def told(record: SourceRecord) -> tuple[Any, ...]:
    """Topic, operation, and the rows before and after of a change; a tombstone's key."""
    found = record.record
    if found.value is None:
        return (found.topic, "tombstone", dict(found.key.values))
    rows = [found.value.get(name) for name in ("before", "after")]
    return (found.topic, found.value.get("op"), *(None if row is None else dict(row.values) for row in rows))


def values_of(record: SourceRecord) -> dict[str, Any]:
    return dict(record.record.value.get("after").values)


def test_a_copy_is_followed_by_the_changes_since(port: int, database: str, tmp_path: Path) -> None:
    execute(
        port,
        f"CREATE TABLE {database}.goods (id int PRIMARY KEY, name varchar(20))",
        f"INSERT INTO {database}.goods VALUES (1, 'žluť'), (2, NULL)",
    )
    topic = f"{PREFIX}.{database}.goods"
    with closing(Reading(config_of(port, database, tmp_path))) as reading:
        first = reading.take(2)
        assert [told(each)[1:] for each in first] == [
            ("r", None, {"id": 1, "name": "žluť"}),
            ("r", None, {"id": 2, "name": None}),
        ]
        reading.turn()
        execute(
            port,
            f"UPDATE {database}.goods SET name = 'x' WHERE id = 2",
            f"UPDATE {database}.goods SET id = 3 WHERE id = 2",
            f"DELETE FROM {database}.goods WHERE id = 1",
        )
        assert [told(each) for each in reading.take(6)] == [
            (topic, "u", {"id": 2, "name": None}, {"id": 2, "name": "x"}),
            (topic, "d", {"id": 2, "name": "x"}, None),
            (topic, "tombstone", {"id": 2}),
            (topic, "c", None, {"id": 3, "name": "x"}),
            (topic, "d", {"id": 1, "name": "žluť"}, None),
            (topic, "tombstone", {"id": 1}),
        ]


@pytest.mark.parametrize("by_gtid", [True, False], ids=["gtid", "file and position"])
def test_every_offset_is_gone_on_from_exactly(
    port: int, database: str, tmp_path: Path, by_gtid: bool
) -> None:
    rng = random.Random(seed := random.getrandbits(32))
    execute(port, f"CREATE TABLE {database}.t (id int PRIMARY KEY, v int)")
    config = config_of(port, database, tmp_path, provide_transaction_metadata="true")
    with closing(Reading(config | {"snapshot.mode": "no_data"})) as reading:
        reading.turn()
        statements = random_statements(rng, f"{database}.t")
        execute(port, *statements, f"INSERT INTO {database}.t VALUES (-1, 0)")
        whole: list[SourceRecord] = []
        while not whole or told_or_end(whole[-2:])[:1] != [("c", -1)]:
            whole += reading.some()
    for _ in range(8):
        at = rng.randrange(len(whole) - 1)
        offset = dict(whole[at].source_offset)
        if not by_gtid:
            offset.pop("gtids")
        query = rng.choice(("true", "false"))
        with closing(Reading(config | {"include.query": query}, offset)) as again:
            rest: list[SourceRecord] = []
            while len(rest) < len(whole) - at - 1:
                rest += again.some()
        # A change of several records is told again whole.
        begin = at + 1
        while begin and whole[begin - 1].source_offset == whole[at].source_offset and is_within(whole, begin):
            begin -= 1
        expected = [comparable(each) for each in whole[begin:]]
        assert [comparable(each) for each in rest][: len(expected)] == expected, f"seed {seed}, behind {at}"


def is_within(whole: list[SourceRecord], at: int) -> bool:
    """Whether the record before is of a change that ends behind it."""
    record = whole[at - 1].record
    following = whole[at].record
    if record.value is None:
        return any(each.name == "__debezium.oldkey" for each in following.headers)
    return following.value is None and following.key == record.key


def told_or_end(records: list[SourceRecord]) -> list[tuple[Any, Any]]:
    found = []
    for each in records:
        value = each.record.value
        if value is not None and value.schema.field("op") is not None:
            after = value.get("after")
            found.append((value.get("op"), None if after is None else after.get("id")))
    return found


def comparable(record: SourceRecord) -> Any:
    value = record.record.value
    if value is None:
        return (record.record.topic, record.record.key, None)
    fields = {name: one for name, one in value.values.items() if name not in ("ts_ms", "ts_us", "ts_ns")}
    if fields.get("source") is not None:
        fields["source"] = {**fields["source"].values, "query": None}
    return (record.record.topic, record.record.key, fields)


def random_statements(rng: random.Random, table: str) -> list[str]:
    """Transactions of several rows and statements."""
    found = []
    for number in range(6):
        found.append("BEGIN")
        ids = rng.sample(range(1, 50), 4)
        rows = ", ".join(f"({id}, {number})" for id in ids)
        found.append(f"INSERT IGNORE INTO {table} VALUES {rows}")
        found.append(f"UPDATE {table} SET v = v + 1 WHERE id % {rng.randrange(2, 5)} = 0")
        found.append(f"UPDATE IGNORE {table} SET id = id + 100 WHERE id % 7 = {rng.randrange(7)}")
        found.append(f"DELETE FROM {table} WHERE id % 5 = {rng.randrange(5)}")
        found.append("COMMIT")
    return found


def test_a_copy_that_was_cut_short_goes_on_and_loses_no_delete(
    port: int, database: str, tmp_path: Path
) -> None:
    rng = random.Random(seed := random.getrandbits(32))
    tables = [f"{database}.{name}" for name in ("a", "b", "c")]
    for table in tables:
        rows = ", ".join(f"({id}, 0)" for id in range(60))
        execute(
            port, f"CREATE TABLE {table} (id int PRIMARY KEY, v int)", f"INSERT INTO {table} VALUES {rows}"
        )
    config = config_of(port, database, tmp_path, max_batch_size="10")
    state: dict[str, dict[int, int]] = {f"{PREFIX}.{each}": {} for each in tables}
    offset = None
    for _ in range(6):
        reading = Reading(config, offset)
        for _ in range(rng.randrange(1, 6)):
            replay(state, reading.some())
        offset = reading.offset
        reading.close()
        for table in tables:
            execute(
                port,
                f"DELETE FROM {table} WHERE id % 13 = {rng.randrange(13)}",
                f"UPDATE {table} SET v = v + 1 WHERE id % 3 = {rng.randrange(3)}",
            )
    expected = {f"{PREFIX}.{each}": rows_now(port, each) for each in tables}
    deadline = time.monotonic() + 20
    with closing(Reading(config, offset)) as reading:
        while state != expected:
            assert time.monotonic() < deadline, f"seed {seed}: {state} in place of {expected}"
            replay(state, reading.turn())


def rows_now(port: int, table: str) -> dict[int, int]:
    with closing(connection(port)) as opened, opened.cursor() as cursor:
        cursor.execute(f"SELECT id, v FROM {table}")
        return dict(cursor.fetchall())


def replay(state: dict[str, dict[int, int]], records: Any) -> None:
    for each in records:
        found = told(each)
        if found[1] == "d":
            # Changes of rows that are still to be copied come as well.
            state[found[0]].pop(found[2]["id"], None)
        elif found[1] != "tombstone":
            state[found[0]][found[3]["id"]] = found[3]["v"]


def test_values_of_the_log_are_those_of_a_copy(port: int, database: str, tmp_path: Path) -> None:
    columns = types.COLUMNS | {
        "i6": ("inet6", ("::1", "2001:db8::ff00:42:8329", "::ffff:192.0.2.128", "::", "ff00::")),
        "i4": ("inet4", ("192.168.2.1", "0.0.0.0", "10.0.0.0")),
        "u1": ("uuid", ("cf1180a5-eacd-11f1-8d37-02fc00000001", "ffffffff-ffff-ffff-ffff-ffffffffff00")),
        "zc": ("varchar(9000) COMPRESSED", ("x" * 8000, "", "short")),
        "zb": ("longblob COMPRESSED", (b"\0" * 5000, b"", b"\x01")),
        "hidden": ("int INVISIBLE", (1, 2)),
    }
    with closing(connection(port)) as opened, opened.cursor() as cursor:
        cursor.execute(types.table_of(f"{database}.t", columns))
        with closing(Reading(config_of(port, database, tmp_path, snapshot_mode="no_data"))) as reading:
            reading.turn()
            rows = types.rows_of(columns)
            for row in rows:
                cursor.execute(*types.insert(f"{database}.t", columns, row))
            streamed = reading.take(len(rows))
        with closing(Reading(config_of(port, database, tmp_path / "copy"))) as reading:
            copied = reading.take(len(rows))
    for one, other in zip(streamed, copied, strict=True):
        assert values_of(one) == values_of(other)
    assert {each.record.value.get("op") for each in streamed} == {"c"}
    assert values_of(copied[0])["u1"] == "cf1180a5-eacd-11f1-8d37-02fc00000001"
    assert values_of(copied[0])["zc"] == "x" * 8000


DDL = (
    "ALTER TABLE {t} ADD COLUMN b int NOT NULL DEFAULT 7 AFTER a, ADD c enum('x','y''z') FIRST",
    "ALTER TABLE {t} ADD (d decimal(7,3) unsigned, e varchar(30) CHARSET latin1 NOT NULL DEFAULT 'é''')",
    "ALTER TABLE {t} MODIFY b bigint unsigned NULL DEFAULT NULL COMMENT 'a, b', ALGORITHM=COPY",
    "ALTER TABLE {t} CHANGE COLUMN d dd double(9,2) DEFAULT -1.5 AFTER e, ADD UNIQUE KEY u (b, e(5))",
    "ALTER TABLE {t} RENAME COLUMN dd TO `d d`, ALTER e SET DEFAULT 'q', DROP COLUMN c",
    "ALTER TABLE {t} ADD f timestamp(3) NULL DEFAULT current_timestamp(3) ON UPDATE current_timestamp(3)",
    "ALTER TABLE {t} ADD g int GENERATED ALWAYS AS (b + (1 * 2)) STORED, ADD h set('a','b') DEFAULT 'a,b'",
    "ALTER TABLE {t} DROP PRIMARY KEY, ADD CONSTRAINT pk PRIMARY KEY USING BTREE (a, e)",
    "ALTER TABLE {t} ADD i bit(9) DEFAULT b'101', ADD j year DEFAULT 2001, ADD k date DEFAULT '2000-01-02'",
    "ALTER TABLE {t} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "ALTER TABLE {t} ADD COLUMN IF NOT EXISTS a int, DROP COLUMN IF EXISTS nothing",
    "ALTER TABLE {t} DEFAULT CHARACTER SET latin2, ADD l text, ADD m tinytext CHARSET ucs2",
    "CREATE UNIQUE INDEX other ON {t} (i)",
    "ALTER TABLE {t} ADD n time(6) DEFAULT '10:00:00.5', ADD CHECK (b > -1000), ADD o float(7,2) DEFAULT 1",
    "/* a comment */ ALTER /*!50000 IGNORE */ TABLE {t} /*M!100000 ADD p binary(3) */ -- end",
    "ALTER TABLE {t} DROP INDEX u, ALTER COLUMN j DROP DEFAULT, ADD q boolean NOT NULL DEFAULT TRUE",
    "ALTER TABLE {t} DROP INDEX other PARTITION BY HASH (a) PARTITIONS 3",
    "CREATE OR REPLACE TABLE {t} (a serial, `b``c` mediumint zerofill, d national char(3)) ENGINE=InnoDB "
    "COMMENT='x' CHARSET=koi8r",
)


def test_ddl_is_understood_as_the_server_does(port: int, database: str) -> None:
    table = f"{database}.t"
    execute(port, f"CREATE TABLE {table} (a int AUTO_INCREMENT PRIMARY KEY) DEFAULT CHARSET=utf8mb4")
    with closing(connection(port)) as opened, opened.cursor() as cursor:
        tables = read_charsets(opened)
        carry_out(tables, shown(cursor, table), database)
        for statement in DDL:
            sql = statement.replace("{t}", table)
            cursor.execute(sql)
            carry_out(tables, sql, database)
            fresh = Tables({}, tables.charsets, tables.server_charset)
            carry_out(fresh, shown(cursor, table), database)
            id = TableId(database, "t")
            assert outline(tables.tables[id]) == outline(fresh.tables[id]), sql


def shown(cursor: Any, table: str) -> str:
    cursor.execute(f"SHOW CREATE TABLE {table}")
    return str(cursor.fetchall()[0][1])


def outline(table: Table) -> list[Any]:
    """What records depend on."""
    found: list[Any] = [table.key, table.charset]
    for each in table.columns:
        form = column_form(each, FormOptions())
        assert form is not None
        default = default_value(each, form)
        found.append((each.name, form.schema, each.is_nullable, default, each.charset, each.options))
    return found


def test_ddl_changes_what_comes_behind_it_also_after_a_restart(
    port: int, database: str, tmp_path: Path
) -> None:
    table = f"{database}.t"
    config = config_of(port, database, tmp_path, snapshot_mode="no_data")
    with closing(Reading(config)) as reading:
        reading.turn()
        execute(
            port,
            f"CREATE TABLE {table} (a int PRIMARY KEY)",
            f"INSERT INTO {table} VALUES (1)",
            f"ALTER TABLE {table} ADD b varchar(9) FIRST",
            f"INSERT INTO {table} VALUES ('x', 2)",
            f"ALTER TABLE {table} DROP b, ADD c enum('p','q') NOT NULL DEFAULT 'q'",
            f"INSERT INTO {table} (a) VALUES (3)",
        )
        found = reading.take(3)
    rows: list[dict[str, Any]] = [{"a": 1}, {"b": "x", "a": 2}, {"a": 3, "c": "q"}]
    assert [values_of(each) for each in found] == rows
    for at in range(2):
        with closing(Reading(config, found[at].source_offset)) as reading:
            assert [values_of(each) for each in reading.take(2 - at)] == rows[at + 1 :]
    lines = (tmp_path / "history").read_text(encoding="utf-8").splitlines()
    assert all(json.loads(each)["source"] == {"server": PREFIX} for each in lines)


def test_a_table_that_the_history_lacks_is_taken_as_it_is_if_it_fits(
    port: int, database: str, tmp_path: Path
) -> None:
    table = f"{database}.t"
    config = config_of(port, database, tmp_path, snapshot_mode="no_data")
    with closing(Reading(config | {"schema.history.internal.skip.unparseable.ddl": "true"})) as reading:
        reading.turn()
        execute(port, f"CREATE TABLE {table} (a int PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
        offset = reading.take(1)[0].source_offset
    path = tmp_path / "history"
    kept = [line for line in path.read_text().splitlines() if f'"{database}\\".\\"t' not in line]
    path.write_text("\n".join(kept) + "\n")
    execute(port, f"INSERT INTO {table} VALUES (2)")
    with closing(Reading(config, offset)) as reading:
        assert values_of(reading.take(1)[0]) == {"a": 2}
    path.write_text("\n".join(kept) + "\n")
    execute(port, f"ALTER TABLE {table} ADD b int")
    with closing(Reading(config, offset)) as reading, pytest.raises(StreamError, match="lacks DDL"):
        reading.take(1)
    path.unlink()
    with closing(Reading(config, offset)) as reading, pytest.raises(SetupError, match="history is empty"):
        reading.turn()


def test_a_purged_log_is_told_or_copied_again(port: int, database: str, tmp_path: Path) -> None:
    table = f"{database}.t"
    execute(port, f"CREATE TABLE {table} (a int PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
    config = config_of(port, database, tmp_path)
    with closing(Reading(config)) as reading:
        offset = reading.take(1)[0].source_offset
    execute(port, f"INSERT INTO {table} VALUES (2)", "FLUSH BINARY LOGS", f"INSERT INTO {table} VALUES (3)")
    with closing(connection(port)) as opened, opened.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        newest = cursor.fetchall()[0][0]
    deadline = time.monotonic() + 20
    while True:
        execute(port, f"PURGE BINARY LOGS TO '{newest}'")
        with closing(connection(port)) as opened, opened.cursor() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            if cursor.fetchall()[0][0] == newest:
                break
        assert time.monotonic() < deadline, "the log is not purged"
        time.sleep(0.1)
    with closing(Reading(config, offset)) as reading, pytest.raises(SetupError, match="when_needed"):
        reading.some()
    with closing(Reading(config | {"snapshot.mode": "when_needed"}, offset)) as reading:
        assert [told(each)[1:] for each in reading.take(3)] == [("r", None, {"a": n}) for n in (1, 2, 3)]


def test_a_server_that_lacks_our_transactions_is_told(port: int, database: str, tmp_path: Path) -> None:
    execute(port, f"CREATE TABLE {database}.t (a int PRIMARY KEY)", f"INSERT INTO {database}.t VALUES (1)")
    config = config_of(port, database, tmp_path)
    with closing(Reading(config)) as reading:
        offset = dict(reading.take(1)[0].source_offset)
    offset["gtids"] = "0-99-4000000000"
    with closing(Reading(config, offset)) as reading, pytest.raises(SetupError, match="another server"):
        reading.some()


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("binlog_format", "STATEMENT", "binlog_format is STATEMENT"),
        ("binlog_row_image", "MINIMAL", "binlog_row_image is MINIMAL"),
    ],
)
def test_a_server_without_whole_rows_is_refused(
    port: int, database: str, tmp_path: Path, setting: str, value: str, words: str
) -> None:
    execute(port, f"SET GLOBAL {setting} = '{value}'")
    try:
        with (
            closing(Reading(config_of(port, database, tmp_path))) as reading,
            pytest.raises(SetupError, match=words),
        ):
            reading.turn()
    finally:
        execute(port, f"SET GLOBAL {setting} = DEFAULT", "SET GLOBAL binlog_format = 'ROW'")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SET SESSION binlog_format = 'STATEMENT'", "as a statement"),
        ("SET SESSION binlog_row_image = 'MINIMAL'", "binlog_row_image has to be FULL"),
    ],
)
def test_a_session_that_logs_less_is_told(
    port: int, database: str, tmp_path: Path, statement: str, words: str
) -> None:
    execute(port, f"CREATE TABLE {database}.t (a int PRIMARY KEY, b int)")
    with closing(Reading(config_of(port, database, tmp_path, snapshot_mode="no_data"))) as reading:
        reading.turn()
        execute(
            port,
            f"INSERT INTO {database}.t VALUES (1, 2)",
            statement,
            f"UPDATE {database}.t SET b = 3 WHERE a = 1",
        )
        with pytest.raises(StreamError, match=words):
            reading.take(2)


def test_a_user_without_rights_is_told_which(port: int, database: str, tmp_path: Path) -> None:
    user = f"u{random.getrandbits(24):06x}"
    execute(
        port,
        f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY 'p'",
        f"GRANT SELECT ON *.* TO {user}@'127.0.0.1'",
    )
    config = config_of(port, database, tmp_path) | {"database.user": user, "database.password": "p"}
    try:
        with closing(Reading(config)) as reading, pytest.raises(SetupError, match="lacks REPLICATION SLAVE"):
            reading.turn()
        execute(port, f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}@'127.0.0.1'")
        with closing(Reading(config)) as reading, pytest.raises(SetupError, match="RELOAD"):
            reading.turn()
        execute(port, f"CREATE TABLE {database}.t (a int)", f"INSERT INTO {database}.t VALUES (1)")
        with closing(Reading(config | {"snapshot.locking.mode": "none"})) as reading:
            assert values_of(reading.take(1)[0]) == {"a": 1}
        wrong = config | {"database.password": "wrong"}
        with closing(Reading(wrong)) as reading, pytest.raises(SetupError, match="refuses the user"):
            reading.turn()
    finally:
        execute(port, f"DROP USER {user}@'127.0.0.1'")


def test_sources_can_be_left_out(port: int, database: str, tmp_path: Path) -> None:
    execute(port, f"CREATE TABLE {database}.t (a int PRIMARY KEY)")
    config = config_of(port, database, tmp_path, snapshot_mode="no_data", gtid_source_excludes="5-.*")
    with closing(Reading(config)) as reading:
        reading.turn()
        execute(
            port,
            "SET SESSION gtid_domain_id = 5",
            f"INSERT INTO {database}.t VALUES (1)",
            "SET SESSION gtid_domain_id = 0",
            f"INSERT INTO {database}.t VALUES (2)",
        )
        assert values_of(reading.take(1)[0]) == {"a": 2}


@pytest.mark.long
def test_a_replica_takes_over_with_its_own_files(port: int, database: str, tmp_path: Path) -> None:
    with logging_mariadb("--server-id=8", "--log-slave-updates=ON", "--log-bin=replica") as other:
        execute(
            other,
            "SET SESSION sql_log_bin = 0",
            f"CREATE DATABASE {database}",
            f"SET GLOBAL gtid_slave_pos = '{gtids_of_log(port)}'",
            f"CHANGE MASTER TO master_host='127.0.0.1', master_port={port}, master_user='ottla', "
            "master_use_gtid=slave_pos, master_connect_retry=1",
            "START SLAVE",
        )
        execute(
            port, f"CREATE TABLE {database}.t (a int PRIMARY KEY)", f"INSERT INTO {database}.t VALUES (1)"
        )
        config = config_of(port, database, tmp_path)
        with closing(Reading(config)) as reading:
            assert values_of(reading.take(1)[0]) == {"a": 1}
            reading.turn()
            execute(port, f"ALTER TABLE {database}.t ADD b int", f"INSERT INTO {database}.t VALUES (2, 3)")
            execute(port, f"INSERT INTO {database}.t VALUES (3, 4), (4, 5)")
            offset = reading.take(3)[1].source_offset  # within a transaction
        assert offset["file"].startswith("log.")
        wait_for_replica(port, other)
        execute(other, "STOP SLAVE", f"INSERT INTO {database}.t VALUES (5, 6)")
        with closing(Reading(config | {"database.port": str(other)}, offset)) as reading:
            found = reading.take(2)
        assert [values_of(each) for each in found] == [{"a": 4, "b": 5}, {"a": 5, "b": 6}]
        assert found[-1].source_offset["file"].startswith("replica.")


def gtids_of_log(port: int) -> str:
    with closing(connection(port)) as opened, opened.cursor() as cursor:
        cursor.execute("SELECT @@gtid_binlog_pos")
        return str(cursor.fetchall()[0][0])


def wait_for_replica(port: int, other: int) -> None:
    wanted = gtids_of_log(port)
    with closing(connection(other)) as opened, opened.cursor() as cursor:
        cursor.execute("SELECT MASTER_GTID_WAIT(%s, 30)", (wanted,))
        assert cursor.fetchall()[0][0] == 0, "the replica does not follow"


def test_heartbeats_move_the_offset_where_nothing_is_captured(
    port: int, database: str, tmp_path: Path
) -> None:
    execute(port, f"CREATE TABLE {database}.t (a int PRIMARY KEY)")
    config = config_of(
        port, database, tmp_path, table_exclude_list=".*", heartbeat_interval_ms="1", snapshot_mode="no_data"
    )
    with closing(Reading(config)) as reading:
        first = reading.some()[-1]
        assert first.record.topic == f"__debezium-heartbeat.{PREFIX}"
        execute(port, f"INSERT INTO {database}.t VALUES (1)")
        deadline = time.monotonic() + 20
        while reading.some()[-1].source_offset == first.source_offset:
            assert time.monotonic() < deadline


def test_a_place_without_records_is_told(
    port: int, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "PROGRESS_SECONDS", 0.0)
    config = config_of(port, database, tmp_path, table_exclude_list=".*", snapshot_mode="no_data")
    with closing(Reading(config)) as reading:
        reading.turn()
        execute(
            port, f"CREATE TABLE {database}.t (a int PRIMARY KEY)", f"INSERT INTO {database}.t VALUES (1)"
        )
        deadline = time.monotonic() + 20
        while not isinstance(batch := reading.turn(), SourceProgress):
            assert not batch and time.monotonic() < deadline
        assert batch.source_offset["gtids"]


def test_schema_changes_are_told(port: int, database: str, tmp_path: Path) -> None:
    config = config_of(port, database, tmp_path, snapshot_mode="no_data") | {"include.schema.changes": "true"}
    with closing(Reading(config)) as reading:
        reading.some()
        execute(port, f"CREATE TABLE {database}.t (a int PRIMARY KEY)", f"DROP TABLE {database}.t")
        found = reading.take(2)
    assert [each.record.topic for each in found] == [PREFIX, PREFIX]
    changes = [each.record.value.get("tableChanges")[0] for each in found]
    assert [each.get("type") for each in changes] == ["CREATE", "DROP"]


def test_a_server_that_is_away_is_tried_again(tmp_path: Path) -> None:
    config = configuration(1, tmp_path / "history")
    with closing(Reading(config)) as reading, pytest.raises(RetriableError):
        reading.turn()


def test_damaged_events_are_noticed(port: int, database: str, tmp_path: Path) -> None:
    execute(port, f"CREATE TABLE {database}.t (a int PRIMARY KEY)")
    with closing(Reading(config_of(port, database, tmp_path, snapshot_mode="no_data"))) as reading:
        reading.turn()
        reading.turn()
        stream = reading.connector._stream
        assert isinstance(stream, BinlogConnection)
        execute(port, f"INSERT INTO {database}.t VALUES (1)")
        deadline = time.monotonic() + 20
        while len(stream._buffer) - stream._at < 100:
            stream._fill()
            assert time.monotonic() < deadline
        stream._buffer[stream._at + 4 + 1 + 19 + 3] ^= 1
        with pytest.raises(BinlogError, match="checksum"):
            reading.some()
