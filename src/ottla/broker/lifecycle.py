"""A broker's life in the cluster: registers, sends heartbeats, hands its leadership over before it stops."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class BrokerState(enum.Enum):
    """How far a broker has come."""

    STARTING = "starting"
    RECOVERY = "recovery"
    """Registered, and fenced until it has caught up with the metadata."""
    RUNNING = "running"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    STOPPED = "stopped"


class BrokerLifecycle:
    """Tells the active controller of this broker and keeps what it answers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.state = BrokerState.STARTING
        self.broker_epoch = -1
        """This registration's epoch; -1 before there is one."""
        self.fenced = True
        """As the last heartbeat's answer said."""
        self.wanted_shutdown = False
        """Whether this broker asks to be let go."""
