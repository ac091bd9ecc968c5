"""Three older brokers, upgraded one by one: names are found by all, and move when all are new."""

from __future__ import annotations

import asyncio
import inspect
import random
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.controller.lifecycle import BrokerLifecycle
from ottla.broker.coordinators.coordinator_partitions import KAFKAS_API, CoordinatorPartitions
from ottla.broker.coordinators.coordinator_routing import CoordinatorRouting
from ottla.broker.handlers.cluster import api_versions
from ottla.broker.handlers.coordinators.find_coordinator import find_coordinator
from ottla.broker.network.context import RequestContext, Session
from ottla.core.coordination.partitioning import counterpart_of, older_partition_for, partition_for
from ottla.core.image.features import COORDINATOR_PARTITIONS
from ottla.core.image.image import PartitionImage
from ottla.core.share.keys import SharePartitionKey
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from support.clients.named_states import NamedStates, draw_name, seed_of_this_run
from support.clients.routed_wire import RoutedClient
from support.clients.transaction_wire import TransactionalProducer
from support.nodes.in_process import create_topic
from support.nodes.in_process_cluster import BOTH, WAIT_S, Nodes, nodes

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
ALL_SETTINGS = {
    **SETTINGS,
    "default.replication.factor": "3",
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "share.coordinator.state.topic.num.partitions": str(PARTITIONS),
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "1",
}
MOVED = re.compile(
    r"moved from the partition where an older version kept them topic=(\S+) from=(\d+) to=(\d+)"
)
OFFSETS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The ids of the brokers that are older ones when they start."""
    ids: set[int] = set()
    real_partition, real_settle = CoordinatorPartitions.partition_for, CoordinatorPartitions.settle
    real_home, real_registration = CoordinatorRouting._home_of, BrokerLifecycle._registration
    started: dict[Any, bool] = {}  # what each was when it started

    def is_older(part: Any) -> bool:
        return started.setdefault(part._node, part._node.node_id in ids)

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

    def apis(node: Any, context: RequestContext, request: Any) -> Any:
        answer = api_versions.api_versions(node, context, request)
        if started.setdefault(node, node.node_id in ids):
            answer.api_keys = [each for each in answer.api_keys if each.api_key != KAFKAS_API]
        return answer

    monkeypatch.setitem(api_versions.HANDLERS, ApiKey.API_VERSIONS, apis)
    monkeypatch.setattr(CoordinatorPartitions, "partition_for", partition)
    monkeypatch.setattr(CoordinatorPartitions, "settle", settle)
    monkeypatch.setattr(CoordinatorRouting, "_home_of", home)
    monkeypatch.setattr(BrokerLifecycle, "_registration", registration)
    return ids


def context(key: ApiKey, version: int) -> RequestContext:
    return RequestContext(int(key), version, 1, "client", Session("127.0.0.1", "PLAINTEXT"))


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


def image_of(cluster: Nodes, topic: str, index: int) -> PartitionImage:
    """A partition as one of the running brokers knows it."""
    return next(iter(cluster.running.values())).image.topics[topic].partitions[index]


def all_in_sync(cluster: Nodes) -> bool:
    return all(
        each.leader in cluster.running and set(each.isr) == set(each.replicas)
        for broker in cluster.running.values()
        for topic in broker.image.topics.values()
        for each in topic.partitions.values()
    )


def create_coordinators_topics(client: RoutedClient) -> None:
    """A partition and its counterpart have other leaders, the first of the two a higher leader epoch.

    When 1, 2 and 3 were stopped in this order, replicas 1 and 3 are led by 1 and were led by 3 meanwhile;
    replicas 3 and 2 are led by 2.
    """
    assignments = [
        CreatableReplicaAssignment(
            partition_index=index,
            broker_ids=[1, 3] if index <= counterpart_of(index, PARTITIONS) else [3, 2],
        )
        for index in range(PARTITIONS)
    ]
    for name in (OFFSETS, TRANSACTIONS, SHARES):
        topic = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=[]
        )
        created = client.call(CreateTopicsRequest(topics=[topic])).topics[0]
        assert created.error_code == ErrorCode.NONE, created


def write_far_from_home(cluster: Nodes, client: RoutedClient, states: NamedStates) -> TransactionalProducer:
    """One name of each kind that an older broker keeps on another broker than the one it belongs to.

    Returns the producer. Where it is kept the leader epoch is higher, and its markers have said so.
    """
    rng, topic_id = states.rng, states.topic_id
    assert topic_id is not None

    def is_far(topic: str, key: str) -> bool:
        home = image_of(cluster, topic, partition_for(key, PARTITIONS))
        away = image_of(cluster, topic, older_partition_for(key, PARTITIONS))
        return home.leader != away.leader and home.leader_epoch < away.leader_epoch

    names = [draw_name(rng) for _ in range(1000)]
    shares = [SharePartitionKey(name, topic_id, 0) for name in names]
    states.commit(client, next(each for each in names if is_far(OFFSETS, each)))
    states.share(client, next(each for each in shares if is_far(SHARES, each.coordinator_key)))
    producer = states.committed_producer(client, next(each for each in names if is_far(TRANSACTIONS, each)))
    states.commit_everywhere(producer)
    return producer


@pytest.mark.slow
def test_transactions_and_share_states_are_found_throughout_and_move_between_brokers_at_the_end(
    tmp_path: Path, older: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(seed_of_this_run())
    states = NamedStates(rng)
    ids = (1, 2, 3)

    async def story() -> None:
        async with nodes(tmp_path, dict.fromkeys(ids, BOTH), ALL_SETTINGS) as cluster:
            client = RoutedClient(
                rng, lambda: [f"127.0.0.1:{each.port}" for each in cluster.running.values()]
            )
            # given: groups, transactions and share states of an older cluster
            older.update(ids)
            await cluster.start(*ids)
            await asyncio.to_thread(create_coordinators_topics, client)
            await asyncio.to_thread(states.write_all, client, 6, leaves_open=True)
            # when: one after the other is upgraded
            for node_id in ids:
                await cluster.until(lambda: all_in_sync(cluster))
                await cluster.stop(node_id)
                if node_id == ids[-1]:  # until it is back, leaders stay and names are kept where they were
                    far = await asyncio.to_thread(write_far_from_home, cluster, client, states)
                older.discard(node_id)
                await cluster.start(node_id)
                # then: all is found through every broker, and goes on
                await asyncio.to_thread(states.check_all, client)
                await asyncio.to_thread(states.go_on, client)
            # then: all have agreed, and what was elsewhere has come home, some of it from another broker
            await cluster.until(
                lambda: all(each.coordinator_partitions.agreed for each in cluster.running.values())
            )
            await asyncio.to_thread(states.check_all, client)
            await asyncio.to_thread(states.commit_everywhere, far)
            await asyncio.to_thread(states.check_ended, client)
            await asyncio.to_thread(states.go_on, client)
            moves = MOVED.findall(caplog.text)
            for topic in (OFFSETS, TRANSACTIONS, SHARES):
                assert any(
                    image_of(cluster, topic, int(away)).leader != image_of(cluster, topic, int(home)).leader
                    for moved, away, home in moves
                    if moved == topic
                ), (topic, moves)
            # and: it stays so after a restart of all
            await cluster.stop(*ids)
            await cluster.start(*ids)
            await asyncio.to_thread(states.check_all, client)
            assert MOVED.findall(caplog.text) == moves

    asyncio.run(story())
