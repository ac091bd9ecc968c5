"""The state of a cluster as it stands: who leads and holds how much, which partitions are not whole."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.balance.planning import TopicPattern
from ottla.client.admin.configs import Resource, ResourceType, describe_configs
from ottla.client.cluster_requests import Cluster, ClusterRequests
from ottla.client.errors import ClusterError
from ottla.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ottla.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from ottla.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic

MIN_ISR: Final = "min.insync.replicas"
DEAD: Final = "broker_dead"
"""What stands for the directories of a broker that is away."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """log_dirs: of each broker that answers, its directories and whether each is whole."""

    cluster: Cluster
    topics: Sequence[MetadataResponseTopic]
    min_isr: Mapping[str, int]
    log_dirs: Mapping[int, Mapping[str, bool]]


async def read_state(client: ClusterRequests) -> ClusterState:
    """The state of the cluster now. Raises ClusterError where it does not answer."""
    cluster = await client.cluster(refresh=True)
    topics = [one for one in await client.topics() if one.name and not one.error_code]
    min_isr, log_dirs = await asyncio.gather(
        _min_isr(client, [one.name or "" for one in topics]), _log_dirs(client)
    )
    return ClusterState(cluster, topics, min_isr, log_dirs)


async def _min_isr(client: ClusterRequests, topics: Sequence[str]) -> dict[str, int]:
    found = {}
    resources = [Resource(ResourceType.TOPIC, one) for one in topics]
    for resource, entries in (await describe_configs(client, resources, names=[MIN_ISR])).items():
        if not isinstance(entries, ClusterError):
            found[resource.name] = next((int(one.value) for one in entries if one.value), 1)
    return found


async def _log_dirs(client: ClusterRequests) -> dict[int, dict[str, bool]]:
    # no topic is asked for, so that the directories alone are told
    answers = await client.ask_all(DescribeLogDirsRequest(topics=[]), DescribeLogDirsResponse)
    return {
        broker: {one.log_dir: not one.error_code for one in answer.results}
        for broker, answer in answers.items()
        if not isinstance(answer, ClusterError)
    }


def state_body(state: ClusterState, pattern: TopicPattern | None, *, verbose: bool) -> dict[str, Any]:
    """The state in Cruise Control's shape. pattern: of the topics whose partitions are told."""
    return {
        "KafkaBrokerState": _brokers(state),
        "KafkaPartitionState": _partitions(state, pattern, verbose=verbose),
        "version": 1,
    }


def _brokers(state: ClusterState) -> dict[str, Any]:
    leaders, out_of_sync, replicas, offline = (Counter[int]() for _ in range(4))
    for topic in state.topics:
        for one in topic.partitions:
            if one.leader_id >= 0:
                leaders[one.leader_id] += 1
            replicas.update(one.replica_nodes)
            out_of_sync.update(set(one.replica_nodes) - set(one.isr_nodes))
            offline.update(one.offline_replicas)
    alive = state.cluster.brokers
    ids = sorted(alive.keys() | replicas.keys())
    return {
        "LeaderCountByBrokerId": _by_id(ids, leaders),
        "OutOfSyncCountByBrokerId": _by_id(ids, out_of_sync),
        "ReplicaCountByBrokerId": _by_id(ids, replicas),
        "OfflineReplicaCountByBrokerId": _by_id(ids, offline),
        "IsController": {str(one): one == state.cluster.controller_id for one in ids},
        "OnlineLogDirsByBrokerId": {str(one): _dirs(state, one, whole=True) for one in ids},
        "OfflineLogDirsByBrokerId": {str(one): _dirs(state, one, whole=False) for one in ids},
        "BrokerSetByBrokerId": {},
        "Summary": _summary(len(state.topics), ids, leaders, replicas),
    }


def _by_id(ids: Sequence[int], counts: Counter[int]) -> dict[str, int]:
    return {str(one): counts[one] for one in ids}


def _dirs(state: ClusterState, broker: int, *, whole: bool) -> list[str]:
    if broker not in state.cluster.brokers:
        return [DEAD]
    return sorted(path for path, is_whole in state.log_dirs.get(broker, {}).items() if is_whole == whole)


def _summary(
    topics: int, ids: Sequence[int], leaders: Counter[int], replicas: Counter[int]
) -> dict[str, int | float]:
    count = max(1, len(ids))
    return {
        "Brokers": len(ids),
        "Topics": topics,
        "Replicas": replicas.total(),
        "Leaders": leaders.total(),
        "AvgReplicationFactor": replicas.total() / leaders.total() if leaders else 0.0,
        "AvgReplicasPerBroker": replicas.total() / count,
        "AvgLeadersPerBroker": leaders.total() / count,
        "MaxReplicasPerBroker": max(replicas.values(), default=0),
        "MaxLeadersPerBroker": max(leaders.values(), default=0),
        "StdReplicasPerBroker": _deviation([replicas[one] for one in ids]),
        "StdLeadersPerBroker": _deviation([leaders[one] for one in ids]),
    }


def _deviation(values: Collection[int]) -> float:
    mean = sum(values) / max(1, len(values))
    return math.sqrt(sum((one - mean) ** 2 for one in values) / max(1, len(values)))


def _partitions(state: ClusterState, pattern: TopicPattern | None, *, verbose: bool) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {
        "offline": [],
        "with-offline-replicas": [],
        "urp": [],
        "under-min-isr": [],
    }
    if verbose:
        found["other"] = []
    for topic in sorted(state.topics, key=lambda one: one.name or ""):
        name = topic.name or ""
        if pattern is not None and not pattern.among([name]):
            continue
        least = state.min_isr.get(name, 1)
        for one in sorted(topic.partitions, key=lambda each: each.partition_index):
            row = _row(name, one, least)
            if len(one.isr_nodes) < least:
                found["under-min-isr"].append(row)
            if one.offline_replicas:
                found["with-offline-replicas"].append(row)
            if one.leader_id < 0:
                found["offline"].append(row)
            elif len(one.isr_nodes) != len(one.replica_nodes):
                found["urp"].append(row)
            elif verbose:
                found["other"].append(row)
    return found


def _row(topic: str, one: MetadataResponsePartition, least: int) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": one.partition_index,
        "leader": one.leader_id,
        "replicas": list(one.replica_nodes),
        "in-sync": list(one.isr_nodes),
        "out-of-sync": sorted(set(one.replica_nodes) - set(one.isr_nodes)),
        "offline": list(one.offline_replicas),
        "min-isr": least,
    }
