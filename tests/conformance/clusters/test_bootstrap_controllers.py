"""Kafka's tools that talk to the controllers themselves, past the brokers (KIP-919)."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from support.java.java_tools import run_java
from support.servers.clusters import ClusterPlan, NodeCluster, separate

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(300)]

StartNodes = Callable[[ClusterPlan], AbstractContextManager[NodeCluster]]


def controller_tool(cluster: NodeCluster, name: str, *arguments: str, command: str | None = None) -> str:
    """Run one of Kafka's tools, or a command of it, against the controllers; its output."""
    commands = () if command is None else (command,)
    done = run_java(name, *commands, "--bootstrap-controller", cluster.controller_bootstrap, *arguments)
    assert done.returncode == 0, f"{name} {arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_controllers_are_administered_without_brokers(
    start_nodes: StartNodes, unique_name: str, tmp_path: Path
) -> None:
    settings = {"default.replication.factor": "1"}
    with start_nodes(ClusterPlan(separate(3, 1), settings)) as cluster:
        active = cluster.active_controller()
        other = next(node.node_id for node in cluster.controllers if node.node_id != active)
        features = controller_tool(cluster, "org.apache.kafka.tools.FeatureCommand", "describe")
        # 4.4-IV2, to a tool of 4.3
        assert re.search(r"Feature: metadata.version\s.*FinalizedVersionLevel: UNKNOWN 33", features)
        told = controller_tool(
            cluster,
            "kafka.admin.ConfigCommand",
            *("--describe", "--all", "--entity-type", "brokers", "--entity-name", str(other)),
        )
        assert f"node.id={other} " in told
        # when: a value of all nodes is changed at the controllers, and a topic's
        controller_tool(
            cluster,
            "kafka.admin.ConfigCommand",
            *("--alter", "--entity-type", "brokers", "--entity-default"),
            *("--add-config", "log.cleaner.threads=2"),
        )
        topic = cluster.create_topic(unique_name, 1, 1)
        controller_tool(
            cluster,
            "kafka.admin.ConfigCommand",
            *("--alter", "--entity-type", "topics", "--entity-name", topic),
            *("--add-config", "retention.ms=12345"),
        )
        # then: the broker says so (the tool asks no controller about topics)
        described = run_java(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", cluster.bootstrap),
            *("--describe", "--entity-type", "topics", "--entity-name", topic),
        )
        assert "retention.ms=12345 " in described.stdout, described.stderr
        # when: the broker goes for good
        cluster.stop(1)
        controller_tool(cluster, "org.apache.kafka.tools.ClusterTool", "--id", "1", command="unregister")
        # then
        endpoints = controller_tool(cluster, "org.apache.kafka.tools.ClusterTool", command="list-endpoints")
        for node in cluster.controllers:
            assert re.search(
                rf"^{node.node_id}\s+127\.0\.0\.1\s+{node.controller_port}\s", endpoints, re.MULTILINE
            )
