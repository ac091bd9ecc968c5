"""Three older brokers, upgraded one by one: groups are found by all, and move when all are new."""

from __future__ import annotations

import asyncio
import inspect
import random
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.context import RequestContext
from ottla.broker.coordinator_partitions import CoordinatorPartitions
from ottla.broker.coordinator_routing import CoordinatorRouting
from ottla.broker.handlers.find_coordinator import find_coordinator
from ottla.broker.lifecycle import BrokerLifecycle
from ottla.core.coordination.partitioning import older_partition_for, partition_for
from ottla.core.metadata.features import COORDINATOR_PARTITIONS
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from support.in_process import create_topic
from support.in_process_cluster import BOTH, WAIT_S, Nodes, nodes
from support.named_states import draw_name, seed_of_this_run

PARTITIONS = 7
TRANSIENT = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
SETTINGS = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "1",
}


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The ids of the brokers that are older ones when they start."""
    ids: set[int] = set()
    real_partition, real_settle = CoordinatorPartitions.partition_for, CoordinatorPartitions.settle
    real_home, real_registration = CoordinatorRouting._home_of, BrokerLifecycle._registration
    started: dict[Broker, bool] = {}  # what each was when it started

    def is_older(part: Any) -> bool:
        return started.setdefault(part._broker, part._broker.node_id in ids)

    def partition(part: CoordinatorPartitions, name: str, count: int) -> int:
        return older_partition_for(name, count) if is_older(part) else real_partition(part, name, count)

    async def settle(part: CoordinatorPartitions) -> None:
        if not is_older(part):
            await real_settle(part)

    def home(part: CoordinatorRouting, index: int) -> Any:
        return None if is_older(part) else real_home(part, index)

    def registration(part: BrokerLifecycle) -> Any:
        request = real_registration(part)
        if is_older(part):
            request.features = [each for each in request.features if each.name != COORDINATOR_PARTITIONS]
        return request

    monkeypatch.setattr(CoordinatorPartitions, "partition_for", partition)
    monkeypatch.setattr(CoordinatorPartitions, "settle", settle)
    monkeypatch.setattr(CoordinatorRouting, "_home_of", home)
    monkeypatch.setattr(BrokerLifecycle, "_registration", registration)
    return ids


def context(key: ApiKey, version: int) -> RequestContext:
    return RequestContext(int(key), version, 1, "client", "127.0.0.1", "PLAINTEXT")


async def coordinator_of(cluster: Nodes, via: Broker, group: str) -> Broker | None:
    """The running broker that `via` sends a client to."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    answer = await find_coordinator(via, context(ApiKey.FIND_COORDINATOR, 6), request)
    return cluster.running.get(answer.coordinators[0].node_id)


async def asked(cluster: Nodes, group: str, request: Any, key: ApiKey, error_of: Any, via: int) -> Any:
    """The coordinator's answer, found through one broker; asked until it is no transient error."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found = await coordinator_of(cluster, cluster.running[via], group)
            if found is not None:
                answer = found.groups.request(group, request, context(key, 9))
                answer = await answer if inspect.isawaitable(answer) else answer
                if error_of(answer) not in TRANSIENT:
                    return answer
            await asyncio.sleep(0.02)


async def commit(cluster: Nodes, group: str, offset: int, via: int) -> None:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name="t", partitions=[part])]
    )

    def error_of(answer: Any) -> int:
        return int(answer.topics[0].partitions[0].error_code)

    answer = await asked(cluster, group, request, ApiKey.OFFSET_COMMIT, error_of, via)
    assert error_of(answer) == ErrorCode.NONE


async def committed(cluster: Nodes, group: str, via: int) -> int:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    answer = await asked(
        cluster, group, request, ApiKey.OFFSET_FETCH, lambda answer: answer.groups[0].error_code, via
    )
    return int(answer.groups[0].topics[0].partitions[0].committed_offset) if answer.groups[0].topics else -1


def test_groups_are_found_throughout_and_move_at_the_end(
    tmp_path: Path, older: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(seed_of_this_run())
    names = {draw_name(rng) for _ in range(24)}
    ids = (1, 2, 3)

    async def story() -> None:
        async with nodes(tmp_path, dict.fromkeys(ids, BOTH), SETTINGS) as cluster:
            # given: groups of an older cluster
            older.update(ids)
            await cluster.start(*ids)
            await create_topic(cluster.running[1], "t")
            offsets = {name: rng.randrange(1_000_000) for name in names}
            for name, offset in offsets.items():
                await commit(cluster, name, offset, via=rng.choice(ids))
            # when: one after the other is upgraded
            for node_id in ids:
                await cluster.stop(node_id)
                older.discard(node_id)
                await cluster.start(node_id)
                # then: every group is found through every broker, and goes on
                for name in names:
                    for via in ids:
                        assert await committed(cluster, name, via) == offsets[name], (name, via)
                    offsets[name] += 1
                    await commit(cluster, name, offsets[name], via=rng.choice(ids))
            # then: all have agreed, and what was elsewhere is where Kafka keeps it
            await cluster.until(
                lambda: all(each.coordinator_partitions.agreed for each in cluster.running.values())
            )
            for name in names:
                found = await coordinator_of(cluster, cluster.running[rng.choice(ids)], name)
                assert found is not None
                assert partition_for(name, PARTITIONS) in found.groups.partitions()
                for via in ids:
                    assert await committed(cluster, name, via) == offsets[name]
            # and: it stays so after a restart of all
            lines = caplog.text.count("moved from the partition")
            assert lines
            await cluster.stop(*ids)
            await cluster.start(*ids)
            for name in names:
                assert await committed(cluster, name, rng.choice(ids)) == offsets[name]
            assert caplog.text.count("moved from the partition") == lines

    asyncio.run(story())
