"""Metrics that clients push to a broker: advertised, admitted, unfolded, sent on to a collector."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.broker import Broker, StartError
from ottla.broker.config import BrokerConfig
from ottla.config.errors import UserError
from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec, compress
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.push_telemetry_request import PushTelemetryRequest
from support.nodes.in_process import RawClient, running_broker, until
from support.servers.cluster import free_port
from support.telemetry.collector import Collector, running_collector, texts

KEYS = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
NEW = uuid.UUID(int=0)
MAX_BYTES = 5_000
INTERVAL_MS = 100


async def connected(broker: Broker) -> RawClient:
    return RawClient(*await asyncio.open_connection("127.0.0.1", broker.port))


async def advertised(client: RawClient) -> set[int]:
    request = ApiVersionsRequest(client_software_name="test-client", client_software_version="1.2")
    answer: Any = await client.call(ApiKey.API_VERSIONS, 4, request)
    return {each.api_key for each in answer.api_keys}


async def subscribe(client: RawClient, name: str = "all", **values: str) -> None:
    """Set a client metrics resource."""
    resource = AlterConfigsResource(
        resource_type=16,
        resource_name=name,
        configs=[
            AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in values.items()
        ],
    )
    answer: Any = await client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=[resource])
    )
    assert [each.error_code for each in answer.responses] == [0], answer


async def get(client: RawClient, instance_id: uuid.UUID = NEW) -> Any:
    request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
    return await client.call(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, request)


async def push(client: RawClient, told: Any, metrics: bytes, codec: int = 0, **fields: Any) -> int:
    request = PushTelemetryRequest(
        client_instance_id=told.client_instance_id,
        subscription_id=told.subscription_id,
        compression_type=codec,
        metrics=metrics,
        **fields,
    )
    answer: Any = await client.call(ApiKey.PUSH_TELEMETRY, 0, request)
    return int(answer.error_code)


def some_metrics(value: float = 1.0, padding: int = 0) -> bytes:
    data = MetricsData()
    resource = data.resource_metrics.add()
    resource.resource.attributes.add(key="client_id").value.string_value = "somebody else"
    metric = resource.scope_metrics.add().metrics.add(name="org.apache.kafka.x" + "x" * padding)
    metric.gauge.data_points.add(as_double=value)
    return data.SerializeToString()


def settings(collector: Collector) -> dict[str, str]:
    return {"ottla.telemetry.otlp.endpoint": collector.url, "telemetry.max.bytes": str(MAX_BYTES)}


def test_the_apis_are_advertised_only_where_metrics_go_somewhere(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_broker(tmp_path / "without") as broker:
            client = await connected(broker)
            assert not await advertised(client) & KEYS
            # As in Kafka, a client that does not look gets an answer, and its metrics go nowhere.
            told = await get(client)
            assert told.error_code == 0
            assert await push(client, told, b"no metrics") == 0
        with running_collector() as collector:
            async with running_broker(tmp_path / "with", settings(collector)) as broker:
                assert await advertised(await connected(broker)) >= KEYS

    asyncio.run(run())


@pytest.mark.parametrize("codec", [*Codec])
def test_pushed_metrics_reach_the_collector_with_their_client(tmp_path: Path, codec: Codec) -> None:
    async def run(collector: Collector) -> None:
        async with running_broker(tmp_path, settings(collector)) as broker:
            client = await connected(broker)
            await advertised(client)
            await subscribe(client, metrics="*", interval_ms=str(INTERVAL_MS))
            told = await get(client)
            assert (told.requested_metrics, told.push_interval_ms) == (["*"], INTERVAL_MS)
            assert (told.telemetry_max_bytes, told.delta_temporality) == (MAX_BYTES, True)
            assert told.accepted_compression_types == [4, 3, 1, 2]
            assert await push(client, told, compress(codec, some_metrics()), codec) == 0
            (found,) = await asyncio.to_thread(collector.wait_for, lambda: collector.metrics)
            attributes = texts(found.resource.attributes)
            assert attributes.pop("client_source_port").isdecimal()
            assert len(attributes.pop("client_instance_id")) == 22
            assert attributes == {
                "client_id": "test",
                "client_software_name": "test-client",
                "client_software_version": "1.2",
                "client_source_address": "127.0.0.1",
                "principal": "User:ANONYMOUS",
                "broker_id": "1",
            }
            assert found.scope_metrics[0].metrics[0].gauge.data_points[0].as_double == 1.0

    with running_collector() as collector:
        asyncio.run(run(collector))


def test_payloads_that_can_not_be_used_are_told_apart(tmp_path: Path) -> None:
    async def run(collector: Collector) -> None:
        async with running_broker(tmp_path, settings(collector)) as broker:
            client = await connected(broker)
            for metrics, codec, expected in (
                (b"\xff" * 10, Codec.NONE, ErrorCode.INVALID_RECORD),
                (b"no gzip", Codec.GZIP, ErrorCode.INVALID_RECORD),
                (bytes(MAX_BYTES + 1), Codec.NONE, ErrorCode.TELEMETRY_TOO_LARGE),
                # Kafka 4.4.0 says INVALID_RECORD, and a Java client never pushes again (KAFKA-21076).
                (
                    compress(Codec.ZSTD, some_metrics(padding=MAX_BYTES)),
                    Codec.ZSTD,
                    ErrorCode.TELEMETRY_TOO_LARGE,
                ),
                (some_metrics(), 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
                (b"", Codec.NONE, ErrorCode.NONE),
            ):
                assert await push(client, await get(client), metrics, codec) == expected, expected.name
            assert broker.telemetry.instances.counts.refused_payloads == 3

    with running_collector() as collector:
        asyncio.run(run(collector))


def test_a_changed_subscription_is_told_at_once_and_closed_connections_forget_instances(
    tmp_path: Path,
) -> None:
    async def run(collector: Collector) -> None:
        async with running_broker(tmp_path, settings(collector)) as broker:
            client, admin = await connected(broker), await connected(broker)
            told = await get(client)
            assert told.requested_metrics == []
            assert (
                await get(client, told.client_instance_id)
            ).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            await subscribe(admin, metrics="a.", match="client_id=te.*", interval_ms="1000")
            again = await get(client, told.client_instance_id)
            assert again.requested_metrics == ["a."]
            assert again.subscription_id != told.subscription_id
            await subscribe(admin, "other", metrics="b.", match="client_source_port=1")
            assert (await get(client, told.client_instance_id)).requested_metrics == ["a."]
            client.close()
            await until(lambda: len(broker.telemetry.instances) == 0)

    with running_collector() as collector:
        asyncio.run(run(collector))


def test_series_of_clients_are_scraped_where_they_are_asked_for(tmp_path: Path) -> None:
    async def run() -> None:
        port = free_port()
        given = {"ottla.metrics.listen": f"127.0.0.1:{port}", "ottla.telemetry.client.series.max": "1"}
        async with running_broker(tmp_path, given) as broker:
            client = await connected(broker)
            assert await advertised(client) >= KEYS
            assert await push(client, await get(client), some_metrics(3.0)) == 0
            assert await push(client, await get(client), b"nothing") == ErrorCode.INVALID_RECORD
            with await asyncio.to_thread(urlopen, f"http://127.0.0.1:{port}/metrics") as answer:
                samples = {
                    sample.name: sample
                    for family in text_string_to_metric_families(answer.read().decode())
                    for sample in family.samples
                }
            assert samples["org_apache_kafka_x"].value == 3.0
            assert samples["org_apache_kafka_x"].labels["client_software_name"] == "test-client"
            assert samples["kafka_server_client_metrics_instance_count"].value == 2
            assert samples["kafka_server_client_metrics_plugin_export_count_total"].value == 1
            assert samples["kafka_server_client_metrics_plugin_error_count_total"].value == 1
            assert samples["ottla_client_telemetry_series"].value == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"ottla.telemetry.client.series.max": "5"}, "no ottla.metrics.listen"),
        ({"ottla.telemetry.otlp.endpoint": "collector:4318"}, "give the URL of a collector"),
        ({"ottla.telemetry.otlp.endpoint": "http://h:1", "ottla.telemetry.otlp.headers": "a"}, "header 1"),
        (
            {
                "ottla.telemetry.otlp.endpoint": "https://h:1",
                "ottla.telemetry.otlp.certificate": "/no/such.pem",
            },
            "/no/such.pem",
        ),
    ],
)
def test_a_collector_that_can_not_be_used_stops_the_start(
    tmp_path: Path, given: dict[str, str], expected: str
) -> None:
    async def run() -> None:
        values = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0", **given}
        await Broker.start(BrokerConfig.from_mapping(values), on_failure=lambda: None)

    with pytest.raises(UserError, match=expected):
        asyncio.run(run())


def test_a_missing_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.telemetry.client_telemetry.PACKAGE", "no_such_package.proto")

    async def run() -> None:
        values = {
            "log.dirs": str(tmp_path),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "ottla.telemetry.otlp.endpoint": "http://127.0.0.1:1",
        }
        await Broker.start(BrokerConfig.from_mapping(values), on_failure=lambda: None)

    with pytest.raises(StartError, match=r"pip install 'ottla\[telemetry\]'") as raised:
        asyncio.run(run())
    assert "\n" not in str(raised.value)
