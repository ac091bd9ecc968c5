"""Which cluster a node with an empty directory belongs to, before it formats that directory.

(A node alone founds a cluster of its own.) Controllers that name all voters derive the id from them, so that
nodes with equal configurations agree without asking. Any other node asks the controllers that it knows, and
waits until one answers: to guess would be to found a second cluster.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import uuid
from collections.abc import Mapping
from typing import Final

from ottla.broker.config import BrokerConfig
from ottla.broker.peers.peers import PeerAddress, PeerConnections, PeerUnreachable
from ottla.core.quorum.api import Address
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_cluster_response import DescribeClusterResponse

log = logging.getLogger("ottla.broker")

PURPOSE: Final = "cluster-id"
CONTROLLERS: Final = 2
ANSWER_TIMEOUT_MS: Final = 2000
PAUSE_SECONDS: Final = 0.2
TELL_SECONDS: Final = 5.0
_NAMESPACE: Final = uuid.UUID("6f74746c-6100-5000-8000-636c75737465")


async def identify_cluster(config: BrokerConfig, peers: PeerConnections) -> str:
    """The id of the cluster that the configuration of a node among several means."""
    if config.is_controller and config.quorum_voters:
        return derived_cluster_id(config.quorum_voters)
    return await _ask(config, peers)


def derived_cluster_id(voters: Mapping[int, Address]) -> str:
    """The id that voters' configuration stands for, in Kafka's base64."""
    text = ",".join(f"{node_id}@{voters[node_id].host}:{voters[node_id].port}" for node_id in sorted(voters))
    # A command line would take an id that begins with a dash for an option.
    for attempt in range(64):
        derived = uuid.uuid5(_NAMESPACE, f"{text}#{attempt}" if attempt else text)
        encoded = base64.urlsafe_b64encode(derived.bytes).decode().rstrip("=")
        if not encoded.startswith("-"):
            break
    return encoded


async def _ask(config: BrokerConfig, peers: PeerConnections) -> str:
    loop = asyncio.get_running_loop()
    servers = [*config.quorum_bootstrap_servers, *config.quorum_voters.values()]
    tell = loop.time() + TELL_SECONDS
    while True:
        problem = ""
        for server in servers:
            address = PeerAddress(*server)
            try:
                answer = await peers.ask(
                    PURPOSE,
                    address,
                    DescribeClusterRequest(endpoint_type=CONTROLLERS),
                    timeout_ms=ANSWER_TIMEOUT_MS,
                )
            except PeerUnreachable as unreachable:
                problem = str(unreachable)
                continue
            assert isinstance(answer, DescribeClusterResponse)
            if answer.error_code == 0 and answer.cluster_id:
                return answer.cluster_id
            problem = f"{address.host}:{address.port} does not say which cluster it belongs to"
        if loop.time() >= tell:
            log.warning("waiting for a controller that says which cluster this is reason=%s", problem)
            tell = loop.time() + TELL_SECONDS
        await asyncio.sleep(PAUSE_SECONDS)
