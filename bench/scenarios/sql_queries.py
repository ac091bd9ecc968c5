"""SQL's queries on Spark: beside the same plans in the DSL, and twenty of them on one server.

In the scenarios of rates the sides are not brokers: the left column is the plan in the DSL, the right one the
statement on a SQL server, both on ottla's broker.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from bench import processes
from bench.errors import BenchError
from bench.figures import Bound, Measure, Target
from bench.pipeline_clients import peers, watching
from bench.pipeline_clients.peers import PARTITIONS, Peer, Program, Task
from bench.pipeline_clients.topics import create_topics, read_all
from bench.scenarios.scenario import Scenario, Turn
from bench.servers import Server, System, serve
from support.servers.cluster import ServerError
from support.sql.sql_server import SqlServer

INPUT: Final = "input"
OUTPUT: Final = "output"
DEAD_LETTERS: Final = "dead-letters"
"""Of the DSL's programs; a SQL server has its processing log."""
MINUTE_MS: Final = 60_000
RUN_TIMEOUT_SECONDS: Final = 900.0
NAME_BYTES: Final = 80

FILTER_RECORDS: Final = 10_000_000
LEAST_MS: Final = 10
"""Nine of ten records pass the filter: their numbers go from 0 to 99."""
WINDOWED_RECORDS: Final = 6_000_000
WINDOWED_KEYS: Final = 100_000
WINDOWED_MINUTES: Final = 5
BATCH: Final = 500_000

STATEMENTS: Final = 20
STATEMENT_SECONDS: Final = 300.0
SERVICE: Final = "bench"

STREAM: Final = (
    "CREATE STREAM clicks (id STRING KEY, name STRING, ms INT) "
    f"WITH (kafka_topic='{INPUT}', value_format='json');"
)
FILTER: Final = (
    f"CREATE STREAM result WITH (kafka_topic='{OUTPUT}') AS "
    f"SELECT id, UCASE(name) AS name, ms * 2 AS ms FROM clicks WHERE ms >= {LEAST_MS};"
)
WINDOWED: Final = (
    f"CREATE TABLE result WITH (kafka_topic='{OUTPUT}') AS SELECT id, COUNT(*) AS n FROM clicks "
    "WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 1 MINUTE) GROUP BY id;"
)
EARLIEST: Final = {"auto.offset.reset": "earliest"}


@dataclass(frozen=True, slots=True)
class Load:
    """A statement, the same plan as a program of the DSL, and its input."""

    program: Program
    statement: str
    records: int
    keys: int


def _filter_load(turn: Turn) -> Load:
    return Load(Program.JSON_FILTER, FILTER, turn.size(FILTER_RECORDS), 1_000_000)


def _windowed_load(turn: Turn) -> Load:
    keys = turn.size(WINDOWED_KEYS)
    return Load(Program.JSON_WINDOWED_COUNT, WINDOWED, turn.size(WINDOWED_RECORDS), keys)


def _rates(load_of: Callable[[Turn], Load], turn: Turn) -> dict[str, float]:
    load = load_of(turn)
    with serve(System.OTTLA, turn.workspace) as server:
        create_topics(server, INPUT, OUTPUT, DEAD_LETTERS)
        begin_ms = int(time.time() * 1000) // MINUTE_MS * MINUTE_MS - 2 * WINDOWED_MINUTES * MINUTE_MS
        peers.fill(
            server.bootstrap,
            INPUT,
            records=load.records,
            keys=load.keys,
            value_bytes=NAME_BYTES,
            begin_ms=begin_ms,
            span_ms=WINDOWED_MINUTES * MINUTE_MS,
            json=True,
        )
        run = _by_dsl if turn.system is System.KAFKA else _by_sql
        course = run(turn, server, load)
        _check(server, load)
    figures = dict(watching.figures(course))
    # Twice in the table, as a figure has one target: the rate itself has one, and its ratio to the DSL's.
    return {**figures, "beside_records_per_second": figures["records_per_second"]}


def _by_dsl(turn: Turn, server: Server, load: Load) -> watching.Course:
    directory = turn.workspace / "program"
    task = Task(load.program, server.bootstrap, INPUT, OUTPUT, "bench", directory, 0, turn.size(BATCH))
    with peers.run(Peer.OTTLA, task) as running:

        def check_running() -> None:
            running.check_running()
            server.check_running()

        course = _follow(
            turn, server, running.group, load.records, running.started_at, running.pids, check_running
        )
        running.stop()
    return course


def _by_sql(turn: Turn, server: Server, load: Load) -> watching.Course:
    began = time.perf_counter()
    with _served(turn, server, {"ottla.sql.batch.records": str(turn.size(BATCH))}) as sql:
        sql.run(STREAM)
        (made,) = sql.run(load.statement, EARLIEST)
        (group,) = _groups(server, [made["commandStatus"]["queryId"]])
        return _follow(
            turn,
            server,
            group,
            load.records,
            began,
            lambda: [sql.process.server.process.pid],
            server.check_running,
        )


def _follow(
    turn: Turn,
    server: Server,
    group: str,
    records: int,
    began: float,
    pids: Callable[[], list[int]],
    check_running: Callable[[], None],
) -> watching.Course:
    found = watching.CommittedOffsets(server.bootstrap, group, INPUT, PARTITIONS)
    with contextlib.closing(found) as offsets:
        course = watching.watch(
            offsets,
            records,
            started_at=began,
            pids=pids,
            check_running=check_running,
            server_cpu_seconds=server.cpu_seconds,
            timeout_seconds=RUN_TIMEOUT_SECONDS,
        )
    turn.other_cpu_shares.append(course.other_cpu_share)
    return course


@contextmanager
def _served(turn: Turn, server: Server, settings: Mapping[str, str]) -> Iterator[SqlServer]:
    """A server with its Spark. Kafka's brokers take no session below 6 s."""
    given = {
        "ottla.sql.session.timeout.ms": "10000",
        "ottla.sql.spark.driver.memory": "2g",
        "ottla.sql.spark.master": "local[2]",
        **settings,
    }
    try:
        with SqlServer.start(
            server.bootstrap, turn.workspace / "sql", SERVICE, warm=True, settings=given
        ) as running:
            yield running
    except ServerError as error:
        raise BenchError(f"ottla sql server: {error}") from error


def _groups(server: Server, queries: list[str]) -> list[str]:
    """The groups that show the progress of queries, one each. Raises BenchError for a query with two."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
    deadline = time.monotonic() + STATEMENT_SECONDS
    while time.monotonic() < deadline:
        named = [each.group_id for each in admin.list_consumer_groups().result(30).valid]
        # beside it there are those of the sink's ledger, and of dead letters
        forms = [re.compile(re.escape(f"ottla-sql-{SERVICE}-{query}") + r"-to-\d+") for query in queries]
        found = [[each for each in named if form.fullmatch(each)] for form in forms]
        if any(len(groups) > 1 for groups in found):
            raise BenchError(f"a statement is several queries of Spark: {found}")
        if all(found):
            return [groups[0] for groups in found]
        time.sleep(0.1)
    raise BenchError(f"not all of {queries} have a group after {STATEMENT_SECONDS:.0f} s: {named}")


def _check(server: Server, load: Load) -> None:
    """The whole output, after the measurement."""
    if load.program is Program.JSON_FILTER:
        whole, rest = divmod(load.records, 100)
        wanted = whole * (100 - LEAST_MS) + max(0, rest - LEAST_MS)
        found = sum(_is_loud(value) for _, value in read_all(server, OUTPUT))
    else:
        last: dict[bytes, int] = {}
        for key, value in read_all(server, OUTPUT):
            last[key] = orjson.loads(value)["N"]
        wanted, found = load.records, sum(last.values())
    if found != wanted:
        raise BenchError(f"the output speaks of {found:,} records, not of {wanted:,}")


def _is_loud(value: bytes) -> bool:
    row = orjson.loads(value)
    if not row["NAME"].isupper() or row["MS"] < 2 * LEAST_MS or row["MS"] % 2:
        raise BenchError(f"{value!r} came out of the query")
    return True


# Twenty statements on one server


def _statement(number: int) -> str:
    """One of five kinds: filter, count, windowed sum, join with a table, split arrays."""
    name = f"q{number}"
    match number % 5:
        case 0:
            return f"CREATE STREAM {name} AS SELECT id, UCASE(name) AS name FROM clicks WHERE ms >= {number};"
        case 1:
            return f"CREATE TABLE {name} AS SELECT name, COUNT(*) AS n FROM clicks GROUP BY name;"
        case 2:
            return (
                f"CREATE TABLE {name} AS SELECT id, SUM(ms) AS total FROM clicks "
                "WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY id;"
            )
        case 3:
            return (
                f"CREATE STREAM {name} AS SELECT c.id, c.ms, a.owner FROM clicks c "
                "LEFT JOIN accounts a ON c.id = a.id;"
            )
        case _:
            return f"CREATE STREAM {name} AS SELECT id, EXPLODE(SPLIT(name, ' ')) AS word FROM clicks;"


def _many(turn: Turn) -> dict[str, float]:
    with turn.server() as server:
        create_topics(server, INPUT, "accounts")
        with _served(turn, server, {}) as sql:
            sql.run(STREAM)
            sql.run(
                "CREATE TABLE accounts (id STRING PRIMARY KEY, owner STRING) "
                "WITH (kafka_topic='accounts', value_format='json');"
            )
            rows = itertools.count()
            producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 0, "log_level": 0})
            _write(producer, next(rows))
            queries, seconds = [], []
            for number in range(STATEMENTS):
                began = time.perf_counter()
                (made,) = sql.run(_statement(number), EARLIEST)
                queries.append(made["commandStatus"]["queryId"])
                _until_through(server, queries[-1:], 1)
                seconds.append(time.perf_counter() - began)
            for _ in range(10):
                _write(producer, next(rows))
            _until_through(server, queries, 11)
            pid = sql.process.server.process.pid
            resident = processes.resident_bytes(pid)
            port = sql.process.port
            sql.process.kill()
        _write(producer, next(rows))
        began = time.perf_counter()
        with _served(turn, server, {}) as sql:
            ready = time.perf_counter() - began
            _until_through(server, queries, 12)
            restart = time.perf_counter() - began
            assert sql.process.port != port
    return {
        "first_statement_seconds": seconds[0],
        "statement_seconds": statistics.median(seconds[5:]),
        "resident_mebibytes": resident / (1 << 20),
        "ready_seconds": ready,
        "restart_seconds": restart,
    }


def _write(producer: Producer, number: int) -> None:
    value = orjson.dumps({"NAME": f"name {number}", "MS": 50 + number})
    producer.produce(INPUT, value, b"key-%d" % number)
    if producer.flush(30):
        raise BenchError("a row could not be written")


def _until_through(server: Server, queries: list[str], records: int) -> None:
    """Wait until each query has committed so many records of its input."""
    deadline = time.monotonic() + STATEMENT_SECONDS
    for group in _groups(server, queries):
        with contextlib.closing(
            watching.CommittedOffsets(server.bootstrap, group, INPUT, PARTITIONS)
        ) as offsets:
            while (total := offsets.total()) < records:
                if time.monotonic() > deadline:
                    raise BenchError(f"{group} is through {total} of {records} records")
                time.sleep(watching.POLL_SECONDS)


_RATE: Final = (
    "Left the plan in Streams' DSL as a program of its own, right the statement on `ottla sql server` "
    f"(memory and processor time with the server's); both with Spark's local[2], a heap of 2 GiB and "
    f"{BATCH:,} records a micro-batch, on ottla's broker, from an input of {NAME_BYTES} letters and a number "
    "as JSON in two partitions to JSON, exactly once, with a topic for dead letters, the whole output "
    "read and checked afterwards. How far a query is: the offsets of its group, which become visible with "
    "the output; the rate is from a quarter of the input to its end."
)


_NO_LESS_THAN_NINE_TENTHS: Final = Target(Bound.RATIO_AT_LEAST, 0.9)


def _measures(least: float) -> tuple[Measure, ...]:
    return (
        Measure("records_per_second", "rate", "records/s", Target(Bound.VALUE_AT_LEAST, least)),
        Measure("beside_records_per_second", "rate beside the DSL", "records/s", _NO_LESS_THAN_NINE_TENTHS),
        Measure("whole_records_per_second", "rate, its start included", "records/s"),
        Measure("start_seconds", "from its start to its first output", "s"),
        Measure("cpu_seconds_per_million", "processor time a million records", "s"),
        Measure("peak_mebibytes", "most RSS", "MiB"),
    )


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "sql-filter",
        f"{FILTER_RECORDS:,} records filtered and projected: {FILTER} {_RATE}",
        _measures(250_000),
        functools.partial(_rates, _filter_load),
    ),
    Scenario(
        "sql-windowed",
        f"{WINDOWED_RECORDS:,} records of {WINDOWED_KEYS:,} keys over {WINDOWED_MINUTES} minutes of event "
        f"time: {WINDOWED} {_RATE}",
        _measures(100_000),
        functools.partial(_rates, _windowed_load),
    ),
    Scenario(
        "sql-statements",
        f"{STATEMENTS} statements on one `ottla sql server` (filters, counts, windowed sums, joins with a "
        "table, table functions in turns), one after the other on a topic with a record: from each statement "
        "until that record is through its query, the first one with Spark's start, the median of the sixth "
        "to the last. Memory of the server and its Spark when ten more records are through all of them. "
        "Then kill -9 of the server, one more record, and the seconds from the next server's start until "
        "that record is through all of them. The service is ottla's on both sides: the sides are the brokers "
        "below it.",
        (
            Measure("statement_seconds", "a statement", "s", Target(Bound.VALUE_AT_MOST, 3)),
            Measure("restart_seconds", "all again after kill -9", "s", Target(Bound.VALUE_AT_MOST, 60)),
            Measure("resident_mebibytes", "RSS", "MiB", Target(Bound.VALUE_AT_MOST, 4096)),
            Measure("first_statement_seconds", "the first statement", "s"),
            Measure("ready_seconds", "the server is ready", "s"),
        ),
        _many,
    ),
)
