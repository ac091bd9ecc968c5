"""Nodes of a cluster die, hang and restart under load: every acknowledged record is there, once.

Each drill prints a line of JSON with how long partitions were without an acknowledgement; nothing is asserted
of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from support.clients.cluster_load import (
    Copier,
    RecordedProducer,
    check_nothing_lost,
    outcome_counts,
    read_to_the_end,
    verifiable_producer,
)
from support.clients.cluster_wire import TRANSACTION_KEY, coordinator_of
from support.clients.histories import duplicates, lost_writes
from support.servers.clusters import ClusterPlan, NodeCluster, combined

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TOPIC = "t"
PARTITIONS = 6
SETTINGS = {"min.insync.replicas": "2"}
StartNodes = Callable[[ClusterPlan], AbstractContextManager[NodeCluster]]
Victim = Callable[[NodeCluster], int]


def leader(cluster: NodeCluster) -> int:
    """A node that leads a partition and is not the active controller, if there is one."""
    active = cluster.active_controller()
    leaders = [each.leader_id for each in cluster.metadata(TOPIC).topics[0].partitions if each.leader_id >= 0]
    return next((node_id for node_id in leaders if node_id != active), leaders[0])


def controller(cluster: NodeCluster) -> int:
    """The active controller."""
    return cluster.active_controller()


def group_coordinator(cluster: NodeCluster) -> int:
    """The coordinator of the drill's group."""
    return coordinator_of(cluster, "copiers")


def transaction_coordinator(cluster: NodeCluster) -> int:
    """The coordinator of the first copier's transactions."""
    return coordinator_of(cluster, "copier-0", TRANSACTION_KEY)


def report(cluster: NodeCluster, drill: str, **figures: object) -> None:
    print(json.dumps({"drill": drill, "cluster": cluster.name, **figures}))


def test_kills_of_leaders_and_controllers_under_idempotent_load(start_nodes: StartNodes) -> None:
    with start_nodes(ClusterPlan(combined(3), SETTINGS)) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        victims: list[Victim] = [leader, controller, leader, controller]
        killed = []
        with RecordedProducer(cluster.bootstrap, TOPIC, PARTITIONS).running() as producer:
            for victim in victims:
                producer.wait_for_more(300)
                killed.append(victim(cluster))
                # when
                cluster.kill(killed[-1])
                # then: the others go on without it
                producer.wait_for_all_partitions()
                cluster.heal()
            producer.wait_for_more(100)
        check_nothing_lost(cluster, producer)
        report(
            cluster,
            "idempotent",
            killed=killed,
            longest_silence_s=producer.longest_silences(),
            **outcome_counts(producer.history),
        )


@pytest.mark.java
def test_kills_under_the_load_of_kafkas_verifiable_producer(start_nodes: StartNodes, tmp_path: Path) -> None:
    messages = 12_000
    with start_nodes(ClusterPlan(combined(3), SETTINGS)) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        victims: list[Victim] = [leader, controller, leader]
        with verifiable_producer(cluster, TOPIC, tmp_path, messages=messages, per_second=400) as producer:
            for victim in victims:
                producer.wait_for_more(800)
                cluster.kill(victim(cluster))
                producer.wait_for_more(400)
                cluster.heal()
        final = read_to_the_end(cluster.bootstrap, TOPIC, PARTITIONS)
        for poll in final:
            producer.history.poll(poll.partition, poll.records, committed_only=False)
        assert producer.errors == []
        assert len(producer.history.acks) == messages
        assert lost_writes(producer.history, final) == []
        assert duplicates(producer.history) == []
        assert sum(len(poll.records) for poll in final) == messages


def test_kills_under_transactional_load(start_nodes: StartNodes) -> None:
    with start_nodes(ClusterPlan(combined(3), SETTINGS)) as cluster:
        cluster.create_topic("in", 4)
        cluster.create_topic(TOPIC, PARTITIONS)
        copiers = [
            Copier(cluster.bootstrap, "in", TOPIC, "copiers", f"copier-{number}") for number in range(2)
        ]

        def committed() -> int:
            for copier in copiers:
                if copier.failure is not None:
                    raise copier.failure
            return sum(copier.committed for copier in copiers)

        def wait_for_commits(count: int) -> None:
            expected = committed() + count
            cluster.eventually(lambda: committed() >= expected, f"{count} transactions are committed", 120)

        feeder = RecordedProducer(cluster.bootstrap, "in", 4, "v", pause_s=0.005)
        for copier in copiers:
            copier.start()
        try:
            with feeder.running():
                victims: list[Victim] = [leader, transaction_coordinator, group_coordinator, controller]
                for victim in victims:
                    wait_for_commits(10)
                    cluster.kill(victim(cluster))
                    wait_for_commits(5)
                    cluster.heal()
                wait_for_commits(5)
            values = set(feeder.history.sends)
            cluster.eventually(lambda: all_copied(cluster, len(values)), "all is copied", 180)
        finally:
            for copier in copiers:
                copier.stop()
        # then: every value that went in came out, once
        assert feeder.failures == []
        final = read_to_the_end(cluster.bootstrap, TOPIC, PARTITIONS, committed_only=True)
        copied = Counter(value for poll in final for _, value in poll.records)
        assert [value for value in values if copied[value] != 1] == []
        assert set(copied) == values
        report(
            cluster,
            "transactions",
            values=len(values),
            committed=committed(),
            aborted=sum(copier.aborted for copier in copiers),
            reborn=sum(copier.reborn for copier in copiers),
        )


def all_copied(cluster: NodeCluster, count: int) -> bool:
    final = read_to_the_end(cluster.bootstrap, TOPIC, PARTITIONS, committed_only=True)
    return sum(len(poll.records) for poll in final) >= count


def test_a_leader_that_hangs_acknowledges_nothing_of_its_own(start_nodes: StartNodes) -> None:
    with start_nodes(ClusterPlan(combined(3), SETTINGS)) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        with RecordedProducer(cluster.bootstrap, TOPIC, PARTITIONS).running() as producer:
            for victim in (leader, controller):
                producer.wait_for_more(300)
                hanging = victim(cluster)
                # when: it stops in the middle, and the others do without it
                cluster.pause(hanging)
                cluster.wait_until_fenced(hanging)
                producer.wait_for_all_partitions()
                # when: it goes on and does not know
                cluster.resume(hanging)
                producer.wait_for_more(300)
                cluster.heal()
        check_nothing_lost(cluster, producer)
        report(
            cluster,
            "hanging",
            longest_silence_s=producer.longest_silences(),
            **outcome_counts(producer.history),
        )


def test_a_rolling_restart_is_no_error_to_a_producer(start_nodes: StartNodes) -> None:
    with start_nodes(ClusterPlan(combined(3), SETTINGS)) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        with RecordedProducer(cluster.bootstrap, TOPIC, PARTITIONS).running() as producer:
            for node_id in cluster.nodes:
                producer.wait_for_more(200)
                cluster.stop(node_id)
                producer.wait_for_all_partitions()
                cluster.heal()
        check_nothing_lost(cluster, producer)
        report(
            cluster,
            "rolling restart",
            longest_silence_s=producer.longest_silences(),
            **outcome_counts(producer.history),
        )


def test_all_nodes_die_at_once(start_nodes: StartNodes) -> None:
    with start_nodes(ClusterPlan(combined(3), SETTINGS)) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        with RecordedProducer(cluster.bootstrap, TOPIC, PARTITIONS).running() as producer:
            for _ in range(2):
                producer.wait_for_more(300)
                for node_id in cluster.nodes:
                    cluster.kill(node_id)
                cluster.heal()
                producer.wait_for_all_partitions()
        check_nothing_lost(cluster, producer)
        report(
            cluster,
            "all at once",
            longest_silence_s=producer.longest_silences(),
            **outcome_counts(producer.history),
        )
