"""The HTTP sink against a server in this process."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Hashable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from ottla.config.errors import ConfigError
from ottla.connect.connectors.http.sink import HttpSink
from ottla.connect.connectors.plain import json_text
from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.plugins.api import RecordError, RetriableError
from ottla.connect.testing import Target, check_sink, drawn_records, settings_of, write_records


class Server:
    """Keeps requests; answers with the statuses that a test gives, then with 200."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.tokens: list[str] = []
        self.statuses: list[int] = []
        self.tokens_wanted = False
        self.refused_word = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                answer = b""
                if self.path == "/token":
                    outer.tokens.append(f"{self.headers.get('Authorization', '')} {body}")
                    status, answer = 200, json.dumps({"access_token": f"t{len(outer.tokens)}"}).encode()
                else:
                    status = outer.statuses.pop(0) if outer.statuses else 200
                    if (
                        outer.tokens_wanted
                        and self.headers.get("Authorization") != f"Bearer t{len(outer.tokens)}"
                    ):
                        status = 401
                    if outer.refused_word and outer.refused_word in body:
                        status, answer = 422, b"not this word"
                    if status == 200:
                        outer.bodies.append(body)
                        outer.headers.append(dict(self.headers))
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
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


def _sink(url: str, slept: list[float] | None = None, **texts: str) -> HttpSink:
    given = {"http.url": url} | {name.replace("_", "."): text for name, text in texts.items()}
    return HttpSink(settings_of(HttpSink, given), ([] if slept is None else slept).append)


def _records(*values: Any) -> list[SinkRecord]:
    return [
        SinkRecord(Record("t", 0, None, None, value), TopicPartition("t", 0), offset)
        for offset, value in enumerate(values)
    ]


@pytest.mark.parametrize("batching", ["true", "false"])
def test_no_record_is_lost_whatever_is_killed(server: Server, batching: str) -> None:
    chance = random.Random(batching)
    drawn = drawn_records(chance, 60, tombstones=0.1)

    def new_target() -> Target:
        server.bodies.clear()
        server.statuses = [chance.choice((200, 200, 503, 429)) for _ in range(100)]

        def content() -> list[Hashable]:
            return [value for body in server.bodies for value in body.split(";;;")]

        texts = {"batching_enabled": batching, "batch_max_size": "5", "batch_separator": ";;;"}
        return Target(lambda: _sink(server.url, **texts, max_retries="3"), content)

    expected = check_sink(new_target, drawn, exactly_once=False, runs=3)
    assert expected == Counter(
        json_text(each.record.value) for each in drawn if each.record.value is not None
    )


def test_each_record_is_a_request_or_several_are(server: Server) -> None:
    records = _records("text", {"a": 1}, 5)
    _sink(server.url).write(records)
    assert server.bodies == ["text", '{"a":1}', "5"]
    server.bodies.clear()
    texts = {"batch_prefix": "[", "batch_suffix": "]\\n", "batch_separator": ",", "batch_max_size": "2"}
    _sink(server.url, batching_enabled="true", **texts).write(records)
    assert server.bodies == ['[text,{"a":1}]\n', "[5]\n"]
    server.bodies.clear()
    _sink(server.url, batching_enabled="true").write(records)
    assert server.bodies == ['text\n{"a":1}\n5']


def test_headers_are_sent(server: Server) -> None:
    _sink(
        server.url,
        http_authorization_type="static",
        http_headers_authorization="Basic abc",
        http_headers_content_type="application/json",
        http_headers_additional="X-One: 1,X-Two:a:b",
    ).write(_records("x"))
    (headers,) = server.headers
    assert headers["Authorization"] == "Basic abc"
    assert headers["Content-Type"] == "application/json"
    assert (headers["X-One"], headers["X-Two"]) == ("1", "a:b")


@pytest.mark.parametrize("mode", ["header", "url"])
def test_a_token_is_asked_for_once_and_again_when_it_has_expired(server: Server, mode: str) -> None:
    server.tokens_wanted = True
    sink = _sink(
        server.url,
        http_authorization_type="oauth2",
        oauth2_access_token_url=f"{server.url}/token",
        oauth2_client_id="me",
        oauth2_client_secret="secret",
        oauth2_client_authorization_mode=mode,
        oauth2_client_scope="all",
        max_retries="0",
    )
    sink.write(_records("a", "b"))
    assert len(server.tokens) == 1
    assert ("secret" in server.tokens[0]) == (mode == "url")
    assert "scope=all" in server.tokens[0]
    server.tokens.append("another has asked: the first has expired")
    sink.write(_records("c"))
    assert server.bodies == ["a", "b", "c"]


def test_a_request_that_fails_for_the_moment_is_sent_again(server: Server) -> None:
    server.statuses = [503, 429]
    slept: list[float] = []
    _sink(server.url, slept, max_retries="2", retry_backoff_ms="10").write(_records("a"))
    assert (server.bodies, slept) == (["a"], [0.01, 0.01])
    server.statuses = [500, 500]
    with pytest.raises(RetriableError, match="500"):
        _sink(server.url, max_retries="1").write(_records("b"))


def test_a_server_that_is_away_is_retriable_and_its_secrets_are_not_told() -> None:
    with pytest.raises(RetriableError) as failure:
        _sink("http://me:secret@127.0.0.1:1/path?token=secret", max_retries="0").write(_records("a"))
    assert "127.0.0.1:1/path" in str(failure.value)
    assert "secret" not in str(failure.value)


def test_refused_records_are_named_and_the_others_are_sent_once(server: Server) -> None:
    server.refused_word = "bad"
    records = _records("a", "bad", None, "b", "bad2", "c")
    with pytest.raises(RecordError, match="422 not this word") as refused:
        _sink(server.url).write(records)
    assert refused.value.position == 1
    server.bodies.clear()
    dead = write_records(_sink(server.url), records)
    assert [each.offset for each in dead] == [1, 2, 4]
    assert server.bodies == ["a", "b", "c"]


def test_a_request_that_is_refused_refuses_all_its_records(server: Server) -> None:
    server.refused_word = "bad"
    sink = _sink(server.url, batching_enabled="true", batch_max_size="2")
    dead = write_records(sink, _records("a", "b", "c", "bad", "d"))
    assert [each.offset for each in dead] == [2, 3]
    assert server.bodies == ["a\nb", "d"]


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({}, "http.url"),
        ({"http.url": "ftp://x"}, "http.url=ftp://x"),
        ({"http.url": "http://x:99999"}, "http.url=http://x:99999"),
        (
            {"http.url": "http://x", "http.authorization.type": "static"},
            "http.headers.authorization: must be",
        ),
        (
            {"http.url": "http://x", "http.headers.authorization": "s3cret"},
            r"authorization=\[hidden\]: is of no use",
        ),
        ({"http.url": "http://x", "http.authorization.type": "oauth2"}, "oauth2.access.token.url: must be"),
        ({"http.url": "http://x", "http.headers.additional": "x"}, "http.headers.additional=x"),
        ({"http.url": "http://x", "batch.max.size": "0"}, "batch.max.size=0"),
        ({"http.url": "http://x", "http.ssl.trust.all.certs": "true"}, "certificates are always checked"),
    ],
)
def test_bad_settings_are_named(texts: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        HttpSink(settings_of(HttpSink, texts))
