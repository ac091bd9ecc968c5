"""The protocols by which the parts of this room are given what they use of their node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.broker.controller.node import TopicCreator
from ottla.broker.parts import Background, Clock, Cluster, Loop

if TYPE_CHECKING:
    from ottla.broker.controller.controller import Controller
    from ottla.broker.network.server import Server
    from ottla.broker.peers.broker_requests import AsksBrokers
    from ottla.broker.replication.partition import Partition
    from ottla.broker.replication.partitions import Partitions
    from ottla.broker.replication.produced_appends import ProducedAppends
    from ottla.broker.replication.replication import Replication
    from ottla.core.share.dead_letters import DeadLetter
    from ottla.core.share.keys import SharePartitionKey
    from ottla.core.share.responses import StateRequest
    from ottla.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
    from ottla.protocol.messages.read_share_group_state_response import ReadShareGroupStateResponse
    from ottla.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
    from ottla.protocol.messages.write_share_group_state_response import WriteShareGroupStateResponse
    from ottla.protocol.schema import Message


class ShareStates(Protocol):
    """The way to the share coordinators, for the leaders of share partitions."""

    async def read(self, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
        """The state of share partitions, for their leaders, whose epochs the coordinator remembers."""
        ...

    async def write(self, request: WriteShareGroupStateRequest) -> WriteShareGroupStateResponse:
        """Add changed batches and a start offset to the state. Durable when this returns without error."""
        ...


class DeadLetters(Protocol):
    """The way of dead letters to their groups' topics, for the leaders of share partitions."""

    def write(
        self, key: SharePartitionKey, source: Partition, letters: Sequence[DeadLetter]
    ) -> AsyncIterator[list[DeadLetter]]:
        """Write the letters of a share partition; gives back, batch by batch, those that are done with."""
        ...


class DeadLetterNode(TopicCreator, Clock, Protocol):
    """The members of a node that the writing of dead letters uses."""

    @property
    def partitions(self) -> Partitions:
        """The partitions with a replica here."""
        ...

    @property
    def produced_appends(self) -> ProducedAppends:
        """Appends of producers' batches."""
        ...

    @property
    def broker_requests(self) -> AsksBrokers:
        """Requests to other brokers."""
        ...

    @property
    def server(self) -> Server:
        """The server of clients, whose log is bounded."""
        ...


class ShareLeaderNode(Cluster, Clock, Loop, Background, Protocol):
    """The members of a node that the leader of a share partition uses."""

    @property
    def partitions(self) -> Partitions:
        """The partitions with a replica here."""
        ...

    @property
    def replication(self) -> Replication:
        """The parts that hold and copy them."""
        ...

    @property
    def share_state(self) -> ShareStates:
        """The way to the share coordinators."""
        ...


class SharePartitionsNode(ShareLeaderNode, DeadLetterNode, Protocol):
    """The members of a node that all share partitions of a broker use."""

    @property
    def controller(self) -> Controller:
        """This node's replica of the metadata, which tells of changes."""
        ...

    @property
    def server(self) -> Server:
        """The server of clients, which tells of connections that have closed."""
        ...


class CoordinatorShards(Protocol):
    """The brokers that coordinate the partitions of a coordinator's topic."""

    def leader_of(self, partition: int) -> int | None:
        """The node id of the broker whose shard it is; None without one, or without such a partition."""
        ...


class ShareCoordination(Protocol):
    """This broker's share coordinator, and where the others are."""

    @property
    def shards(self) -> CoordinatorShards:
        """The brokers that coordinate the partitions of the coordinator's topic."""
        ...

    async def make_topic(self) -> None:
        """Create the coordinator's topic unless it is there. Raises KafkaError."""
        ...

    def partition_for(self, key: SharePartitionKey) -> int:
        """The partition of the coordinator's topic that holds a share partition's state."""
        ...

    async def ask(
        self, parts: Sequence[tuple[SharePartitionKey, StateRequest]]
    ) -> dict[SharePartitionKey, Message]:
        """The answers about share partitions that this broker coordinates."""
        ...
