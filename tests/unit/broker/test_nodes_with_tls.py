"""Nodes reach each other by TLS, and show certificates: brokers, controllers, voters of the quorum."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.broker.controller.topic_creation import create_topics
from ottla.protocol.messages.create_topics_request import CreatableTopic
from support.nodes.in_process_cluster import BOTH, BROKER, CONTROLLER, Nodes, nodes
from support.servers.tls_trial import Trial

SECURED = {
    "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
    "security.inter.broker.protocol": "SSL",
    "ssl.client.auth": "required",
}


def principals(cluster: Nodes) -> set[str]:
    """Those of the connections between nodes."""
    return {
        each.session.principal
        for node in cluster.running.values()
        for group in (node.server._clients, node.server._controllers)
        for each in group.connections
    }


@pytest.mark.parametrize(
    "roles",
    [{1: BOTH, 2: BOTH, 3: BOTH}, {1: BROKER, 2: BROKER, 101: CONTROLLER}],
    ids=["combined", "separate"],
)
def test_nodes_form_a_cluster_by_mutual_tls(tmp_path: Path, roles: dict[int, str]) -> None:
    trial = Trial.create(tmp_path / "certs")

    async def scenario() -> None:
        settings = {**trial.settings(), **SECURED}
        if roles[1] == BROKER:
            del settings["security.inter.broker.protocol"]
        async with nodes(tmp_path, roles, settings, "SSL") as cluster:
            await cluster.start(*roles)
            brokers = [node_id for node_id in roles if node_id < 100]
            topic = CreatableTopic(name="t", num_partitions=2, replication_factor=len(brokers))
            answer = await create_topics(cluster.running[2], [topic])
            assert answer.topics[0].error_code == 0, answer.topics[0].error_message
            await cluster.until(lambda: all("t" in each.image.topics for each in cluster.running.values()))
            await cluster.until(lambda: principals(cluster) == {"User:CN=broker"})
            await cluster.stop(*brokers)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_nodes_log_in_to_each_other_over_tls(tmp_path: Path) -> None:
    trial = Trial.create(tmp_path / "certs")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = f'{module} required username="node" password="secret" user_node="secret";'
    settings = {
        **trial.settings(),
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
    }

    async def scenario() -> None:
        async with nodes(tmp_path, {1: BOTH, 2: BOTH, 3: BOTH}, settings, "SASL_SSL") as cluster:
            await cluster.start(1, 2, 3)
            topic = CreatableTopic(name="t", num_partitions=2, replication_factor=3)
            answer = await create_topics(cluster.running[2], [topic])
            assert answer.topics[0].error_code == 0, answer.topics[0].error_message
            await cluster.until(lambda: principals(cluster) == {"User:node"})

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_node_with_a_foreign_certificate_is_not_let_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trial, other = Trial.create(tmp_path / "certs"), Trial.create(tmp_path / "other", "other CA")

    async def scenario() -> None:
        roles = {1: BROKER, 2: BROKER, 101: CONTROLLER}
        settings = {**trial.settings(), **SECURED}
        async with nodes(tmp_path, roles, settings, "SSL") as cluster:
            await cluster.start(101, 1)
            foreign = {**settings, **other.settings()}
            cluster.settings = foreign
            starting = asyncio.ensure_future(cluster.start(2))
            await cluster.until(lambda: "no TLS connection to another node" in caplog.text)
            assert "certificate verify failed" in caplog.text
            assert sorted(cluster.running[101].image.brokers) == [1]
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await cluster.stop(1)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_node_whose_certificate_names_another_host_is_not_trusted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trial = Trial.create(tmp_path / "certs")

    async def scenario(algorithm: str) -> bool:
        settings = {**trial.settings(trial.node(hosts=("elsewhere.example",))), **SECURED}
        settings["ssl.endpoint.identification.algorithm"] = algorithm
        path = tmp_path / (algorithm or "none")
        async with nodes(path, {1: BROKER, 101: CONTROLLER}, settings, "SSL") as cluster:
            await cluster.start(101)
            starting = asyncio.ensure_future(cluster.start(1))
            await cluster.until(lambda: starting.done() or "IP address mismatch" in caplog.text)
            is_trusted = starting.done()
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await cluster.stop(*({1} & cluster.running.keys()))
            return is_trusted

    assert asyncio.run(asyncio.wait_for(scenario(""), 60))
    assert not asyncio.run(asyncio.wait_for(scenario("https"), 60))
