"""The protocols by which the parts of this room are given what they use of their node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.broker.controller.node import TopicCreator
from ottla.broker.parts import Background, Clock, Loop
from ottla.broker.peers.broker_requests import AsksBrokers, PeersNode
from ottla.broker.replication.marker_appends import AppendsMarkers, MarkersNode
from ottla.protocol.compression import Codec

if TYPE_CHECKING:
    from ottla.broker.authorization import Authorization
    from ottla.broker.coordinators.coordinator_partitions import CoordinatorPartitions
    from ottla.broker.coordinators.producer_ids import ProducerIdSource
    from ottla.broker.replication.partitions import Partitions
    from ottla.broker.replication.replication import Replication
    from ottla.core.coordination.api import ProducerStamp
    from ottla.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
    from ottla.protocol.messages.delete_share_group_state_response import DeleteShareGroupStateResponse
    from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
    from ottla.protocol.messages.initialize_share_group_state_response import (
        InitializeShareGroupStateResponse,
    )
    from ottla.protocol.record_batch import BatchHeader, NewRecord, Record


class StateLogs(Protocol):
    """Appends the records of coordinators and reads them back, as `InternalAppends` does."""

    async def append_records(
        self,
        topic: str,
        index: int,
        records: Sequence[NewRecord],
        *,
        codec: Codec = Codec.NONE,
        producer: ProducerStamp | None = None,
    ) -> int:
        """Append records as one batch; returns its base offset once committed."""
        ...

    async def until_committed(self, topic: str, index: int) -> None:
        """Wait until all that the partition's log holds now is committed."""
        ...

    def iterate_batches(self, topic: str, index: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """The committed batches of a partition with their records, control batches too."""
        ...


class ShardNode(Clock, Background, Protocol):
    """The members of a node for every shard."""

    @property
    def internal_appends(self) -> StateLogs:
        """The logs that coordinators keep their states in."""
        ...


class HomingNode(PeersNode, Clock, Loop, Protocol):
    """The members of a node for the homing of strays."""

    @property
    def coordinator_partitions(self) -> CoordinatorPartitions:
        """Which partition of a coordinator's topic a name lives in."""
        ...

    @property
    def internal_appends(self) -> StateLogs:
        """The logs that coordinators keep their states in."""
        ...


class RoutingNode(HomingNode, ShardNode, Protocol):
    """The members of a node for the way to the shards."""

    @property
    def authorization(self) -> Authorization:
        """Decides what the sender of a request may do."""
        ...


class StreamsTopicsNode(TopicCreator, Background, Protocol):
    """The members of a node for the creation of Streams' topics."""


class ShareStates(Protocol):
    """The way to the share coordinators, to begin and end the state of share partitions."""

    async def initialize(
        self, request: InitializeShareGroupStateRequest
    ) -> InitializeShareGroupStateResponse:
        """Begin the state of share partitions."""
        ...

    async def delete(self, request: DeleteShareGroupStateRequest) -> DeleteShareGroupStateResponse:
        """Forget the state; no error if there is none."""
        ...


class GroupShardNode(StreamsTopicsNode, Protocol):
    """The members of a node for shards of groups."""

    @property
    def share_state(self) -> ShareStates:
        """The way to the share coordinators."""
        ...


class GroupsNode(RoutingNode, GroupShardNode, Protocol):
    """The members of a node for the group coordinator."""


class TransactionMarkersNode(MarkersNode, Loop, Background, Protocol):
    """The members of a node for markers of transactions."""

    @property
    def broker_requests(self) -> AsksBrokers:
        """The way to other brokers."""
        ...


class TransactionShardNode(TransactionMarkersNode, Protocol):
    """The members of a node for shards of transactions."""

    @property
    def producer_ids(self) -> ProducerIdSource:
        """Producer ids that no other producer has."""
        ...


class StateLogsAndMarkers(StateLogs, AppendsMarkers, Protocol):
    """Appends of a coordinator that ends transactions."""


class TransactionsNode(RoutingNode, TransactionShardNode, Protocol):
    """The members of a node for the transaction coordinator."""

    @property
    def internal_appends(self) -> StateLogsAndMarkers:
        """The logs that it keeps its states in, and those that transactions end in."""
        ...


class ShareCoordinatorNode(RoutingNode, TopicCreator, Protocol):
    """The members of a node for the share coordinator."""

    @property
    def partitions(self) -> Partitions:
        """The partitions with a replica here."""
        ...

    @property
    def replication(self) -> Replication:
        """The parts that hold and copy them."""
        ...
