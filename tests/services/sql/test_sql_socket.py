"""Rows over ksqlDB's WebSocket: columns, rows, ends with their codes, refusals, and clients that are slow."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from support.clients.confluent import eventually
from support.servers.ottla_broker import OttlaBroker
from support.sql.sql_server import TIMEOUT_S, Push, SqlServer


@pytest.fixture(scope="module")
def server(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    directory = tmp_path_factory.mktemp("sql_socket")
    settings = {"access.control.allow.origin": "https://page.example"}
    with SqlServer.start(
        broker.bootstrap, directory, f"id{uuid.uuid4().hex[:8]}", settings=settings
    ) as running:
        yield running


def opened(server: SqlServer, request: str, **options: Any) -> ClientConnection:
    url = server.url.replace("http://", "ws://")
    return connect(f"{url}/ws/query?request={quote(request)}", open_timeout=TIMEOUT_S, **options)


def asked(server: SqlServer, text: str, properties: dict[str, str] | None = None, **options: Any) -> Any:
    request = {"ksql": text, "streamsProperties": properties or {}}
    return opened(server, json.dumps(request), **options)


def told(connection: ClientConnection) -> tuple[list[Any], int, str]:
    """All frames, and the close's code and reason."""
    frames: list[Any] = []
    with connection, pytest.raises(ConnectionClosed) as closed:
        while True:
            frames.append(json.loads(connection.recv(TIMEOUT_S)))
    assert closed.value.rcvd is not None
    return frames, closed.value.rcvd.code, closed.value.rcvd.reason


def made(server: SqlServer, kind: str, columns: str) -> str:
    name = f"{kind[0]}_{uuid.uuid4().hex[:8]}".upper()
    server.run(
        f"CREATE {kind} {name} ({columns}) WITH (kafka_topic='{name}', value_format='json', partitions=1);"
    )
    return name


def test_a_pull_query_gives_its_columns_its_rows_and_a_normal_close(server: SqlServer) -> None:
    name = made(server, "TABLE", "id INT PRIMARY KEY, s STRING, d DECIMAL(5, 2)")
    for number in range(3):
        server.run(f"INSERT INTO {name} VALUES ({number}, 'ü{number}', 1.25);")
    server.until(f"SELECT * FROM {name};", lambda rows: len(rows) == 3)
    (columns, *rows), code, reason = told(asked(server, f"SELECT * FROM {name};"))
    assert [each["name"] for each in columns] == ["ID", "S", "D"]
    assert [each["schema"]["type"] for each in columns] == ["INTEGER", "STRING", "DECIMAL"]
    assert sorted(row["row"]["columns"] for row in rows) == [[n, f"ü{n}", 1.25] for n in range(3)]
    assert (code, reason) == (1000, "done")


def test_a_push_query_goes_on_until_its_limit_its_termination_or_its_client_s_end(server: SqlServer) -> None:
    name = made(server, "STREAM", "a INT")
    earliest = {"ksql.streams.auto.offset.reset": "earliest"}
    limited = asked(server, f"SELECT a FROM {name} EMIT CHANGES LIMIT 2;", earliest)
    endless = asked(server, f"SELECT a FROM {name} EMIT CHANGES;", earliest)
    closing = asked(server, f"SELECT a + 1 FROM {name} EMIT CHANGES;", earliest)
    server.run(
        f"INSERT INTO {name} VALUES (1); INSERT INTO {name} VALUES (2); INSERT INTO {name} VALUES (3);"
    )
    (_, *rows), code, _ = told(limited)
    assert [row["row"]["columns"] for row in rows] == [[1], [2]]
    assert code == 1000
    assert [json.loads(endless.recv(TIMEOUT_S)) for _ in range(4)][1:] == [
        {"row": {"columns": [number]}} for number in (1, 2, 3)
    ]

    def running() -> list[str]:
        (shown,) = server.run("SHOW QUERIES;")
        return [each["id"] for each in shown["queries"] if name in each["queryString"]]

    closing.close()
    eventually(lambda: len(running()) == 1, "the query of the client that has left is gone", TIMEOUT_S)
    server.run(f"TERMINATE {running()[0]};")
    assert told(endless) == ([], 1000, "done")


@pytest.mark.parametrize(
    ("request_text", "words"),
    [
        ("no json", "is no JSON"),
        ("[]", "is no JSON object"),
        ("{}", 'no text "ksql"'),
        ('{"ksql": "SELECT * FROM nowhere;"}', "NOWHERE"),
        ('{"ksql": "SHOW STREAMS;"}', "others for /ksql"),
        ('{"ksql": "SHOW STREAMS; SHOW TABLES;"}', "one statement"),
        (json.dumps({"ksql": f"SELECT * FROM {'ü' * 200};"}), ""),
    ],
)
def test_what_can_not_be_asked_is_closed_with_1003_and_the_reason(
    server: SqlServer, request_text: str, words: str
) -> None:
    frames, code, reason = told(opened(server, request_text))
    assert (frames, code) == ([], 1003)
    assert words in reason
    assert len(reason.encode()) <= 123


def test_print_gives_lines(server: SqlServer) -> None:
    name = made(server, "STREAM", "a INT")
    server.run(f"INSERT INTO {name} VALUES (7);")
    with asked(server, f"PRINT '{name}' FROM BEGINNING LIMIT 1;") as connection:
        lines = []
        with pytest.raises(ConnectionClosed):
            while True:
                lines.append(connection.recv(TIMEOUT_S))
    assert any('{"A":7}' in str(line).replace(" ", "") for line in lines)


def test_pages_of_other_origins_and_other_hosts_are_refused(server: SqlServer) -> None:
    name = made(server, "STREAM", "a INT")
    text = f"SELECT * FROM {name};"
    for origin, additional in (("https://evil.example", {}), (None, {"Host": "evil.example"})):
        with pytest.raises(InvalidStatus) as refused:
            asked(server, text, origin=origin, additional_headers=additional)
        assert refused.value.response.status_code in (403, 421, 400)
    for origin in ("https://page.example", server.url):
        assert told(asked(server, text, origin=origin))[1] == 1000
    assert httpx.get(f"{server.url}/ws/query").status_code == 404


def test_a_client_that_reads_nothing_holds_up_no_other_and_is_ended(server: SqlServer) -> None:
    name = made(server, "STREAM", "s STRING")
    text = f"SELECT * FROM {name} EMIT CHANGES;"
    request = {"ksql": text, "streamsProperties": {"ksql.query.push.max.rows.waiting": "5"}}
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as slow:
        slow.sendall(
            f"GET /ws/query?request={quote(json.dumps(request))} HTTP/1.1\r\nHost: {host}:{port}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        heard = b""
        while b"memberSchema" not in heard:  # its columns: it runs
            heard += slow.recv(4_096)
        quick = Push(server, text)
        lines = [json.dumps({"S": "x" * 400_000})] * 40
        body = "\n".join([json.dumps({"target": name}), *lines, ""])
        assert httpx.post(f"{server.url}/inserts-stream", content=body, timeout=TIMEOUT_S).is_success
        quick.until(lambda rows: len(rows) == len(lines))
        last = b""
        while part := slow.recv(1 << 20):
            last = (last + part)[-200:]
    code = (1011).to_bytes(2, "big")
    assert code + b"the query's rows were not taken" in last
