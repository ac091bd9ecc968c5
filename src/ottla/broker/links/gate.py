"""Stands where links are told of the metadata and of roles, and makes them when there is a first link.

A broker without links, which is nearly every one, imports nothing of them and pays for a look at the settings
of all brokers when those change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.core.image.image import BROKER_RESOURCE, MetadataDelta
from ottla.core.links.definition import links_of

if TYPE_CHECKING:
    from ottla.broker.links.links import Links
    from ottla.broker.links.node import LinksNode
    from ottla.broker.replication.partition import Partition


class LinksGate:
    """The links of a broker, which may have none. Used on the event loop only."""

    def __init__(self, node: LinksNode) -> None:
        self._node = node
        self._is_stopped = False
        self.links: Links | None = None
        """None before the first link or mirror topic."""

    def _made(self) -> Links:
        if self.links is None:
            from ottla.broker.links.links import Links

            self.links = Links(self._node)
            self.links.begin()
        return self.links

    def made_unless_stopped(self) -> Links | None:
        """The links, made now if need be; None while the broker is stopping."""
        return None if self._is_stopped else self._made()

    def begin(self) -> None:
        """The metadata are there, and no role is taken yet."""
        if links_of(self._node.image.configs.get((BROKER_RESOURCE, ""), {})):
            self._made()

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Follow committed metadata, after the roles have."""
        if self.links is not None:
            self.links.on_metadata(delta)
        elif delta.broker_configs_changed:
            self.begin()

    def stop(self) -> None:
        """The broker is stopping: copy nothing more."""
        self._is_stopped = True
        if self.links is not None:
            self.links.stop()

    # -- mirror topics ------------------------------------------------------------------------------

    def on_led(self, partition: Partition) -> None:
        """This broker leads a mirror topic's partition now, or in a new leader epoch."""
        if not self._is_stopped:
            self._made().on_led(partition)

    def on_resigned(self, partition: Partition) -> None:
        """This broker leads the partition no more."""
        if self.links is not None:
            self.links.on_resigned(partition)


class StatusTopicGate:
    """The same for the status topic's leader: a coordinator as roles know them."""

    def __init__(self, gate: LinksGate) -> None:
        self._gate = gate

    def prepare(self) -> None:
        """This broker has a replica of the status topic: nothing to prepare."""

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """This broker coordinates the links from now on."""
        links = self._gate.made_unless_stopped()
        if links is not None:
            links.coordinator.on_elected(partition, leader_epoch)

    def on_resigned(self, partition: int) -> None:
        """It does so no more."""
        if self._gate.links is not None:
            self._gate.links.coordinator.on_resigned(partition)
