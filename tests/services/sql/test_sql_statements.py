"""The server's REST API without Spark: statements, lists, rows that come and rows that are there."""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from support.clients.confluent import admin_client, create_topic, eventually, produce
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess
from support.sql.sql_server import TIMEOUT_S, Push, SqlServer


@pytest.fixture(scope="module")
def server(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    directory = tmp_path_factory.mktemp("sql")
    with SqlServer.start(broker.bootstrap, directory, f"id{uuid.uuid4().hex[:8]}") as running:
        yield running


@pytest.fixture
def dice() -> random.Random:
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


def new_name() -> str:
    return f"S_{uuid.uuid4().hex[:10]}".upper()


def stream(server: SqlServer, columns: str, partitions: int = 2, **others: str) -> str:
    """A new stream over a topic of its own name."""
    name = new_name()
    more = "".join(f", {key}='{value}'" for key, value in others.items())
    server.run(
        f"CREATE STREAM {name} ({columns}) WITH (kafka_topic='{name}', value_format='json', "
        f"partitions={partitions}{more});"
    )
    return name


def read_topic(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "read", "enable.partition.eof": True})
    try:
        count = len(admin_client(bootstrap).list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, each, 0) for each in range(count)])
        found, ended = [], 0
        while ended < count:
            for message in consumer.consume(100, 1.0):
                if message.error() is not None:
                    ended += 1
                else:
                    found.append((message.key(), message.value()))
        return found
    finally:
        consumer.close()


def test_statements_are_answered_as_ksqldb_does(server: SqlServer, broker: OttlaBroker) -> None:
    name = new_name()
    text = (
        f"CREATE STREAM {name} (id INT KEY, amount DECIMAL(6, 2), tags ARRAY<STRING>) "
        f"WITH (kafka_topic='{name}', value_format='json', partitions=3);"
    )
    (status,) = server.run(text)
    assert status["@type"] == "currentStatus"
    assert status["statementText"] == text[:-1]
    assert status["commandId"] == f"stream/`{name}`/create"
    assert status["commandStatus"] == {"status": "SUCCESS", "message": "Stream created", "queryId": None}
    number = status["commandSequenceNumber"]
    told = httpx.get(f"{server.url}/status/stream/{name}/create").json()
    assert told["status"] == "SUCCESS"
    assert f"stream/`{name}`/create" in httpx.get(f"{server.url}/status").json()["commandStatuses"]
    assert len(admin_client(broker.bootstrap).list_topics(timeout=TIMEOUT_S).topics[name].partitions) == 3

    (shown,) = server.run("LIST STREAMS;", commandSequenceNumber=number)
    row = next(each for each in shown["streams"] if each["name"] == name)
    assert row == {
        "type": "STREAM", "name": name, "topic": name, "keyFormat": "KAFKA", "valueFormat": "JSON",
        "isWindowed": False,
    }  # fmt: skip
    (described,) = server.run(f"DESCRIBE {name} EXTENDED;")
    found = described["sourceDescription"]
    assert [(each["name"], each["schema"]["type"]) for each in found["fields"]] == [
        ("ID", "INTEGER"), ("AMOUNT", "DECIMAL"), ("TAGS", "ARRAY"),
    ]  # fmt: skip
    assert (found["partitions"], found["topic"], found["statement"]) == (3, name, text[:-1])
    (dropped,) = server.run(f"DROP STREAM {name} DELETE TOPIC;")
    assert dropped["commandId"] == f"stream/`{name}`/drop"
    eventually(
        lambda: name not in admin_client(broker.bootstrap).list_topics(timeout=TIMEOUT_S).topics,
        "the topic is gone",
    )
    (again,) = server.run(f"DROP STREAM IF EXISTS {name};")
    assert again["@type"] == "warning_entity"


def test_a_refused_statement_says_where_and_what_was_done_before(server: SqlServer) -> None:
    name = new_name()
    script = (
        f"CREATE STREAM {name} (a INT) WITH (kafka_topic='{name}', value_format='json', partitions=1);\n"
        f"DESCRIBE {name}X;"
    )
    refused = server.refused(script)
    assert refused["@type"] == "statement_error"
    assert refused["error_code"] == 40001
    assert refused["statementText"] == f"DESCRIBE {name}X"
    assert refused["position"]["line"] == 2
    assert [each["@type"] for each in refused["entities"]] == ["currentStatus"]
    assert name in str(refused["advice"])
    (shown,) = server.run("SHOW STREAMS;")
    assert name in [each["name"] for each in shown["streams"]]  # what came before it stays


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CREATE STREAM {0} (a INT) WITH (kafka_topic='none_{0}', value_format='json');", "does not exist"),
        ("SELECT * FROM nothing;", "/query"),
        ("CREATE TABLE x AS SELECT a, COUNT(*) FROM nowhere GROUP BY a;", "NOWHERE"),
        ("TERMINATE nothing_5;", "no query"),
        ("SET 'no.such.property'='1';", "property"),
        ("SHOW", "SHOW"),
    ],
)
def test_what_can_not_be_is_refused(server: SqlServer, text: str, words: str) -> None:
    refused = server.refused(text.format(new_name()))
    assert words in refused["message"], refused


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"ksql": 5}', b'{"ksql": "SHOW STREAMS;", "streamsProperties": 5}']
)
def test_a_request_that_is_none_is_refused(server: SqlServer, body: bytes) -> None:
    answer = httpx.post(f"{server.url}/ksql", content=body)
    assert answer.status_code == 400
    assert answer.json()["error_code"] == 40000


def test_inserted_rows_come_to_push_queries_and_are_there_for_pull_queries(
    server: SqlServer, dice: random.Random
) -> None:
    name = stream(server, "id INT KEY, text STRING, amount DECIMAL(8, 2), at TIMESTAMP, data BYTES")
    push = Push(server, f"SELECT id, text, amount FROM {name} WHERE id > 0 EMIT CHANGES;")
    rows = []
    for _ in range(12):
        id, text = dice.randint(-5, 5), dice.choice(["", "a'b", "ü\n€", "null", "x" * 1000])
        amount = f"{dice.randint(-99999, 99999) / 100:.2f}"
        server.run(
            f"INSERT INTO {name} VALUES ({id}, '{text.replace(chr(39), chr(39) * 2)}', {amount}, "
            "'2026-01-31T12:00:00.123', TO_BYTES('beef', 'hex'));"
        )
        rows.append([id, text, float(amount)])
    wanted = [each for each in rows if each[0] > 0]
    assert sorted(push.until(lambda found: len(found) >= len(wanted))) == sorted(wanted)
    there = server.rows(f"SELECT id, text, amount, at, data FROM {name};")
    assert sorted(each[:3] for each in there) == sorted(rows)
    assert {(each[3], each[4]) for each in there} == {("2026-01-31T12:00:00.123", "vu8=")}
    assert httpx.post(f"{server.url}/close-query", json={"queryId": push.head["queryId"]}).status_code == 200
    push.until_ended()
    assert httpx.post(f"{server.url}/close-query", json={"queryId": push.head["queryId"]}).status_code == 400


def test_a_push_query_from_the_beginning_has_each_row_once_while_others_are_written(
    server: SqlServer, broker: OttlaBroker
) -> None:
    name = stream(server, "n INT", partitions=3)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    total = 6_000

    def write() -> None:
        for number in range(total):
            producer.produce(name, json.dumps({"n": number}).encode(), str(number).encode())
            if number % 500 == 0:
                producer.flush(TIMEOUT_S)
        producer.flush(TIMEOUT_S)

    writing = threading.Thread(target=write)
    writing.start()
    pushes = [
        Push(
            server,
            f"SELECT n, ROWPARTITION, ROWOFFSET FROM {name} EMIT CHANGES;",
            {"auto.offset.reset": "earliest"},
        )
        for _ in range(3)
    ]
    writing.join()
    for push in pushes:
        rows = push.until(lambda found: len(found) >= total)
        assert sorted(each[0] for each in rows) == list(range(total))
        for partition in range(3):
            offsets = [each[2] for each in rows if each[1] == partition]
            assert offsets == sorted(offsets)
        httpx.post(f"{server.url}/close-query", json={"queryId": push.head["queryId"]})


def test_a_property_has_its_effect_with_and_without_the_prefix_of_streams(
    server: SqlServer,
) -> None:
    def shown(text: str, properties: dict[str, str] | None = None) -> tuple[list[str], dict[str, str]]:
        *_, found = server.run(f"{text} SHOW PROPERTIES;", properties)
        return found["overwrittenProperties"], {row["name"]: row["value"] for row in found["properties"]}

    reset, prefixed = "auto.offset.reset", "ksql.streams.auto.offset.reset"
    for set_text, given in (("", {prefixed: "earliest"}), (f"SET '{prefixed}'='earliest';", None)):
        overwritten, values = shown(set_text, given)
        assert (overwritten, values[reset]) == ([reset], "earliest")
        overwritten, values = shown(f"{set_text} UNSET '{prefixed}';", given)
        assert (overwritten, values[reset]) == ([], "latest")
    name = stream(server, "a INT")
    server.run(f"INSERT INTO {name} VALUES (1);")
    try:
        assert shown(f"ALTER SYSTEM '{prefixed}'='earliest';")[1][reset] == "earliest"
        push = Push(server, f"SELECT * FROM {name} EMIT CHANGES LIMIT 1;")
        assert push.until_ended() == [[1]]
    finally:
        server.run(f"ALTER SYSTEM '{prefixed}'='latest';")


def test_limit_ends_a_push_query(server: SqlServer) -> None:
    name = stream(server, "a INT")
    push = Push(server, f"SELECT a FROM {name} EMIT CHANGES LIMIT 2;")
    for number in range(4):
        server.run(f"INSERT INTO {name} VALUES ({number});")
    assert len(push.until_ended()) == 2


def test_the_older_route_gives_a_header_rows_and_a_final_message(server: SqlServer) -> None:
    name = stream(server, "k STRING KEY, a MAP<STRING, INT>, b STRUCT<x INT, `y` STRING>")
    server.run(f"INSERT INTO {name} VALUES ('k1', MAP('m' := 1), STRUCT(x := 2, `y` := 'z'));")
    body = {"ksql": f"SELECT * FROM {name};", "streamsProperties": {}}
    answer = httpx.post(f"{server.url}/query", json=body)
    head, row, last = answer.json()
    assert (
        head["header"]["schema"]
        == "`K` STRING KEY, `A` MAP<STRING, INTEGER>, `B` STRUCT<X INTEGER, `y` STRING>"
    )
    assert row == {"row": {"columns": ["k1", {"m": 1}, {"X": 2, "y": "z"}]}}
    assert last == {"finalMessage": "Query Completed"}


def test_rows_are_inserted_by_a_stream_of_lines(server: SqlServer) -> None:
    name = stream(server, "id INT KEY, text STRING")
    lines = [{"target": name}, {"ID": 1, "text": "a"}, {"nothing": 1}, {"id": 2, "TEXT": None}]
    content = "\n".join(map(json.dumps, lines)).encode()
    answer = httpx.post(f"{server.url}/inserts-stream", content=content)
    told = [json.loads(line) for line in answer.text.splitlines()]
    assert [(each["status"], each["seq"]) for each in told] == [("ok", 0), ("error", 1), ("ok", 2)]
    assert sorted(server.rows(f"SELECT id, text FROM {name};")) == [[1, "a"], [2, None]]


def test_print_shows_what_a_topic_has(server: SqlServer, broker: OttlaBroker) -> None:
    topic = create_topic(broker.bootstrap, new_name(), 1)
    produce(broker.bootstrap, topic, [{"key": "k", "value": '{"a": 1}'}, {"key": "k", "value": None}])
    body = {"ksql": f"PRINT '{topic}' FROM BEGINNING LIMIT 2;", "streamsProperties": {}}
    text = httpx.post(f"{server.url}/query", json=body, timeout=TIMEOUT_S).text
    assert 'key: k, value: {"a": 1}, partition: 0' in text
    assert "value: <null>" in text


def test_types_and_variables(server: SqlServer) -> None:
    named = new_name()
    server.run(f"CREATE TYPE {named} AS STRUCT<a INT>;")
    (types,) = server.run("SHOW TYPES;")
    assert types["types"][named]["type"] == "STRUCT"
    name = stream(server, f"a {named}")
    (described,) = server.run("DEFINE s = '${t}'; DESCRIBE ${s};".replace("${t}", name))
    assert described["sourceDescription"]["name"] == name
    (found,) = server.run("SHOW VARIABLES;", sessionVariables={"x": "1"})
    assert found["variables"] == [{"name": "x", "value": "1"}]
    server.run(f"DROP TYPE {named};")


def test_all_lists_are_answered(server: SqlServer) -> None:
    for what in ("STREAMS", "TABLES", "TOPICS", "ALL TOPICS", "QUERIES", "FUNCTIONS", "PROPERTIES", "TYPES"):
        (found,) = server.run(f"SHOW {what};")
        assert found["statementText"] == f"SHOW {what}"
    (described,) = server.run("DESCRIBE FUNCTION SUBSTRING;")
    assert described["type"] == "SCALAR"
    assert described["functions"][0]["arguments"][0]["type"] == "STRING"


def test_what_a_server_is(server: SqlServer) -> None:
    info = httpx.get(f"{server.url}/info").json()["KsqlServerInfo"]
    assert info["serverStatus"] == "RUNNING"
    assert httpx.get(f"{server.url}/healthcheck").json()["isHealthy"] is True
    (host,) = httpx.get(f"{server.url}/clusterStatus").json()["clusterStatus"]
    assert host.endswith(f":{server.process.port}")
    assert httpx.get(f"{server.url}/is_valid_property/auto.offset.reset").json() is True
    assert httpx.get(f"{server.url}/is_valid_property/nothing").status_code == 400
    assert httpx.get(f"{server.url}/", follow_redirects=True).json() == {"KsqlServerInfo": info}


def test_a_plain_table_is_pulled_by_its_key_and_by_windows_of_others(
    server: SqlServer, broker: OttlaBroker, dice: random.Random
) -> None:
    name = new_name()
    server.run(
        f"CREATE TABLE {name} (id STRING PRIMARY KEY, n INT) "
        f"WITH (kafka_topic='{name}', value_format='json', partitions=2);"
    )
    state: dict[str, int | None] = {}
    for _ in range(60):
        key, value = dice.choice(["a", "b", "ü'", "", "d" * 50]), dice.choice([None, 1, 2, 3])
        text = None if value is None else json.dumps({"n": value})
        # An empty key is placed by murmur2 as any other is; librdkafka's own partitioner throws dice.
        produce(broker.bootstrap, name, [{"key": key, "value": text}], partitioner="murmur2_random")
        state[key] = value
    there = sorted([key, value] for key, value in state.items() if value is not None)
    found: Any = server.until(f"SELECT * FROM {name};", lambda rows: sorted(rows) == there)
    for key in state:
        text = key.replace("'", "''")
        assert server.rows(f"SELECT * FROM {name} WHERE id = '{text}';") == [e for e in found if e[0] == key]
    asked = server.rows(f"SELECT id FROM {name} WHERE id IN ('a', 'b', 'none') AND n > 1;")
    assert sorted(asked) == sorted([k] for k, n in state.items() if k in ("a", "b") and (n or 0) > 1)


def test_statements_of_a_file_are_carried_out_once(broker: OttlaBroker, tmp_path: Path) -> None:
    name = new_name()
    file = tmp_path / "statements.sql"
    file.write_text(
        f"SET 'auto.offset.reset'='earliest';\nCREATE STREAM {name} (a INT) "
        f"WITH (kafka_topic='{name}', value_format='json', partitions=1);\nINSERT INTO {name} VALUES (1);\n"
    )
    settings = {"ksql.queries.file": str(file)}
    service = f"id{uuid.uuid4().hex[:8]}"
    for _ in range(2):
        with SqlServer.start(broker.bootstrap, tmp_path / "s", service, settings=settings) as server:
            (shown,) = server.run("SHOW STREAMS;")
            assert [each["name"] for each in shown["streams"]] == [name]
    assert len(read_topic(broker.bootstrap, name)) == 2  # an INSERT is no command: each start writes it


@pytest.mark.parametrize("form", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_rows_in_formats_of_the_registry(
    broker: OttlaBroker, registry: ServiceProcess, tmp_path: Path, form: str
) -> None:
    settings = {"ksql.schema.registry.url": registry.url}
    service = f"id{uuid.uuid4().hex[:8]}"
    # Protobuf has no decimals.
    of, text, value = ("DOUBLE", "1.5E0", 1.5) if form == "PROTOBUF" else ("DECIMAL(8, 2)", "12.30", 12.3)
    with SqlServer.start(broker.bootstrap, tmp_path, service, settings=settings) as server:
        name = new_name()
        columns = (
            f"k STRING KEY, n BIGINT, text STRING, amount {of}, xs ARRAY<INT>, s STRUCT<a INT, b STRING>"
        )
        server.run(
            f"CREATE STREAM {name} ({columns}) "
            f"WITH (kafka_topic='{name}', value_format='{form}', partitions=1);"
        )
        row = f"'k', 9007199254740993, 'ü', {text}, ARRAY[1, 2], STRUCT(a := 1, b := 'x')"
        server.run(f"INSERT INTO {name} VALUES ({row});")
        wanted = [["k", 9007199254740993, "ü", value, [1, 2], {"A": 1, "B": "x"}]]
        assert server.rows(f"SELECT * FROM {name};") == wanted
        (found,) = server.run(f"ASSERT SCHEMA SUBJECT '{name}-value';")
        assert found["exists"] is True
        assert "does not exist" in server.refused(f"ASSERT SCHEMA SUBJECT '{name}-none';")["message"]
