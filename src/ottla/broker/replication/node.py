"""What the parts of this room are given of their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.parts import Background, Clock, Cluster, Loop
from ottla.broker.peers.broker_requests import PeersNode

if TYPE_CHECKING:
    from ottla.broker.controller.controller import Controller
    from ottla.broker.controller.controller_channel import ControllerChannel
    from ottla.broker.controller.lifecycle import BrokerLifecycle
    from ottla.broker.controller.metadata_quorum import MetadataQuorum


class QuotaNode(Cluster, Loop, Protocol):
    """What quotas of replication use."""


class LogsNode(Cluster, Clock, Protocol):
    """What the logs use."""

    @property
    def controller(self) -> Controller:
        """This node's replica of the metadata, and the way to change it."""
        ...

    @property
    def quorum(self) -> MetadataQuorum:
        """The metadata log and its voters."""
        ...


class CleanerNode(Cluster, Clock, Protocol):
    """What the cleaner uses."""


class UpdatesNode(Cluster, Protocol):
    """What changes of in-sync sets use."""

    @property
    def lifecycle(self) -> BrokerLifecycle:
        """The broker's registration and its epoch."""
        ...

    @property
    def controller_channel(self) -> ControllerChannel:
        """The way to the active controller."""
        ...


class FetchersNode(PeersNode, Clock, Loop, Background, Protocol):
    """What the fetchers of followers use."""

    @property
    def lifecycle(self) -> BrokerLifecycle:
        """The broker's registration and its epoch."""
        ...


class ReplicasNode(LogsNode, CleanerNode, UpdatesNode, FetchersNode, QuotaNode, Protocol):
    """What the whole of the replicas uses."""
