"""Several nodes, all in one process: they find each other, and any of them changes the metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ottla.broker.broker import Broker, StartError
from ottla.broker.controller.topic_creation import create_topics
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import CreatableTopic
from ottla.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from ottla.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from support.nodes.in_process_cluster import BOTH, BROKER, CONTROLLER, Nodes, nodes

THREE = {1: BOTH, 2: BOTH, 3: BOTH}
LIMIT_S = 60


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_S):
            await scenario()

    asyncio.run(bounded())


async def create(broker: Broker, name: str, replication_factor: int = 1) -> None:
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=replication_factor)
    answer = await create_topics(broker, [topic])
    assert answer.topics[0].error_code == 0, answer.topics[0].error_message


async def known_everywhere(cluster: Nodes, *names: str) -> None:
    await cluster.until(
        lambda: all(set(names) <= set(each.image.topics) for each in cluster.running.values())
    )


def test_three_nodes_form_a_cluster_and_any_creates_topics(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with nodes(tmp_path, THREE) as cluster:
            await cluster.start(1, 2, 3)
            assert len({each.cluster_id for each in cluster.running.values()}) == 1
            for node_id, broker in cluster.running.items():
                await create(broker, f"from-{node_id}", replication_factor=3)
            await known_everywhere(cluster, "from-1", "from-2", "from-3")
            for broker in cluster.running.values():
                assert sorted(broker.image.brokers) == [1, 2, 3]
                assert not any(each.fenced for each in broker.image.brokers.values())
            await cluster.until(
                lambda: all(len(each.image.controllers) == 3 for each in cluster.running.values())
            )

    run(scenario)


def test_separate_controllers_and_brokers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with nodes(tmp_path, {1: BROKER, 2: BROKER, 101: CONTROLLER}) as cluster:
            await cluster.start(101, 1, 2)
            await create(cluster.running[2], "t", replication_factor=2)
            await known_everywhere(cluster, "t")
            assert cluster.running[101].ready_line().startswith("ottla controller ready")
            await cluster.stop(1)
            await cluster.until(lambda: cluster.running[2].image.brokers[1].fenced)
            await cluster.start(1)
            await cluster.stop(2, 1)

    run(scenario)


def test_a_controller_is_unregistered_and_registers_again_when_it_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with nodes(tmp_path, dict.fromkeys((101, 102, 103), CONTROLLER)) as cluster:

            async def unregister(node_id: int) -> None:
                assert cluster.active is not None
                request = UnregisterControllerRequest(controller_id=node_id)
                answer = await cluster.active.controller_channel.ask(request)
                assert isinstance(answer, UnregisterControllerResponse)
                assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)

            async def registered(*node_ids: int) -> None:
                await cluster.until(
                    lambda: all(
                        sorted(each.image.controllers) == list(node_ids) for each in cluster.running.values()
                    )
                )

            await cluster.start(101, 102, 103)
            await registered(101, 102, 103)
            assert cluster.active is not None
            away = next(each for each in cluster.running if each != cluster.active.node_id)
            others = [each for each in cluster.running if each != away]
            # when: one that is away is unregistered, and comes back
            await cluster.stop(away)
            await unregister(away)
            await registered(*others)
            await cluster.start(away)
            await registered(101, 102, 103)
            # when: one that runs is unregistered
            before = cluster.active.image.controllers[away].incarnation_id
            await unregister(away)
            # then: it does not stay away
            await cluster.until(
                lambda: all(
                    away in each.image.controllers and each.image.controllers[away].incarnation_id != before
                    for each in cluster.running.values()
                )
            )

    run(scenario)


def test_when_the_active_controller_stops_another_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with nodes(tmp_path, THREE) as cluster:
            await cluster.start(1, 2, 3)
            assert cluster.active is not None
            first = cluster.active.node_id
            await create(cluster.active, "before")
            await cluster.stop(first)
            await create(next(iter(cluster.running.values())), "after")
            await cluster.start(first)
            await known_everywhere(cluster, "before", "after")

    run(scenario)


def test_another_clusters_directory_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with nodes(tmp_path, {1: CONTROLLER, 2: BROKER}) as cluster:
            await cluster.start(1)
            config = cluster.config(2)
            with pytest.raises(StartError, match="belongs to cluster other"):
                await Broker.start(config, on_failure=lambda: None, cluster_id="other")

    run(scenario)


def test_a_second_broker_with_the_same_id_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with nodes(tmp_path, {1: CONTROLLER, 2: BROKER}) as cluster:
            await cluster.start(1, 2)
            config = cluster.config(
                2,
                {
                    "log.dirs": str(tmp_path / "twin"),
                    "listeners": "PLAINTEXT://127.0.0.1:0",
                    "initial.broker.registration.timeout.ms": "300",
                },
            )
            with pytest.raises(StartError, match=r"another broker with node\.id=2 is alive"):
                await Broker.start(config, on_failure=lambda: None)
            await create(cluster.running[2], "still-there")

    run(scenario)


def test_a_start_without_a_majority_waits_and_can_be_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandoned: list[Broker] = []
    abandon = Broker._abandon

    async def seen(broker: Broker) -> None:
        abandoned.append(broker)
        await abandon(broker)

    monkeypatch.setattr(Broker, "_abandon", seen)

    async def scenario() -> None:
        async with nodes(tmp_path, THREE) as cluster:
            starting = asyncio.ensure_future(Broker.start(cluster.config(1), on_failure=lambda: None))
            await asyncio.wait([starting], timeout=0.5)
            assert not starting.done()
            starting.cancel()
            await asyncio.wait([starting], timeout=10)
            assert starting.cancelled()
            # no timer is left that would start a task after the supervisor's end
            assert [each.quorum._timer for each in abandoned] == [None]
            await cluster.start(1, 2, 3)

    run(scenario)
