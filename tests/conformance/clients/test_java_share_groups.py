"""Apache Kafka's programs for share groups: kafka-share-groups.sh and kafka-console-share-consumer.sh."""

from __future__ import annotations

import pytest

from support.clients.confluent import create_topic, eventually, produce
from support.java.java_tools import java_process, run_java
from support.servers.cluster import Cluster

pytestmark = pytest.mark.java

GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"


def tool(cluster: Cluster, main_class: str, *arguments: str) -> str:
    """Run a tool against the cluster and return what it printed; it must succeed."""
    done = run_java(main_class, "--bootstrap-server", cluster.bootstrap, *arguments)
    assert done.returncode == 0, f"{main_class} {arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def rows(table: str) -> list[list[str]]:
    """The rows of a printed table, without empty lines and the heading."""
    return [line.split() for line in table.splitlines() if line.strip()][1:]


def set_group_config(cluster: Cluster, group: str, setting: str) -> None:
    alter = ("--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", setting)
    tool(cluster, CONFIG_COMMAND, *alter)


def test_a_share_group_from_its_first_record_to_its_end(cluster: Cluster, unique_name: str) -> None:
    # given
    topic = group = unique_name
    create_topic(cluster.bootstrap, topic, partitions=2)
    values = [{"value": f"value {number}", "partition": number % 2} for number in range(10)]
    produce(cluster.bootstrap, topic, values)
    set_group_config(cluster, group, "share.auto.offset.reset=earliest,share.assignment.interval.ms=0")
    consume = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group", group)
    with java_process(CONSOLE_CONSUMER, *consume) as consumer:
        # when
        assert consumer.stdout is not None
        lines = sorted(consumer.stdout.readline().strip() for _ in range(10))
        # then
        assert lines == sorted(f"value {number}" for number in range(10))
        assert group in tool(cluster, GROUP_COMMAND, "--list").split()
        (state,) = rows(tool(cluster, GROUP_COMMAND, "--describe", "--group", group, "--state"))
        assert state[0] == group
        assert state[-2:] == ["Stable", "1"]
        (member,) = rows(tool(cluster, GROUP_COMMAND, "--describe", "--group", group, "--members"))
        assert member[-1] == f"{topic}:0,1"
        refused = run_java(
            GROUP_COMMAND, "--bootstrap-server", cluster.bootstrap, "--delete", "--group", group
        )
        assert "not EMPTY" in refused.stdout + refused.stderr

    # when: the consumer has left
    def is_empty() -> bool:
        described = rows(tool(cluster, GROUP_COMMAND, "--describe", "--group", group, "--state"))
        return described[0][-2:] == ["Empty", "0"]

    eventually(is_empty, "the group is empty")
    offsets = rows(tool(cluster, GROUP_COMMAND, "--describe", "--group", group))
    # then: everything was acknowledged
    assert [row[:3] for row in offsets] == [[group, topic, "0"], [group, topic, "1"]]
    assert all(row[4] == "0" for row in offsets)
    # when
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    tool(cluster, GROUP_COMMAND, *reset)
    # then
    offsets = rows(tool(cluster, GROUP_COMMAND, "--describe", "--group", group))
    assert [row[3] for row in offsets] == ["0", "0"]
    assert sum(int(row[4]) for row in offsets) == 10
    # when
    deleted = tool(cluster, GROUP_COMMAND, "--delete-offsets", "--group", group, "--topic", topic)
    # then
    assert rows(deleted) == [[topic, "Successful"]]
    # when
    deleted = tool(cluster, GROUP_COMMAND, "--delete", "--group", group)
    # then
    assert "successful" in deleted
    assert group not in tool(cluster, GROUP_COMMAND, "--list").split()
