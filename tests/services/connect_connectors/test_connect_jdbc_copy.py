"""Tables through topics into other tables by a worker that is killed: equal row for row."""

from __future__ import annotations

import random
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients.confluent import create_topic
from support.connect import jdbc
from support.connect.jdbc import rows_of, run
from support.connect.workers import ConnectWorker, until
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import ServerProcess, free_port
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.long, pytest.mark.system("psql", "postgresql")]

TABLES = ("alpha", "beta", "gamma")
KILLS = 8


@pytest.fixture(params=["sqlite", "postgresql"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The database that is read, and the one that is written."""
    if request.param == "sqlite":
        return f"jdbc:sqlite:{tmp_path}/from.db", f"jdbc:sqlite:{tmp_path}/to.db"
    place = request.getfixturevalue("postgresql_url").removeprefix("postgresql://ottla@")
    url = f"jdbc:postgresql://{place}?user=ottla"
    return url, f"{url}&currentSchema=target"


@pytest.fixture
def worker(broker: OttlaBroker | ApacheKafka, tmp_path: Path) -> Iterator[ConnectWorker]:
    port, group = free_port(), f"jdbc-{uuid.uuid4().hex[:8]}"
    settings = {
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "status.storage.topic": f"{group}-status",
        "offset.storage.topic": f"{group}-offsets",
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "200",
        "session.timeout.ms": "3000",
        "heartbeat.interval.ms": "300",
    }
    command = [sys.executable, "-m", "ottla", "connect", "--bootstrap", broker.bootstrap]
    command += ["--listen", f"http://127.0.0.1:{port}"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    server = ServerProcess(command, "ottla connect ready", tmp_path / "connect.log")
    found = ConnectWorker(port, server)
    server.start()
    try:
        yield found
    finally:
        if server.running:
            server.stop()


def insert(url: str, chance: random.Random, table: str, ids: range) -> None:
    """Rows with random values of every type, in one transaction."""
    with_values = []
    for id in ids:
        word = chance.choice((None, *jdbc.WORDS))
        quoted = "NULL" if word is None else "'" + word.replace("'", "''") + "'"
        number = chance.randrange(-(10**9), 10**9)
        at = f"20{chance.randrange(10, 38)}-01-01 10:00:00.{chance.randrange(1000):03}"
        with_values.append(
            f"({id}, {quoted}, {number / 100:.2f}, '{at}', {chance.choice(('NULL', '1.5', '-2.25e10'))})"
        )
    run(url, f"INSERT INTO {table} VALUES {', '.join(with_values)}")


def test_a_copy_is_equal_row_for_row_after_kills(
    urls: tuple[str, str], worker: ConnectWorker, broker: OttlaBroker | ApacheKafka
) -> None:
    seed = random.getrandbits(32)
    chance = random.Random(seed)
    origin, target = urls
    prefix = f"copy-{uuid.uuid4().hex[:6]}-"
    if origin.startswith("jdbc:postgresql"):
        run(origin, "CREATE SCHEMA target")
    for table in TABLES:
        run(
            origin,
            f"CREATE TABLE {table} (id INTEGER NOT NULL PRIMARY KEY, word TEXT,"
            " amount NUMERIC(12, 2) NOT NULL,"
            " at TIMESTAMP(3) NOT NULL, ratio DOUBLE PRECISION)",
        )
        insert(origin, chance, table, range(1, 300))
        create_topic(broker.bootstrap, prefix + table, 2)
    source = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": origin,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": ",".join(TABLES),
        "topic.prefix": prefix,
        "poll.interval.ms": "50",
        "batch.max.rows": "17",
        "tasks.max": "2",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    sink = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "connection.url": target,
        "topics": ",".join(prefix + each for each in TABLES),
        "auto.create": "true",
        "tasks.max": "2",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.session.timeout.ms": "6000",
    }
    worker.put("jdbc-in", **source)
    worker.put("jdbc-out", **sink)
    done = threading.Event()

    def grow() -> None:
        growing = random.Random(seed + 1)
        first = 300
        while not done.is_set():
            for table in TABLES:
                insert(origin, growing, table, range(first, first + 20))
            first += 20
            done.wait(0.05)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        for _ in range(KILLS):
            until(lambda: worker.states("jdbc-out")[0], lambda state: state == "RUNNING", 60)
            time.sleep(chance.random() * 3)
            worker.kill()
            worker.server.start()
    finally:
        done.set()
        writer.join()
    for table in TABLES:
        wanted = Counter(rows_of(origin, table))

        wait_for_rows(target, prefix + table, wanted.total())
        found = Counter(rows_of(target, prefix + table))
        assert normal(found) == normal(wanted), f"seed {seed}"


def wait_for_rows(url: str, table: str, least: int) -> None:
    """Wait until a table is there and has so many rows."""

    def count() -> int:
        try:
            return len(rows_of(url, table))
        except AssertionError:
            return 0

    until(count, lambda found: found >= least, 90)


def normal(rows: Counter[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    """Rows without their timestamps in SQLite, which are texts on one side and numbers on the other."""
    found: Counter[tuple[object, ...]] = Counter()
    for (id, word, amount, at, ratio), count in rows.items():
        found[id, word, amount, jdbc.plain_moment(at), ratio] += count
    return found
