"""PostgreSQL's clients on streams and tables: psql, psycopg, Java's driver; texts, binaries, cancels."""

from __future__ import annotations

import datetime
import random
import shutil
import socket
import struct
import subprocess
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ottla.pipeline.spark.maven import fetch_jars
from support.java.debezium_source import POSTGRES
from support.java.java_tools import compile_java, jars_of, java_executable
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.sql.sql_server import TIMEOUT_S, SqlServer

PORT = free_port()


@pytest.fixture(scope="module")
def server(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    directory = tmp_path_factory.mktemp("wire")
    settings = {"ottla.sql.postgres.listen": f"127.0.0.1:{PORT}"}
    with SqlServer.start(
        broker.bootstrap, directory, f"id{uuid.uuid4().hex[:8]}", settings=settings
    ) as running:
        yield running


def connect(**others: Any) -> psycopg.Connection[Any]:
    return psycopg.connect(
        host="127.0.0.1", port=PORT, user="me", dbname="ottla", autocommit=True, connect_timeout=20, **others
    )


@pytest.fixture
def client(server: SqlServer) -> Iterator[psycopg.Connection[Any]]:
    with connect() as found:
        yield found


@pytest.fixture
def table(client: psycopg.Connection[Any]) -> str:
    name = f"W_{uuid.uuid4().hex[:8]}".upper()
    client.execute(
        f"CREATE TABLE {name} (id INT PRIMARY KEY, n BIGINT, f DOUBLE, d DECIMAL(12, 3), t STRING, b BYTES, "
        f"yes BOOLEAN, day DATE, at TIME, ts TIMESTAMP, xs ARRAY<STRING>, m MAP<STRING, INT>, "
        f"s STRUCT<a INT, b STRING>) WITH (kafka_topic='{name}', value_format='json', partitions=2);"
    )
    return name


def written(client: psycopg.Connection[Any], table: str, dice: random.Random, id: int) -> tuple[Any, ...]:
    """A random row, written by a statement; as psycopg has to give it."""
    texts = ["", "a'b", "ü€", 'q"\\', "{}", "NULL", "x" * 300]
    n, f = dice.randint(-(2**63), 2**63 - 1), dice.choice([0.0, -1.5, 1e300, 12.25])
    d = Decimal(dice.randint(-(10**11), 10**11)).scaleb(-3)
    t, data, yes = dice.choice(texts), dice.randbytes(dice.randint(0, 9)), dice.random() < 0.5
    day = datetime.date(2000, 1, 1) + datetime.timedelta(days=dice.randint(-9000, 9000))
    at = datetime.time(
        dice.randint(0, 23), dice.randint(0, 59), dice.randint(0, 59), dice.randint(0, 999) * 1000
    )
    ts = datetime.datetime.combine(day, at)
    xs = [dice.choice(texts) for _ in range(dice.randint(0, 3))]
    quoted = [each.replace("'", "''") for each in xs]
    array = f"ARRAY[{', '.join(repr_of(each) for each in quoted)}]" if xs else "CAST(NULL AS ARRAY<STRING>)"
    client.execute(
        f"INSERT INTO {table} VALUES ({id}, {n}, {f!r}, {d}, {repr_of(t.replace(chr(39), chr(39) * 2))}, "
        f"TO_BYTES('{data.hex()}', 'hex'), {str(yes).upper()}, '{day}', '{at.isoformat('milliseconds')}', "
        f"'{ts.isoformat(timespec='milliseconds')}', {array}, MAP('k' := 1), STRUCT(a := 7, b := 'z'));"
    )
    return (id, n, f, d, t, data, yes, day, at, ts, xs or None, {"k": 1}, {"A": 7, "B": "z"})


def repr_of(text: str) -> str:
    return f"'{text}'"


def test_values_come_as_they_were_written_in_text_and_in_binary(
    client: psycopg.Connection[Any], table: str
) -> None:
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    wanted = [written(client, table, dice, id) for id in range(8)]
    for binary in (False, True):
        cursor = client.cursor(binary=binary)
        deadline = threading.Event()
        for _ in range(200):
            found = sorted(cursor.execute(f"SELECT * FROM {table}").fetchall())
            if len(found) == len(wanted):
                break
            deadline.wait(0.1)
        assert found == wanted
        for row in wanted:
            (one,) = cursor.execute(f"SELECT * FROM {table} WHERE id = %s", (row[0],)).fetchall()
            assert one == row
    # Ordinary SQL, which ksqlDB's language does not have, over the same rows.
    total = client.execute(
        f"SELECT yes, count(*), sum(d), max(ts) FROM {table} WHERE n <> %s GROUP BY yes ORDER BY 1", (0,)
    ).fetchall()
    for yes, count, amount, latest in total:
        rows = [each for each in wanted if each[6] is yes]
        assert (count, amount, latest) == (len(rows), sum(r[3] for r in rows), max(r[9] for r in rows))
    joined = client.execute(f"SELECT count(*) FROM {table} a JOIN {table} b ON a.id = b.id").fetchone()
    assert joined == (len(wanted),)


def test_errors_have_a_place_and_advice_and_the_session_goes_on(
    client: psycopg.Connection[Any], table: str
) -> None:
    with pytest.raises(psycopg.Error) as refused:
        client.execute(f"SELECT ids FROM {table}")
    found = refused.value.diag
    assert (found.statement_position, found.sqlstate) == ("8", "42601")
    assert found.message_hint == "is ID meant?"
    with pytest.raises(psycopg.Error):
        client.execute("nonsense")
    with client.transaction():
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_a_push_query_is_followed_and_cancelled(client: psycopg.Connection[Any], table: str) -> None:
    stream = f"S_{table}"
    client.execute(
        f"CREATE STREAM {stream} (n INT) WITH (kafka_topic='{stream}', value_format='json', partitions=1);"
    )
    stop = threading.Event()

    def write() -> None:
        with connect() as other:
            number = 0
            while not stop.is_set():
                other.execute(f"INSERT INTO {stream} VALUES ({number});")
                number += 1

    writing = threading.Thread(target=write)
    writing.start()
    try:
        rows = client.cursor().stream(f"SELECT n FROM {stream} EMIT CHANGES")
        found = [next(rows)[0] for _ in range(5)]
        assert found == list(range(found[0], found[0] + 5))
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.cancel()
            for _ in rows:
                pass
        assert client.execute(f"SELECT n FROM {stream} LIMIT 2").fetchall() == [(0,), (1,)]
    finally:
        stop.set()
        writing.join()


@pytest.mark.system("psql", "postgresql")
def test_psql_lists_and_describes(client: psycopg.Connection[Any], table: str) -> None:
    psql = shutil.which("psql")
    assert psql is not None

    def said(*commands: str) -> str:
        words = [word for each in commands for word in ("-c", each)]
        run = subprocess.run(
            [psql, "-h", "127.0.0.1", "-p", str(PORT), "-U", "me", "-X", *words],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        return run.stdout

    assert f"| {table} " in said(r"\dt")
    described = said(rf"\d {table.lower()}")
    assert "numeric(12,3)" in described
    assert "text[]" in described
    assert "not null" in described
    for command in (r"\d", r"\dv", r"\l", r"\dn", r"\df", r"\du", r"\dT", r"\di", rf"\d+ {table}"):
        said(command)
    assert "SHOW" in said("SHOW TABLES") or table in said("SHOW TABLES")


JDBC = """
import java.sql.*;
public class Jdbc { public static void main(String[] a) throws Exception {
  try (Connection c = DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + a[0] + "/ottla?user=me")) {
    DatabaseMetaData m = c.getMetaData();
    try (ResultSet r = m.getTables(null, null, a[1], new String[]{"TABLE"})) {
      while (r.next()) System.out.println("table " + r.getString("TABLE_NAME")); }
    try (ResultSet r = m.getColumns(null, null, a[1], "%")) {
      while (r.next())
        System.out.println("column " + r.getString("COLUMN_NAME") + " " + r.getString("TYPE_NAME")); }
    try (ResultSet r = m.getPrimaryKeys(null, null, a[1])) {
      while (r.next()) System.out.println("key " + r.getString("COLUMN_NAME")); }
    PreparedStatement p = c.prepareStatement("SELECT id, t, d, ts FROM " + a[1] + " WHERE id = ?");
    for (int i = 0; i < 8; i++) {  // from the fifth on, prepared on the server and in binary
      p.setInt(1, i % 2);
      try (ResultSet r = p.executeQuery()) { while (r.next()) {
        System.out.println("row " + r.getInt(1) + " " + r.getString(2) + " " + r.getBigDecimal(3)
          + " " + r.getTimestamp(4)); } } }
    c.setAutoCommit(false);
    Statement s = c.createStatement(); s.setFetchSize(2); int n = 0;
    try (ResultSet r = s.executeQuery("SELECT id FROM " + a[1])) { while (r.next()) n++; }
    System.out.println("rows " + n);
  } } }
"""


@pytest.mark.java
@pytest.mark.long
def test_javas_driver_reads_rows_and_what_there_is(
    client: psycopg.Connection[Any], table: str, tmp_path: Path
) -> None:
    dice = random.Random(3)
    rows = [written(client, table, dice, id) for id in range(5)]
    client.execute(f"SELECT * FROM {table}").fetchall()
    jars = ":".join(map(str, fetch_jars(jars_of(POSTGRES.lock))))
    source = tmp_path / "Jdbc.java"
    source.write_text(JDBC)
    classes = compile_java([source], jars, tmp_path)
    command = [str(java_executable()), "-cp", f"{jars}:{classes}", "Jdbc", str(PORT), table]
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert run.returncode == 0, run.stderr
    assert f"table {table}" in run.stdout
    assert "column D numeric" in run.stdout
    assert "key ID" in run.stdout
    assert run.stdout.count(f"row 0 {rows[0][4]} {rows[0][3]}") == 4
    assert "rows 5" in run.stdout


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0\4",
        struct.pack(">II", 2**31 - 1, 196_608),
        struct.pack(">II", 8, 131_072),
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">II", 8, 196_608) + b"Q" + struct.pack(">I", 2**31),
        struct.pack(">II", 9, 196_608) + b"\0" + b"B" + struct.pack(">I", 7) + b"\xff\xff\xff",
    ],
)
def test_bytes_that_are_no_protocol_harm_nobody(server: SqlServer, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", PORT), timeout=TIMEOUT_S) as raw:
        raw.sendall(data)
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(4096):
            pass
    with connect() as client:
        assert client.execute("SELECT 1").fetchone() == (1,)


def test_clients_prove_who_they_are(broker: OttlaBroker, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice: secret\n")
    users.chmod(0o600)
    port = free_port()
    settings = {
        "ottla.sql.postgres.listen": f"127.0.0.1:{port}",
        "authentication.method": "BASIC",
        "ottla.authentication.users.file": str(users),
    }
    with SqlServer.start(broker.bootstrap, tmp_path, f"id{uuid.uuid4().hex[:8]}", settings=settings):
        place: dict[str, Any] = {"host": "127.0.0.1", "port": port, "dbname": "ottla", "connect_timeout": 20}
        with psycopg.connect(user="alice", password="secret", **place) as found:
            assert found.execute("SELECT 1").fetchone() == (1,)
        for user, password in (("alice", "wrong"), ("bob", "secret"), ("alice", "")):
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(user=user, password=password, **place)
