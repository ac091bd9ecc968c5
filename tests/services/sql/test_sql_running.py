"""Queries that run on Spark behind the server: made, killed, replaced, paused, ended."""

from __future__ import annotations

import os
import random
import signal
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from support.clients.confluent import admin_client, eventually
from support.servers.ottla_broker import OttlaBroker
from support.servers.processes import descendants
from support.sql.sql_server import TIMEOUT_S, Push, SqlServer

HOST = "ottla.sql.running"
EARLIEST = {"auto.offset.reset": "earliest"}


@pytest.fixture(scope="module")
def server(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    directory = tmp_path_factory.mktemp("sql")
    service = f"id{uuid.uuid4().hex[:8]}"
    with SqlServer.start(broker.bootstrap, directory, service, warm=True) as running:
        yield running


def host_of(server: SqlServer) -> int:
    """The process of the server's query host."""
    found = [
        pid
        for pid, command in descendants(server.process.server.process.pid).items()
        if command.endswith(HOST) or f"{HOST} " in command
    ]
    assert found, descendants(server.process.server.process.pid)
    return found[0]


def kill_host(server: SqlServer) -> None:
    os.kill(host_of(server), signal.SIGKILL)


def stream(server: SqlServer, columns: str) -> str:
    name = f"S_{uuid.uuid4().hex[:10]}".upper()
    server.run(
        f"CREATE STREAM {name} ({columns}) WITH (kafka_topic='{name}', value_format='json', partitions=2);"
    )
    return name


def topics_of(broker: OttlaBroker, part: str) -> list[str]:
    return [
        each for each in admin_client(broker.bootstrap).list_topics(timeout=TIMEOUT_S).topics if part in each
    ]


@pytest.mark.timeout(900)
def test_queries_run_through_kills_replacement_pause_and_end(server: SqlServer, broker: OttlaBroker) -> None:
    name = stream(server, "page STRING, ms INT")
    table, filtered = f"T_{name}", f"F_{name}"
    server.run(f"CREATE TABLE {table} AS SELECT page, COUNT(*) AS n FROM {name} GROUP BY page;", EARLIEST)
    try:
        _, made = server.run(
            "ALTER SYSTEM 'ksql.streams.auto.offset.reset'='earliest';"
            f"CREATE STREAM {filtered} AS SELECT UCASE(page) AS page, ms FROM {name} WHERE ms > 10;"
        )
    finally:
        server.run("ALTER SYSTEM 'auto.offset.reset'='latest';")
    id = made["commandStatus"]["queryId"]
    (explained,) = server.run(f"EXPLAIN {id};")
    assert explained["queryDescription"]["overriddenProperties"] == EARLIEST
    dice = random.Random()
    counts: dict[str, int] = {}
    large: list[list[object]] = []

    def write(count: int) -> None:
        for _ in range(count):
            page, ms = dice.choice("abc"), dice.randint(0, 20)
            server.run(f"INSERT INTO {name} VALUES ('{page}', {ms});")
            counts[page] = counts.get(page, 0) + 1
            if ms > 10:
                large.append([page.upper(), ms])

    def is_all() -> None:
        server.until(f"SELECT * FROM {table};", lambda rows: dict(rows) == counts)  # type: ignore[arg-type]
        server.until(f"SELECT * FROM {filtered};", lambda rows: sorted(rows) == sorted(large))  # type: ignore[type-var]

    write(15)
    is_all()
    one = next(iter(counts))
    assert server.rows(f"SELECT n FROM {table} WHERE page = '{one}';") == [[counts[one]]]

    # The host dies: the queries go on in the next one, each row once.
    kill_host(server)
    write(15)
    is_all()

    # A new plan takes over where the old one stood; one that can't is refused with the reason.
    server.run(
        f"CREATE OR REPLACE STREAM {filtered} AS SELECT LCASE(page) AS page, ms FROM {name} WHERE ms > 15;"
    )

    def is_taken_over() -> bool:
        (described,) = server.run(f"DESCRIBE {filtered} EXTENDED;")
        return f"its plan took over {name}-" in described["sourceDescription"]["statistics"]

    eventually(is_taken_over, "the old plan has ended", TIMEOUT_S)  # it may read what is written before
    before = list(large)
    large.clear()
    server.run(f"INSERT INTO {name} VALUES ('NEW', 16);")
    wanted = sorted([*before, ["new", 16]])  # type: ignore[type-var]
    server.until(f"SELECT * FROM {filtered};", lambda rows: sorted(rows) == wanted)  # type: ignore[arg-type]
    query = f"SELECT page, COUNT(*) AS n, SUM(ms) AS s FROM {name} GROUP BY page"
    refused = server.refused(f"CREATE OR REPLACE TABLE {table} AS {query};")
    assert "aggregates" in refused["message"]

    # Push queries that need Spark run beside the others, and leave nothing behind.
    pushed_by_spark(server, broker, name, "WINDOW CUMULATE (SIZE 1 DAY, STEP 12 HOURS)")

    # Paused it rests, resumed it catches up; terminated it is gone with all that it had.
    server.run(f"PAUSE {id};")
    found = server.query(id)
    assert found is not None
    assert found["state"] == "PAUSED"
    server.run(f"INSERT INTO {name} VALUES ('LATER', 17);")
    server.run(f"RESUME {id};")
    server.until(f"SELECT * FROM {filtered};", lambda rows: ["later", 17] in rows)
    server.run(f"TERMINATE {id}; DROP STREAM {filtered} DELETE TOPIC;")
    assert server.query(id) is None
    eventually(lambda: not topics_of(broker, filtered), "nothing of the query is left", TIMEOUT_S)
    assert topics_of(broker, id) == []


def pushed_by_spark(server: SqlServer, broker: OttlaBroker, name: str, window: str) -> None:
    """A push query of counts gives a row and leaves no topic."""
    row = [f"pushed {window}".upper(), 1]
    push = Push(server, f"SELECT page, COUNT(*) AS n FROM {name} {window} GROUP BY page EMIT CHANGES;")
    server.run(f"INSERT INTO {name} VALUES ('{row[0]}', 1);")
    push.until(lambda rows: row in rows)
    httpx.post(f"{server.url}/close-query", json={"queryId": push.head["queryId"]}, timeout=TIMEOUT_S)
    push.until_ended()
    eventually(
        lambda: not topics_of(broker, push.head["queryId"]), "the push query's topic is gone", TIMEOUT_S
    )


@pytest.mark.long
@pytest.mark.timeout(600)
def test_another_server_goes_on_with_the_queries_of_one_that_is_killed(
    broker: OttlaBroker, tmp_path: Path
) -> None:
    service = f"id{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        first = stack.enter_context(SqlServer.start(broker.bootstrap, tmp_path, service, warm=True))
        second = stack.enter_context(SqlServer.start(broker.bootstrap, tmp_path, service, warm=True))
        name = stream(second, "page STRING")  # which passes it on
        second.run(
            f"CREATE TABLE T_{name} AS SELECT page, COUNT(*) AS n FROM {name} GROUP BY page;", EARLIEST
        )
        for _ in range(5):
            second.run(f"INSERT INTO {name} VALUES ('x');")
        for each in (first, second):
            each.until(f"SELECT * FROM T_{name};", lambda rows: rows == [["x", 5]])
        host = host_of(first)
        first.process.kill()
        eventually(lambda: not os.path.exists(f"/proc/{host}"), "the host ends with its server", TIMEOUT_S)
        for _ in range(5):
            eventually(
                lambda: second.ask(f"INSERT INTO {name} VALUES ('x');").status_code == 200,
                "it writes",
                TIMEOUT_S,
            )
        second.until(f"SELECT * FROM T_{name};", lambda rows: rows == [["x", 10]], 120)
