"""A caller's trace through both services: a request to the REST Proxy, and its questions to the registry."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import Consumer

from support.clients.confluent import create_topic, poll_messages
from support.rest.rest_api import RestApi
from support.servers.cluster import Cluster
from support.servers.services import ServiceProcess
from support.telemetry.collector import TakenSpan, running_collector

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}


def test_a_request_its_record_and_its_questions_to_the_registry_are_one_trace(
    cluster: Cluster, unique_name: str, tmp_path: Path
) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    with running_collector() as collector:
        traced = {"ottla.telemetry.otlp.endpoint": collector.url, "ottla.telemetry.traces.ratio": "0"}
        own = {"kafkastore.topic": f"{unique_name}-schemas", "schema.registry.group.id": unique_name}
        with (
            ServiceProcess.start("registry", cluster.bootstrap, tmp_path, {**traced, **own}) as registry,
            RestApi.start(
                cluster.bootstrap, tmp_path, {**traced, "schema.registry.url": registry.url}
            ) as rest,
        ):
            value = {"type": "AVRO", "schema": json.dumps(SCHEMA), "data": {"x": 1}}
            headers = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=1"}
            answer = rest.call("POST", f"/topics/{topic}/records", {"value": value}, headers=headers)
            assert answer.json()["error_code"] == 200, answer.text
            rest.get("/topics")
        # The services have ended, and sent all they had.
        spans: dict[str, list[TakenSpan]] = {}
        for each in collector.spans:
            spans.setdefault(each.service, []).append(each)
        assert set(spans) == {"ottla-rest", "ottla-registry"}
        # None of the traces that began here is recorded, as the ratio says.
        assert {each.trace_id for each in collector.spans} == {TRACE}
        (request,) = spans["ottla-rest"]
        assert request.span.parent_span_id.hex() == CALLER
        assert {each.span.parent_span_id for each in spans["ottla-registry"]} == {request.span.span_id}
        assert f"/subjects/{topic}-value/versions" in {
            each.attributes["url.path"] for each in spans["ottla-registry"]
        }
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": unique_name, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    (message,) = poll_messages(consumer, 1)
    consumer.close()
    assert message.headers() == [
        ("traceparent", f"00-{TRACE}-{request.span.span_id.hex()}-01".encode()),
        ("tracestate", b"vendor=1"),
    ]
