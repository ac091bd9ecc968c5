"""BrokerHeartbeat 0-2: who is alive, who has caught up, who may stop. Soft state of the active controller.

What a broker is (fenced, unfenced, in controlled shutdown) is metadata and lies in the image. Only what changes
with each heartbeat is kept here, and forgotten with the controller: when a broker was heard last, how far it has
applied the metadata, and the offset that others must have applied before it may stop.

    fenced               -> unfenced: it wants that and has applied its own registration
    unfenced             -> controlled shutdown: it wants to stop and leads something: its partitions move
    unfenced             -> fenced: it wants that, it stops leading nothing, or it was silent for too long
    controlled shutdown  -> fenced: it leads nothing, and every active broker has applied the moves

v1 names data directories that failed (KIP-858), v2 those that get no new partitions (KIP-1066).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.core.metadata.decisions import Decision
from ottla.core.metadata.image import MetadataImage
from ottla.core.metadata.partition_changes import TopicRules
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse


@dataclass(slots=True)
class _Contact:
    """What one incarnation of a broker said last."""

    broker_epoch: int
    last_contact_ms: int
    metadata_offset: int = -1
    #: The offset that active brokers must reach before this one stops; -1 as long as it does not want to.
    controlled_shutdown_offset: int = -1


@dataclass(slots=True)
class BrokerHeartbeats:
    """One active controller's knowledge of brokers' lives. Make one when the node becomes active.

    Times are of any monotonic clock in milliseconds. Methods with an image want the one that a decision gets
    (`Controller.submit`): everything appended so far.
    """

    session_timeout_ms: int
    _contacts: dict[int, _Contact] = field(default_factory=dict)

    @classmethod
    def of_new_controller(
        cls, image: MetadataImage, session_timeout_ms: int, now_ms: int
    ) -> BrokerHeartbeats:
        """A new active controller has heard nobody: every broker that is unfenced counts as just seen."""
        return cls(session_timeout_ms)

    def is_alive(self, image: MetadataImage, broker_id: int, now_ms: int) -> bool:
        """Whether the broker is unfenced and was heard within the session timeout."""
        raise AssertionError("not yet")

    def on_broker_heartbeat(
        self, image: MetadataImage, request: BrokerHeartbeatRequest, now_ms: int, rules: TopicRules
    ) -> Decision[BrokerHeartbeatResponse]:
        """What a heartbeat changes. Raises StaleBrokerEpoch."""
        raise AssertionError("not yet")

    def expired(self, image: MetadataImage, now_ms: int) -> int | None:
        """The broker that was silent longest, if that was too long."""
        raise AssertionError("not yet")

    def fence_expired(self, image: MetadataImage, now_ms: int, rules: TopicRules) -> Decision[int | None]:
        """Fence one silent broker; its id, None when all are alive. Call again until it is None."""
        raise AssertionError("not yet")

    def next_wake_ms(self, image: MetadataImage) -> int | None:
        """When `fence_expired` must be called next at the latest; None without unfenced brokers."""
        raise AssertionError("not yet")
