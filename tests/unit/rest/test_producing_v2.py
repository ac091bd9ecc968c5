"""API v2's way from a request to records and back, with neither a cluster nor a registry."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import orjson
import pytest
from confluent_kafka import KafkaError

from ottla.rest.records import json_bounds
from ottla.rest.v2 import produce
from ottla.rest.v2.produce import routes
from ottla.web.application import json_application
from support.rest.fake_producing import FakeProducing, FakeRegistry

JSON = "application/vnd.kafka.json.v2+json"
BINARY = "application/vnd.kafka.binary.v2+json"
AVRO = "application/vnd.kafka.avro.v2+json"


class Proxy:
    """A proxy with the topic `t` of three partitions."""

    def __init__(self) -> None:
        self.registry = FakeRegistry()
        self.producing = FakeProducing(self.registry.client(), {"t": 3}, max_body_bytes=10_000)
        self._app = json_application(routes(self.producing))  # type: ignore[arg-type]

    def post(self, body: Any, content_type: str = JSON, path: str = "/topics/t") -> httpx.Response:
        content = body if isinstance(body, bytes) else orjson.dumps(body)

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://proxy") as client:
                return await client.post(path, content=content, headers={"content-type": content_type})

        return asyncio.run(ask())

    def refusal(self, body: Any, content_type: str = JSON, path: str = "/topics/t") -> tuple[int, int]:
        """Status and error_code of a request that nothing is produced of."""
        answer = self.post(body, content_type, path)
        assert self.producing.sent == [] and self.producing.work.held_bytes == 0
        assert set(answer.json()) == {"error_code", "message"}
        return answer.status_code, answer.json()["error_code"]


def test_records_are_produced_in_order_and_told_of_in_their_places() -> None:
    proxy = Proxy()
    answer = proxy.post({"records": [{"key": "k", "value": {"a": 1}, "partition": 2}, {"value": None}]})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/vnd.kafka.v2+json"
    assert answer.json() == {
        "offsets": [
            {"partition": 2, "offset": 1, "error_code": None, "error": None},
            {"partition": 0, "offset": 1, "error_code": None, "error": None},
        ],
        "key_schema_id": None,
        "value_schema_id": None,
    }
    assert [(topic, *record[:3]) for topic, record in proxy.producing.sent] == [
        ("t", b'"k"', b'{"a":1}', 2),
        ("t", None, None, -1),
    ]


@pytest.mark.parametrize(
    "content_type", [BINARY, "application/vnd.kafka.v2+json", f"{BINARY}; charset=utf-8"]
)
def test_binary_is_base64_and_the_format_when_none_is_said(content_type: str) -> None:
    proxy = Proxy()
    assert proxy.post({"records": [{"key": "aw==", "value": "aGk="}]}, content_type).status_code == 200
    assert proxy.producing.sent[0][1][:2] == (b"k", b"hi")


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/vnd.kafka.xml.v2+json", "", "text/plain"]
)
def test_other_content_types_are_not_supported(content_type: str) -> None:
    assert Proxy().refusal({"records": [{"value": 1}]}, content_type) == (415, 415)


def test_a_partition_may_be_in_the_path() -> None:
    proxy = Proxy()
    assert proxy.post({"records": [{"value": 1}]}, path="/topics/t/partitions/2").status_code == 200
    assert proxy.producing.sent[0][1].partition == 2


@pytest.mark.parametrize(
    ("path", "record", "expected"),
    [
        ("/topics/none", {"value": 1}, (404, 40401)),
        ("/topics/a%20b", {"value": 1}, (404, 40401)),
        ("/topics/none/partitions/0", {"value": 1}, (404, 40401)),
        ("/topics/t/partitions/3", {"value": 1}, (404, 40402)),
        ("/topics/t/partitions/-1", {"value": 1}, (404, 40402)),
        ("/topics/t/partitions/x", {"value": 1}, (404, 40402)),
        ("/topics/t/partitions/9" + "9" * 30, {"value": 1}, (404, 40402)),
        ("/topics/t", {"value": 1, "partition": 3}, (404, 40402)),
        ("/topics/t/partitions/1", {"value": 1, "partition": 1}, (422, 422)),
    ],
)
def test_a_topic_or_partition_that_is_not_there(path: str, record: Any, expected: tuple[int, int]) -> None:
    assert Proxy().refusal({"records": [record]}, path=path) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400, 400)),
        (b"{", (400, 400)),
        (b'{"records":[{"value":"\xff"}]}', (400, 400)),
        (b"x" * 10_001, (413, 413)),
        ([], (422, 422)),
        ({}, (422, 422)),
        ({"records": []}, (422, 422)),
        ({"records": {}}, (422, 422)),
        ({"records": [1]}, (422, 422)),
        ({"records": [{"value": 1}], "other": 1}, (422, 422)),
        ({"records": [{"value": 1, "other": 1}]}, (422, 422)),
        ({"records": [{"value": 1, "partition": "1"}]}, (422, 422)),
        ({"records": [{"value": 1, "partition": -1}]}, (422, 422)),
        ({"records": [{"value": 1, "partition": True}]}, (422, 422)),
        ({"records": [{"value": 1}], "value_schema": 1}, (422, 422)),
        ({"records": [{"value": 1}], "value_schema_id": "1"}, (422, 422)),
    ],
)
def test_requests_of_another_shape(body: Any, expected: tuple[int, int]) -> None:
    assert Proxy().refusal(body) == expected


def test_a_request_of_too_many_records_or_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "MAX_RECORDS", 2)
    assert Proxy().refusal({"records": [{}, {}, {}]}) == (413, 413)
    monkeypatch.setattr(json_bounds, "MAX_VALUES", 2)
    assert Proxy().refusal({"records": [[]]}) == (413, 413)


def test_one_record_that_can_not_be_encoded_keeps_all_from_being_sent() -> None:
    assert Proxy().refusal({"records": [{"value": "aGk="}, {"value": "!"}]}, BINARY) == (422, 42203)


def test_a_schema_is_registered_under_the_topic_and_used_by_its_id_later() -> None:
    proxy = Proxy()
    first = proxy.post(
        {"key_schema": '"string"', "value_schema": '"int"', "records": [{"key": "k", "value": 5}]}, AVRO
    )
    ids = first.json()["key_schema_id"], first.json()["value_schema_id"]
    assert ids == (1, 2)
    assert [subject for subject, *_ in proxy.registry.schemas.values()] == ["t-key", "t-value"]
    again = proxy.post({"value_schema_id": 2, "records": [{"value": 5}, {"value": None}]}, AVRO)
    assert (again.json()["key_schema_id"], again.json()["value_schema_id"]) == (None, 2)
    assert [record[:2] for _, record in proxy.producing.sent] == [
        (b"\0\0\0\0\1\2k", b"\0\0\0\0\2\n"),
        (None, b"\0\0\0\0\2\n"),
        (None, None),
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"records": [{"key": "k"}], "value_schema": '"int"'}, (422, 42201)),
        ({"records": [{"value": 5}]}, (422, 42202)),
        ({"records": [{"value": 5}], "value_schema": '"imt"'}, (422, 42205)),
        ({"records": [{"value": "x"}], "value_schema": '"int"'}, (422, 42203)),
        ({"records": [{"value": 5}], "value_schema_id": 99}, (408, 40801)),
        ({"records": [{"value": 5}], "value_schema_id": 50}, (422, 42205)),
    ],
)
def test_schemas_that_are_missing_or_wrong(body: Any, expected: tuple[int, int]) -> None:
    proxy = Proxy()
    proxy.registry.schemas[50] = ("s", 1, "JSON", "{}")
    assert proxy.refusal(body, AVRO) == expected


def test_a_registry_that_does_not_answer() -> None:
    proxy = Proxy()

    def answer(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    proxy.registry.answer = answer
    assert proxy.refusal({"records": [{"value": 5}], "value_schema_id": 1}, AVRO) == (408, 40801)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (KafkaError._MSG_TIMED_OUT, 200, 50003),
        (KafkaError.NOT_ENOUGH_REPLICAS, 200, 50003),
        (KafkaError.MSG_SIZE_TOO_LARGE, 200, 50002),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 403, 40301),
        (KafkaError.SASL_AUTHENTICATION_FAILED, 401, 40101),
    ],
)
def test_a_record_that_fails_is_told_of_in_its_place(error: int, status: int, code: int) -> None:
    proxy = Proxy()
    proxy.producing.failing[b"2"] = KafkaError(error)
    answer = proxy.post({"records": [{"value": 1}, {"value": 2}]})
    good, bad = answer.json()["offsets"]
    assert (answer.status_code, good["error_code"]) == (status, None)
    assert (bad["partition"], bad["offset"], bad["error_code"]) == (None, None, code)
    assert isinstance(bad["error"], str) and bad["error"]
