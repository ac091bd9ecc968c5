"""kill -9 of hosts amid incremental snapshots that a topic asks for, while writers change the tables."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from ottla.connect.host.messages import Role, Running
from ottla.connect.host.offset_store import read_offsets
from ottla.connect.worker.fencing import fence_task
from support.clients.confluent import create_topic
from support.connect import runs
from support.connect.cdc.postgres_changes import configuration
from support.connect.cdc.writers import (
    ROWS,
    TABLES,
    events,
    final_state,
    live,
    prepare,
    replayed,
    write,
)
from support.connect.runs import OFFSETS_TOPIC, host_process
from support.connect.workers import until
from support.servers.ottla_broker import OttlaBroker
from support.servers.postgresql import postgresql, postgresql_programs

pytestmark = [pytest.mark.slow, pytest.mark.long]

WRITERS = 2
KILLS = 12
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OttlaBroker.start(tmp_path_factory.mktemp("killed-signals") / "broker") as broker:
        create_topic(broker.bootstrap, OFFSETS_TOPIC, 3, {"cleanup.policy": "compact"})
        yield broker.bootstrap


@pytest.fixture
def url() -> Iterator[str]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with postgresql(programs, "wal_level=logical") as running:
        yield running


def send(bootstrap: str, prefix: str, id: str, *tables: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    data = {"data-collections": [f"public.{each}" for each in tables]}
    signal = {"id": id, "type": "execute-snapshot", "data": data}
    producer.produce(f"{prefix}-signal", json.dumps(signal).encode(), prefix.encode())
    assert producer.flush(20) == 0


@pytest.mark.parametrize("read_only", ["false", "true"])
def test_incremental_snapshots_resume_at_their_chunk_exactly_once(
    bootstrap: str, url: str, tmp_path: Path, read_only: str
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    prepare(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE signals (id varchar(64) PRIMARY KEY, type text NOT NULL, data text)")
    prefix = name = f"signals-{read_only}"
    topics = {table: f"{prefix}.public.{table}" for table in TABLES}
    for topic in (*topics.values(), f"{prefix}-signal", f"{prefix}.notes", f"{prefix}.public.signals"):
        create_topic(bootstrap, topic, 1)
    config = configuration(
        url,
        topic_prefix=prefix,
        max_batch_size="40",
        extended_headers_enabled="false",
        snapshot_mode="no_data",
        signal_data_collection="public.signals",
        signal_enabled_channels="source,kafka",
        signal_poll_interval_ms="20",
        incremental_snapshot_chunk_size="150",
        notification_enabled_channels="sink",
        read_only=read_only,
    ) | {
        "notification.sink.topic.name": f"{prefix}.notes",
        "signal.kafka.groupId": name,
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
            bootstrap, name, Role.SOURCE_TASK, config, worker=worker, partitions=[{"server": prefix}]
        )
        asyncio.run(fence_task(name, 0, order.config, order.worker))
        return runs.with_offsets(order, read_offsets(order))

    with host_process(tmp_path / "log") as host:  # until the slot is there
        order = start()
        host.give(order)
        host.wait(order.run, Running)
        slots = "SELECT count(*) FROM pg_replication_slots WHERE active"
        with psycopg.connect(url, autocommit=True) as connection:
            until(lambda: connection.execute(slots.encode()).fetchone(), lambda row: row == (1,))
        host.kill()
    stop = threading.Event()
    writers = [threading.Thread(target=write, args=(url, rng.getrandbits(32), stop)) for _ in range(WRITERS)]
    ids = []
    with ExitStack() as stack:
        stack.callback(lambda: [each.join() for each in writers])
        stack.callback(stop.set)
        for each in writers:
            each.start()
        for number in range(KILLS):
            if number % 3 == 0:
                ids.append(f"{read_only}-{number}")
                send(bootstrap, prefix, ids[-1], *rng.sample(TABLES, len(TABLES)))
            with host_process(tmp_path / "log") as host:
                order = start()
                host.give(order)
                live(host, order.run, rng)
                host.kill()
    ids.append(f"{read_only}-last")
    send(bootstrap, prefix, ids[-1], *TABLES)
    with host_process(tmp_path / "log") as host:
        order = start()
        host.give(order)
        host.wait(order.run, Running)
        done = f"{prefix}.notes"
        state = final_state(url)
        expected = len(ids) * len(TABLES)
        until(lambda: scans(bootstrap, done).total(), lambda found: found >= expected, seconds=300)
        until(lambda: replayed(bootstrap, topics), lambda found: found == state, seconds=120)
        assert host.stop(order.run) is None
    for table, topic in topics.items():
        check(f"seed {seed}: {table}", events(bootstrap, topic))
    # Each signal was carried out once, though later ones take over the name of those that wait.
    assert scans(bootstrap, done).total() == expected, f"seed {seed}"


def scans(bootstrap: str, topic: str) -> Counter[str]:
    """How many tables' ends were told, by the signal."""
    found: Counter[str] = Counter()
    for id, note in events(bootstrap, topic):
        if note is not None and note["type"] == "TABLE_SCAN_COMPLETED":
            assert note["additional_data"]["status"] == "SUCCEEDED", note
            found[str(id)] += 1
    return found


def check(where: str, found: list[tuple[Any, dict[str, Any] | None]]) -> None:
    """No change is missing or twice, and a copied row is the last one that was told."""
    last: dict[Any, int | None] = {}
    streamed: set[int] = set()
    reads = defaultdict(int)
    for id, event in found:
        if event is None:
            continue
        before = None if event["before"] is None else event["before"]["change"]
        after = None if event["after"] is None else event["after"]["change"]
        if event["op"] == "r":
            reads[id] += 1
            assert last.get(id, after) == after, f"{where}: row {id} is copied as {after} after {last[id]}"
        else:
            assert last.get(id, before) == before, f"{where}: {event} does not go on from {last[id]}"
            if after is not None:
                assert after not in streamed, f"{where}: change {after} comes twice"
                streamed.add(after)
        last[id] = after
    assert streamed and len(reads) > ROWS // 2, where
