"""ottla's SQL server without Spark: pull queries of a large table, rows to many push queries at once."""

from __future__ import annotations

import asyncio
import http.client
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import orjson
from confluent_kafka import Producer

from bench import processes
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.scenarios.scenario import Scenario, Turn
from bench.servers import Server
from support.servers.cluster import ServerError
from support.sql.sql_server import SqlServer

KEYS: Final = 1_000_000
PULLS: Final = 20_000
WARM_PULLS: Final = 1_000
VIEW_SECONDS: Final = 600.0
PUSH_QUERIES: Final = 500
PUSH_ROUNDS: Final = 20
PUSH_SECONDS: Final = 60.0


@contextmanager
def _served(turn: Turn, server: Server) -> Iterator[SqlServer]:
    try:
        settings = {"ottla.sql.session.timeout.ms": "10000"}  # Kafka's brokers take none below 6 s
        with SqlServer.start(server.bootstrap, turn.workspace / "sql", "bench", settings=settings) as running:
            yield running
    except ServerError as error:
        raise BenchError(f"ottla sql server: {error}") from error


def _pull(turn: Turn) -> dict[str, float]:
    keys, dice = turn.size(KEYS), random.Random(7)
    with turn.server() as server, _served(turn, server) as sql:
        sql.run(
            "CREATE TABLE accounts (id INT PRIMARY KEY, owner STRING, balance BIGINT) "
            "WITH (kafka_topic='accounts', value_format='json', partitions=1);"
        )
        _fill(server, keys)
        began = time.perf_counter()
        found = sql.until(f"SELECT * FROM accounts WHERE id = {keys - 1};", bool, VIEW_SECONDS)
        view_seconds = time.perf_counter() - began
        if found != [[keys - 1, f"owner-{keys - 1}", keys - 1]]:
            raise BenchError(f"the last row is {found}")
        pid = sql.process.server.process.pid
        connection = http.client.HTTPConnection("127.0.0.1", sql.process.port, timeout=60)
        _ask(connection, keys, WARM_PULLS, dice)
        spent_before, began = processes.cpu_seconds(pid), time.perf_counter()
        times = _ask(connection, keys, turn.size(PULLS), dice)
        seconds, spent = time.perf_counter() - began, processes.cpu_seconds(pid) - spent_before
        return {
            "pull_p50_ms": statistics.median(times) * 1_000,
            "pull_p99_ms": sorted(times)[len(times) * 99 // 100] * 1_000,
            "pulls_per_second": len(times) / seconds,
            "pulls_per_core_second": len(times) / spent,
            "view_rows_per_second": keys / view_seconds,
            "resident_mebibytes": processes.resident_bytes(pid) / (1 << 20),
        }


def _fill(server: Server, keys: int) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 20, "log_level": 0})
    for key in range(keys):
        value = b'{"OWNER":"owner-%d","BALANCE":%d}' % (key, key)
        while True:
            try:
                producer.produce("accounts", value, key.to_bytes(4, "big"))
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise BenchError("the table's rows could not be written")


def _ask(connection: http.client.HTTPConnection, keys: int, count: int, dice: random.Random) -> list[float]:
    """The seconds of each of so many pull queries of random keys, one after the other."""
    times = []
    for _ in range(count):
        key = dice.randrange(keys)
        body = orjson.dumps({"sql": f"SELECT * FROM accounts WHERE id = {key};"})
        began = time.perf_counter()
        connection.request("POST", "/query-stream", body)
        answer = connection.getresponse().read()
        times.append(time.perf_counter() - began)
        if not answer.endswith(b'[%d,"owner-%d",%d]\n' % (key, key, key)):
            raise BenchError(f"key {key} is answered with {answer!r}")
    return times


def _push(turn: Turn) -> dict[str, float]:
    with turn.server() as server, _served(turn, server) as sql:
        sql.run(
            "CREATE STREAM clicks (id INT KEY, n INT) "
            "WITH (kafka_topic='clicks', value_format='json', partitions=1);"
        )
        pid = sql.process.server.process.pid
        options = {"bootstrap.servers": server.bootstrap, "transactional.id": "bench", "linger.ms": 0}
        producer = Producer({**options, "log_level": 0})
        producer.init_transactions(60)
        times = asyncio.run(_listened(sql, producer, turn.size(PUSH_ROUNDS)))
        return {
            "first_row_p50_ms": statistics.median(times) * 1_000,
            "first_row_p99_ms": sorted(times)[len(times) * 99 // 100] * 1_000,
            "resident_mebibytes": processes.resident_bytes(pid) / (1 << 20),
        }


async def _listened(sql: SqlServer, producer: Producer, rounds: int) -> list[float]:
    """How long each row took to each of the queries, from the commit of its transaction on."""
    body = orjson.dumps({"sql": "SELECT n, id FROM clicks WHERE n >= 0 EMIT CHANGES;"})
    head = b"POST /query-stream HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    streams = []
    async with asyncio.timeout(PUSH_SECONDS * 2):
        for _ in range(PUSH_QUERIES):
            reader, writer = await asyncio.open_connection("127.0.0.1", sql.process.port)
            writer.write(head + body)
            await reader.readuntil(b"columnTypes")
            await reader.readuntil(b"\n")
            streams.append((reader, writer))
    times: list[float] = []

    async def row(reader: asyncio.StreamReader, number: int) -> float:
        await reader.readuntil(b"[%d," % number)
        return time.perf_counter()

    for number in range(rounds):
        waiting = [asyncio.create_task(row(reader, number)) for reader, _ in streams]
        committed = await asyncio.to_thread(_commit, producer, number)
        async with asyncio.timeout(PUSH_SECONDS):
            times += [each - committed for each in await asyncio.gather(*waiting)]
    for _, writer in streams:
        writer.close()
    return times


def _commit(producer: Producer, number: int) -> float:
    producer.begin_transaction()
    producer.produce("clicks", orjson.dumps({"N": number}), number.to_bytes(4, "big"))
    producer.flush()
    began = time.perf_counter()
    producer.commit_transaction()
    return began


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "sql-pull",
        f"ottla sql server, a table of {KEYS:,} keys in JSON over one partition: POST /query-stream of "
        f"SELECT * FROM accounts WHERE id = N for {PULLS:,} random keys over one connection, after "
        f"{WARM_PULLS:,}, each answer checked; told by the second and by the second of the server's "
        "processor time; and how fast the table's view is read, from the first question on. The service is "
        "ottla's on both sides: the sides are the brokers below it.",
        (
            Measure("pull_p99_ms", "p99", "ms", Target(Bound.VALUE_AT_MOST, 10)),
            Measure("pull_p50_ms", "p50", "ms"),
            Measure("pulls_per_second", "pull queries", "queries/s"),
            Measure(
                "pulls_per_core_second", "queries a core", "queries/s", Target(Bound.VALUE_AT_LEAST, 2_000)
            ),
            Measure("view_rows_per_second", "view", "rows/s"),
            Measure("resident_mebibytes", "RSS", "MiB"),
        ),
        _pull,
    ),
    Scenario(
        "sql-push",
        f"ottla sql server, {PUSH_QUERIES} push queries with a filter over one stream, each on a connection "
        f"of its own: {PUSH_ROUNDS} transactions of one row, each from the call of its commit until the row "
        "is at each client, which is one process for all of them.",
        (
            Measure("first_row_p50_ms", "p50", "ms", Target(Bound.VALUE_AT_MOST, 300)),
            Measure("first_row_p99_ms", "p99", "ms"),
            Measure("resident_mebibytes", "RSS", "MiB"),
        ),
        _push,
    ),
)
