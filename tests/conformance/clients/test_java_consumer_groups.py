"""Java clients with the consumer protocol: the console consumer and kafka-consumer-groups.sh."""

from __future__ import annotations

import re

import pytest

from support.clients.confluent import admin_client, create_topic, eventually, produce
from support.java.java_tools import java_process, run_java
from support.servers.cluster import Cluster

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools"


def groups(cluster: Cluster, *arguments: str) -> str:
    """The output of ConsumerGroupCommand, which must succeed."""
    done = run_java(
        f"{TOOLS}.consumer.group.ConsumerGroupCommand", "--bootstrap-server", cluster.bootstrap, *arguments
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_console_consumer_and_group_command(cluster: Cluster, unique_name: str) -> None:
    # given: a topic with records and a console consumer of the new protocol
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    produce(cluster.bootstrap, topic, [{"value": f"v{n}", "partition": n % 2} for n in range(10)])
    with java_process(
        f"{TOOLS}.consumer.ConsoleConsumer",
        "--bootstrap-server",
        cluster.bootstrap,
        "--topic",
        topic,
        "--group",
        unique_name,
        "--from-beginning",
        "--command-property",
        "group.protocol=consumer",
        "--command-property",
        "auto.commit.interval.ms=200",
    ) as console:
        assert console.stdout is not None
        read = sorted(console.stdout.readline().strip() for _ in range(10))
        assert read == sorted(f"v{n}" for n in range(10))

        # then: the command shows its lag, its members and its state
        def caught_up() -> bool:
            table = groups(cluster, "--describe", "--group", unique_name)
            return len(re.findall(rf"{unique_name} +{topic} +\d +5 +5 +0 +\S+ +/127.0.0.1", table)) == 2

        eventually(caught_up, "both partitions are read and committed", 40)
        members = groups(cluster, "--describe", "--members", "--verbose", "--group", unique_name)
        assert re.search(rf"{unique_name} .* 2 .*{topic}", members), members
        state = groups(cluster, "--describe", "--state", "--verbose", "--group", unique_name)
        assert re.search(r"uniform +Stable", state), state
        listed = groups(cluster, "--list", "--state", "--type", "consumer")
        assert re.search(rf"{unique_name} +Consumer +Stable", listed), listed
    # when: it has gone, its offsets are reset
    admin = admin_client(cluster.bootstrap)

    def is_empty() -> bool:
        described = admin.describe_consumer_groups([unique_name])[unique_name].result(20)
        return bool(described.state.name == "EMPTY")

    eventually(is_empty, "the group is empty", 60)
    reset = groups(
        cluster, "--reset-offsets", "--to-offset", "3", "--topic", topic, "--group", unique_name, "--execute"
    )
    assert len(re.findall(rf"{unique_name} +{topic} +\d +3", reset)) == 2, reset
    # and: it is deleted
    assert "was successful" in groups(cluster, "--delete", "--group", unique_name)
    assert unique_name not in groups(cluster, "--list")
