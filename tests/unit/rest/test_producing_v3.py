"""API v3's records: what a stream and a batch say and are told, with neither a cluster nor a registry."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import orjson
import pytest
from confluent_kafka import KafkaError

from ottla.rest.v3 import records as records_module
from ottla.rest.v3.records import routes
from ottla.web.application import json_application
from support.rest.fake_producing import CLUSTER_ID, FakeProducing, FakeRegistry

RECORDS = f"/v3/clusters/{CLUSTER_ID}/topics/t/records"
USER = '{"type":"record","name":"User","namespace":"n","fields":[{"name":"id","type":"long"}]}'


class Proxy:
    """A proxy with the topic `t` of three partitions."""

    def __init__(self) -> None:
        self.registry = FakeRegistry()
        self.producing = FakeProducing(self.registry.client(), {"t": 3}, max_body_bytes=30_000)
        self.app = json_application(routes(self.producing))  # type: ignore[arg-type]

    def post(
        self, body: bytes, path: str = RECORDS, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://proxy") as client:
                given = {"content-type": "application/json"} if headers is None else headers
                return await client.post(path, content=body, headers=given)

        answer = asyncio.run(ask())
        assert self.producing.work.held_bytes == 0
        return answer

    def stream(self, *records: Any) -> list[dict[str, Any]]:
        """The answers to records that are streamed."""
        answer = self.post(b"".join(orjson.dumps(record) for record in records))
        assert answer.status_code == 200
        return [orjson.loads(line) for line in answer.content.splitlines()]


def test_an_answer_says_where_the_record_is_and_how_large() -> None:
    record = {
        "partition_id": 1,
        "headers": [{"name": "h", "value": "aGk="}, {"name": "n", "value": None}, {"name": "absent"}],
        "key": {"type": "BINARY", "data": "aw=="},
        "value": {"type": "JSON", "data": {"a": 1}},
        "timestamp": "2021-02-05T19:14:42.5Z",
    }
    proxy = Proxy()
    assert proxy.stream(record) == [
        {
            "error_code": 200,
            "cluster_id": CLUSTER_ID,
            "topic_name": "t",
            "partition_id": 1,
            "offset": 0,
            "timestamp": "2023-11-14T22:13:20.000Z",
            "key": {"type": "BINARY", "size": 1},
            "value": {"type": "JSON", "size": 7},
        }
    ]
    headers = [("h", b"hi"), ("n", None), ("absent", None)]
    assert proxy.producing.sent == [("t", (b"k", b'{"a":1}', 1, 1_612_552_482_500, headers))]


@pytest.mark.parametrize(
    ("timestamp", "milliseconds"),
    [(1_600_000_000_123, 1_600_000_000_123), ("2021-02-05T20:14:42+01:00", 1_612_552_482_000), (None, 0)],
)
def test_timestamps_are_texts_or_milliseconds(timestamp: Any, milliseconds: int) -> None:
    proxy = Proxy()
    assert proxy.stream({"timestamp": timestamp})[0]["error_code"] == 200
    assert proxy.producing.sent[0][1].timestamp == milliseconds


def test_a_record_may_be_empty_and_data_may_be_null() -> None:
    proxy = Proxy()
    first, second = proxy.stream({}, {"key": None, "value": {"type": "JSON", "data": None}})
    assert "key" not in first and "value" not in first
    assert second["value"] == {"type": "JSON", "size": 0}
    assert [record[:2] for _, record in proxy.producing.sent] == [(None, None), (None, None)]


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"other": 1}, 400),
        ({"value": 5}, 400),
        ({"value": {"type": "XML", "data": 1}}, 400),
        ({"value": {"type": 5, "data": 1}}, 400),
        ({"value": {"type": [], "data": 1}}, 400),
        ({"value": {"type": "JSON", "data": 1, "other": 1}}, 400),
        ({"value": {"type": "JSON", "data": 1, "schema_id": 1}}, 400),
        ({"value": {"type": "BINARY", "data": "!"}}, 400),
        ({"value": {"type": "STRING", "data": {}}}, 400),
        ({"partition_id": -1}, 400),
        ({"partition_id": "1"}, 400),
        ({"partition_id": 3}, 40402),
        ({"timestamp": "yesterday"}, 400),
        ({"timestamp": -1}, 400),
        ({"timestamp": 10**15}, 400),
        ({"timestamp": {}}, 400),
        ({"headers": {}}, 400),
        ({"headers": [{}]}, 400),
        ({"headers": [{"name": 1}]}, 400),
        ({"headers": [{"name": "n", "value": "!"}]}, 400),
        ({"headers": [{"name": "n"}] * 1_001}, 400),
        ({"value": {"data": 1}}, 422),
        ({"value": {"schema_id": 99, "data": 1}}, 422),
        ({"value": {"schema_id": "1", "data": 1}}, 400),
        ({"value": {"schema_id": 1, "schema_version": 1, "data": 1}}, 400),
        ({"value": {"schema_id": 1, "subject": "", "data": 1}}, 400),
        ({"value": {"schema_id": 1, "subject": "s", "subject_name_strategy": "TOPIC_NAME", "data": 1}}, 400),
        ({"value": {"schema_id": 1, "subject_name_strategy": "OTHER", "data": 1}}, 400),
        ({"value": {"subject_name_strategy": "RECORD_NAME", "data": 1}}, 400),
        ({"value": {"schema": '"int"', "data": 1}}, 400),
        ({"value": {"type": "AVRO", "schema": 5, "data": 1}}, 400),
        ({"value": {"type": "PROTOBUF", "schema_id": 1, "data": 1}}, 400),
        ({"value": {"type": "AVRO", "schema_id": 1, "data": "x"}}, 400),
    ],
)
def test_a_record_that_is_wrong_is_refused_and_the_stream_goes_on(record: Any, code: int) -> None:
    proxy = Proxy()
    proxy.registry.schemas[1] = ("s", 1, "AVRO", '"int"')
    good = {"value": {"type": "STRING", "data": "x"}}
    before, refused, after = proxy.stream(good, record, good)
    assert (before["error_code"], refused["error_code"], after["error_code"]) == (200, code, 200)
    assert set(refused) == {"error_code", "message"}
    assert len(proxy.producing.sent) == 2


@pytest.mark.parametrize(
    ("end", "code"), [(b"{]", 400), (b"[]", 400), (b'{"value":', 400), (b"{" * 40_000, 413)]
)
def test_what_can_not_be_read_ends_the_stream(end: bytes, code: int) -> None:
    answers = Proxy().post(b'{"value":{"type":"JSON","data":1}}' + end).content.splitlines()
    assert [orjson.loads(answer)["error_code"] for answer in answers] == [200, code]


@pytest.mark.parametrize("body", [b"", b" \n"])
def test_a_request_without_a_record_is_refused(body: bytes) -> None:
    answer = Proxy().post(body)
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42206)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (RECORDS.replace(CLUSTER_ID, "other"), None, 404),
        (RECORDS, {"content-type": "text/plain"}, 415),
        (RECORDS, {}, 200),
        (RECORDS + ":batch", {"content-type": "text/plain"}, 415),
    ],
)
def test_what_is_refused_before_a_stream_begins(path: str, headers: Any, status: int) -> None:
    assert Proxy().post(b"{}", path, headers).status_code == status


def test_a_stream_to_no_topic_is_told_so_for_each_record() -> None:
    answer = Proxy().post(b"{}{}", RECORDS.replace("/t/", "/none/"))
    assert [orjson.loads(line)["error_code"] for line in answer.content.splitlines()] == [40403, 40403]


@pytest.mark.parametrize(
    ("value", "subject"),
    [
        ({"type": "AVRO", "schema": USER}, "t-value"),
        ({"type": "AVRO", "schema": USER, "subject_name_strategy": "TOPIC_NAME"}, "t-value"),
        ({"type": "AVRO", "schema": USER, "subject_name_strategy": "RECORD_NAME"}, "n.User"),
        ({"type": "AVRO", "schema": USER, "subject_name_strategy": "TOPIC_RECORD_NAME"}, "t-n.User"),
        ({"type": "AVRO", "schema": USER, "subject": "mine"}, "mine"),
    ],
)
def test_a_schema_is_registered_under_the_subject_of_its_strategy(value: Any, subject: str) -> None:
    proxy = Proxy()
    (answer,) = proxy.stream({"value": {**value, "data": {"id": 1}}})
    expected = {"type": "AVRO", "subject": subject, "schema_id": 1, "schema_version": 1, "size": 6}
    assert answer["value"] == expected
    assert proxy.producing.sent[0][1].value == b"\0\0\0\0\1\2"


@pytest.mark.parametrize(
    ("key", "subject", "version"),
    [
        ({"schema_id": 1}, "t-key", 1),
        ({"type": "AVRO", "schema_id": 1}, "t-key", 1),
        ({"schema_version": 1}, "t-key", 1),
        ({}, "t-key", 1),
        ({"subject": "t-key"}, "t-key", 1),
        ({"schema_id": 1, "subject_name_strategy": "RECORD_NAME"}, None, None),
    ],
)
def test_a_registered_schema_is_found_by_id_by_version_or_as_the_newest(
    key: Any, subject: str | None, version: int | None
) -> None:
    proxy = Proxy()
    proxy.registry.schemas[1] = ("t-key", 1, "AVRO", USER)
    (answer,) = proxy.stream({"key": {**key, "data": {"id": 1}}})
    expected = {"type": "AVRO", "subject": subject, "schema_id": 1, "schema_version": version, "size": 6}
    assert answer["key"] == expected


def test_a_delivery_that_failed_is_told_in_its_place() -> None:
    proxy = Proxy()
    proxy.producing.failing[b"b"] = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    proxy.producing.failing[b"c"] = KafkaError(KafkaError._MSG_TIMED_OUT)
    answers = proxy.stream(*({"value": {"type": "STRING", "data": data}} for data in "abc"))
    assert [answer["error_code"] for answer in answers] == [200, 40301, 50003]


def test_a_batch_tells_successes_and_failures_by_their_ids() -> None:
    proxy = Proxy()
    good = {"id": "one", "value": {"type": "STRING", "data": "x"}}
    bad = {"id": "two", "value": {"type": "BINARY", "data": "!"}}
    answer = proxy.post(orjson.dumps({"entries": [good, bad]}), RECORDS + ":batch")
    assert answer.status_code == 207
    (success,), (failure,) = answer.json()["successes"], answer.json()["failures"]
    assert (success["id"], success["offset"], success["value"]) == ("one", 0, {"type": "STRING", "size": 1})
    assert "error_code" not in success
    assert (failure["id"], failure["error_code"], set(failure)) == (
        "two",
        400,
        {"id", "error_code", "message"},
    )


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, 400),
        (b"[]", 422, 42206),
        (b"{}", 422, 42206),
        (b'{"entries":[]}', 422, 42208),
        (b'{"entries":[{}]}', 422, 42208),
        (b'{"entries":[5]}', 422, 42208),
        (b'{"entries":[{"id":"a b"}]}', 422, 42208),
        (b'{"entries":[{"id":"a"},{"id":"a"}]}', 422, 42208),
        (orjson.dumps({"entries": [{"id": str(place)} for place in range(1_001)]}), 422, 42208),
        (b"x" * 30_001, 413, 413),
    ],
)
def test_batches_of_another_shape(body: bytes, status: int, code: int) -> None:
    answer = Proxy().post(body, RECORDS + ":batch")
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)


class Exchange:
    """A stream whose two directions the test holds in its hands."""

    def __init__(self, proxy: Proxy) -> None:
        self.body: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.taken = 0
        self.answers: list[dict[str, Any]] = []
        self.reads_answers = asyncio.Event()
        self.reads_answers.set()
        path = RECORDS.encode()
        scope = {"type": "http", "method": "POST", "path": RECORDS, "raw_path": path, "query_string": b""}
        scope["headers"] = [(b"content-type", b"application/json")]  # type: ignore[assignment]
        self.task = asyncio.create_task(proxy.app(scope, self._receive, self._send))

    def say(self, text: bytes, *, more: bool = True) -> None:
        self.body.put_nowait({"type": "http.request", "body": text, "more_body": more})

    async def settle(self) -> None:
        for _ in range(200):
            await asyncio.sleep(0)

    async def _receive(self) -> dict[str, Any]:
        message = await self.body.get()
        self.taken += 1
        return message

    async def _send(self, message: Any) -> None:
        await self.reads_answers.wait()
        self.answers += [orjson.loads(line) for line in message.get("body", b"").splitlines()]


def test_answers_come_while_the_request_is_still_coming() -> None:
    async def story() -> None:
        exchange = Exchange(Proxy())
        exchange.say(b"{}{}")
        await exchange.settle()
        assert len(exchange.answers) == 2 and not exchange.task.done()
        exchange.say(b"{}", more=False)
        await exchange.task
        assert [answer["offset"] for answer in exchange.answers] == [1, 1, 2]

    asyncio.run(story())


@pytest.mark.parametrize("slow", ["cluster", "client"])
def test_who_does_not_keep_up_stops_the_body_from_being_read(slow: str) -> None:
    async def story() -> None:
        proxy = Proxy()
        exchange = Exchange(proxy)
        if slow == "cluster":
            proxy.producing.held = True
        else:
            exchange.reads_answers.clear()
        for _ in range(100):
            exchange.say(b"{}")
        await exchange.settle()
        # the queue, what the reader wants to put there, and what the writer has taken
        assert exchange.taken == records_module.QUEUED_GROUPS + 2
        proxy.producing.held = False
        proxy.producing.report()
        exchange.reads_answers.set()
        exchange.say(b"", more=False)
        await exchange.task
        assert len(exchange.answers) == 100
        assert proxy.producing.work.held_bytes == 0

    asyncio.run(story())


def test_a_stream_that_goes_on_holds_only_what_is_not_answered() -> None:
    async def story() -> None:
        proxy = Proxy()
        exchange = Exchange(proxy)
        proxy.producing.held = True
        exchange.say(b'{}{"value":')
        exchange.say(b"null}{")
        await exchange.settle()
        assert proxy.producing.work.held_bytes == len(b'{}{"value":null}{')
        proxy.producing.report()
        await exchange.settle()
        assert len(exchange.answers) == 2
        assert proxy.producing.work.held_bytes == len(b"{")
        exchange.say(b"}", more=False)
        await exchange.settle()
        proxy.producing.report()
        await exchange.task
        assert proxy.producing.work.held_bytes == 0

    asyncio.run(story())


def test_a_client_that_goes_away_leaves_nothing() -> None:
    async def story() -> None:
        proxy = Proxy()
        exchange = Exchange(proxy)
        exchange.say(b'{}{"value":')
        exchange.body.put_nowait({"type": "http.disconnect"})
        await exchange.task
        assert proxy.producing.work.held_bytes == 0
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(story())


def test_a_stream_that_is_cancelled_leaves_nothing() -> None:
    async def story() -> None:
        proxy = Proxy()
        proxy.producing.held = True
        exchange = Exchange(proxy)
        for _ in range(100):
            exchange.say(b"{}")
        await exchange.settle()
        exchange.task.cancel()
        await asyncio.wait([exchange.task])
        assert proxy.producing.work.held_bytes == 0
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(story())


@pytest.mark.parametrize("pauses", [True, False])
def test_a_proxy_about_to_stop_answers_for_what_it_has_read_of_a_stream(
    pauses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_module, "END_SECONDS", 0.05)
    proxy = Proxy()

    async def run() -> bytes:
        given = 0
        sent: list[Any] = []

        async def receive() -> Any:
            nonlocal given
            given += 1
            if given == 3:
                proxy.producing.streams.end()
            if pauses and given > 5:
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            return {"type": "http.request", "body": b'{"value":{"type":"JSON","data":1}}', "more_body": True}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": RECORDS,
            "raw_path": RECORDS.encode(),
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
        }
        async with asyncio.timeout(20):
            await proxy.app(scope, receive, send)
        assert sent[0]["status"] == 200 and not sent[-1].get("more_body", False)
        return b"".join(each.get("body", b"") for each in sent[1:])

    *good, last = [orjson.loads(line) for line in asyncio.run(run()).splitlines()]
    assert len(good) == len(proxy.producing.sent) >= 5
    assert {answer["error_code"] for answer in good} == {200}
    assert last["error_code"] == 50301
    assert proxy.producing.work.held_bytes == 0


def test_a_short_stream_is_whole_although_the_proxy_is_about_to_stop() -> None:
    proxy = Proxy()
    proxy.producing.streams.end()
    answers = proxy.stream(*[{"value": {"type": "JSON", "data": number}} for number in range(3)])
    assert [answer["error_code"] for answer in answers] == [200, 200, 200]
