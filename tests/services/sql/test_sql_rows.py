"""Rows over HTTP on a real broker: pull queries of views, push queries, inserts, in all of their forms."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from confluent_kafka import Producer

from ottla.client.access import ClusterAccess
from ottla.sql.binding.statement_binder import Binder
from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.functions.registry import Functions
from ottla.sql.language.errors import SqlError
from ottla.sql.language.parser import parse_statement
from ottla.sql.language.statements import Select
from ottla.sql.plan.statement_plan import PutQuery, PutSource
from ottla.sql.rows.forwarding import FORWARDED
from ottla.sql.rows.port import Answer, TransientQueries, TransientQuery
from ottla.sql.rows.routes import RowRoutes
from ottla.sql.rows.row_queries import SqlRows
from ottla.web.application import json_application
from support.clients.confluent import create_topic, eventually
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess
from support.sql.sql_server import TIMEOUT_S, Push, SqlServer

ENTITIES = "application/vnd.ksql.v1+json"


@pytest.fixture(scope="module")
def server(
    broker: OttlaBroker, registry: ServiceProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SqlServer]:
    directory = tmp_path_factory.mktemp("sql_rows")
    settings = {"ksql.schema.registry.url": registry.url}
    with SqlServer.start(
        broker.bootstrap, directory, f"id{uuid.uuid4().hex[:8]}", settings=settings
    ) as running:
        yield running


@pytest.fixture
def dice() -> random.Random:
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


def new_name() -> str:
    return f"R_{uuid.uuid4().hex[:10]}".upper()


def made(
    server: SqlServer, kind: str, columns: str, partitions: int = 2, value: str = "json", **others: str
) -> str:
    name = new_name()
    more = "".join(f", {key}='{text}'" for key, text in others.items())
    server.run(
        f"CREATE {kind} {name} ({columns}) WITH (kafka_topic='{name}', value_format='{value}', "
        f"partitions={partitions}{more});"
    )
    return name


def producer_of(broker: OttlaBroker) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random", "linger.ms": 5})


def number(key: int) -> bytes:
    return key.to_bytes(4, "big", signed=True)


def post(server: SqlServer, path: str, body: Any, **headers: str) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=body, headers=headers, timeout=TIMEOUT_S)


def test_a_table_is_asked_by_key_by_several_keys_by_parts_of_its_filter_and_as_a_whole(
    server: SqlServer, broker: OttlaBroker, dice: random.Random
) -> None:
    name = made(server, "TABLE", "id INT PRIMARY KEY, city STRING, n BIGINT", dice.randint(1, 4))
    model: dict[int, tuple[str, int]] = {}
    producer = producer_of(broker)
    for _ in range(3_000):
        key = dice.randint(-500, 500)
        if dice.random() < 0.2:
            model.pop(key, None)
            producer.produce(name, None, number(key))
        else:
            model[key] = dice.choice(["Köln", "O'Hare", "x"]), dice.randint(-(2**60), 2**60)
            value = {"CITY": model[key][0], "N": model[key][1]}
            producer.produce(name, json.dumps(value), number(key))
    producer.flush()
    everything = sorted([key, *row] for key, row in model.items())
    server.until(f"SELECT * FROM {name};", lambda rows: sorted(rows) == everything)
    for key in dice.sample(range(-510, 510), 10):
        expected = [[key, *model[key]]] if key in model else []
        assert server.rows(f"SELECT * FROM {name} WHERE id = {key};") == expected
        assert server.rows(f"SELECT * FROM {name} WHERE {key} = id AND n > 0;") == [
            row for row in expected if row[2] > 0
        ]
    keys = dice.sample(range(-510, 510), 9)
    found = server.rows(
        f"SELECT id FROM {name} WHERE id IN ({', '.join(map(str, keys))}) AND city = 'O''Hare';"
    )
    assert sorted(found) == sorted([key] for key in keys if key in model and model[key][0] == "O'Hare")
    low, high = sorted(dice.sample(range(-500, 500), 2))
    assert sorted(server.rows(f"SELECT id FROM {name} WHERE id BETWEEN {low} AND {high};")) == sorted(
        [key] for key in model if low <= key <= high
    )
    assert len(server.rows(f"SELECT * FROM {name} LIMIT 7;")) == 7
    asked = post(server, "/query-stream", {"sql": f"SELECT * FROM {name} WHERE id = 1;"})
    assert sum(json.loads(asked.headers["ottla-positions"]).values()) == 3_000
    assert asked.headers["ottla-lag"] == "0"


def test_a_scan_is_of_one_moment_however_many_pages_it_has(
    server: SqlServer, broker: OttlaBroker, dice: random.Random
) -> None:
    """All rows are written again and again in one transaction, each time with one number."""
    name = made(server, "TABLE", "id INT PRIMARY KEY, round INT", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "linger.ms": 5})
    producer.init_transactions(30)

    def write(turn: int) -> None:
        producer.begin_transaction()
        for key in range(2_400):
            producer.produce(name, json.dumps({"ROUND": turn}), number(key))
        producer.commit_transaction()

    write(0)
    server.until(f"SELECT * FROM {name};", lambda rows: len(rows) == 2_400)
    stop = threading.Event()

    def write_on() -> None:
        turn = 1
        while not stop.is_set():
            write(turn)
            turn += 1

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        seen = set()
        for _ in range(6):
            rounds = {row[1] for row in server.rows(f"SELECT * FROM {name};")}
            assert len(rounds) == 1, rounds
            seen |= rounds
        server.until(f"SELECT round FROM {name} WHERE id = 5;", lambda rows: rows[0][0] > max(seen))
    finally:
        stop.set()
        writer.join()


def test_a_record_that_is_none_of_the_table_leaves_the_row_before_it(
    server: SqlServer, broker: OttlaBroker
) -> None:
    name = made(server, "TABLE", "id INT PRIMARY KEY, n INT", partitions=1)
    producer = producer_of(broker)
    for key, value in ((number(1), b'{"N": 1}'), (number(1), b'{"N": "x"}'), (b"no key", b'{"N": 2}')):
        producer.produce(name, value, key)
    producer.produce(name, b'{"N": 3}', number(2))
    producer.flush()
    server.until(f"SELECT * FROM {name} WHERE id = 2;", lambda rows: rows == [[2, 3]])
    assert server.rows(f"SELECT * FROM {name};") == [[1, 1], [2, 3]]


def test_uncommitted_and_aborted_rows_are_never_seen(server: SqlServer, broker: OttlaBroker) -> None:
    name = made(server, "TABLE", "id INT PRIMARY KEY, n INT", partitions=1)
    push = Push(server, f"SELECT * FROM {name} EMIT CHANGES;")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(30)
    for turn, commits in enumerate((True, False, True)):
        producer.begin_transaction()
        producer.produce(name, json.dumps({"N": turn}), number(turn))
        producer.flush()
        assert [turn, turn] not in server.rows(f"SELECT * FROM {name};")
        if commits:
            producer.commit_transaction()
            server.until(f"SELECT n FROM {name} WHERE id = {turn};", lambda rows, turn=turn: rows == [[turn]])
        else:
            producer.abort_transaction()
    assert push.until(lambda rows: len(rows) == 2) == [[0, 0], [2, 2]]
    assert server.rows(f"SELECT id FROM {name};") == [[0], [2]]
    post(server, "/close-query", {"queryId": push.head["queryId"]})
    push.until_ended()


def test_windows_of_a_key_are_asked_by_their_start(server: SqlServer, broker: OttlaBroker) -> None:
    name = made(
        server, "TABLE", "id STRING PRIMARY KEY, n INT", 1, window_type="tumbling", window_size="10 seconds"
    )
    producer = producer_of(broker)
    start = 1_790_000_000_000
    for window in range(20):
        at = start + window * 10_000
        for key in ("a", "b"):
            whole = key.encode() + at.to_bytes(8, "big")
            producer.produce(name, json.dumps({"N": window}), whole, timestamp=at)
    producer.flush()
    server.until(f"SELECT * FROM {name};", lambda rows: len(rows) == 40)
    text = f"SELECT id, n, windowstart, windowend FROM {name} WHERE id = 'a' AND windowstart"
    assert server.rows(f"{text} = {start + 50_000};") == [["a", 5, start + 50_000, start + 60_000]]
    found = server.rows(f"{text} >= {start + 170_000} AND windowend < {start + 200_000};")
    assert [row[1] for row in found] == [17, 18]


@pytest.mark.parametrize("value", ["avro", "json_sr", "protobuf", "json", "delimited"])
def test_rows_of_every_format_are_inserted_pushed_and_pulled(server: SqlServer, value: str) -> None:
    # Connect's converter of Protobuf writes no decimals.
    decimals = value != "protobuf"
    columns = "id BIGINT KEY, s STRING, d DOUBLE, b BOOLEAN, t TIMESTAMP" + ", m DECIMAL(8, 3)" * decimals
    name = made(server, "STREAM", columns, 1, value)
    push = Push(server, f"SELECT * FROM {name} EMIT CHANGES LIMIT 2;", {"auto.offset.reset": "earliest"})
    more = ", 12345.678" * decimals
    server.run(
        f"INSERT INTO {name} VALUES (1, 'a,\"ö', 0.5, true, '2026-01-02T03:04:05'{more});"
        f"INSERT INTO {name} (id, s) VALUES (2, 'x');"
    )
    rows = push.until_ended()
    assert rows[0] == [1, 'a,"ö', 0.5, True, "2026-01-02T03:04:05.000", *[12345.678] * decimals]
    # Protobuf has no NULL for numbers.
    assert rows[1][:2] == [2, "x"]
    assert server.rows(f"SELECT * FROM {name};") == rows


def test_structs_arrays_maps_and_headers(server: SqlServer, broker: OttlaBroker) -> None:
    name = made(
        server,
        "STREAM",
        "k STRUCT<a INT> KEY, s STRUCT<x ARRAY<INT>, y MAP<STRING, BYTES>>, h BYTES HEADER('h'), d DATE",
        1,
        key_format="json",
    )
    producer = producer_of(broker)
    value = {"s": {"x": [1, None], "Y": {"k": "AAE="}}, "D": 1}
    producer.produce(name, json.dumps(value), b'{"A": 7}', headers=[("h", b"1"), ("h", b"\x02")])
    producer.flush()
    (row,) = server.rows(f"SELECT k->a, s, h, d, s->x[1] AS one FROM {name};")
    assert row == [7, {"X": [1, None], "Y": {"k": "AAE="}}, "Ag==", "1970-01-02", 1]


def test_all_forms_of_an_answer(server: SqlServer, broker: OttlaBroker) -> None:
    name = made(server, "TABLE", "id INT PRIMARY KEY, n INT", partitions=1)
    server.run(f"INSERT INTO {name} VALUES (1, 10);")
    text = f"SELECT * FROM {name};"
    server.until(text, lambda rows: rows == [[1, 10]])
    lines = post(server, "/query-stream", {"sql": text}, accept="application/vnd.ksqlapi.delimited.v1")
    head, row = map(json.loads, lines.text.splitlines())
    assert (head["columnNames"], head["columnTypes"], row) == (["ID", "N"], ["INTEGER", "INTEGER"], [1, 10])
    array = post(server, "/query-stream", {"sql": text}, accept="application/json").json()
    assert array[0]["columnNames"] == ["ID", "N"]
    assert array[1:] == [[1, 10]]
    for answer in (
        post(server, "/query", {"ksql": text, "streamsProperties": {}}),
        post(server, "/query-stream", {"sql": text}, accept=ENTITIES),
    ):
        assert answer.headers["content-type"].startswith(ENTITIES)
        header, row = answer.json()[:2]
        assert header["header"]["schema"] == "`ID` INTEGER KEY, `N` INTEGER"
        assert row == {"row": {"columns": [1, 10]}}
    sent = {"sql": f"SELECT n FROM {name} WHERE id = ${{wanted}};", "sessionVariables": {"wanted": "1"}}
    for wanted, rows in (("1", ["[10]"]), ("2", []), ("1", ["[10]"])):
        sent["sessionVariables"] = {"wanted": wanted}
        assert post(server, "/query-stream", sent).text.splitlines()[1:] == rows
    refused = post(server, "/query-stream", {"sql": f"SELECT nn FROM {name};"})
    assert (refused.status_code, refused.json()["error_code"]) == (400, 40001)
    assert "line 1, column 8" in refused.json()["message"]
    scan = {"sql": text, "properties": {"ksql.query.pull.table.scan.enabled": "false"}}
    assert post(server, "/query-stream", scan).status_code == 400
    assert post(server, "/close-query", {"queryId": "none"}).status_code == 400


def test_a_push_query_has_each_row_once_from_the_first_one_on_while_rows_come(
    server: SqlServer, broker: OttlaBroker, dice: random.Random
) -> None:
    """Queries that begin with what is there join the shared reader at any moment, under load."""
    name = made(server, "STREAM", "id INT KEY, n INT", dice.randint(1, 3))
    producer = producer_of(broker)
    count = 6_000
    written = threading.Event()

    def write() -> None:
        for n in range(count):
            producer.produce(name, json.dumps({"N": n}), number(dice.randint(0, 50)))
            if n % 50 == 0:
                producer.flush()
        producer.flush()
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    text = f"SELECT n FROM {name} EMIT CHANGES LIMIT {count};"
    pushes = []
    while not written.is_set() and len(pushes) < 12:
        pushes.append(Push(server, text, {"auto.offset.reset": "earliest"}))
    for push in pushes:
        assert sorted(row[0] for row in push.until_ended()) == list(range(count))
    writer.join()


def test_a_push_query_over_a_table_tells_changes_and_deletions(
    server: SqlServer, broker: OttlaBroker
) -> None:
    name = made(server, "TABLE", "id INT PRIMARY KEY, n INT", partitions=1)
    producer = producer_of(broker)
    for key, value in ((1, 5), (2, 50), (1, 60), (1, 5), (2, None), (3, None)):
        producer.produce(name, None if value is None else json.dumps({"N": value}), number(key))
    producer.flush()
    first = {"auto.offset.reset": "earliest"}
    plain = Push(server, f"SELECT id, n FROM {name} EMIT CHANGES LIMIT 6;", first).until_ended()
    gone = [{"row": {"columns": [key, None], "tombstone": True}} for key in (1, 2, 3)]
    assert plain == [[1, 5], [2, 50], [1, 60], [1, 5], gone[1], gone[2]]
    # What fits the filter no more is gone for the client; what never did is nothing to it.
    some = Push(server, f"SELECT id, n FROM {name} WHERE n > 10 EMIT CHANGES LIMIT 4;", first).until_ended()
    assert some == [[2, 50], [1, 60], gone[0], gone[1]]


def test_rows_come_to_hundreds_of_queries_by_one_reader(server: SqlServer, broker: OttlaBroker) -> None:
    name = made(server, "STREAM", "id INT KEY, n INT", partitions=1)
    limits = httpx.Limits(max_connections=150)
    with httpx.Client(timeout=TIMEOUT_S, limits=limits) as client, ThreadPoolExecutor(100) as threads:
        ready = threading.Semaphore(0)

        def listen(number: int) -> list[Any]:
            body = {"sql": f"SELECT n FROM {name} WHERE n % 100 = {number} EMIT CHANGES LIMIT 2;"}
            with client.stream("POST", f"{server.url}/query-stream", json=body) as answer:
                lines = answer.iter_lines()
                next(lines)
                ready.release()
                return [json.loads(each) for each in lines]

        listening = [threads.submit(listen, each) for each in range(100)]
        for _ in listening:
            assert ready.acquire(timeout=TIMEOUT_S)
        producer = producer_of(broker)
        for n in range(200):
            producer.produce(name, json.dumps({"N": n}), number(n))
        producer.flush()
        for each, future in enumerate(listening):
            assert future.result() == [[each], [each + 100]]

    def none_runs() -> bool:
        return not any(name in query["queryString"] for query in server.run("SHOW QUERIES;")[0]["queries"])

    eventually(none_runs, "queries end with their LIMIT")


def test_a_stream_of_inserts_is_acknowledged_row_by_row(server: SqlServer, broker: OttlaBroker) -> None:
    name = made(server, "STREAM", "id INT KEY, n INT")
    lines = [json.dumps({"target": name})]
    lines += [json.dumps({"ID": n, "n": n}) for n in range(2_000)]
    lines[1_000] = '{"id": "x"}'
    body = "\n".join(lines)
    told = httpx.post(f"{server.url}/inserts-stream", content=body, timeout=TIMEOUT_S)
    found = [json.loads(line) for line in told.text.splitlines()]
    assert [each["seq"] for each in found] == list(range(2_000))
    assert [each["seq"] for each in found if each["status"] != "ok"] == [999]
    rows = server.rows(f"SELECT id FROM {name};")
    assert sorted(rows) == [[n] for n in range(2_000) if n != 999]
    with httpx.Client(http1=False, http2=True, timeout=TIMEOUT_S) as client:
        url, accept = f"{server.url}/inserts-stream", {"accept": "application/json"}
        again = client.post(url, content=body, headers=accept)
        assert (again.http_version, again.json()) == ("HTTP/2", found)
        none = client.post(url, content=lines[0], headers=accept)
        assert none.json() == []
        pulled = client.post(f"{server.url}/query-stream", json={"sql": f"SELECT id FROM {name};"})
        assert len(pulled.text.splitlines()) == 1 + 2 * 1_999


@dataclass(frozen=True, slots=True)
class GivenPeers:
    urls: Sequence[str]

    def addresses(self) -> Sequence[str]:
        return self.urls


class RestoringViews:
    """In place of a server's views: their tables are never read to the end."""

    is_ready = False

    def ready(self, source: Source) -> None:
        return None

    def begun(self, source: Source) -> RestoringViews:
        return self

    def of(self, source: Source, wait_seconds: float) -> None:
        raise SqlError(f"{source.name} is still being read, after {wait_seconds} s")

    def close(self) -> None:
        pass


def test_a_server_that_still_reads_a_table_passes_questions_on(
    server: SqlServer, broker: OttlaBroker, tmp_path: Path
) -> None:
    columns = "id INT PRIMARY KEY, n DECIMAL(9, 2), t TIMESTAMP, s STRUCT<d DATE>"
    name = made(server, "TABLE", columns, partitions=1)
    server.run(f"INSERT INTO {name} (id, n, t) VALUES (1, 1.25, '2026-01-02T03:04:05.006');")
    server.until(f"SELECT * FROM {name};", bool)
    text = f"CREATE TABLE {name} ({columns}) WITH (kafka_topic='{name}', value_format='json', partitions=1);"
    plan = Binder().bind(parse_statement(text))
    assert isinstance(plan, PutSource)
    catalog = Catalog().with_source(plan.source)

    async def answers(urls: Sequence[str]) -> None:
        rows = SqlRows(
            ClusterAccess(broker.bootstrap),
            lambda: catalog,
            Functions(),
            tmp_path,
            cast(TransientQueries, None),
            peers=GivenPeers(urls),
        )
        rows._views = cast(Any, RestoringViews())

        async def ask(select: str, **properties: str) -> Answer:
            statement = parse_statement(select)
            assert isinstance(statement, Select)
            return await rows.query(statement.query, select, properties)

        try:
            answer = await ask(f"SELECT id, n, t FROM {name} WHERE id = 1;")
            found = [row.values async for chunk in answer.rows for row in chunk]
            assert found == [(1, Decimal("1.25"), 1_767_323_045_006)]
            assert (answer.positions, answer.lag) == ({(name, 0): 1}, 0)
            # Times within structs are told as texts, whose types a line does not name.
            with pytest.raises(SqlError, match="still being read, after 60"):
                await ask(f"SELECT * FROM {name} WHERE id = 1;")
            with pytest.raises(SqlError, match="still being read, after 0"):
                await ask(f"SELECT id FROM {name} WHERE id = 1;", **{FORWARDED: "true"})
        finally:
            await rows.stop()

    asyncio.run(answers(["http://127.0.0.1:1", server.url]))


def test_no_row_of_a_long_stream_of_inserts_is_lost_or_cut(server: SqlServer) -> None:
    """The body is still on its way when the first acknowledgement leaves."""
    name = made(server, "STREAM", "n INT, s STRING", partitions=1)
    rows = [[number, f"{number}".zfill(20_000)] for number in range(150)]
    lines = [json.dumps({"target": name}), *(json.dumps({"N": n, "S": s}) for n, s in rows), ""]
    answer = httpx.post(f"{server.url}/inserts-stream", content="\n".join(lines), timeout=TIMEOUT_S)
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert found == [{"status": "ok", "seq": number} for number in range(150)]
    assert server.rows(f"SELECT * FROM {name};") == rows


class FailingSpark:
    """Satisfies TransientQueries: a topic for each query, which fails when it is told to."""

    def __init__(self, broker: OttlaBroker) -> None:
        self._broker = broker
        self.fails = asyncio.Event()
        self.targets: list[Source] = []
        self.stopped: list[str] = []

    async def start(self, plan: PutQuery, properties: Mapping[str, str]) -> TransientQuery:
        target = replace(plan.target, topic=plan.target.name)
        await asyncio.to_thread(create_topic, self._broker.bootstrap, target.topic, 1)
        self.targets.append(target)
        return TransientQuery(target.name, target)

    async def stop(self, query: TransientQuery) -> None:
        self.stopped.append(query.query_id)

    async def failure(self, query: TransientQuery) -> str:
        await self.fails.wait()
        return "the executor is lost\nat line 1"


def test_a_push_query_that_fails_on_spark_ends_with_the_reason_and_rows_come_before(
    broker: OttlaBroker, tmp_path: Path
) -> None:
    text = "CREATE STREAM s (a INT, b INT) WITH (kafka_topic='s', value_format='json', partitions=1);"
    plan = Binder().bind(parse_statement(text))
    assert isinstance(plan, PutSource)
    catalog = Catalog().with_source(plan.source)

    async def asked() -> None:
        spark = FailingSpark(broker)
        rows = SqlRows(
            ClusterAccess(broker.bootstrap),
            lambda: catalog,
            Functions(),
            tmp_path,
            spark,
            answers_pulls=False,
        )
        routes = RowRoutes(rows, lambda: catalog, dict, cast(Any, None)).routes()
        transport = httpx.ASGITransport(json_application(routes))
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://sql") as client:
                refused = await client.post("/query-stream", json={"sql": "SELECT * FROM s;"})
                assert refused.status_code == 400
                assert "ksql.pull.queries.enable" in refused.json()["advice"]
                text = "SELECT a, COUNT(*) AS n FROM s GROUP BY a EMIT CHANGES;"
                asking = asyncio.create_task(client.post("/query", json={"ksql": text}))
                async with asyncio.timeout(TIMEOUT_S):
                    await asyncio.to_thread(eventually, rows.running, "it runs", TIMEOUT_S)
                    (running,) = rows.running()
                    (target,) = spark.targets
                    await rows.write(target, {"A": 7, "N": 5})
                    await asyncio.to_thread(
                        eventually, lambda: rows.running()[0].rows_sent, "a row is sent", TIMEOUT_S
                    )
                    spark.fails.set()
                    header, row, error = (await asking).json()
            assert header["header"]["queryId"] == running.query_id
            assert row["row"]["columns"] == [7, 5]
            assert error["errorMessage"]["message"] == "the query has failed: the executor is lost"
            assert spark.stopped == [target.name]
        finally:
            await rows.stop()

    asyncio.run(asked())
