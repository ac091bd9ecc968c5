"""The protocols by which the parts of this room are given what they use of their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.controller.node import TopicCreator
from ottla.broker.parts import Background, Clock, Loop
from ottla.broker.peers.broker_requests import AsksBrokers

if TYPE_CHECKING:
    from ottla.broker.replication.internal_appends import InternalAppends
    from ottla.broker.replication.partitions import Partitions
    from ottla.broker.replication.replication import Replication


class LinksNode(TopicCreator, Clock, Loop, Background, Protocol):
    """The members of a node that links use."""

    @property
    def partitions(self) -> Partitions:
        """The partitions with a replica here."""
        ...

    @property
    def replication(self) -> Replication:
        """The parts that lead and copy them."""
        ...

    @property
    def internal_appends(self) -> InternalAppends:
        """Appends of this broker's own records."""
        ...

    @property
    def broker_requests(self) -> AsksBrokers:
        """The way to other brokers of this cluster."""
        ...
