"""The narrow protocols by which the parts of a node see it; the node as a whole satisfies all of them.

Here are those of all rooms. Members that only one room or part uses stand beside it, in protocols that add to
these; a part is never given more than its protocol names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from ottla.broker.config import BrokerConfig
    from ottla.broker.supervisor import Supervisor
    from ottla.core.image.image import MetadataImage


class Configured(Protocol):
    """The settings of this node."""

    @property
    def config(self) -> BrokerConfig:
        """The node's settings."""
        ...


class Cluster(Configured, Protocol):
    """The cluster as this node knows it, and which of its nodes this is."""

    @property
    def node_id(self) -> int:
        """The node's number."""
        ...

    @property
    def image(self) -> MetadataImage:
        """The cluster's metadata as of the last committed record that is applied here."""
        ...


class Clock(Protocol):
    """The wall clock."""

    def now_ms(self) -> int:
        """Wall-clock time, for timestamps and retention."""
        ...


class Loop(Protocol):
    """The event loop, whose clock is the steady one."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that all of the node runs on."""
        ...


class Background(Protocol):
    """The background tasks."""

    @property
    def supervisor(self) -> Supervisor:
        """Owns the background tasks of the broker."""
        ...
