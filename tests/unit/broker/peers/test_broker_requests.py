"""Requests to another broker: to where it has registered, and only while it is not fenced."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.peers.broker_requests import BrokerRequests
from ottla.broker.peers.peers import PeerAddress, PeerConnections, PeerUnreachable
from ottla.core.image.image import BrokerImage, EndpointImage, MetadataImage
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.protocol.schema import Message

OTHER = 2
ANSWER = ApiVersionsResponse()


class Peers(PeerConnections):
    """Connections that keep the questions."""

    def __init__(self) -> None:
        super().__init__("test")
        self.asked: list[tuple[str, PeerAddress, int]] = []

    async def ask(
        self,
        purpose: str,
        to: PeerAddress,
        request: Message,
        *,
        timeout_ms: int,
        version: int | None = None,
        client_id: str | None = None,
    ) -> Message:
        self.asked.append((purpose, to, timeout_ms))
        return ANSWER


class FakeCluster:
    """A cluster in which one other broker is registered at two listeners."""

    def __init__(self, *, fenced: bool, listener: str) -> None:
        self.node_id = 1
        self.config = BrokerConfig.from_mapping(
            {
                "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
                "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
                "inter.broker.listener.name": "INSIDE",
                "request.timeout.ms": "4321",
            }
        )
        endpoints = (EndpointImage("OUTSIDE", "outside", 1), EndpointImage(listener, "inside", 2))
        other = BrokerImage(OTHER, 7, uuid.UUID(int=1), endpoints, fenced=fenced)
        self.image = MetadataImage(brokers={OTHER: other})


def test_a_broker_is_asked_at_its_listener_for_brokers() -> None:
    async def scenario() -> None:
        peers = Peers()
        brokers = BrokerRequests(FakeCluster(fenced=False, listener="INSIDE"), peers)
        assert await brokers.ask("a", OTHER, ApiVersionsRequest()) is ANSWER
        assert await brokers.ask("b", OTHER, ApiVersionsRequest(), timeout_ms=5) is ANSWER
        inside = PeerAddress("inside", 2)
        assert peers.asked == [("a", inside, 4321), ("b", inside, 5)]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("node_id", "fenced", "listener"), [(3, False, "INSIDE"), (OTHER, True, "INSIDE"), (OTHER, False, "OWN")]
)
def test_a_broker_that_is_not_there_is_not_asked(node_id: int, fenced: bool, listener: str) -> None:
    async def scenario() -> None:
        peers = Peers()
        brokers = BrokerRequests(FakeCluster(fenced=fenced, listener=listener), peers)
        with pytest.raises(PeerUnreachable, match=f"broker {node_id} is not there"):
            await brokers.ask("a", node_id, ApiVersionsRequest())
        assert not peers.asked

    asyncio.run(scenario())
