"""Several nodes of the metadata quorum over sockets: nothing acknowledged is lost, everybody has the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.errors import NotController
from support.quorums import (
    configs,
    running_quorum,
    set_config,
    wait_until,
)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 120))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_change_is_on_every_node(tmp_path: Path, dynamic: bool) -> None:
    async def test() -> None:
        async with running_quorum(tmp_path, observers=[9], dynamic=dynamic) as cluster:
            leader = await cluster.leader()
            offset = await set_config(leader.controller, "a", "1")
            await cluster.caught_up(offset)
            for node in cluster.running:
                assert configs(node) == {"a": "1"}
                assert node.quorum.leader_id == leader.node_id
                assert node.quorum.epoch == leader.quorum.epoch
                address = node.quorum.leader_address()
                assert address is not None
                assert address.port == leader.config.controller_listener.port
                if node is not leader:
                    with pytest.raises(NotController):
                        await set_config(node.controller, "b", "2")
            for node in cluster.nodes.values():
                await node.stop()

    run(test)


def test_another_leads_when_the_leader_is_killed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_quorum(tmp_path) as cluster:
            expected = {}
            for turn in range(3):
                leader = await cluster.leader()
                for number in range(10):
                    name = f"{turn}-{number}"
                    await set_config(leader.controller, name, "x")
                    expected[name] = "x"
                await leader.kill()
                successor = await cluster.leader()
                assert successor is not leader
                assert configs(successor) == expected
                await leader.start()
            last = await set_config((await cluster.leader()).controller, "last", "x")
            await cluster.caught_up(last)
            for node in cluster.running:
                assert configs(node) == {**expected, "last": "x"}

    run(test)
