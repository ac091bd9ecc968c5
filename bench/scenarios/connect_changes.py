"""A PostgreSQL database into topics: Debezium 3.6.1 on Kafka Connect 4.3.1 beside ottla's connector."""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition
from psycopg.conninfo import conninfo_to_dict

from bench import processes
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import BYTES_PER_MEBIBYTE, NO_LESS, NO_SLOWER, Scenario, Turn
from bench.servers import HOST, System
from support.java.debezium_connect import standalone_command, write_properties
from support.servers.cluster import free_port
from support.servers.postgresql import PostgresServer, postgres_server, postgresql_programs

ROWS: Final = 1_000_000
CHANGES: Final = 300_000
CHANGES_A_TRANSACTION: Final = 100
LAG_SECONDS: Final = 20
LAG_CHANGES_A_SECOND: Final = 500
LAG_WARMUP: Final = 1_000
POLL_SECONDS: Final = 0.02
TIMEOUT_SECONDS: Final = 900.0
NAME: Final = "changes"
TOPIC: Final = "bench.public.orders"
LAG_TOPIC: Final = "bench.public.moments"
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_TABLES: Final = """
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer integer NOT NULL, amount numeric(10, 2) NOT NULL, note text,
    placed timestamptz NOT NULL, paid boolean NOT NULL
);
INSERT INTO orders
SELECT n, n % 9973, n % 100000 / 100.0, 'a note about the order ' || n,
    '2026-01-01'::timestamptz + n * interval '1 s', n % 3 = 0
FROM generate_series(1, {rows}) n;
CREATE TABLE moments (id bigserial PRIMARY KEY, at double precision NOT NULL);
INSERT INTO moments (at) VALUES (0);
VACUUM ANALYZE orders;
"""
# A third each is inserted, changed and deleted; a deleted row has two records.
_CHANGES: Final = """
DO $$ BEGIN FOR piece IN 0 .. {changes} / {step} - 1 LOOP
    CASE piece % 3
    WHEN 0 THEN INSERT INTO orders
        SELECT {rows} + piece * {step} + n, n, n / 100.0, 'a new order ' || n, now(), false
        FROM generate_series(1, {step}) n;
    WHEN 1 THEN UPDATE orders SET paid = NOT paid, amount = amount + 1
        WHERE id BETWEEN piece * {step} + 1 AND (piece + 1) * {step};
    ELSE DELETE FROM orders WHERE id BETWEEN piece * {step} + 1 AND (piece + 1) * {step};
    END CASE;
    COMMIT;
END LOOP; END $$
"""


@dataclass(frozen=True, slots=True)
class _Worker:
    """A worker with the one connector. started: in the clock of perf_counter."""

    port: int
    process: subprocess.Popen[bytes]
    started: float
    bootstrap: str

    def ask(self, method: str, path: str) -> object:
        """The JSON of an answer, None for none. Raises OSError, BenchError."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise BenchError(f"{method} {path}: {answer.status} {text[:500]!r}")
        return json.loads(text) if text else None

    def become(self, word: str, state: str) -> None:
        """Pause or resume the connector, and wait until its task is in that state."""
        self.ask("PUT", f"/connectors/{NAME}/{word}")
        deadline = time.perf_counter() + TIMEOUT_SECONDS
        while True:
            told = self.ask("GET", f"/connectors/{NAME}/status")
            assert isinstance(told, dict)
            if [each["state"] for each in told["tasks"]] == [state]:
                return
            if time.perf_counter() > deadline:
                raise BenchError(f"never {state}: {told}")
            time.sleep(POLL_SECONDS)

    def watch(self, topic: str, begin: int, end: int) -> tuple[float, float]:
        """Wait until a topic's end offset moves from `begin`, and reaches `end`: when both was seen."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "watching", "log_level": 0})
        first, deadline = 0.0, time.perf_counter() + TIMEOUT_SECONDS
        try:
            while True:
                found = _end(consumer, topic)
                now = time.perf_counter()
                if found > begin and not first:
                    first = now
                if found >= end:
                    if found > end:
                        raise BenchError(f"{topic} has {found:,} records, {end:,} are expected")
                    return first, now
                if self.process.poll() is not None or now > deadline:
                    raise BenchError(f"the worker ended, or took too long: {topic} has {found:,} of {end:,}")
                time.sleep(POLL_SECONDS)
        finally:
            consumer.close()


def _end(consumer: Consumer, topic: str) -> int:
    try:
        _, found = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)
    except KafkaException:
        return 0  # the connector is still to make it
    return int(found)


def _run(turn: Turn) -> dict[str, float]:
    programs = postgresql_programs()
    if programs is None:
        raise BenchError("PostgreSQL is not installed: apt-get install postgresql")
    rows, changes = turn.size(ROWS), turn.size(CHANGES)
    with (
        postgres_server(programs, "wal_level=logical", "max_wal_size=8GB") as database,
        turn.server() as server,
    ):
        with psycopg.connect(database.url, autocommit=True) as connection:
            for statement in _TABLES.format(rows=rows).split(";\n"):
                connection.execute(statement.encode())
        with _worker(turn, server.bootstrap, database) as worker:
            first, last = worker.watch(TOPIC, 0, rows)
            cpu = processes.cpu_seconds(worker.process.pid)
            figures = {
                "snapshot_rows_per_second": rows / (last - first),
                "snapshot_seconds": last - worker.started,
                "snapshot_cpu_seconds": cpu / rows * 1e6,
            }
            worker.watch(LAG_TOPIC, 0, 1)
            figures |= _changes(worker, database, rows, changes)
            figures["resident_mebibytes"] = processes.resident_bytes(worker.process.pid) / BYTES_PER_MEBIBYTE
            figures |= _lag(worker, database)
    return figures


def _changes(worker: _Worker, database: PostgresServer, rows: int, changes: int) -> dict[str, float]:
    """A backlog that has come while the connector was paused."""
    worker.become("pause", "PAUSED")
    with psycopg.connect(database.url, autocommit=True) as connection:
        statement = _CHANGES.format(rows=rows, changes=changes, step=CHANGES_A_TRANSACTION)
        connection.execute(statement.encode())
    deleted = changes // CHANGES_A_TRANSACTION // 3 * CHANGES_A_TRANSACTION
    cpu = processes.cpu_seconds(worker.process.pid)
    worker.become("resume", "RUNNING")
    first, last = worker.watch(TOPIC, rows, rows + changes + deleted)
    return {
        "changes_per_second": changes / (last - first),
        "changes_cpu_seconds": (processes.cpu_seconds(worker.process.pid) - cpu) / changes * 1e6,
    }


def _lag(worker: _Worker, database: PostgresServer) -> dict[str, float]:
    """Paced inserts, each with the time before its commit: how old they are when a consumer has them."""
    count = LAG_WARMUP + LAG_SECONDS * LAG_CHANGES_A_SECOND
    writer = threading.Thread(target=_write_moments, args=(database.url, count))
    consumer = Consumer({"bootstrap.servers": worker.bootstrap, "group.id": "lag", "fetch.wait.max.ms": 50})
    lags: list[float] = []
    deadline = time.perf_counter() + TIMEOUT_SECONDS
    try:
        consumer.assign([TopicPartition(LAG_TOPIC, 0, 1)])
        writer.start()
        while len(lags) < count:
            if time.perf_counter() > deadline:
                raise BenchError(f"{len(lags):,} of {count:,} changes have come")
            for message in consumer.consume(1000, 0.1):
                if message.error() is None:
                    now = time.time()
                    lags.append(now - json.loads(message.value() or b"")["after"]["at"])
    finally:
        consumer.close()
        writer.join()
    cuts = statistics.quantiles(lags[LAG_WARMUP:], n=100)
    return {"lag_p50_ms": cuts[49] * 1e3, "lag_p99_ms": cuts[98] * 1e3}


def _write_moments(url: str, count: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        begun = time.perf_counter()
        for number in range(count):
            due = begun + number / LAG_CHANGES_A_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
            connection.execute("INSERT INTO moments (at) VALUES (%s)", (time.time(),))


@contextmanager
def _worker(turn: Turn, bootstrap: str, database: PostgresServer) -> Iterator[_Worker]:
    port = free_port()
    worker = {
        "bootstrap.servers": bootstrap,
        "listeners": f"http://{HOST}:{port}",
        "key.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "offset.storage.file.filename": str(turn.workspace / "offsets"),
    }
    place = conninfo_to_dict(database.url)
    connector = {
        "name": NAME,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": "bench",
        "plugin.name": "pgoutput",
        "database.hostname": str(place["host"]),
        "database.port": str(place["port"]),
        "database.user": str(place["user"]),
        "database.password": "any",
        "database.dbname": str(place["dbname"]),
        "table.include.list": "public.orders,public.moments",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
    }
    files = (
        write_properties(turn.workspace / "worker.properties", worker),
        write_properties(turn.workspace / "connector.properties", connector),
    )
    log = turn.workspace / "worker.log"
    with log.open("wb") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            _command(turn.system, *files),
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OTTLA_LOG_LEVEL": "WARNING"},
        )
    try:
        yield _Worker(port, process, started, bootstrap)
    except BenchError as problem:
        raise BenchError(f"{problem}\n{log.read_text(errors='replace')[-3_000:]}") from None
    finally:
        process.terminate()
        process.wait(60)


def _command(system: System, worker: Path, connector: Path) -> list[str]:
    if system is System.OTTLA:
        return [sys.executable, "-m", "ottla", "connect", "standalone", str(worker), str(connector)]
    return standalone_command(worker, connector)


SCENARIOS: Final = (
    Scenario(
        "connect-postgresql",
        f"A PostgreSQL database with a table of {ROWS:,} rows and six columns into a topic of one partition, "
        "by Debezium's class name and default settings, JsonConverter without schemas: Debezium 3.6.1 in "
        "Kafka Connect 4.3.1's connect-standalone (its script's heap) on Apache Kafka beside `ottla connect "
        "standalone` on ottla, each with a database made by the same statements. First the copy of the table "
        f"(from its first record to the last; seconds from the worker's start). Then {CHANGES:,} changes, a "
        f"third each inserts, updates and deletes, {CHANGES_A_TRANSACTION} a transaction, which were made "
        "while the connector was paused: from the first record to the last. RSS of all of the worker's "
        f"processes then. Then {LAG_CHANGES_A_SECOND} inserts a second for {LAG_SECONDS} s, each a "
        "transaction: from the statement to a consumer. The topics have to have exactly as many records as "
        "there were changes (a deleted row has two).",
        (
            Measure("snapshot_rows_per_second", "copied rows", "rows/s", NO_LESS),
            Measure("snapshot_seconds", "the copy, with the worker's start", "s", NO_SLOWER),
            Measure("snapshot_cpu_seconds", "worker's CPU time, copy", "s/million"),
            Measure("changes_per_second", "changes", "changes/s", NO_LESS),
            Measure("changes_cpu_seconds", "worker's CPU time, changes", "s/million"),
            Measure("lag_p50_ms", "lag, p50", "ms", Target(Bound.VALUE_AT_MOST, 1_000)),
            Measure("lag_p99_ms", "lag, p99", "ms", Target(Bound.VALUE_AT_MOST, 3_000)),
            Measure("resident_mebibytes", "RSS", "MiB", NO_SLOWER),
        ),
        _run,
    ),
)
