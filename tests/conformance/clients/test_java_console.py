"""Apache Kafka's own command-line programs, kafka-*.sh, on the Java client."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from support.clients.confluent import create_topic, eventually, produce, read_all, topic_exists
from support.clients.wire import WireClient
from support.java.java_tools import java_process, run_java
from support.servers.cluster import Cluster

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools"
GROUP_COMMAND = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"


def tool(cluster: Cluster, name: str, *arguments: str, input: str = "", alone: bool = False) -> str:
    """Run a tool against the cluster and return what it printed; it must succeed."""
    main_class = name if "." in name else f"{TOOLS}.{name}"
    done = run_java(main_class, "--bootstrap-server", cluster.bootstrap, *arguments, input=input, alone=alone)
    assert done.returncode == 0, f"{name} {arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def failing_tool(cluster: Cluster, name: str, *arguments: str) -> str:
    main_class = name if "." in name else f"{TOOLS}.{name}"
    done = run_java(main_class, "--bootstrap-server", cluster.bootstrap, *arguments)
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


def rows(table: str) -> list[list[str]]:
    """The rows of a printed table, without empty lines and the heading."""
    return [line.split() for line in table.splitlines() if line.strip()][1:]


def test_topic_command(cluster: Cluster, unique_name: str) -> None:
    topic = unique_name
    # given
    create = ("--create", "--topic", topic, "--partitions", "2")
    assert "Created topic" in tool(cluster, "TopicCommand", *create, "--config", "retention.ms=60000")
    # then
    eventually(lambda: topic_exists(cluster.bootstrap, topic), "the topic is there")
    described = tool(cluster, "TopicCommand", "--describe", "--topic", topic)
    assert "PartitionCount: 2\tReplicationFactor: 1\tConfigs: " in described
    assert "retention.ms=60000" in described
    for partition in (0, 1):
        assert re.search(rf"Partition: {partition}\tLeader: (\d+)\tReplicas: \1\tIsr: \1\t", described)
    assert "already exists" in failing_tool(cluster, "TopicCommand", *create)
    # when
    tool(cluster, "TopicCommand", "--alter", "--topic", topic, "--partitions", "3")
    # then
    eventually(
        lambda: "PartitionCount: 3" in tool(cluster, "TopicCommand", "--describe", "--topic", topic), "three"
    )
    assert topic in tool(cluster, "TopicCommand", "--list").splitlines()
    # when
    tool(cluster, "TopicCommand", "--delete", "--topic", topic)
    # then
    eventually(lambda: not topic_exists(cluster.bootstrap, topic), "the topic is gone")
    assert "does not exist" in failing_tool(cluster, "TopicCommand", "--describe", "--topic", topic)


REPEATED = [pytest.param(codec, marks=pytest.mark.long) for codec in ("gzip", "snappy", "lz4")]


# Both brokers' files have batches of every codec in test_compaction_beside_kafka.py too.
@pytest.mark.parametrize("codec", ["none", "zstd", *REPEATED])
def test_console_producer_and_consumer(cluster: Cluster, unique_name: str, codec: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    lines = [f"h:{number}|key-{number}|value {number}" for number in range(300)]
    properties = ("parse.key=true", "key.separator=|", "parse.headers=true", "headers.delimiter=|")
    arguments = [argument for prop in properties for argument in ("--reader-property", prop)]
    tool(
        cluster,
        "ConsoleProducer",
        *("--topic", topic, "--compression-codec", codec, *arguments),
        input="".join(f"{line}\n" for line in lines),
    )
    printed = tool(
        cluster,
        CONSOLE_CONSUMER,
        *("--topic", topic, "--from-beginning", "--max-messages", "300"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"),
        *("--formatter-property", "key.separator=|", "--formatter-property", "headers.separator=,"),
    )
    assert printed.splitlines() == lines


def test_console_consumer_reads_later_records(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    arguments = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--from-beginning")
    with java_process(CONSOLE_CONSUMER, *arguments) as consumer:
        assert consumer.stdout is not None
        for number in range(3):
            produce(cluster.bootstrap, topic, [{"value": b"message %d" % number}])
            assert consumer.stdout.readline() == f"message {number}\n"


@pytest.mark.parametrize(
    "isolation", [pytest.param("read_uncommitted", marks=pytest.mark.long), "read_committed"]
)
def test_console_consumer_isolation_levels(cluster: Cluster, unique_name: str, isolation: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, ({"value": b"%d" % n} for n in range(5)), enable_idempotence=True)
    arguments = ("--topic", topic, "--from-beginning", "--max-messages", "5")
    printed = tool(cluster, CONSOLE_CONSUMER, *arguments, "--isolation-level", isolation)
    assert printed.splitlines() == ["0", "1", "2", "3", "4"]


def test_group_command(cluster: Cluster, unique_name: str) -> None:
    # given: a group that has read everything
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    group = f"{unique_name}-group"
    produce(cluster.bootstrap, topic, ({"value": b"%d" % n, "partition": n % 2} for n in range(10)))
    settings = ("--command-property", "auto.commit.interval.ms=100")
    arguments = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--from-beginning")
    with java_process(CONSOLE_CONSUMER, *arguments, "--group", group, *settings) as consumer:
        assert consumer.stdout is not None
        assert sorted(consumer.stdout.readline() for _ in range(10)) == [f"{n}\n" for n in range(10)]
        # then: it is described with its member
        state = tool(cluster, GROUP_COMMAND, "--describe", "--group", group, "--state")
        assert re.search(rf"^{group} .* range +Stable +1 *$", state, re.MULTILINE)
        members = tool(cluster, GROUP_COMMAND, "--describe", "--group", group, "--members", "--verbose")
        assert f"{topic}(0,1)" in members or f"{topic}:0,1" in members
        refused = failing_reset(cluster, group)
        assert "inactive" in refused
    # and without a member
    offsets = tool(cluster, GROUP_COMMAND, "--describe", "--group", group)
    assert [row[1:6] for row in rows(offsets)] == [[topic, "0", "5", "5", "0"], [topic, "1", "5", "5", "0"]]
    assert rows(tool(cluster, GROUP_COMMAND, "--list", "--state")).count([group, "Empty"]) == 1
    # when
    reset = ("--reset-offsets", "--group", group, "--topic", f"{topic}:1", "--execute")
    tool(cluster, GROUP_COMMAND, *reset, "--to-offset", "2")
    # then
    offsets = tool(cluster, GROUP_COMMAND, "--describe", "--group", group)
    assert [row[1:6] for row in rows(offsets)] == [[topic, "0", "5", "5", "0"], [topic, "1", "2", "5", "3"]]
    # when
    tool(cluster, GROUP_COMMAND, "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    offsets = tool(cluster, GROUP_COMMAND, "--describe", "--group", group)
    assert [row[1:6] for row in rows(offsets)] == [[topic, "1", "2", "5", "3"]]
    # when
    assert "was successful" in tool(cluster, GROUP_COMMAND, "--delete", "--group", group)
    # then
    assert group not in tool(cluster, GROUP_COMMAND, "--list").split()


def failing_reset(cluster: Cluster, group: str) -> str:
    arguments = ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute")
    done = run_java(GROUP_COMMAND, "--bootstrap-server", cluster.bootstrap, *arguments)
    return done.stdout + done.stderr


def test_config_command(cluster: Cluster, unique_name: str) -> None:
    command = "kafka.admin.ConfigCommand"
    topic = create_topic(cluster.bootstrap, unique_name)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    # when
    tool(
        cluster,
        command,
        *entity,
        "--alter",
        "--add-config",
        "retention.ms=1000,cleanup.policy=[compact,delete]",
    )
    # then
    described = tool(cluster, command, *entity, "--describe")
    assert "retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000" in described
    assert "cleanup.policy=compact,delete " in described
    assert "DEFAULT_CONFIG:log.cleanup.policy=delete}" in described
    # when
    tool(cluster, command, *entity, "--alter", "--delete-config", "retention.ms")
    # then
    assert "retention.ms" not in tool(cluster, command, *entity, "--describe")
    everything = tool(cluster, command, *entity, "--describe", "--all")
    assert "  retention.ms=604800000 sensitive=false synonyms={}" in everything
    assert "InvalidConfigurationException" in failing_tool(
        cluster, command, *entity, "--alter", "--add-config", "retention.ms=never"
    )


def test_broker_config_command(cluster: Cluster) -> None:
    command = "kafka.admin.ConfigCommand"
    default = ("--entity-type", "brokers", "--entity-default")
    tool(cluster, command, *default, "--alter", "--add-config", "log.cleaner.backoff.ms=15001")
    try:
        assert "log.cleaner.backoff.ms=15001" in tool(cluster, command, *default, "--describe")
    finally:
        tool(cluster, command, *default, "--alter", "--delete-config", "log.cleaner.backoff.ms")
    assert "log.cleaner.backoff.ms" not in tool(cluster, command, *default, "--describe")


def test_config_command_for_quotas(cluster: Cluster, unique_name: str) -> None:
    command = "kafka.admin.ConfigCommand"

    def describe(*entity: str) -> str:
        """The quotas; of a user alone the tool asks for SCRAM credentials too, which not every broker has."""
        return run_java(command, "--bootstrap-server", cluster.bootstrap, "--describe", *entity).stdout

    def shows(*entity: str, text: str) -> bool:
        return text in describe(*entity)

    user = ("--entity-type", "users", "--entity-name", unique_name)
    both = (*user, "--entity-type", "clients", "--entity-name", "app")
    any_client = (*user, "--entity-type", "clients", "--entity-default")
    address = ("--entity-type", "ips", "--entity-name", "203.0.113.9")
    quotas = "producer_byte_rate=1000000000,request_percentage=12345.5"
    # when
    assert "Completed updating config" in tool(cluster, command, *user, "--alter", "--add-config", quotas)
    tool(cluster, command, *both, "--alter", "--add-config", "consumer_byte_rate=2000000000")
    tool(cluster, command, *any_client, "--alter", "--add-config", "controller_mutation_rate=5000")
    tool(cluster, command, *address, "--alter", "--add-config", "connection_creation_rate=1000")
    # then
    eventually(lambda: shows(*address, text="connection_creation_rate=1000.0"), "all is there")
    described = describe(*user)
    assert f"Quota configs for user-principal '{unique_name}' are " in described
    assert "producer_byte_rate=1.0E9" in described and "request_percentage=12345.5" in described
    app = f"Quota configs for user-principal '{unique_name}', client-id 'app' are consumer_byte_rate=2.0E9"
    assert shows(*both, text=app)
    default = f"'{unique_name}', the default client-id are controller_mutation_rate=5000.0"
    assert shows(*any_client, text=default)
    assert shows(*user, "--entity-type", "clients", text=app)
    # when
    delete = ("--alter", "--delete-config")
    tool(cluster, command, *user, *delete, "producer_byte_rate,request_percentage")
    tool(cluster, command, *both, *delete, "consumer_byte_rate")
    tool(cluster, command, *any_client, *delete, "controller_mutation_rate")
    tool(cluster, command, *address, *delete, "connection_creation_rate")
    # then
    eventually(lambda: not shows(*address, text="connection_creation_rate"), "all is gone")
    assert describe(*user).strip() == ""
    refused = failing_tool(cluster, command, *user, "--alter", "--add-config", "producer_byte_rate=0")
    assert "InvalidRequestException" in refused
    unknown = ("--entity-type", "ips", "--entity-name", "no-such-host.invalid")
    add = ("--alter", "--add-config", "connection_creation_rate=1")
    assert "no-such-host.invalid" in failing_tool(cluster, command, *unknown, *add)


def test_offsets_records_and_log_directories(cluster: Cluster, unique_name: str, tmp_path: Path) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    produce(cluster.bootstrap, topic, ({"value": b"%d" % n, "partition": 0} for n in range(10)))
    assert tool(cluster, "GetOffsetShell", "--topic", topic) == f"{topic}:0:10\n{topic}:1:0\n"
    # when
    request = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}
    (tmp_path / "delete.json").write_text(json.dumps(request))
    printed = tool(cluster, "DeleteRecordsCommand", "--offset-json-file", str(tmp_path / "delete.json"))
    # then
    assert f"partition: {topic}-0\tlow_watermark: 4" in printed
    assert tool(cluster, "GetOffsetShell", "--topic", topic, "--time", "earliest").startswith(
        f"{topic}:0:4\n"
    )
    printed = tool(cluster, "LogDirsCommand", "--describe", "--topic-list", topic)
    (broker,) = json.loads(printed.splitlines()[-1])["brokers"]
    (log_dir,) = broker["logDirs"]
    assert log_dir["error"] is None
    sizes = {p["partition"]: p["size"] for p in log_dir["partitions"]}
    assert sizes.keys() == {f"{topic}-0", f"{topic}-1"}
    assert sizes[f"{topic}-0"] > 0
    assert sizes[f"{topic}-1"] == 0


def test_versions_features_and_cluster_id(cluster: Cluster) -> None:
    versions = tool(cluster, "BrokerApiVersionsCommand")
    assert f"{cluster.bootstrap} (id: " in versions
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", versions)
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", versions)
    assert re.search(r"ApiVersions\(18\): 0 to 5 \[usable: 4\]", versions)
    features = run_java(f"{TOOLS}.FeatureCommand", "--bootstrap-server", cluster.bootstrap, "describe").stdout
    assert "Feature: metadata.version" in features
    cluster_id = run_java(
        f"{TOOLS}.ClusterTool", "cluster-id", "--bootstrap-server", cluster.bootstrap
    ).stdout
    assert re.fullmatch(r"Cluster ID: \S{22}\n", cluster_id)


def test_performance_tools(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    printed = tool(
        cluster,
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", "acks=all", "--command-property", "compression.type=lz4"),
    )
    assert "20000 records sent" in printed
    printed = tool(cluster, "ConsumerPerformance", "--topic", topic, "--num-records", "20000")
    assert int(printed.splitlines()[-1].split(", ")[4]) >= 20000


def test_end_to_end_latency(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    arguments = ("--topic", topic, "--num-records", "200", "--producer-acks", "all", "--record-size", "100")
    assert "Percentiles" in tool(cluster, "EndToEndLatency", *arguments)


def test_verifiable_producer_and_consumer(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=3)
    arguments = ("--topic", topic, "--max-messages", "1000", "--acks", "-1")
    printed = tool(cluster, "VerifiableProducer", *arguments, alone=True)
    assert json.loads(printed.splitlines()[-1])["acked"] == 1000
    printed = tool(
        cluster,
        "VerifiableConsumer",
        *("--topic", topic, "--group-id", unique_name, "--max-messages", "1000"),
        *(
            "--reset-policy",
            "earliest",
            "--assignment-strategy",
            "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        ),
    )
    events = [json.loads(line) for line in printed.splitlines()]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 1000
    committed = [event for event in events if event["name"] == "offsets_committed"]
    assert all(event["success"] for event in committed)
    assert events[-1]["name"].startswith("shutdown_")


def test_client_compatibility(cluster: Cluster, unique_name: str) -> None:
    create_topic(cluster.bootstrap, unique_name)
    with WireClient.connect(cluster.bootstrap) as wire:
        request = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
        served = {api.api_key for api in wire.call(request, 3).api_keys}
    supported = {
        "offsets-for-times": True,
        "cluster-id": True,
        "create-topics": True,
        "describe-acls": ApiKey.DESCRIBE_ACLS in served,
        "describe-configs": True,
        "idempotent-producer": True,
    }
    arguments = [text for name, yes in supported.items() for text in (f"--{name}-supported", str(yes))]
    printed = tool(
        cluster,
        "ClientCompatibilityTest",
        *("--topic", unique_name, *arguments),
        *("--expect-record-too-large-exception", "False", "--num-cluster-nodes", "1"),
    )
    assert "success" in printed.lower() or printed == ""


def test_java_reads_batches_that_other_clients_compressed(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce(cluster.bootstrap, topic, [{"value": codec.encode() * 100}] * 3, compression_type=codec)
    arguments = ("--topic", topic, "--from-beginning", "--max-messages", "15")
    printed = tool(cluster, CONSOLE_CONSUMER, *arguments).splitlines()
    assert printed == [message.value().decode() for message in read_all(cluster.bootstrap, topic, 15)]
