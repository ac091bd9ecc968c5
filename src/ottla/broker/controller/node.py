"""The protocols by which the parts of this room are given what they use of their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.broker.parts import Background, Clock, Cluster, Loop

if TYPE_CHECKING:
    from ottla.broker.controller.controller import Controller
    from ottla.broker.controller.controller_channel import ControllerChannel
    from ottla.broker.supervisor import Supervisor
    from ottla.storage.log_directory import LogDirectory


class WorkNode(Cluster, Clock, Loop, Protocol):
    """The members of a node that the controller's duties use."""

    @property
    def controller(self) -> Controller:
        """This node's replica of the metadata, and the way to change it."""
        ...

    @property
    def controller_supervisor(self) -> Supervisor:
        """Owns the background tasks of the controller."""
        ...


class TakesRoles(Protocol):
    """Partitions that are led and followed once the broker is registered."""

    def take_roles(self) -> None:
        """Lead and follow what the metadata says."""
        ...


class LifecycleNode(Cluster, Loop, Background, Protocol):
    """The members of a node that a broker's life in the cluster uses."""

    @property
    def log_directory(self) -> LogDirectory:
        """The data directory."""
        ...

    @property
    def cluster_id(self) -> str:
        """The cluster's id as clients see it."""
        ...

    @property
    def controller(self) -> Controller:
        """This node's replica of the metadata, and the way to change it."""
        ...

    @property
    def controller_channel(self) -> ControllerChannel:
        """The way to the active controller."""
        ...

    @property
    def roles(self) -> TakesRoles:
        """The roles of the partitions with a replica here."""
        ...

    def fail(self, reason: str) -> None:
        """The node can't go on: say why in one line and stop it."""
        ...


class TopicCreator(Cluster, Protocol):
    """The members of a node that the creation of topics uses."""

    @property
    def controller(self) -> Controller:
        """This node's replica of the metadata, and the way to change it."""
        ...

    @property
    def controller_channel(self) -> ControllerChannel:
        """The way to the active controller."""
        ...
