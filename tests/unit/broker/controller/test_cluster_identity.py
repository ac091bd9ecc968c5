"""Which cluster a node with an empty directory means: derived from the voters, or asked for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.controller import cluster_identity
from ottla.broker.controller.cluster_identity import derived_cluster_id, identify_cluster
from ottla.broker.peers.peers import PeerAddress, PeerUnreachable
from ottla.core.quorum.api import Address
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_cluster_response import DescribeClusterResponse

ONE, TWO = Address("one", 9093), Address("two", 9093)


def test_voters_agree_whatever_the_order() -> None:
    assert derived_cluster_id({1: ONE, 2: TWO}) == derived_cluster_id({2: TWO, 1: ONE})
    assert derived_cluster_id({1: ONE, 2: TWO}) != derived_cluster_id({1: TWO, 2: ONE})


def test_an_id_is_one_that_kafkas_command_lines_take() -> None:
    ids = {derived_cluster_id({1: Address("host", port)}) for port in range(1, 500)}
    assert len(ids) == 499
    assert all(len(each) == 22 and not each.startswith("-") for each in ids)


@pytest.mark.parametrize("role", ["broker that knows voters", "controller that knows bootstrap servers"])
def test_others_ask_until_a_controller_tells(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(cluster_identity, "PAUSE_SECONDS", 0.001)
        is_controller = role.startswith("controller")
        config = SimpleNamespace(
            is_controller=is_controller,
            quorum_voters={} if is_controller else {1: ONE, 2: TWO},
            quorum_bootstrap_servers=(ONE, TWO) if is_controller else (),
        )
        asked: list[PeerAddress] = []

        async def ask(
            purpose: str, to: PeerAddress, request: DescribeClusterRequest, *, timeout_ms: int
        ) -> DescribeClusterResponse:
            asked.append(to)
            assert request.endpoint_type == 2
            if to.host == "one" or len(asked) < 4:
                raise PeerUnreachable("not there yet")
            return DescribeClusterResponse(error_message=None, cluster_id="the-cluster")

        cluster_id = await identify_cluster(cast(Any, config), cast(Any, SimpleNamespace(ask=ask)))
        assert (cluster_id, len(asked)) == ("the-cluster", 4)

    asyncio.run(scenario())
