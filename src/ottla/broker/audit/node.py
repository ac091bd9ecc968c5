"""The protocol by which the parts of this room are given what they use of their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.controller.node import TopicCreator
from ottla.broker.parts import Background, Clock, Loop

if TYPE_CHECKING:
    from ottla.broker.network.server import Server
    from ottla.broker.peers.peers import PeerConnections
    from ottla.broker.replication.internal_appends import InternalAppends
    from ottla.broker.replication.partitions import Partitions
    from ottla.broker.replication.produced_appends import ProducedAppends
    from ottla.storage.log_directory import LogDirectory


class ProducerIdSource(Protocol):
    """Gives producer ids."""

    async def next_id(self) -> int:
        """A producer id that no producer has. Raises KafkaError."""
        ...


class AuditNode(TopicCreator, Clock, Loop, Background, Protocol):
    """The members of a node that the audit log uses; a controller alone has none of a broker's parts."""

    @property
    def log_directory(self) -> LogDirectory:
        """The data directory."""
        ...

    @property
    def server(self) -> Server:
        """The connections of clients."""
        ...

    @property
    def peers(self) -> PeerConnections:
        """Connections to brokers."""
        ...

    @property
    def partitions(self) -> Partitions:
        """The partitions with a replica here."""
        ...

    @property
    def produced_appends(self) -> ProducedAppends:
        """Appends of producers' batches."""
        ...

    @property
    def internal_appends(self) -> InternalAppends:
        """Appends of this broker's own records."""
        ...

    @property
    def producer_ids(self) -> ProducerIdSource:
        """Producer ids that no other producer has."""
        ...
