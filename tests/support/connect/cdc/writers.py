"""Writers of random transactions, and what the topics tell of their tables: for drills with kills."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

import psycopg

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.reading import read
from ottla.connect.host.messages import Run, Running
from support.connect.runs import HostProcess

TABLES = ("first", "second", "third")
ROWS = 1500
LONGEST_LIFE_S = 1.5


def prepare(url: str) -> None:
    """Tables whose every change has a number of its own, and whose old rows are told whole."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE changes")
        for table in TABLES:
            connection.execute(
                f"CREATE TABLE {table} (id integer PRIMARY KEY, change bigint NOT NULL)".encode()
            )
            connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL".encode())
            connection.execute(
                f"INSERT INTO {table} SELECT n, nextval('changes') FROM generate_series(1, {ROWS}) n".encode()
            )


def write(url: str, seed: int, stop: threading.Event) -> None:
    """Random transactions, some of which are rolled back, until the event is set."""
    rng = random.Random(seed)
    with psycopg.connect(url) as connection:
        while not stop.is_set():
            for _ in range(rng.randrange(1, 12)):
                table, id = rng.choice(TABLES), rng.randrange(1, 2 * ROWS)
                statement = rng.choice(
                    (
                        f"INSERT INTO {table} VALUES ({id}, nextval('changes')) ON CONFLICT DO NOTHING",
                        f"UPDATE {table} SET change = nextval('changes') WHERE id = {id}",
                        f"UPDATE {table} SET change = nextval('changes') WHERE id = {id}",
                        f"DELETE FROM {table} WHERE id = {id}",
                    )
                )
                try:
                    connection.execute(statement.encode())
                except psycopg.errors.DeadlockDetected:
                    connection.rollback()
            if rng.random() < 0.2:
                connection.rollback()
            else:
                connection.commit()
            stop.wait(rng.random() * 0.02)


def live(host: HostProcess, run: Run, rng: random.Random) -> None:
    """Let a run work for a random time, which may be less than its start takes."""
    if rng.random() < 0.8:
        host.wait(run, Running)
    time.sleep(rng.random() * LONGEST_LIFE_S)


def final_state(url: str) -> dict[str, dict[int, int]]:
    with psycopg.connect(url) as connection:
        return {
            table: dict(connection.execute(f"SELECT id, change FROM {table}".encode()).fetchall())
            for table in TABLES
        }


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
