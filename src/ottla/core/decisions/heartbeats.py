"""BrokerHeartbeat 0-2: the brokers' liveness, the active controller's soft state.

Whether a broker is fenced, unfenced or in controlled shutdown is in the image. Only the facts that change
with each heartbeat are kept here, and lost with the controller: when the broker was last heard, how far it
has applied the metadata, and the offset that the others must have applied before it may stop.

    fenced               -> unfenced: it asks for that and has applied its own registration
    unfenced             -> controlled shutdown: it asks to stop and leads partitions, which move
    unfenced             -> fenced: it asks for that, asks to stop and leads none, or was silent for too long
    controlled shutdown  -> fenced: it leads nothing, and every active broker has applied the moves

v1 names data directories that failed (KIP-858), v2 those that get no new partitions (KIP-1066).

Unlike in Kafka, the session of a broker that was told to stop has ended: its next incarnation may register at
once instead of after the session timeout.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from ottla.core.decisions.decision import Decision
from ottla.core.decisions.directories import cordon_directories, fail_directories
from ottla.core.decisions.fencing import begin_controlled_shutdown, fence_broker, unfence_broker
from ottla.core.decisions.partition_changes import PartitionChanges, TopicRules
from ottla.core.decisions.registration import registered_broker
from ottla.core.image.image import BrokerImage, MetadataImage
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse


class _State(enum.Enum):
    """The state that a heartbeat's answer assigns to a broker."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    STOPPED = "stopped"


@dataclass(slots=True)
class _Contact:
    """The last heartbeat of one incarnation of a broker."""

    broker_epoch: int
    last_contact_ms: int
    metadata_offset: int = -1
    #: The offset that active brokers must reach before this one stops; -1 until it asks to stop.
    controlled_shutdown_offset: int = -1


@dataclass(slots=True)
class BrokerHeartbeats:
    """An active controller's knowledge of the brokers' liveness, made when the node becomes active.

    Times are milliseconds of any monotonic clock. Methods with an image need the one that a decision gets
    (`Controller.submit`), with everything appended so far.
    """

    session_timeout_ms: int
    _contacts: dict[int, _Contact] = field(default_factory=dict)

    @classmethod
    def of_new_controller(
        cls, image: MetadataImage, session_timeout_ms: int, now_ms: int
    ) -> BrokerHeartbeats:
        """The state of a new active controller: every unfenced broker counts as just heard."""
        heartbeats = cls(session_timeout_ms)
        for broker in image.brokers.values():
            if not broker.fenced:
                heartbeats._touch(broker, now_ms)
        return heartbeats

    def is_alive(self, image: MetadataImage, broker_id: int, now_ms: int) -> bool:
        """Whether the registered incarnation of the broker was heard within the session timeout."""
        broker = image.brokers.get(broker_id)
        contact = self._contacts.get(broker_id)
        if broker is None or contact is None or contact.broker_epoch != broker.broker_epoch:
            return False
        return now_ms - contact.last_contact_ms < self.session_timeout_ms

    def on_broker_heartbeat(
        self, image: MetadataImage, request: BrokerHeartbeatRequest, now_ms: int, rules: TopicRules
    ) -> Decision[BrokerHeartbeatResponse]:
        """Decide on a heartbeat. Raises StaleBrokerEpoch."""
        broker = registered_broker(image, request.broker_id, request.broker_epoch)
        contact = self._touch(broker, now_ms)
        contact.metadata_offset = request.current_metadata_offset
        caught_up = request.current_metadata_offset >= broker.broker_epoch
        state = self._next_state(image, broker, contact, request, caught_up)
        changes = PartitionChanges(image, rules)
        match state:
            case _State.FENCED | _State.STOPPED if not broker.fenced:
                fence_broker(changes, broker.broker_id)
            case _State.UNFENCED if broker.fenced:
                unfence_broker(changes, broker.broker_id)
            case _State.CONTROLLED_SHUTDOWN:
                # Repeated while it leads: the controller before this one may have moved only some of its
                # partitions.
                if not broker.in_controlled_shutdown or _leads_something(image, broker.broker_id):
                    begin_controlled_shutdown(changes, broker.broker_id)
        fail_directories(changes, broker.broker_id, request.offline_log_dirs)
        cordon_directories(changes, broker.broker_id, request.cordoned_log_dirs)
        if state is _State.STOPPED:
            del self._contacts[broker.broker_id]
        elif state is _State.CONTROLLED_SHUTDOWN and changes.records:
            contact.controlled_shutdown_offset = image.last_offset + len(changes.records)
        response = BrokerHeartbeatResponse(
            is_caught_up=caught_up,
            is_fenced=state in (_State.FENCED, _State.STOPPED),
            should_shut_down=state is _State.STOPPED,
        )
        return Decision(changes.records, response)

    def _next_state(
        self,
        image: MetadataImage,
        broker: BrokerImage,
        contact: _Contact,
        request: BrokerHeartbeatRequest,
        caught_up: bool,
    ) -> _State:
        if broker.fenced:
            if request.want_shut_down:
                return _State.STOPPED
            return _State.UNFENCED if caught_up and not request.want_fence else _State.FENCED
        if broker.in_controlled_shutdown:
            if _leads_something(image, broker.broker_id) or not self._moves_are_known(image, contact):
                return _State.CONTROLLED_SHUTDOWN
            return _State.STOPPED
        if request.want_fence:
            return _State.STOPPED if request.want_shut_down else _State.FENCED
        if request.want_shut_down:
            leads = _leads_something(image, broker.broker_id)
            return _State.CONTROLLED_SHUTDOWN if leads else _State.STOPPED
        return _State.UNFENCED

    def _moves_are_known(self, image: MetadataImage, contact: _Contact) -> bool:
        """Whether all active brokers have applied the moves of this broker's partitions.

        A new controller does not know the offset of the moves. The image's offset is safe: the moves lie
        before it.
        """
        if contact.controlled_shutdown_offset < 0:
            contact.controlled_shutdown_offset = image.last_offset
        return all(
            self._metadata_offset(broker) >= contact.controlled_shutdown_offset
            for broker in image.brokers.values()
            if broker.active
        )

    def _metadata_offset(self, broker: BrokerImage) -> int:
        contact = self._contacts.get(broker.broker_id)
        return (
            -1 if contact is None or contact.broker_epoch != broker.broker_epoch else contact.metadata_offset
        )

    def expired(self, image: MetadataImage, now_ms: int) -> int | None:
        """The broker that was silent longest, if that was longer than the session timeout; or None."""
        for broker_id in [each for each in self._contacts if each not in image.brokers]:
            del self._contacts[broker_id]
        unfenced = [broker for broker in image.brokers.values() if not broker.fenced]
        if not unfenced:
            return None
        oldest = min(unfenced, key=lambda broker: self._last_contact_ms(broker, now_ms))
        silent_ms = now_ms - self._last_contact_ms(oldest, now_ms)
        return oldest.broker_id if silent_ms >= self.session_timeout_ms else None

    def fence_expired(self, image: MetadataImage, now_ms: int, rules: TopicRules) -> Decision[int | None]:
        """Fence one silent broker and return its id; None when all are alive. To be called until it is None.

        Brokers are fenced one at a time, so that each decision builds on the one before.
        """
        broker_id = self.expired(image, now_ms)
        changes = PartitionChanges(image, rules)
        if broker_id is not None:
            fence_broker(changes, broker_id)
        return Decision(changes.records, broker_id)

    def next_wake_ms(self, image: MetadataImage) -> int | None:
        """The time by which `fence_expired` must be called next; None without unfenced brokers."""
        times = [
            contact.last_contact_ms
            for broker_id, contact in self._contacts.items()
            if broker_id in image.brokers and not image.brokers[broker_id].fenced
        ]
        return min(times) + self.session_timeout_ms if times else None

    def _last_contact_ms(self, broker: BrokerImage, now_ms: int) -> int:
        contact = self._contacts.get(broker.broker_id)
        if contact is None or contact.broker_epoch != broker.broker_epoch:
            contact = self._touch(broker, now_ms)
        return contact.last_contact_ms

    def _touch(self, broker: BrokerImage, now_ms: int) -> _Contact:
        contact = self._contacts.get(broker.broker_id)
        if contact is None or contact.broker_epoch != broker.broker_epoch:
            contact = self._contacts[broker.broker_id] = _Contact(broker.broker_epoch, now_ms)
        contact.last_contact_ms = now_ms
        return contact


def _leads_something(image: MetadataImage, broker_id: int) -> bool:
    return any(partition.leader == broker_id for _, partition in image.partitions_of_broker(broker_id))
