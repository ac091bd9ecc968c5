"""What the parts of this room are given of their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.controller.node import TopicCreator
from ottla.broker.parts import Background, Clock, Loop
from ottla.broker.peers.broker_requests import PeersNode

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinator_partitions import CoordinatorPartitions
    from ottla.broker.coordinators.producer_ids import ProducerIdSource
    from ottla.broker.replication.internal_appends import InternalAppends
    from ottla.broker.replication.partitions import Partitions
    from ottla.broker.replication.replication import Replication
    from ottla.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
    from ottla.protocol.messages.delete_share_group_state_response import DeleteShareGroupStateResponse
    from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
    from ottla.protocol.messages.initialize_share_group_state_response import (
        InitializeShareGroupStateResponse,
    )


class ShardNode(Clock, Background, Protocol):
    """What every shard uses."""

    @property
    def internal_appends(self) -> InternalAppends:
        """Appends of this broker's own records."""
        ...


class HomingNode(PeersNode, Clock, Loop, Protocol):
    """What the homing of strays uses."""

    @property
    def coordinator_partitions(self) -> CoordinatorPartitions:
        """Which partition of a coordinator's topic a name lives in."""
        ...

    @property
    def internal_appends(self) -> InternalAppends:
        """Appends of this broker's own records."""
        ...


class RoutingNode(HomingNode, ShardNode, Protocol):
    """What the way to the shards uses."""


class StreamsTopicsNode(TopicCreator, Background, Protocol):
    """What the creation of Streams' topics uses."""


class ShareStates(Protocol):
    """The way to the share coordinators, to begin and end the state of share partitions."""

    async def initialize(
        self, request: InitializeShareGroupStateRequest
    ) -> InitializeShareGroupStateResponse:
        """Begin the state of share partitions."""
        ...

    async def delete(self, request: DeleteShareGroupStateRequest) -> DeleteShareGroupStateResponse:
        """Forget the state; to delete what is not there is no error."""
        ...


class GroupShardNode(StreamsTopicsNode, Protocol):
    """What shards of groups use."""

    @property
    def share_state(self) -> ShareStates:
        """The way to the share coordinators."""
        ...


class GroupsNode(RoutingNode, GroupShardNode, Protocol):
    """What the group coordinator uses."""


class RemoteTransactionsNode(PeersNode, Loop, Background, Protocol):
    """What questions to other transaction coordinators use."""


class TransactionMarkersNode(PeersNode, Loop, Background, Protocol):
    """What markers of transactions use."""

    @property
    def partitions(self) -> Partitions:
        """The partitions with a replica here."""
        ...

    @property
    def internal_appends(self) -> InternalAppends:
        """Appends of this broker's own records."""
        ...


class TransactionShardNode(TransactionMarkersNode, Protocol):
    """What shards of transactions use."""

    @property
    def producer_ids(self) -> ProducerIdSource:
        """Producer ids that nobody else has."""
        ...


class TransactionsNode(RoutingNode, TransactionShardNode, RemoteTransactionsNode, Protocol):
    """What the transaction coordinator uses."""


class ShareCoordinatorNode(RoutingNode, TopicCreator, Protocol):
    """What the share coordinator uses."""

    @property
    def partitions(self) -> Partitions:
        """The partitions with a replica here."""
        ...

    @property
    def replication(self) -> Replication:
        """The parts that hold and copy them."""
        ...
