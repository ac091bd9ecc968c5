"""A broker without groups starts without their state machine; a replica imports it before any election."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.controller.topic_creation import create_internal_topic
from ottla.broker.coordinators.group_coordinator import GROUP_TOPIC, GroupCoordinator
from support.nodes.in_process_cluster import BOTH, nodes

RUNNER = "ottla.broker.coordinators.coordinator_shard"
PREPARED = """
import asyncio, sys
from ottla.broker.coordinators.group_coordinator import GroupCoordinator
from ottla.broker.coordinators.share_coordinator import ShareCoordinator
from ottla.broker.coordinators.transaction_coordinator import TransactionCoordinator
from ottla.broker.supervisor import Supervisor

class Node:
    supervisor = Supervisor(lambda name, failure: sys.exit(f"{name}: {failure}"))

async def scenario(coordinator, needed):
    assert not needed & set(sys.modules), "imported too early"
    coordinator.prepare()
    coordinator.prepare()
    (importing,) = asyncio.all_tasks() - {asyncio.current_task()}
    await importing
    assert needed <= set(sys.modules), needed - set(sys.modules)

coordinators = [GroupCoordinator, ShareCoordinator, TransactionCoordinator]
(made,) = [each for each in coordinators if each.__name__ == sys.argv[1]]
asyncio.run(scenario(made(Node()), set(sys.argv[2:])))
"""


@pytest.mark.parametrize(
    ("coordinator", "shard"),
    [
        ("GroupCoordinator", "ottla.core.groups.shard"),
        ("ShareCoordinator", "ottla.core.share.coordinator"),
        ("TransactionCoordinator", "ottla.core.transactions.shard"),
    ],
)
def test_a_coordinator_that_is_prepared_has_imported_its_shards(coordinator: str, shard: str) -> None:
    subprocess.run([sys.executable, "-c", PREPARED, coordinator, shard, RUNNER], check=True, timeout=60)


def test_every_follower_of_a_coordinators_partition_prepares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: set[GroupCoordinator] = set()
    monkeypatch.setattr(GroupCoordinator, "prepare", lambda groups: prepared.add(groups))

    async def scenario() -> None:
        async with nodes(tmp_path, {1: BOTH, 2: BOTH}) as cluster:
            await cluster.start(1, 2)
            # when: each leads one of the two partitions, and follows the other
            assert not prepared
            await create_internal_topic(cluster.running[1], GROUP_TOPIC)
            # then
            await cluster.until(lambda: prepared == {each.groups for each in cluster.running.values()})

    asyncio.run(scenario())
