"""Metrics and health of services in processes of their own, scraped after loads whose figures are known."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from support.clients.confluent import create_topic, eventually
from support.metrics.samples import by_labels, checks, get, sample, samples, scrape
from support.rest.rest_instances import Instance
from support.servers.cluster import ServerError, ServerProcess, free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

QUICK = {"kafkagroup.session.timeout.ms": "2000", "kafkagroup.heartbeat.interval.ms": "300"}
PROTOBUF = 'syntax = "proto3"; message M { int32 a = 1; }'
DRAWN = 1_000

Start = Callable[..., tuple[ServiceProcess, str]]


@pytest.fixture
def start(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> Iterator[Start]:
    """Starts a service of the test's own with an endpoint; the endpoint's address comes with it."""
    names = {"kafkastore.topic": f"_{unique_name}", "schema.registry.group.id": unique_name, **QUICK}
    with ExitStack() as stack:

        def one(kind: str, settings: Mapping[str, str] | None = None) -> tuple[ServiceProcess, str]:
            own = names if kind == "registry" else {}
            port = free_port()
            given = {**own, "ottla.metrics.listen": f"127.0.0.1:{port}", **(settings or {})}
            running = ServiceProcess.start(kind, broker.bootstrap, tmp_path / "log", given)
            return stack.enter_context(running), f"http://127.0.0.1:{port}"

        yield one


def avro(number: int) -> str:
    fields = [{"name": f"f{each}", "type": "int", "default": 0} for each in range(number + 1)]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def register(url: str, subject: str, schema: str, schema_type: str = "AVRO") -> httpx.Response:
    body = {"schema": schema, "schemaType": schema_type}
    return httpx.post(f"{url}/subjects/{subject}/versions", json=body, timeout=30)


def requests_of(text: str) -> dict[tuple[str, ...], float]:
    return by_labels(text, "ottla_http_requests_total", "route", "method", "status")


def test_a_registry_s_figures_are_those_of_its_load(start: Start, unique_name: str) -> None:
    service, metrics = start("registry")
    for number in range(3):
        assert register(service.url, "birds", avro(number)).status_code == 200
    assert register(service.url, "fish", '{"type": "object"}', "JSON").status_code == 200
    assert register(service.url, "bees", PROTOBUF, "PROTOBUF").status_code == 200
    assert register(service.url, "birds", '"string"').status_code == 409
    assert register(service.url, "birds", "no schema").status_code == 422
    for _ in range(7):
        assert httpx.get(f"{service.url}/schemas/ids/1").status_code == 200
    assert httpx.get(f"{service.url}/schemas/ids/99").status_code == 404
    assert httpx.delete(f"{service.url}/subjects/birds/versions/2").status_code == 200
    assert httpx.get(f"{service.url}/subjects").json() == ["bees", "birds", "fish"]

    text = scrape(f"{metrics}/metrics")

    assert requests_of(text) == {
        ("/subjects/{subject}/versions", "POST", "200"): 5,
        ("/subjects/{subject}/versions", "POST", "409"): 1,
        ("/subjects/{subject}/versions", "POST", "422"): 1,
        ("/schemas/ids/{id}", "GET", "200"): 7,
        ("/schemas/ids/{id}", "GET", "404"): 1,
        ("/subjects/{subject}/versions/{version}", "DELETE", "200"): 1,
        ("/subjects", "GET", "200"): 1,
    }
    assert by_labels(text, "ottla_http_errors_total", "error_code") == {
        ("409",): 1,
        ("42201",): 1,
        ("40403",): 1,
    }
    counted = by_labels(text, "ottla_http_request_duration_seconds_count", "route", "method")
    assert counted["/subjects/{subject}/versions", "POST"] == 7
    assert sample(text, "ottla_http_requests_in_flight", service="registry") == 0
    assert sample(text, "kafka_schema_registry_jersey_metrics_request_total") == 17
    assert sample(text, "kafka_schema_registry_api_success_count") == 14
    assert sample(text, "kafka_schema_registry_api_failure_count") == 3
    errors = by_labels(text, "kafka_schema_registry_jersey_metrics_request_error_total", "http_status_code")
    assert errors == {("4xx",): 3, ("5xx",): 0}

    assert sample(text, "kafka_schema_registry_registered_count") == 5
    assert sample(text, "kafka_schema_registry_deleted_count") == 1
    created = by_labels(text, "kafka_schema_registry_schemas_created", "schema_type")
    assert created == {("avro",): 3, ("json",): 1, ("protobuf",): 1}
    versions = by_labels(text, "ottla_registry_versions", "schema_type", "state")
    assert {key: value for key, value in versions.items() if value} == {
        ("avro", "live"): 2, ("avro", "deleted"): 1, ("json", "live"): 1, ("protobuf", "live"): 1,
    }  # fmt: skip
    assert sample(text, "ottla_registry_subjects") == 3
    assert sample(text, "kafka_schema_registry_master_slave_role") == 1
    assert sample(text, "kafka_schema_registry_node_count") == 1
    topic = {"topic": f"_{unique_name}"}
    writes = by_labels(text, "ottla_replicated_writes_total", "outcome")
    assert writes.pop(("stored",)) == 6 and set(writes.values()) == {0}
    assert sample(text, "ottla_replicated_takeovers_total", **topic) == 1
    assert sample(text, "ottla_replicated_lag", **topic) == 0
    places = samples(text)
    offset, end = (
        places[name, frozenset({**topic, "partition": "0"}.items())]
        for name in ("ottla_replicated_offset", "ottla_replicated_end_offset")
    )
    assert offset == end > 7
    assert sample(text, "ottla_service_up", service="registry") == 1
    status, found = checks(f"{metrics}/readyz")
    assert status == 200 and found["registry-primary"] == ("ok", "the primary is this instance")
    assert get(f"{metrics}/healthz")[0] == 200


def test_drawn_paths_make_no_series(start: Start) -> None:
    service, metrics = start("registry")
    draw = random.Random(21)
    with httpx.Client(base_url=service.url) as client:
        for _ in range(DRAWN):
            word = "x" + "".join(draw.choice("abcdefgh/") for _ in range(draw.randrange(1, 20)))
            client.get(draw.choice(["/", "/subjects/", "/subjects/s/versions/", "/schemas/ids/"]) + word)
    found = requests_of(scrape(f"{metrics}/metrics"))
    assert sum(found.values()) == DRAWN
    assert len(found) < 40
    assert all(route == "unmatched" or "{" in route or len(route) < 20 for route, _, _ in found)


def test_keys_are_a_state_of_their_own_once_they_are_asked_for(start: Start, unique_name: str) -> None:
    service, metrics = start("registry", {"dek.registry.topic": f"_{unique_name}-keys"})
    assert sample(scrape(f"{metrics}/metrics"), "ottla_registry_keks") is None
    for number in range(2):
        kek = {"name": f"k{number}", "kmsType": "local-kms", "kmsKeyId": "any"}
        answer = httpx.post(f"{service.url}/dek-registry/v1/keks", json=kek, timeout=30)
        assert answer.status_code == 200, answer.text
    text = scrape(f"{metrics}/metrics")
    assert (sample(text, "ottla_registry_keks"), sample(text, "ottla_registry_deks")) == (2, 0)
    topics = {(f"_{unique_name}",), (f"_{unique_name}-keys",)}
    assert by_labels(text, "ottla_replicated_lag", "topic") == dict.fromkeys(topics, 0)
    written = by_labels(text, "ottla_replicated_written_records_total", "topic")
    assert written[f"_{unique_name}-keys",] == 2


def test_a_fenced_primary_counts_it_and_goes_on(start: Start, broker: OttlaBroker, unique_name: str) -> None:
    service, metrics = start("registry")
    assert register(service.url, "s", avro(0)).status_code == 200
    rival = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{unique_name}-_{unique_name}-primary"}
    )
    rival.init_transactions(30)
    assert register(service.url, "s", avro(1)).status_code == 200
    text = scrape(f"{metrics}/metrics")
    writes = by_labels(text, "ottla_replicated_writes_total", "outcome")
    assert {key: value for key, value in writes.items() if value} == {("stored",): 2, ("fenced",): 1}
    assert sample(text, "ottla_replicated_takeovers_total", topic=f"_{unique_name}") == 2
    assert sample(text, "ottla_replicated_write_duration_seconds_count", topic=f"_{unique_name}") == 2


def test_a_registry_that_replays_is_not_ready_and_says_why(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, f"_{unique_name}", config={"cleanup.policy": "compact"})
    # A transaction that stays open: nobody reads beyond it, so the end of the topic is not reached.
    open_one = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": unique_name})
    open_one.init_transactions(30)
    open_one.begin_transaction()
    open_one.produce(topic, b"{}", b'{"keytype":"NOOP","magic":0}')
    assert open_one.flush(30) == 0
    port, metrics_port = free_port(), free_port()
    command = [sys.executable, "-m", "ottla", "registry", "--bootstrap", broker.bootstrap]
    command += ["--listen", f"127.0.0.1:{port}", "--metrics", f"127.0.0.1:{metrics_port}"]
    own = {"kafkastore.topic": topic, "schema.registry.group.id": unique_name, **QUICK}
    for name, value in own.items():
        command += ["--set", f"{name}={value}"]
    server = ServerProcess(command, "ottla registry ready", tmp_path / "registry.log")
    metrics = f"http://127.0.0.1:{metrics_port}"

    def replays() -> bool:
        try:
            text = scrape(f"{metrics}/metrics")
        except OSError:
            return False
        return sample(text, "ottla_replicated_takeovers_total", topic=topic) is not None and bool(
            by_labels(text, "ottla_replicated_end_offset", "topic")
        )

    server.launch()
    try:
        eventually(replays, "the registry replays", 30)
        status, found = checks(f"{metrics}/readyz")
        assert status == 503
        assert found["registry"] == ("failed", "it starts")
        state, reason = found["registry-topic"]
        assert state == "failed" and f"topic {topic} is being read: at offset " in reason
        assert sample(scrape(f"{metrics}/metrics"), "ottla_registry_ready") == 0
        assert get(f"{metrics}/healthz")[0] == 200
        open_one.abort_transaction(30)
        server.wait_until_ready()
        assert f"metrics at {metrics}/metrics" in server.ready_line
        status, found = checks(f"{metrics}/readyz")
        assert status == 200 and found["registry"][0] == "ok"
    finally:
        server.stop()


def test_a_rest_proxy_s_figures_are_those_of_its_load(
    start: Start, broker: OttlaBroker, unique_name: str
) -> None:
    service, metrics = start("rest")
    topic = create_topic(broker.bootstrap, unique_name)
    kind = {"content-type": "application/vnd.kafka.json.v2+json"}
    body = {"records": [{"value": number} for number in range(3)]}
    assert httpx.post(f"{service.url}/topics/{topic}", json=body, headers=kind).status_code == 200
    refused = {"records": [{"value": 1, "partition": 0}, {"value": 2}]}
    assert httpx.post(f"{service.url}/topics/{topic}", json=refused, headers=kind).status_code == 200
    clusters = httpx.get(f"{service.url}/v3/clusters").json()["data"]
    records = f"{service.url}/v3/clusters/{clusters[0]['cluster_id']}/topics/{topic}/records"
    for number in range(4):
        answer = httpx.post(records, json={"value": {"type": "JSON", "data": number}})
        assert answer.json()["error_code"] == 200, answer.text
    with Instance.make(service.url, unique_name, "json") as instance:
        instance.subscribe(topic)
        assert len(instance.read_records(9)) == 9
        live = scrape(f"{metrics}/metrics")
    eventually(
        lambda: (
            by_labels(scrape(f"{metrics}/metrics"), "ottla_rest_consumer_instances", "state")
            == {("live",): 0, ("leaving",): 0}
        ),
        "the instance has left",
        20,
    )
    text = scrape(f"{metrics}/metrics")

    assert by_labels(text, "ottla_rest_records_produced_total", "api") == {("v2",): 5, ("v3",): 4}
    assert by_labels(text, "ottla_rest_records_failed_total", "api") == {("v2",): 0, ("v3",): 0}
    assert by_labels(live, "ottla_rest_consumer_instances", "state") == {("live",): 1, ("leaving",): 0}
    assert sample(text, "ottla_rest_consumer_instances_made_total") == 1
    assert sample(text, "ottla_rest_records_consumed_total") == 9
    assert sample(text, "ottla_rest_records_waiting") == 0
    assert sample(text, "ottla_rest_work_bytes") == 0
    assert sample(text, "ottla_rest_producers") == 1
    found = requests_of(text)
    assert found["/topics/{topic}", "POST", "200"] == 2
    assert found["/v3/clusters/{cluster_id}/topics/{topic}/records", "POST", "200"] == 4
    reads = found["/consumers/{group}/instances/{instance}/records", "GET", "200"]
    assert sample(text, "ottla_rest_consumer_reads_total") == reads
    assert sample(text, "kafka_rest_jersey_metrics_request_total") == sum(found.values())
    assert checks(f"{metrics}/readyz")[1]["rest-cluster"] == (
        "ok",
        f"the broker at {broker.bootstrap} answers",
    )


def test_a_rest_proxy_without_a_cluster_is_not_ready(tmp_path: Path) -> None:
    port, metrics_port = free_port(), free_port()
    nowhere = f"127.0.0.1:{free_port()}"
    settings = {"ottla.metrics.listen": f"127.0.0.1:{metrics_port}"}
    with ServiceProcess.start("rest", nowhere, tmp_path, settings, port):
        status, found = checks(f"http://127.0.0.1:{metrics_port}/readyz")
        assert status == 503 and found["rest"][0] == "ok"
        state, reason = found["rest-cluster"]
        assert state == "failed" and nowhere in reason


def test_an_endpoint_that_anybody_reaches_is_refused(broker: OttlaBroker, tmp_path: Path) -> None:
    settings = {"ottla.metrics.listen": f"0.0.0.0:{free_port()}"}
    with (
        pytest.raises(ServerError, match=r"ottla\.metrics\.users\.file"),
        ServiceProcess.start("registry", broker.bootstrap, tmp_path, settings),
    ):
        pass
