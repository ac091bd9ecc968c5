"""Debezium's own topics of a drill's database: its slot is there from the start, it reads at the end.

It reads what the drill's changes left in the log, without any of the kills.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from ottla.client.errors import NoSuchTopic
from support.connect.cdc.copy_path import CONVERTERS, PREFIX, SCHEMA, CopyPath, source_config
from support.java.debezium_connect import standalone_command, write_properties
from support.servers.cluster import free_port

JAVA_PREFIX: Final = "java"
NAME: Final = "debezium_history"
"""Of the slot and of the publication."""
LOG: Final = "debezium.log"
READ_S: Final = 300.0
COMPARED: Final = ("op", "before", "after")
COMPARED_OF_SOURCE: Final = ("lsn", "txId", "ts_us", "schema", "table")
Event = tuple[Any, ...]


def keep_history(path: CopyPath) -> None:
    """Make Debezium's slot, before anything is written."""
    with psycopg.connect(path.origin.url, autocommit=True) as connection:
        tables = sql.SQL(", ").join(sql.Identifier(SCHEMA, each.name) for each in path.tables)
        connection.execute(sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(NAME), tables))
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (NAME,))


def check_beside_debezium(path: CopyPath, directory: Path) -> int:
    """Each key's changes in our topics are the last of Debezium's, field by field. The number of changes.

    Those before are in the copy of the table; that none is missing is for the drill's own check.
    """
    total = 0
    with _debezium(path, directory):
        for table in path.tables:
            name = f"{SCHEMA}.{table.name}"
            ours = _changes(path, f"{PREFIX}.{name}")
            deadline = time.monotonic() + READ_S
            while True:
                try:
                    theirs = _changes(path, f"{JAVA_PREFIX}.{name}")
                except NoSuchTopic:
                    theirs = {}  # it is made with its first record
                if all(theirs.get(key, [])[-1:] == events[-1:] for key, events in ours.items()):
                    break
                log = (directory / LOG).read_text(errors="replace")[-3_000:]
                assert time.monotonic() < deadline, f"Debezium does not get to the end of {name}: {log}"
                time.sleep(1.0)
            for key, events in ours.items():
                assert events == theirs[key][-len(events) :], f"{name} {key}: {events}, not {theirs[key]}"
                total += len(events)
    return total


def _changes(path: CopyPath, topic: str) -> dict[str, list[Event]]:
    """The changes of each key, without the rows of a copy, and tombstones."""
    found: dict[str, list[Event]] = defaultdict(list)
    for key, event in path.events(topic):
        if event is None:
            found[json.dumps(key)].append(("tombstone",))
        elif event["op"] != "r":
            source = event["source"]
            values = [event[name] for name in COMPARED] + [source[name] for name in COMPARED_OF_SOURCE]
            found[json.dumps(key)].append(tuple(values))
    return found


@contextmanager
def _debezium(path: CopyPath, directory: Path) -> Iterator[None]:
    worker = {
        "bootstrap.servers": path.broker.bootstrap,
        "listeners": f"http://127.0.0.1:{free_port()}",
        "offset.storage.file.filename": str(directory / "debezium.offsets"),
        **CONVERTERS,
    }
    connector = {
        "name": NAME,
        **source_config(
            path.origin.url,
            path.tables,
            topic_prefix=JAVA_PREFIX,
            slot_name=NAME,
            publication_name=NAME,
            snapshot_mode="no_data",
        ),
        "publication.autocreate.mode": "disabled",
    }
    files = (
        write_properties(directory / "debezium-worker.properties", worker),
        write_properties(directory / "debezium.properties", connector),
    )
    with (directory / LOG).open("wb") as log:
        process = subprocess.Popen(
            standalone_command(*files), stdout=log, stderr=subprocess.STDOUT, env=dict(os.environ)
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()
