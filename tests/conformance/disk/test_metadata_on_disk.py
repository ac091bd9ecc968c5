"""The metadata on disk is Kafka's: its tools read it, Apache Kafka takes it over and gives it back."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ottla.core.image.features import INITIAL_FEATURES
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from support.clients.wire import WireClient, batch, wait_for
from support.java.java_tools import run_java, tools_classpath
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

pytestmark = pytest.mark.java

METADATA = "__cluster_metadata-0"
TOPIC, BROKER = 2, 4
SNAPSHOT_OFTEN = {
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "metadata.max.retention.bytes": "1",
    "internal.metadata.delete.delay.millis": "0",
}


def dump(file: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """The output of DumpLogSegments for a file: whether each batch is valid, and the metadata records."""
    run = run_java(
        "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(file)
    )
    assert run.returncode == 0, run.stderr
    valid = re.findall(r"isvalid: (\w+)", run.stdout)
    records = [json.loads(each) for each in re.findall(r"payload: (\{.*\})", run.stdout)]
    return valid, records


def set_config(client: WireClient, resource_type: int, name: str, key: str, value: str) -> None:
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])
    answer = client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == ErrorCode.NONE


def config_of(client: WireClient, resource_type: int, name: str, key: str) -> str:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=[key]
    )
    answer = client.call(DescribeConfigsRequest(resources=[resource]))
    return str(answer.results[0].configs[0].value)


def quorum(client: WireClient) -> Any:
    asked = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    return client.call(DescribeQuorumRequest(topics=[asked])).topics[0].partitions[0]


def describe(client: WireClient, topic: str) -> tuple[object, list[tuple[int, int]]]:
    """The topic's id, and index and leader of its partitions."""
    (answer,) = client.topic_metadata(topic).topics
    return answer.topic_id, sorted((each.partition_index, each.leader_id) for each in answer.partitions)


def test_kafkas_tool_reads_the_log_and_the_snapshots(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker, WireClient.connect(broker.bootstrap) as client:
        client.create_topic("orders", partitions=2, config={"retention.ms": "86400000"})
        client.create_topic("clicks")
        set_config(client, BROKER, "", "log.retention.ms", "1000000")
        client.call(DeleteTopicsRequest(topic_names=["clicks"]), 5)
    valid, records = dump(tmp_path / "data" / METADATA / "00000000000000000000.log")
    assert set(valid) == {"true"}
    kinds = Counter(record["type"] for record in records)
    assert kinds == {
        "BEGIN_TRANSACTION_RECORD": 1,
        "FEATURE_LEVEL_RECORD": 6,
        "END_TRANSACTION_RECORD": 1,
        "REGISTER_CONTROLLER_RECORD": 1,
        "REGISTER_BROKER_RECORD": 1,
        "BROKER_REGISTRATION_CHANGE_RECORD": 3,
        "TOPIC_RECORD": 2,
        "PARTITION_RECORD": 3,
        "CONFIG_RECORD": 3,
        "REMOVE_TOPIC_RECORD": 1,
        "PARTITION_CHANGE_RECORD": 2,
    }
    for checkpoint in ("bootstrap.checkpoint", f"{METADATA}/00000000000000000000-0000000000.checkpoint"):
        assert set(dump(tmp_path / "data" / checkpoint)[0]) == {"true"}


def test_kafkas_tool_reads_a_snapshot_of_everything(tmp_path: Path) -> None:
    with (
        OttlaBroker.start(tmp_path / "data", settings=SNAPSHOT_OFTEN) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        for number in range(40):
            client.create_topic(f"topic-{number}", config={"retention.ms": "5000"})
    directory = tmp_path / "data" / METADATA
    (snapshot,) = directory.glob("*.checkpoint")
    valid, records = dump(snapshot)
    assert set(valid) == {"true"}
    kinds = Counter(record["type"] for record in records)
    assert kinds["TOPIC_RECORD"] == kinds["PARTITION_RECORD"] >= 20
    assert kinds["REGISTER_BROKER_RECORD"] == 1
    assert kinds["FEATURE_LEVEL_RECORD"] == 6


def finalized(client: WireClient) -> dict[str, int]:
    asked = ApiVersionsRequest(client_software_name="wire", client_software_version="1.0")
    return {each.name: each.max_version_level for each in client.call(asked, 4).finalized_features}


@pytest.mark.long
def test_a_directory_of_kafka_4_3_keeps_its_features_until_they_are_upgraded(tmp_path: Path) -> None:
    def of_4_3() -> AbstractContextManager[ApacheKafka]:
        return ApacheKafka.start(tmp_path, class_path=tools_classpath())

    # given
    with of_4_3() as kafka, WireClient.connect(kafka.bootstrap) as client:
        before = finalized(client)
        assert before["metadata.version"] == 30
        client.create_topic("orders", partitions=2)
        topic_id = client.topic_id("orders")
    # when: ottla takes it over
    with OttlaBroker.start(tmp_path / "logs") as broker, WireClient.connect(broker.bootstrap) as client:
        assert finalized(client) == before
        assert describe(client, "orders") == (topic_id, [(0, 1), (1, 1)])
        refused = client.call(UnregisterControllerRequest(controller_id=7))
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        client.create_topic("clicks")
    # then: 4.3 reads all that it wrote
    with of_4_3() as kafka, WireClient.connect(kafka.bootstrap) as client:
        wait_for(lambda: describe(client, "clicks")[1] == [(0, 1)])
        assert finalized(client) == before
    # when: what `kafka-features upgrade --release-version 4.4` asks for
    levels = dict(INITIAL_FEATURES)
    with OttlaBroker.start(tmp_path / "logs") as broker, WireClient.connect(broker.bootstrap) as client:
        updates = [
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=1)
            for name, level in levels.items()
        ]
        answer = client.call(UpdateFeaturesRequest(feature_updates=updates))
        assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
        wait_for(lambda: finalized(client) == {**before, **levels})
        gone = client.call(UnregisterControllerRequest(controller_id=7))
        assert gone.error_code == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
    with OttlaBroker.start(tmp_path / "logs") as broker, WireClient.connect(broker.bootstrap) as client:
        assert finalized(client) == {**before, **levels}
    # then: 4.4 goes on with it
    with ApacheKafka.start(tmp_path) as kafka, WireClient.connect(kafka.bootstrap) as client:
        wait_for(lambda: describe(client, "orders") == (topic_id, [(0, 1), (1, 1)]))
        assert finalized(client) == {**before, **levels}


@pytest.mark.slow
def test_apache_kafka_takes_over_a_directory_and_gives_it_back(tmp_path: Path) -> None:
    data = tmp_path / "logs"  # where ApacheKafka has it too
    with (
        OttlaBroker.start(data, settings=SNAPSHOT_OFTEN) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        for number in range(20):
            client.create_topic(f"topic-{number}")
        client.create_topic("orders", partitions=2, config={"retention.ms": "-1"})
        set_config(client, BROKER, "", "log.retention.ms", "123456789")
        assert client.produce("orders", 0, batch(5)).error_code == ErrorCode.NONE
        written, topic_id, epoch = client.read_batches("orders", 0), client.topic_id("orders"), quorum(client)

    with ApacheKafka.start(tmp_path) as kafka, WireClient.connect(kafka.bootstrap) as client:
        wait_for(lambda: describe(client, "orders") == (topic_id, [(0, 1), (1, 1)]))
        assert describe(client, "topic-7")[1] == [(0, 1)]
        assert config_of(client, TOPIC, "orders", "retention.ms") == "-1"
        assert config_of(client, BROKER, "1", "log.retention.ms") == "123456789"
        assert client.read_batches("orders", 0) == written
        assert quorum(client).leader_epoch > epoch.leader_epoch
        # Metadata names a leader a moment before its broker takes the partition up.
        wait_for(lambda: client.produce("orders", 0, batch(2)).base_offset == 5)
        client.create_topic("made-by-kafka", partitions=3)
        grown = CreatePartitionsTopic(name="orders", count=4, assignments=None)
        assert (
            client.call(CreatePartitionsRequest(topics=[grown], timeout_ms=10_000)).results[0].error_code
            == ErrorCode.NONE
        )
        set_config(client, TOPIC, "orders", "segment.ms", "777000")
        client.call(DeleteTopicsRequest(topic_names=["topic-0"], timeout_ms=10_000), 5)

    with OttlaBroker.start(data) as broker, WireClient.connect(broker.bootstrap) as client:
        assert describe(client, "orders") == (topic_id, [(0, 1), (1, 1), (2, 1), (3, 1)])
        assert describe(client, "made-by-kafka")[1] == [(0, 1), (1, 1), (2, 1)]
        names = {each.name for each in client.call(MetadataRequest(topics=None)).topics}
        assert "topic-0" not in names
        assert "topic-1" in names
        assert config_of(client, TOPIC, "orders", "segment.ms") == "777000"
        assert sum(header.record_count for header, _ in client.read_batches("orders", 0)) == 7
        assert client.produce("orders", 0, batch(1)).base_offset == 7
