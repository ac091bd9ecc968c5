"""Signals to the MariaDB source on a real server: incremental snapshots at their places of the binary log."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.cdc.core.progress import progress_of
from ottla.connect.data.record import SourceOffset, SourceRecord
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
    with logging_mariadb() as running:
        yield running


@pytest.fixture
def database(port: int) -> Iterator[str]:
    """A new database of a random name."""
    name = f"d{random.getrandbits(32):08x}"
    execute(port, f"CREATE DATABASE {name}")
    execute(port, f"CREATE TABLE {name}.signals (id varchar(64) PRIMARY KEY, type varchar(32), data text)")
    yield name
    execute(port, f"DROP DATABASE {name}")


def config_of(port: int, database: str, tmp_path: Path, **others: str) -> dict[str, str]:
    given = {
        "database_include_list": database,
        "include_schema_changes": "false",
        "snapshot_mode": "no_data",
        "signal_data_collection": f"{database}.signals",
        "incremental_snapshot_chunk_size": "7",
        "notification_enabled_channels": "sink",
        "notification_sink_topic_name": "notes",
        "tombstones_on_delete": "false",
    }
    return configuration(port, tmp_path / "history", extended_headers_enabled="false", **{**given, **others})


def signal(port: int, database: str, type: str, data: dict[str, Any]) -> None:
    with closing(connection(port)) as opened, opened.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {database}.signals VALUES (%s, %s, %s)",
            (str(random.getrandbits(60)), type, json.dumps(data)),
        )
        opened.commit()


def rows_of(records: Sequence[SourceRecord], topic: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for each in records:
        if each.record.topic == topic and each.record.value is not None:
            value = each.record.value.values
            row = value["after"] or value["before"]
            found.append((value["op"], dict(row.values)))
    return found


def notes(records: Sequence[SourceRecord]) -> list[tuple[str, dict[str, str]]]:
    found = [each.record.value.values for each in records if each.record.topic == "notes"]
    return [(each["type"], each["additional_data"]) for each in found]


def is_done(records: Sequence[SourceRecord]) -> bool:
    return any(type == "COMPLETED" for type, _ in notes(records))


def until(
    reading: Reading, done: Callable[[list[SourceRecord]], bool], turns: int = 200_000
) -> list[SourceRecord]:
    found: list[SourceRecord] = []
    for _ in range(turns):
        found += reading.turn()
        if done(found):
            return found
    raise AssertionError([str(each.record.value)[:200] for each in found[-20:]])


def test_tables_of_many_kinds_of_keys_are_copied(port: int, database: str, tmp_path: Path) -> None:
    kinds = {
        "big": ("bigint unsigned", [str(2**53 + n) for n in range(20)]),
        "amount": ("decimal(30,4)", [f"{n}.{n:04d}" for n in range(-9, 11)]),
        "word": ("varchar(40)", ["it's", 'a "quoted"', "back\\slash", "ü", *(f"w{n}" for n in range(16))]),
        "raw": ("varbinary(9)", [f"UNHEX('{n:02x}00ff')" for n in range(20)]),
        "listed": ("enum('z','y','x','w','v','u','t','s','r','q')", list("zyxwvutsrq")),
        "day": ("datetime(3)", [f"2001-01-{n:02d} 10:00:00.{n:03d}" for n in range(1, 21)]),
    }
    for name, (kind, values) in kinds.items():
        execute(port, f"CREATE TABLE {database}.{name} (k {kind} PRIMARY KEY, v int)")
        with closing(connection(port)) as opened, opened.cursor() as cursor:
            for number, each in enumerate(values):
                if each.startswith("UNHEX"):
                    cursor.execute(f"INSERT INTO {database}.{name} VALUES ({each}, {number})")
                else:
                    cursor.execute(f"INSERT INTO {database}.{name} VALUES (%s, %s)", (each, number))
            opened.commit()
    execute(port, f"CREATE TABLE {database}.keyless (k int, v int)")
    execute(
        port, f"INSERT INTO {database}.keyless SELECT NULLIF(seq DIV 3, 0), seq FROM {database}.seq_1_to_30"
    )
    with closing(Reading(config_of(port, database, tmp_path))) as reading:
        for _ in range(3):
            reading.turn()
        signal(port, database, "execute-snapshot", {"data-collections": [f"{database}\\..*"]})
        found = until(reading, is_done)
        for name, (_, values) in kinds.items():
            rows = rows_of(found, f"{PREFIX}.{database}.{name}")
            assert [each[0] for each in rows] == ["r"] * len(values), name
            assert sorted(row["v"] for _, row in rows) == list(range(len(values))), name
        scans = {data["scanned_collection"]: data["status"] for type, data in notes(found) if "SCAN" in type}
        assert scans.pop(f"{database}.keyless") == "NO_PRIMARY_KEY"
        assert set(scans.values()) == {"SUCCEEDED"} and len(scans) == len(kinds)
        asked = {"data-collections": [f"{database}.keyless"], "surrogate-key": "k"}
        asked["additional-conditions"] = [{"data-collection": f"{database}.keyless", "filter": "v > 1"}]
        signal(port, database, "execute-snapshot", asked)
        found = until(reading, is_done)
        rows = rows_of(found, f"{PREFIX}.{database}.keyless")
        assert sorted(row["v"] for _, row in rows) == list(range(2, 31))
        signal(port, database, "execute-snapshot", {**asked, "type": "blocking"})
        signal(port, database, "execute-snapshot", {**asked, "surrogate-key": "nothing"})
        found = until(reading, is_done)
        assert dict(notes(found))["TABLE_SCAN_COMPLETED"]["status"] == "SQL_EXCEPTION"


def test_snapshots_that_are_cut_short_again_and_again_end_in_the_databases_state(
    port: int, database: str, tmp_path: Path
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    execute(port, f"CREATE TABLE {database}.t (id int PRIMARY KEY, v bigint)")
    execute(port, f"INSERT INTO {database}.t SELECT seq, 0 FROM {database}.seq_1_to_300")
    given = config_of(port, database, tmp_path, incremental_snapshot_chunk_size="19")
    topic = f"{PREFIX}.{database}.t"
    stop = threading.Event()

    def write() -> None:
        own = random.Random(seed)
        with closing(connection(port)) as opened, opened.cursor() as cursor:
            for number in range(1, 10_000_000):
                if stop.is_set():
                    break
                for _ in range(own.randrange(1, 4)):
                    id = own.randrange(1, 400)
                    if own.random() < 0.3:
                        cursor.execute(f"DELETE FROM {database}.t WHERE id = %s", (id,))
                    else:
                        cursor.execute(f"REPLACE INTO {database}.t VALUES (%s, %s)", (id, number))
                opened.commit()
                stop.wait(own.random() * 0.002)

    offset: SourceOffset | None = None
    records: list[SourceRecord] = []
    with closing(Reading(given)) as reading:
        for _ in range(3):
            reading.turn()
        signal(port, database, "execute-snapshot", {"data-collections": [f"{database}.t"]})
        records += until(reading, lambda found: len(found) > 2)
        offset = reading.offset
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(12):
            with closing(Reading(given, offset)) as reading:
                for _ in range(rng.randrange(40)):
                    batch = reading.turn()
                    taken = batch[: rng.randrange(len(batch) + 1)] if rng.random() < 0.1 else batch
                    records += taken
                    offset = taken[-1].source_offset if taken else offset
                    if len(taken) < len(batch):
                        break
    finally:
        stop.set()
        writer.join()
    execute(port, f"REPLACE INTO {database}.t VALUES (-1, -1)")
    with closing(Reading(given, offset)) as reading:
        seen = False

        def done(found: list[SourceRecord]) -> bool:
            nonlocal seen
            seen = seen or any(row["id"] == -1 and op == "c" for op, row in rows_of(found[-20:], topic))
            return seen and not progress_of(reading.offset or {}).progress.is_running

        records += until(reading, done)
    state: dict[int, int] = {}
    reads = 0
    for operation, row in rows_of(records, topic):
        id = row["id"]
        if operation == "r":
            # A copied row is what the stream has told last, or of one that was never told.
            reads += 1
            assert state.get(id, row["v"]) == row["v"], (
                f"seed {seed}: {id} is copied as {row} over {state[id]}"
            )
        if operation == "d":
            state.pop(id, None)
        else:
            state[id] = row["v"]
    with closing(connection(port)) as opened, opened.cursor() as cursor:
        cursor.execute(f"SELECT id, v FROM {database}.t")
        assert state == dict(cursor.fetchall()), f"seed {seed}"
    assert reads >= 100
