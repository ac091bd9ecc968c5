"""Hosts, CORS and gzip as clients of both services meet them, over sockets."""

from __future__ import annotations

import gzip
import json
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.clients.confluent import create_topic, produce
from support.rest.rest_instances import Instance
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

TIMEOUT_S = 60
JSON_V2 = "application/vnd.kafka.json.v2+json"
ORIGIN = "https://console.example.com"


@pytest.fixture(scope="module")
def registry(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    directory = tmp_path_factory.mktemp("registry")
    settings = {"access.control.allow.origin": ORIGIN, "access.control.allow.methods": "GET,POST,PUT,DELETE"}
    with ServiceProcess.start("registry", broker.bootstrap, directory, settings) as running:
        yield running


@pytest.fixture(scope="module")
def rest(
    broker: OttlaBroker, registry: ServiceProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    directory = tmp_path_factory.mktemp("rest")
    settings = {"access.control.allow.origin": ORIGIN, "schema.registry.url": registry.url}
    settings["ottla.http.hosts"] = "kafka-rest"
    with ServiceProcess.start("rest", broker.bootstrap, directory, settings) as running:
        yield running


def test_a_page_of_a_rebound_name_reads_nothing(registry: ServiceProcess, rest: ServiceProcess) -> None:
    for service, path in ((registry, "/subjects"), (rest, "/topics"), (rest, "/v3/clusters")):
        refused = httpx.get(f"{service.url}{path}", headers={"host": f"evil.example:{service.port}"})
        assert (refused.status_code, refused.json()["error_code"]) == (421, 421)
        for host in (f"localhost:{service.port}", f"127.0.0.1:{service.port}", socket.gethostname()):
            assert httpx.get(f"{service.url}{path}", headers={"host": host}).status_code == 200
    assert httpx.get(f"{rest.url}/topics", headers={"host": "kafka-rest:8082"}).status_code == 200


def test_pages_of_the_origin_that_is_configured_may_use_both(
    registry: ServiceProcess, rest: ServiceProcess
) -> None:
    for service, path in ((registry, "/subjects"), (registry, "/schemas/ids/999999"), (rest, "/topics")):
        own = httpx.get(f"{service.url}{path}", headers={"origin": ORIGIN})
        assert own.headers["access-control-allow-origin"] == ORIGIN
        other = httpx.get(f"{service.url}{path}", headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
    asked = {
        "origin": ORIGIN,
        "access-control-request-method": "PUT",
        "access-control-request-headers": "content-type",
    }
    allowed = httpx.options(f"{registry.url}/config", headers=asked)
    assert (allowed.status_code, allowed.headers["access-control-allow-methods"]) == (
        200,
        "GET,POST,PUT,DELETE",
    )


def test_records_go_in_and_come_out_in_gzip(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "in-gzip")
    records = [{"value": {"number": number, "note": "n" * 50}} for number in range(2_000)]
    folded = gzip.compress(json.dumps({"records": records}).encode())
    headers = {"content-type": JSON_V2, "content-encoding": "gzip"}
    made = httpx.post(f"{rest.url}/topics/{topic}", content=folded, headers=headers, timeout=TIMEOUT_S)
    assert made.status_code == 200 and made.headers["content-encoding"] == "gzip"
    assert [each["offset"] for each in made.json()["offsets"]] == list(range(2_000))
    with Instance.make(rest.url, "of-gzip", "json") as instance:
        instance.assign(topic, 0)
        answer = instance.ask_records()
        assert answer.headers["content-encoding"] == "gzip"
        found = [record["value"] for record in answer.json()]
        found += instance.read_values(2_000 - len(found)) if len(found) < 2_000 else []
    assert found == [record["value"] for record in records]


def test_a_body_that_unfolds_to_too_much_is_refused_at_the_bound(tmp_path: Path, broker: OttlaBroker) -> None:
    settings = {"ottla.max.body.bytes": "1000000"}
    bomb = gzip.compress(b'{"records":[' + b" " * (200 << 20) + b"]}")
    headers = {"content-type": JSON_V2, "content-encoding": "gzip"}
    with ServiceProcess.start("rest", broker.bootstrap, tmp_path, settings) as rest:
        create_topic(broker.bootstrap, "bombed")
        answer = httpx.post(f"{rest.url}/topics/bombed", content=bomb, headers=headers, timeout=TIMEOUT_S)
        assert answer.status_code == 413
        status = Path(f"/proc/{rest.server.process.pid}/status").read_text()
        peak_kib = int(status.partition("VmHWM:")[2].split()[0])
        assert peak_kib < 200 << 10


def test_a_stream_in_gzip_is_answered_while_it_lasts(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "stream-in-gzip")
    cluster = httpx.get(f"{rest.url}/v3/clusters").json()["data"][0]["cluster_id"]
    head = (
        f"POST /v3/clusters/{cluster}/topics/{topic}/records HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
        "Content-Encoding: gzip\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    folding = zlib.compressobj(wbits=31)
    unfolding = zlib.decompressobj(wbits=31)
    with socket.create_connection(("127.0.0.1", rest.port), TIMEOUT_S) as connection:
        connection.sendall(head.encode())
        answers = connection.makefile("rb")
        for number in range(5):
            record = b'{"value":{"type":"JSON","data":%d}}' % number
            piece = folding.compress(record) + folding.flush(zlib.Z_SYNC_FLUSH)
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            if number == 0:
                assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
                told = b"".join(iter(answers.readline, b"\r\n"))
                assert b"content-encoding: gzip" in told.lower()
            # its answer is here before the next record goes out
            size = int(answers.readline(), 16)
            answer = json.loads(unfolding.decompress(answers.read(size + 2)[:-2]))
            assert (answer["error_code"], answer["offset"]) == (200, number)
        piece = folding.flush()
        connection.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(piece), piece))
        size = int(answers.readline(), 16)
        assert unfolding.decompress(answers.read(size)) == b"" and unfolding.eof
        answers.close()


def test_the_registry_speaks_gzip_on_a_follower_too(
    broker: OttlaBroker, registry: ServiceProcess, tmp_path: Path
) -> None:
    fields = [{"name": f"field_{number}", "type": ["null", "string"]} for number in range(200)]
    schema = json.dumps({"type": "record", "name": "Wide", "fields": fields})
    body = gzip.compress(json.dumps({"schema": schema}).encode())
    with ServiceProcess.start("registry", broker.bootstrap, tmp_path) as follower:
        for service in (follower, registry):
            headers = {"content-type": "application/json", "content-encoding": "gzip"}
            path = "/subjects/wide/versions"
            made = httpx.post(f"{service.url}{path}", content=body, headers=headers, timeout=TIMEOUT_S)
            assert made.status_code == 200, made.text
            found = httpx.get(f"{service.url}/schemas/ids/{made.json()['id']}")
            assert found.headers["content-encoding"] == "gzip"
            assert json.loads(found.json()["schema"])["fields"][0]["name"] == "field_0"
            plain = httpx.get(
                f"{service.url}/schemas/ids/{made.json()['id']}", headers={"accept-encoding": "identity"}
            )
            assert "content-encoding" not in plain.headers and plain.json() == found.json()


def test_reads_have_timestamps_and_headers_when_asked(broker: OttlaBroker, rest: ServiceProcess) -> None:
    topic = create_topic(broker.bootstrap, "with-headers")
    produce(
        broker.bootstrap,
        topic,
        [{"value": b"1", "timestamp": 1_700_000_000_123, "headers": [("trace", b"\xff"), ("none", None)]}],
    )
    with Instance.make(rest.url, "of-headers") as instance:
        instance.assign(topic, 0)
        answer = instance.http.get(f"{instance.base}/records?include=timestamp,headers")
        (record,) = answer.json()
    assert record["timestamp"] == 1_700_000_000_123
    assert record["headers"] == [{"name": "trace", "value": "/w=="}, {"name": "none", "value": None}]
