"""Metrics that real clients push (KIP-714), and the answers to wrong requests, on ottla and on Apache Kafka.

Kafka takes such metrics only with a plugin (TelemetryReceiver.java), which throws them away; so whether they
arrive is tested on ottla alone, and the answers on both.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec, compress
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from ottla.protocol.messages.push_telemetry_request import PushTelemetryRequest
from support.clients.confluent import create_topic, eventually
from support.clients.wire import WireClient
from support.java.java_tools import compile_java, java_process, kafka_classpath, run_java
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import Cluster
from support.servers.ottla_broker import OttlaBroker
from support.telemetry.collector import Collector, running_collector, texts

JAVA = Path(__file__).parents[2] / "support" / "java"
TOOLS = "org.apache.kafka.tools"
KEYS = {int(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS), int(ApiKey.PUSH_TELEMETRY)}
MAX_BYTES = 2_000
CLIENT_METRICS = 16


@contextmanager
def telemetry_cluster(
    kind: str, directory: Path, collector: Collector, **given: str
) -> Iterator[OttlaBroker | ApacheKafka]:
    """A broker of its own that takes clients' metrics. given: settings, with `_` for every dot."""
    settings = {name.replace("_", "."): value for name, value in given.items()}
    if kind == "ottla":
        settings["ottla.telemetry.otlp.endpoint"] = collector.url
        with OttlaBroker.start(directory / "own", settings=settings) as ottla:
            yield ottla
        return
    class_path = compile_java([JAVA / "TelemetryReceiver.java"], kafka_classpath(), directory / "classes")
    settings["metric.reporters"] = "TelemetryReceiver"
    with ApacheKafka.start(directory / "own", settings=settings, class_path=class_path) as kafka:
        yield kafka


def client_metrics(bootstrap: str, *words: str, fails: bool = False) -> str:
    """Run Kafka's kafka-client-metrics."""
    done = run_java(f"{TOOLS}.ClientMetricsCommand", "--bootstrap-server", bootstrap, *words)
    assert (done.returncode != 0) == fails, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout + (done.stderr if fails else "")


def summed(collector: Collector, name: str) -> float:
    """The sum of all that clients have pushed under a name, for each client as a whole."""
    return sum(
        float(point.as_int or point.as_double)
        for resource in collector.metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == name
        for point in metric.sum.data_points
        if not point.attributes
    )


@pytest.mark.java
def test_kafkas_tools_manage_subscriptions(cluster: Cluster, unique_name: str) -> None:
    bootstrap = cluster.bootstrap
    words = ("--metrics", "org.apache.kafka.producer.", "--interval", "5000", "--match", "client_id=app.*")
    assert unique_name in client_metrics(bootstrap, "--alter", "--name", unique_name, *words)
    eventually(lambda: unique_name in client_metrics(bootstrap, "--list").split(), "it is listed")
    described = client_metrics(bootstrap, "--describe", "--name", unique_name)
    assert "interval.ms=5000" in described
    assert "metrics=org.apache.kafka.producer." in described
    assert "match=client_id=app.*" in described
    refused = client_metrics(
        bootstrap, "--alter", "--name", unique_name, "--match", "client_id=(", fails=True
    )
    assert "Illegal client matching pattern: client_id=(" in refused
    done = run_java(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", bootstrap, "--describe"),
        *("--entity-type", "client-metrics", "--entity-name", unique_name),
    )
    assert "interval.ms=5000" in done.stdout, done.stderr
    with WireClient.connect(bootstrap) as wire:
        for version in (0, 1):
            told = wire.call(ListConfigResourcesRequest(), version)
            assert unique_name in {
                each.resource_name
                for each in told.config_resources
                if version == 0 or each.resource_type == CLIENT_METRICS
            }
    client_metrics(bootstrap, "--delete", "--name", unique_name)
    eventually(lambda: unique_name not in client_metrics(bootstrap, "--list").split(), "it is gone")


@pytest.mark.java
def test_java_clients_push_by_themselves(tmp_path: Path, unique_name: str) -> None:
    with running_collector() as collector, telemetry_cluster("ottla", tmp_path, collector) as broker:
        metrics = ("org.apache.kafka.producer.record.send", "org.apache.kafka.consumer.fetch.manager.records")
        words = ("--alter", "--name", "all", "--interval", "100", "--match", "client_software_name=.*java")
        client_metrics(broker.bootstrap, *words, "--metrics", ",".join(metrics))
        topic = create_topic(broker.bootstrap, unique_name)
        server = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
        with (
            java_process(f"{TOOLS}.ConsoleProducer", *server) as producer,
            java_process(f"{TOOLS}.consumer.ConsoleConsumer", *server, "--from-beginning"),
        ):
            assert producer.stdin is not None
            print("one", "two", "three", sep="\n", file=producer.stdin, flush=True)
            # What Java calls record-send-total and records-consumed-total; differences since the last push.
            sent, consumed = (f"{metrics[0]}.total", f"{metrics[1]}.consumed.total")
            collector.wait_for(lambda: summed(collector, sent) == 3 == summed(collector, consumed))
        for resource in collector.metrics:
            attributes = texts(resource.resource.attributes)
            assert attributes["client_software_name"] == "apache-kafka-java"
            assert attributes["client_id"] in ("console-producer", "console-consumer")
            names = {metric.name for scope in resource.scope_metrics for metric in scope.metrics}
            assert all(name.startswith(metrics) for name in names), names


def test_librdkafka_pushes_by_itself(tmp_path: Path, unique_name: str) -> None:
    with running_collector() as collector, telemetry_cluster("ottla", tmp_path, collector) as broker:
        config = {"bootstrap.servers": broker.bootstrap, "client.id": unique_name}
        with WireClient.connect(broker.bootstrap) as wire:
            from ottla.protocol.messages import incremental_alter_configs_request as alter

            values = {"metrics": "*", "interval.ms": "100", "match": f"client_id={unique_name}"}
            resource = alter.AlterConfigsResource(
                resource_type=CLIENT_METRICS,
                resource_name="librdkafka",
                configs=[
                    alter.AlterableConfig(name=name, config_operation=0, value=value)
                    for name, value in values.items()
                ],
            )
            told = wire.call(alter.IncrementalAlterConfigsRequest(resources=[resource]))
            assert [each.error_code for each in told.responses] == [0]
        topic = create_topic(broker.bootstrap, unique_name)
        producer = Producer(config)
        consumer = Consumer({**config, "group.id": unique_name, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        pushed: set[str] = set()

        def both_pushed() -> bool:
            producer.produce(topic, b"value")
            producer.poll(0.05)
            consumer.poll(0.05)
            for resource in list(collector.metrics):
                assert texts(resource.resource.attributes)["client_software_name"] == "confluent-kafka-python"
                for scope in resource.scope_metrics:
                    pushed.update(metric.name for metric in scope.metrics)
            return any(".producer." in name for name in pushed) and any(
                ".consumer." in name for name in pushed
            )

        eventually(both_pushed, "producer and consumer have pushed")
        producer.flush(5)
        consumer.close()


def some_metrics(padding: int = 0) -> bytes:
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="m" + "x" * padding)
    metric.gauge.data_points.add(as_double=1.0)
    return data.SerializeToString()


@pytest.mark.java
def test_wrong_requests_get_kafkas_answers(cluster_kind: str, tmp_path: Path) -> None:
    with (
        running_collector() as collector,
        telemetry_cluster(cluster_kind, tmp_path, collector, telemetry_max_bytes=str(MAX_BYTES)) as broker,
        WireClient.connect(broker.bootstrap) as wire,
    ):
        versions = wire.call(ApiVersionsRequest(client_software_name="wire", client_software_version="1"), 4)
        assert {each.api_key for each in versions.api_keys} >= KEYS

        def get(instance_id: uuid.UUID = uuid.UUID(int=0)) -> Any:  # noqa: B008
            return wire.call(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id))

        def push(of: Any, metrics: bytes = b"", **fields: Any) -> ErrorCode:
            request = PushTelemetryRequest(
                **{
                    "client_instance_id": of.client_instance_id,
                    "subscription_id": of.subscription_id,
                    "metrics": metrics,
                    **fields,
                }
            )
            told = wire.call(request)
            assert told.throttle_time_ms == 0
            return ErrorCode(told.error_code)

        told = get()
        assert (told.error_code, told.push_interval_ms, told.requested_metrics) == (0, 300_000, [])
        assert told.accepted_compression_types == [4, 3, 1, 2]
        assert (told.telemetry_max_bytes, told.delta_temporality) == (MAX_BYTES, True)
        assert get(told.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert push(told, some_metrics()) is ErrorCode.NONE
        assert push(told, some_metrics()) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert push(told, some_metrics(), terminating=True) is ErrorCode.NONE
        assert push(told, some_metrics(), terminating=True) is ErrorCode.INVALID_REQUEST
        assert push(get(), client_instance_id=uuid.UUID(int=1)) is ErrorCode.INVALID_REQUEST
        assert push(get(), subscription_id=1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        assert push(get(), compression_type=5) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert push(get(), bytes(MAX_BYTES + 1)) is ErrorCode.TELEMETRY_TOO_LARGE
        assert push(get(), b"\xff" * 9) is ErrorCode.INVALID_RECORD
        for codec in Codec:
            folded = compress(codec, some_metrics())
            assert push(get(), folded, compression_type=int(codec)) is ErrorCode.NONE, codec
        bomb = compress(Codec.ZSTD, some_metrics(MAX_BYTES))
        # In 4.4.0 Kafka silences the client for good (KAFKA-21076).
        expected = ErrorCode.TELEMETRY_TOO_LARGE if cluster_kind == "ottla" else ErrorCode.INVALID_RECORD
        assert push(get(), bomb, compression_type=int(Codec.ZSTD)) is expected


def test_without_a_receiver_the_apis_are_not_advertised_and_answered(cluster: Cluster) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        versions = wire.call(ApiVersionsRequest(client_software_name="wire", client_software_version="1"), 4)
        assert not {each.api_key for each in versions.api_keys} & KEYS
        told = wire.call(GetTelemetrySubscriptionsRequest())
        assert told.error_code == 0
        request = PushTelemetryRequest(
            client_instance_id=told.client_instance_id, subscription_id=told.subscription_id, metrics=b"\xff"
        )
        assert wire.call(request).error_code == 0
