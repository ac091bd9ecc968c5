"""SIGTERM while requests are under way, with the cluster there and away: right answers, and an end."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.clients.confluent import consumer as kafka_consumer
from support.clients.confluent import create_topic, eventually, poll_messages, produce
from support.rest.rest_instances import Instance
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

TIMEOUT_S = 60
END_TIMEOUT_S = 30
JSON_V2 = {"content-type": "application/vnd.kafka.json.v2+json"}
HEAD = (
    "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
)


def terminate(service: ServiceProcess, times: int = 1) -> None:
    """SIGTERM, some times while the process lasts; it has to end by itself, in order."""
    process = service.server.process
    process.send_signal(signal.SIGTERM)
    for _ in range(times - 1):
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
    assert process.wait(END_TIMEOUT_S) == 0
    assert "Traceback" not in service.server.log_tail(1_000)


@pytest.mark.parametrize("times", [1, 30])
def test_a_read_under_way_is_answered_and_nothing_is_lost_or_read_twice(
    broker: OttlaBroker, tmp_path: Path, times: int
) -> None:
    topic = create_topic(broker.bootstrap, f"stopped-read-{times}")
    group = f"stopped-readers-{times}"
    with ServiceProcess.start("rest", broker.bootstrap, tmp_path / "first") as rest:
        made = httpx.post(
            f"{rest.url}/consumers/{group}",
            json={
                "name": "i",
                "format": "binary",
                "auto.offset.reset": "earliest",
                "auto.commit.enable": "true",
                "consumer.request.timeout.ms": 300_000,
                "fetch.min.bytes": -1,
            },
        )
        instance = Instance(made.json()["base_uri"], "binary")
        instance.subscribe(topic)
        eventually(lambda: instance.partitions() == [0], "the instance has its partition")
        with ThreadPoolExecutor(1) as threads:
            reading = threads.submit(instance.ask_records)
            produce(broker.bootstrap, topic, [{"value": b"%d" % n} for n in range(100)])
            time.sleep(0.5)  # the read has some or all of the records by then, either is right
            terminate(rest, times)
            answer = reading.result(TIMEOUT_S)
        assert answer.status_code == 200
        first = [int(base64.b64decode(record["value"])) for record in answer.json()]
        assert rest.server.log_tail(1_000).splitlines() == [rest.server.ready_line]
    with (
        ServiceProcess.start("rest", broker.bootstrap, tmp_path / "second") as rest,
        Instance.make(rest.url, group) as again,
    ):
        again.subscribe(topic)
        produce(broker.bootstrap, topic, [{"value": b"100"}])
        rest_of_them = again.read_values(101 - len(first))
    assert first + [int(base64.b64decode(value)) for value in rest_of_them] == list(range(101))


def test_a_stream_of_records_ends_with_an_answer_for_each_record_that_was_read(
    broker: OttlaBroker, tmp_path: Path
) -> None:
    topic = create_topic(broker.bootstrap, "stopped-stream")
    with ServiceProcess.start("rest", broker.bootstrap, tmp_path) as rest:
        cluster = httpx.get(f"{rest.url}/v3/clusters").json()["data"][0]["cluster_id"]
        with socket.create_connection(("127.0.0.1", rest.port)) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.sendall(HEAD.format(path=f"/v3/clusters/{cluster}/topics/{topic}/records").encode())
            sending = threading.Thread(target=send_without_end, args=(connection,))
            sending.start()
            answered = connection.recv(1 << 16)
            while answered.count(b'"error_code":200') < 100:
                answered += connection.recv(1 << 16)
            stopping = threading.Thread(target=terminate, args=(rest,))
            stopping.start()
            while piece := connection.recv(1 << 16):
                answered += piece
            stopping.join()
            sending.join()
    lines = [json.loads(line) for line in unchunked(answered).splitlines()]
    *good, last = lines
    assert {line["error_code"] for line in good} == {200}
    assert last["error_code"] == 50301 and "stopping" in last["message"]
    with kafka_consumer(broker.bootstrap, "of-stopped-stream") as reader:
        reader.subscribe([topic])
        values = [message.value() for message in poll_messages(reader, len(good))]
        assert values == [b"%d" % n for n in range(len(good))]
        assert not reader.consume(1, 0.5), "a record was written that was not answered for"


def send_without_end(connection: socket.socket) -> None:
    number = 0
    try:
        while True:
            record = b'{"value":{"type":"JSON","data":%d}}\n' % number
            connection.sendall(b"%x\r\n%s\r\n" % (len(record), record))
            number += 1
            time.sleep(0.001)
    except OSError:
        return


def unchunked(answer: bytes) -> bytes:
    """The whole body of a chunked answer."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    body = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if int(size, 16) == 0:
            return body
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]


@contextmanager
def away(broker: OttlaBroker, how: str) -> Iterator[None]:
    """The broker is away for the length of the block: suspended, so it takes connections, or dead."""
    if how == "suspended":
        os.kill(broker.pid, signal.SIGSTOP)
    else:
        broker.kill()
    try:
        yield
    finally:
        if how == "suspended":
            os.kill(broker.pid, signal.SIGCONT)


def asked(threads: ThreadPoolExecutor, url: str, method: str, path: str, **request: Any) -> Future[Any]:
    """A request on a thread: its answer's status, and its JSON."""

    def ask() -> tuple[int, Any]:
        answer = httpx.request(method, f"{url}{path}", timeout=TIMEOUT_S, **request)
        return answer.status_code, answer.json()

    return threads.submit(ask)


@pytest.mark.long
@pytest.mark.parametrize("how", ["suspended", "dead"])
def test_with_the_cluster_away_requests_are_answered_and_the_processes_end(tmp_path: Path, how: str) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(OttlaBroker.start(tmp_path / "broker"))
        registry = stack.enter_context(
            ServiceProcess.start("registry", broker.bootstrap, tmp_path / "registry")
        )
        rest = stack.enter_context(ServiceProcess.start("rest", broker.bootstrap, tmp_path / "rest"))
        create_topic(broker.bootstrap, "t")
        record = {"records": [{"value": 1}]}
        assert httpx.post(f"{rest.url}/topics/t", json=record, headers=JSON_V2).status_code == 200
        schema = {"schema": '"string"'}
        assert httpx.post(f"{registry.url}/subjects/s/versions", json=schema).status_code == 200
        made = httpx.post(
            f"{rest.url}/consumers/g", json={"name": "i", "consumer.request.timeout.ms": 300_000}
        )
        instance = Instance(made.json()["base_uri"], "binary")
        instance.subscribe("t")
        eventually(lambda: instance.partitions() == [0], "the instance has its partition")

        threads = stack.enter_context(ThreadPoolExecutor(8))
        with away(broker, how):
            produced = asked(threads, rest.url, "POST", "/topics/t", json=record, headers=JSON_V2)
            unknown = asked(threads, rest.url, "POST", "/topics/u", json=record, headers=JSON_V2)
            read = threads.submit(instance.ask_records)
            registered = asked(
                threads,
                registry.url,
                "POST",
                "/subjects/s/versions",
                json={**schema, "metadata": {"properties": {"a": "b"}}},
            )
            known = asked(threads, registry.url, "GET", "/subjects")
            assert known.result(TIMEOUT_S) == (200, ["s"])
            time.sleep(1)  # the requests are under way
            ends = [threads.submit(terminate, service, 30) for service in (rest, registry)]
            for end in ends:
                end.result(TIMEOUT_S)
        status, body = produced.result(TIMEOUT_S)
        assert (status, [each["error_code"] for each in body["offsets"]]) == (200, [50003])
        assert unknown.result(TIMEOUT_S)[0] in (500, 503)
        answer = read.result(TIMEOUT_S)
        assert (answer.status_code, answer.json()) == (200, [])
        assert registered.result(TIMEOUT_S)[0] in (500, 503)


@pytest.mark.slow
def test_a_cluster_that_is_away_costs_a_line_a_second(tmp_path: Path) -> None:
    with (
        OttlaBroker.start(tmp_path / "broker") as broker,
        ServiceProcess.start("rest", broker.bootstrap, tmp_path / "rest") as rest,
        httpx.Client(base_url=rest.url, timeout=TIMEOUT_S) as http,
    ):
        create_topic(broker.bootstrap, "t")
        for name in ("staying", "leaving"):
            http.post("/consumers/g", json={"name": name})
            http.post(f"/consumers/g/instances/{name}/subscription", json={"topics": ["t"]})
            http.get(f"/consumers/g/instances/{name}/records")
        broker.kill()
        began = time.monotonic()
        lines = lines_of(rest)
        before = lines()
        http.delete("/consumers/g/instances/leaving")  # it tries to reach its coordinator, again and again
        while time.monotonic() < began + 5:
            http.get("/topics")
            http.post("/topics/none", json={"records": [{"value": 1}]}, headers=JSON_V2, timeout=TIMEOUT_S)
        seconds = time.monotonic() - began
        assert lines() - before <= 2 * seconds + 10
        assert lines() > before


def lines_of(service: ServiceProcess) -> Callable[[], int]:
    return lambda: len(service.server.log_tail(100_000).splitlines())
