"""kill -9 of hosts while writers change MariaDB's rows and tables: each change comes exactly once."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pymysql
import pytest

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.reading import read
from ottla.connect.host.messages import Role, Run, Running
from ottla.connect.host.offset_store import read_offsets
from ottla.connect.worker.fencing import fence_task
from support.clients.confluent import create_topic, eventually
from support.connect import runs
from support.connect.cdc.mariadb_changes import (
    PREFIX,
    configuration,
    connection,
    execute,
    has_mariadb,
    logging_mariadb,
)
from support.connect.runs import OFFSETS_TOPIC, HostProcess, host_process
from support.servers.ottla_broker import OttlaBroker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(not has_mariadb(), reason="MariaDB is not installed: apt-get install mariadb-server"),
]

DATABASE = "changing"
TABLES = tuple(f"{DATABASE}.{each}" for each in ("first", "second", "third"))
HISTORY_TOPIC = "history"
ROWS = 1500
WRITERS = 3
KILLS = 12
COPYING_KILLS = 5
LONGEST_LIFE_S = 1.5
JSON = "org.apache.kafka.connect.json.JsonConverter"
PARTITION = {"server": PREFIX}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OttlaBroker.start(tmp_path_factory.mktemp("killed-changes") / "broker") as broker:
        create_topic(broker.bootstrap, OFFSETS_TOPIC, 3, {"cleanup.policy": "compact"})
        yield broker.bootstrap


@pytest.fixture
def port() -> Iterator[int]:
    with logging_mariadb() as running:
        yield running


def prepare(port: int) -> None:
    """Tables whose every change has a number of its own."""
    execute(port, f"CREATE DATABASE {DATABASE}")
    for table in TABLES:
        rows = ", ".join(f"({id}, {id})" for id in range(1, ROWS + 1))
        execute(
            port,
            f"CREATE TABLE {table} (id int PRIMARY KEY, `change` bigint NOT NULL)",
            f"INSERT INTO {table} VALUES {rows}",
        )


def write(port: int, writer: int, seed: int, stop: threading.Event) -> None:
    """Random transactions, some of which are rolled back, and DDL now and then, until the event is set."""
    rng = random.Random(seed)
    numbers = itertools.count(1_000_000 * writer)
    opened = connection(port)
    with opened.cursor() as cursor:
        while not stop.is_set():
            if rng.random() < 0.03:
                _quietly(cursor, change_columns(rng))
            cursor.execute("BEGIN")
            for _ in range(rng.randrange(1, 12)):
                _quietly(cursor, change_rows(rng, next(numbers)))
            cursor.execute("ROLLBACK" if rng.random() < 0.2 else "COMMIT")
            stop.wait(rng.random() * 0.02)
    opened.close()


def change_columns(rng: random.Random) -> str:
    """A statement that leaves `id` and `change` as they are, but not their places."""
    table, name = rng.choice(TABLES), rng.choice("abcd")
    place = rng.choice(("FIRST", "AFTER id", ""))
    return rng.choice(
        (
            f"ALTER TABLE {table} ADD COLUMN {name} varchar(20) DEFAULT 'x' {place}",
            f"ALTER TABLE {table} DROP COLUMN {name}",
            f"ALTER TABLE {table} MODIFY COLUMN {name} varchar(30) NOT NULL DEFAULT 'y' {place}",
        )
    )


def change_rows(rng: random.Random, change: int) -> str:
    table, id = rng.choice(TABLES), rng.randrange(1, 2 * ROWS)
    update = f"UPDATE {table} SET `change` = {change} WHERE id = {id}"
    insert = f"INSERT IGNORE INTO {table} (id, `change`) VALUES ({id}, {change})"
    return rng.choice((insert, update, update, f"DELETE FROM {table} WHERE id = {id}"))


def _quietly(cursor: Any, statement: str) -> None:
    """Run a statement that may meet a deadlock, a lock, or a column that is there or not."""
    try:
        cursor.execute(statement)
    except pymysql.Error as problem:
        assert problem.args[0] in (1060, 1091, 1054, 1205, 1213, 1412), problem


def live(host: HostProcess, run: Run, rng: random.Random) -> None:
    """Let a run work for a random time, which may be less than its start takes."""
    if rng.random() < 0.8:
        host.wait(run, Running)
    time.sleep(rng.random() * LONGEST_LIFE_S)


def test_changes_come_exactly_once_whenever_the_host_is_killed(
    bootstrap: str, port: int, tmp_path: Path
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    prepare(port)
    topics = {table: f"{PREFIX}.{table}" for table in TABLES}
    for topic in topics.values():
        create_topic(bootstrap, topic, 1)
    given = {"max_batch_size": "40", "extended_headers_enabled": "false", "database_include_list": DATABASE}
    config = configuration(port, tmp_path / "unused", **given) | {
        "include.schema.changes": rng.choice(("true", "false")),
        "schema.history.internal": "io.debezium.storage.kafka.history.KafkaSchemaHistory",
        "schema.history.internal.kafka.topic": HISTORY_TOPIC,
        "schema.history.internal.kafka.bootstrap.servers": bootstrap,
        "transaction.boundary": rng.choice(("poll", "interval")),
        "transaction.boundary.interval.ms": "50",
        "key.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    worker = {"exactly.once.source.support": "enabled", "offset.flush.interval.ms": "30"}

    def start() -> runs.Start:
        order = runs.start(
            bootstrap, "changes", Role.SOURCE_TASK, config, worker=worker, partitions=[PARTITION]
        )
        asyncio.run(fence_task("changes", 0, order.config, order.worker))
        return runs.with_offsets(order, read_offsets(order))

    stop = threading.Event()
    writers = [
        threading.Thread(target=write, args=(port, number, rng.getrandbits(32), stop))
        for number in range(1, WRITERS + 1)
    ]
    with ExitStack() as stack:
        stack.callback(lambda: [each.join() for each in writers])
        stack.callback(stop.set)
        for each in writers:
            each.start()
        for number in range(KILLS):
            with host_process(tmp_path / "log") as host:
                order = start()
                host.give(order)
                if number == COPYING_KILLS:  # the kills before were in copies, those behind are in the stream
                    eventually(lambda: are_streamed(bootstrap, topics), "changes are streamed", 90)
                else:
                    live(host, order.run, rng)
                host.kill()
    state = final_state(port)
    with host_process(tmp_path / "log") as host:
        order = start()
        host.give(order)
        host.wait(order.run, Running)
        eventually(lambda: replayed(bootstrap, topics) == state, f"seed {seed}: the tables' rows", 90)
        assert host.stop(order.run) is None
    for table, topic in topics.items():
        check_chain(f"seed {seed}: {table}", events(bootstrap, topic))


def final_state(port: int) -> dict[str, dict[int, int]]:
    found = {}
    opened = connection(port)
    with opened.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"SELECT id, `change` FROM {table}")
            found[table] = dict(cursor.fetchall())
    opened.close()
    return found


def are_streamed(bootstrap: str, topics: dict[str, str]) -> bool:
    """Whether each topic has changes, and not only copied rows."""
    return all(
        any(event is not None and event["op"] != "r" for _, event in events(bootstrap, topic))
        for topic in topics.values()
    )


def events(bootstrap: str, topic: str) -> list[tuple[int, dict[str, Any] | None]]:
    """The committed records of a topic: ids, and envelopes."""
    ends = KafkaCluster(bootstrap).end_positions(topic)
    found = read(ClusterAccess(bootstrap), topic, dict.fromkeys(ends, 0), ends)
    return [
        (
            json.loads(each.key() or b"")["id"],
            None if each.value() is None else json.loads(each.value() or b""),
        )
        for each in found
    ]


def replayed(bootstrap: str, topics: dict[str, str]) -> dict[str, dict[int, int]]:
    """The tables' rows as the topics tell them."""
    states: dict[str, dict[int, int]] = {}
    for table, topic in topics.items():
        state = states[table] = {}
        for id, event in events(bootstrap, topic):
            if event is None or event["op"] == "d":
                state.pop(id, None)
            else:
                state[id] = event["after"]["change"]
    return states


def check_chain(where: str, found: list[tuple[int, dict[str, Any] | None]]) -> None:
    """Each change of a row begins at the state that the one before it ended in: none is missing or twice."""
    last: dict[int, int | None] = defaultdict(lambda: None)
    streamed: set[int] = set()
    tombstones = 0
    for id, event in found:
        if event is None:
            tombstones += 1
            assert last[id] is None, f"{where}: a tombstone of the living row {id}"
            continue
        before = None if event["before"] is None else event["before"]["change"]
        after = None if event["after"] is None else event["after"]["change"]
        if event["op"] == "r":
            # A copy that was cut short starts again, when what was copied is brought to its state.
            assert last[id] in (None, after), f"{where}: row {id} is copied as {after} after {last[id]}"
        else:
            # A row that is still to be copied may be changed before it was told.
            unknown = id not in last and after not in streamed
            assert before == last[id] or unknown, f"{where}: {event} does not go on from {last[id]}"
            if after is not None:
                assert after not in streamed, f"{where}: change {after} comes twice"
                streamed.add(after)
        last[id] = after
    assert streamed
    assert tombstones == sum(event is not None and event["op"] == "d" for _, event in found), where
