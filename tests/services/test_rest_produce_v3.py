"""Streams of records through `ottla rest`, over real connections."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from support.clients.confluent import create_topic, eventually
from support.clients.whole_topics import read_everything
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

WAIT_SECONDS = 30


@pytest.fixture
def path(broker: OttlaBroker, rest: ServiceProcess, unique_name: str) -> str:
    """The path for records of a topic of three partitions."""
    create_topic(broker.bootstrap, unique_name, 3)
    cluster: str = httpx.get(f"{rest.url}/v3/clusters").json()["data"][0]["cluster_id"]
    return f"/v3/clusters/{cluster}/topics/{unique_name}/records"


class Stream:
    """A chunked request; its answer is read while the request is written."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._lines = b""

    async def begin(self, path: str) -> None:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())

    async def say(self, text: bytes) -> None:
        self.writer.write(b"%x\r\n%s\r\n" % (len(text), text))
        await self.writer.drain()

    def end(self) -> None:
        self.writer.write(b"0\r\n\r\n")

    async def status(self) -> int:
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in head
        return int(head.split()[1])

    async def answer(self) -> dict[str, Any] | None:
        """The next answer, None at the end."""
        while b"\n" not in self._lines:
            size = int(await self._reader.readline(), 16)
            self._lines += (await self._reader.readexactly(size + 2))[:-2]
            if size == 0:
                assert self._lines == b""
                return None
        line, _, self._lines = self._lines.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found


@asynccontextmanager
async def stream(rest: ServiceProcess, path: str) -> AsyncIterator[Stream]:
    reader, writer = await asyncio.open_connection("127.0.0.1", rest.port)
    try:
        opened = Stream(reader, writer)
        await opened.begin(path)
        async with asyncio.timeout(WAIT_SECONDS):
            yield opened
    finally:
        writer.close()


def record(value: Any, **more: Any) -> bytes:
    return json.dumps({"value": {"type": "JSON", "data": value}, **more}).encode()


def test_each_record_is_answered_before_the_next_is_written(rest: ServiceProcess, path: str) -> None:
    async def story() -> None:
        async with stream(rest, path) as opened:
            for place in range(5):
                await opened.say(record(place, partition_id=1))
                if place == 0:
                    assert await opened.status() == 200
                told = await opened.answer()
                assert told is not None and (told["partition_id"], told["offset"]) == (1, place)
            opened.end()
            assert await opened.answer() is None

    asyncio.run(story())


def test_a_long_stream_is_written_in_its_order_and_answered_in_its_order(
    broker: OttlaBroker, rest: ServiceProcess, path: str, unique_name: str
) -> None:
    count = 20_000
    text = b"".join(record(place, partition_id=place % 3) + b"\n" * (place % 2) for place in range(count))

    async def story() -> list[dict[str, Any]]:
        async with stream(rest, path) as opened:

            async def write() -> None:
                for start in range(0, len(text), 10_007):
                    await opened.say(text[start : start + 10_007])
                opened.end()

            writing = asyncio.create_task(write())
            assert await opened.status() == 200
            told = [answer async for answer in _answers(opened)]
            await writing
            return told

    told = asyncio.run(story())
    read = {(m.partition(), m.offset()): m.value() for m in read_everything(broker.bootstrap, unique_name)}
    places = [(answer["partition_id"], answer["offset"]) for answer in told]
    assert [json.loads(read[place]) for place in places] == list(range(count))
    assert places == [(place % 3, place // 3) for place in range(count)]


async def _answers(opened: Stream) -> AsyncIterator[dict[str, Any]]:
    while (answer := await opened.answer()) is not None:
        yield answer


def test_headers_timestamps_and_nulls_arrive(
    broker: OttlaBroker, rest: ServiceProcess, path: str, unique_name: str
) -> None:
    headers = [{"name": "a", "value": "aGk="}, {"name": "a", "value": None}]
    body = record({"x": 1}, headers=headers, timestamp="2021-02-05T19:14:42.123Z", partition_id=0)
    body += b'{"key":{"type":"STRING","data":"k"},"value":null,"partition_id":0}'
    answer = httpx.post(f"{rest.url}{path}", content=body, headers={"content-type": "application/json"})
    assert json.loads(answer.text.splitlines()[0])["timestamp"] == "2021-02-05T19:14:42.123Z"
    first, second = read_everything(broker.bootstrap, unique_name)
    assert first.headers() == [("a", b"hi"), ("a", None)]
    assert (first.timestamp()[1], first.value()) == (1_612_552_482_123, b'{"x":1}')
    assert (second.key(), second.value(), second.headers()) == (b"k", None, None)


def test_a_client_that_goes_away_within_a_record_leaves_other_requests_alone(
    broker: OttlaBroker, rest: ServiceProcess, path: str, unique_name: str
) -> None:
    async def story() -> None:
        for _ in range(20):
            async with stream(rest, path) as opened:
                await opened.say(record("good") + b'{"value":{"type":"JSON","data":"cut')
                opened.writer.transport.abort()

    asyncio.run(story())
    answer = httpx.post(f"{rest.url}{path}", content=record("last"))
    assert answer.json()["error_code"] == 200
    values = [message.value() for message in read_everything(broker.bootstrap, unique_name)]
    assert set(values) <= {b'"good"', b'"last"'} and b'"last"' in values


def test_a_client_that_reads_no_answers_is_read_no_more(rest: ServiceProcess, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    text = record("x" * 20) * 1_000
    piece = b"%x\r\n%s\r\n" % (len(text), text)
    before = _resident_bytes(rest)
    with socket.create_connection(("127.0.0.1", rest.port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.settimeout(3)
        client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 500 << 20:
                client.sendall(piece)
                sent += len(piece)
        # the records that answers, sockets and queues hold; the stream could go on for ever
        assert sent < 100 << 20
        assert _resident_bytes(rest) - before < 100 << 20
    eventually(
        lambda: httpx.post(f"{rest.url}{path}", content=record(1)).status_code == 200, "others are served"
    )


def _resident_bytes(rest: ServiceProcess) -> int:
    with open(f"/proc/{rest.server.process.pid}/statm") as file:
        return int(file.read().split()[1]) * 4_096


def test_two_requests_may_share_a_connection(rest: ServiceProcess, path: str) -> None:
    with httpx.Client(base_url=rest.url) as client:
        for body, codes in ((record(1) + b"{]", [200, 400]), (record(2), [200])):
            answer = client.post(path, content=body)
            assert [json.loads(line)["error_code"] for line in answer.text.splitlines()] == codes


def test_a_schema_is_named_in_the_answer_with_its_version(
    registry: ServiceProcess, rest: ServiceProcess, path: str, unique_name: str
) -> None:
    schema = '{"type":"record","name":"Point","fields":[{"name":"x","type":"int"}]}'
    first = {"type": "AVRO", "schema": schema, "subject_name_strategy": "TOPIC_RECORD_NAME", "data": {"x": 1}}
    answer = httpx.post(f"{rest.url}{path}", content=json.dumps({"value": first})).json()
    schema_id = answer["value"]["schema_id"]
    expected = {
        "type": "AVRO",
        "subject": f"{unique_name}-Point",
        "schema_id": schema_id,
        "schema_version": 1,
        "size": 6,
    }
    assert answer["value"] == expected
    for again in (
        {"schema_id": schema_id, "subject": f"{unique_name}-Point"},
        {"subject": f"{unique_name}-Point", "schema_version": 1},
        {"subject": f"{unique_name}-Point"},
    ):
        body = json.dumps({"value": {**again, "data": {"x": 1}}})
        assert httpx.post(f"{rest.url}{path}", content=body).json()["value"] == expected


def test_a_batch_of_entries(rest: ServiceProcess, path: str) -> None:
    entries = [
        {"id": "good", "value": {"type": "STRING", "data": "x"}, "partition_id": 1},
        {"id": "bad", "value": {"type": "STRING", "data": "x"}, "partition_id": 3},
    ]
    answer = httpx.post(f"{rest.url}{path}:batch", json={"entries": entries})
    assert answer.status_code == 207
    (success,), (failure,) = answer.json()["successes"], answer.json()["failures"]
    assert (success["id"], success["partition_id"], success["offset"]) == ("good", 1, 0)
    assert (failure["id"], failure["error_code"]) == ("bad", 40402)
