"""The search index sink against scripted answers: busy servers, servers that are away, bad settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from ottla.config.errors import ConfigError
from ottla.connect.connectors.elasticsearch.sink import ElasticsearchSink
from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.plugins.api import RetriableError
from ottla.connect.testing import settings_of
from ottla.pipeline.stores import StoreError


class Server:
    """An HTTP server that answers bulk requests as a test says, item by item."""

    def __init__(self) -> None:
        self.bulks: list[list[Any]] = []
        self.answers: list[list[int]] = []
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                status, answer = 200, {}
                if self.path == "/":
                    answer = {"version": {"number": "8.1.0"}}
                elif self.path == "/_bulk":
                    status = outer.status
                    lines = [json.loads(line) for line in body.splitlines()]
                    outer.bulks.append(lines)
                    statuses = outer.answers.pop(0) if outer.answers else [200] * (len(lines) // 2)
                    answer = {
                        "items": [{"index": {"status": each, "error": {"type": "x"}}} for each in statuses]
                    }
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = _answer

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def _sink(url: str, slept: list[float] | None = None, **texts: str) -> ElasticsearchSink:
    given = {"connection.url": url} | {name.replace("_", "."): text for name, text in texts.items()}
    return ElasticsearchSink(settings_of(ElasticsearchSink, given), ([] if slept is None else slept).append)


def _records(*values: Any) -> list[SinkRecord]:
    return [
        SinkRecord(Record("t", 0, f"k{offset}", None, value), TopicPartition("t", 0), offset)
        for offset, value in enumerate(values)
    ]


def test_documents_for_which_the_server_is_busy_are_sent_again_alone(server: Server) -> None:
    server.answers = [[200, 429, 200], [503], [201]]
    slept: list[float] = []
    _sink(server.url, slept, retry_backoff_ms="100").write(_records({"n": 0}, {"n": 1}, {"n": 2}))
    assert [len(lines) // 2 for lines in server.bulks] == [3, 1, 1]
    assert server.bulks[2][1] == {"n": 1}
    assert slept == [0.1, 0.2]


def test_a_server_that_stays_busy_is_told_as_retriable(server: Server) -> None:
    server.answers = [[429]] * 3
    sink = _sink(server.url, max_retries="2")
    with pytest.raises(RetriableError, match="too busy for 1 documents"):
        sink.write(_records({"n": 0}))
    sink.write(_records({"n": 0}))


def test_an_error_of_the_server_ends_the_task(server: Server) -> None:
    server.answers = [[400]]
    with pytest.raises(StoreError, match="did not take t-0 offset 0"):
        _sink(server.url).write(_records({"n": 0}))


def test_requests_are_bounded_in_records_and_bytes(server: Server) -> None:
    values = [{"n": number} for number in range(10)]
    _sink(server.url, batch_size="4").write(_records(*values))
    assert [len(lines) // 2 for lines in server.bulks] == [4, 4, 2]
    server.bulks.clear()
    _sink(server.url, bulk_size_bytes="200").write(_records(*values))
    assert all(len(lines) // 2 <= 2 for lines in server.bulks)


def test_a_server_that_is_away_is_retriable_and_the_next_url_is_asked(server: Server) -> None:
    with pytest.raises(RetriableError, match="no answer"):
        _sink("http://127.0.0.1:1").write(_records({"n": 0}))
    _sink(f"http://127.0.0.1:1,{server.url}").write(_records({"n": 0}))
    assert len(server.bulks) == 1
    server.status = 503
    with pytest.raises(RetriableError, match="503"):
        _sink(server.url).write(_records({"n": 0}))


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({}, "connection.url"),
        ({"connection.url": "localhost:9200"}, "connection.url=localhost:9200"),
        (
            {"connection.url": "http://h", "connection.username": "u"},
            "connection.password: user and password",
        ),
        ({"connection.url": "http://h", "write.method": "merge"}, "write.method=merge"),
        ({"connection.url": "http://h", "behavior.on.null.values": "x"}, "behavior.on.null.values=x"),
        ({"connection.url": "http://h", "data.stream.type": "logs"}, "data streams"),
        ({"connection.url": "http://h", "elastic.https.ssl.truststore.location": "/x"}, "authorities"),
    ],
)
def test_bad_settings_are_named(texts: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        ElasticsearchSink(settings_of(ElasticsearchSink, texts))
