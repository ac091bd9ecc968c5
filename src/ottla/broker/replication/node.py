"""The protocols by which the parts of this room are given what they use of their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.parts import Background, Clock, Cluster, Loop
from ottla.broker.peers.broker_requests import PeersNode

if TYPE_CHECKING:
    from ottla.broker.controller.controller import Controller
    from ottla.broker.controller.controller_channel import ControllerChannel
    from ottla.broker.controller.lifecycle import BrokerLifecycle
    from ottla.broker.controller.metadata_quorum import MetadataQuorum


class Registered(Protocol):
    """This broker's place in the cluster."""

    @property
    def lifecycle(self) -> BrokerLifecycle:
        """The broker's registration and its epoch."""
        ...


class RolesNode(Cluster, Loop, Registered, Protocol):
    """The members of a node that the roles of partitions use."""


class UpdatesNode(Cluster, Registered, Protocol):
    """The members of a node that changes of in-sync sets use."""

    @property
    def controller_channel(self) -> ControllerChannel:
        """The way to the active controller."""
        ...


class FetchersNode(PeersNode, Clock, Loop, Background, Registered, Protocol):
    """The members of a node that the fetchers of followers use."""


class ReplicationNode(RolesNode, UpdatesNode, FetchersNode, Protocol):
    """The members of a node that a broker's replicas use as a whole."""

    @property
    def controller(self) -> Controller:
        """This node's replica of the metadata, and the way to change it."""
        ...

    @property
    def quorum(self) -> MetadataQuorum:
        """The metadata log and its voters."""
        ...
