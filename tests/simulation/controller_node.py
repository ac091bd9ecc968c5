"""A node's metadata, and its work as the active controller, in the order of steps of `controller.py`.

A decision is made on all records appended so far, its records are one batch, and its answer is sent when the
batch is committed and applied here. A controller that loses the epoch meanwhile does not know the outcome: it
answers NOT_CONTROLLER.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ottla.core.decisions.balance import balance_leaders, elect_missing_leaders
from ottla.core.decisions.decision import Decision
from ottla.core.decisions.elections import elect_leaders
from ottla.core.decisions.heartbeats import BrokerHeartbeats
from ottla.core.decisions.in_sync import alter_partition
from ottla.core.decisions.partition_changes import TopicRules, topic_rules
from ottla.core.decisions.producer_ids import allocate_producer_ids
from ottla.core.decisions.reassignments import alter_partition_reassignments
from ottla.core.decisions.registration import register_broker
from ottla.core.decisions.topics import TopicDefaults, create_topics, delete_topics
from ottla.core.image.features import INITIAL_FEATURES, METADATA_VERSION
from ottla.core.image.image import BROKER_RESOURCE, MetadataDelta, MetadataImage
from ottla.core.image.snapshot_records import image_records
from ottla.core.quorum.api import Became, Role, SnapshotId
from ottla.core.settings.config_layers import BrokerLayers
from ottla.protocol.errors import ErrorCode, KafkaError, NotController
from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from ottla.protocol.messages.alter_partition_request import AlterPartitionRequest
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ottla.protocol.messages.create_topics_request import CreateTopicsRequest
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.record_batch import BatchHeader, decode_records
from ottla.protocol.records.begin_transaction_record import BeginTransactionRecord
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.end_transaction_record import EndTransactionRecord
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.framing import decode_metadata_record
from ottla.protocol.schema import Message
from simulation.quorum_node import snapshot_records
from simulation.world.scheduler import Promise

if TYPE_CHECKING:
    from simulation.node import Node
    from simulation.world.network import Reply as Answer

DEFAULTS = TopicDefaults(num_partitions=1, replication_factor=3)


@dataclass(frozen=True, slots=True)
class Refused:
    """An error instead of an answer."""

    code: ErrorCode


class CoreDice:
    """The random choices of decisions, from the simulated world's random numbers."""

    def __init__(self, node: Node) -> None:
        self._random = node.host.scheduler.random

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)

    def new_id(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)


_decoded: dict[bytes, tuple[Message, ...]] = {}
"""Records by their batch, for all nodes, because decoding
costs most of the time. Emptied for each cluster.
"""


def forget_decoded() -> None:
    """A new cluster begins."""
    _decoded.clear()


def records_of(batch: bytes) -> tuple[Message, ...]:
    """The metadata records of a batch, which must not be changed."""
    known = _decoded.get(batch)
    if known is None:
        known = tuple(decode_metadata_record(record.value or b"") for record in decode_records(batch))
        _decoded[batch] = known
    return known


class ControllerNode:
    """One life of a node's metadata."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._random = CoreDice(node)
        self.image = MetadataImage()
        self.active = False
        self.epoch = -1
        self.on_delta: Callable[[MetadataDelta], None] = lambda delta: None
        self._ahead = self.image
        self._pending: deque[tuple[int, Promise, Any]] = deque()
        self._heartbeats = BrokerHeartbeats(node.settings.session_timeout_ms)
        self._fencing: Any = None
        self._waiters: list[tuple[int, Promise]] = []
        self._snapshot_at = 0

    # -- following ------------------------------------------------------------------------------------

    def load_snapshot(self, snapshot: SnapshotId, data: bytes) -> None:
        """Replace the metadata by the snapshot's."""
        before = self.image
        image = MetadataImage()
        delta = MetadataDelta()
        for record in snapshot_records(data):
            image.apply(record, delta)
        image.last_offset, image.last_epoch = snapshot.end_offset - 1, snapshot.epoch
        for topic_id, topic in before.topics_by_id.items():
            if topic_id not in image.topics_by_id:
                delta.deleted_topics.append((topic_id, topic.name))
        self.image = image
        self._snapshot_at = image.last_offset
        self._node.observer.snapshot_loaded(self._node, snapshot, image)
        self.on_delta(delta)
        self._wake_waiters()

    def on_commit(self, header: BatchHeader, batch: bytes) -> None:
        """Apply a committed batch, in the order of the log."""
        image = self.image
        is_news = self._node.observer.committed(self._node, header, batch)
        delta = MetadataDelta()
        if not header.is_control:
            records = records_of(batch)
            for record in records:
                image.apply(record, delta)
            if is_news:
                self._node.observer.changed(header, records)
        image.last_offset, image.last_epoch = header.last_offset, header.partition_leader_epoch
        if not header.is_control:
            self.on_delta(delta)
        while self._pending and self._pending[0][0] <= header.next_offset:
            _, promise, response = self._pending.popleft()
            promise.resolve(response)
        self._wake_waiters()
        self._snapshot_if_due()

    def wait_for(self, offset: int) -> Promise:
        """Resolved when the record at `offset` has been applied."""
        promise = self._node.host.promise()
        if self.image.last_offset >= offset:
            promise.resolve()
        else:
            self._waiters.append((offset, promise))
        return promise

    def _wake_waiters(self) -> None:
        if self._waiters:
            last = self.image.last_offset
            for offset, promise in self._waiters:
                if offset <= last:
                    promise.resolve()
            self._waiters = [each for each in self._waiters if not each[1].done]

    def _snapshot_if_due(self) -> None:
        image = self.image
        if image.last_offset - self._snapshot_at < self._node.settings.records_between_snapshots:
            return
        if image.in_transaction:
            return
        self._snapshot_at = image.last_offset
        self._node.host.after_ms(1, self._write_snapshot)

    def _write_snapshot(self) -> None:
        image = self.image
        snapshot = SnapshotId(image.last_offset + 1, image.last_epoch)
        quorum = self._node.quorum
        if snapshot in quorum.snapshots or image.in_transaction:
            return
        data = quorum.write_snapshot(snapshot, list(image_records(image)), self._node.settings.kept_snapshots)
        self._node.observer.snapshot_written(self._node, snapshot, data)

    # -- leading --------------------------------------------------------------------------------------

    def on_became(self, became: Became) -> None:
        """The quorum has a new leader, or this node another role."""
        self._node.observer.became(self._node, became)
        if self.active and (became.role is not Role.LEADER or became.epoch != self.epoch):
            self._deactivate()

    def on_progress(self) -> None:
        """Become active once all records of earlier epochs are applied."""
        quorum = self._node.quorum.quorum
        if self.active or quorum.role is not Role.LEADER or self.image.last_epoch != quorum.epoch:
            return
        self.active, self.epoch = True, quorum.epoch
        self._ahead = self.image.copy()
        now_ms = self._node.host.steady_ms
        self._heartbeats = BrokerHeartbeats.of_new_controller(
            self._ahead, self._node.settings.session_timeout_ms, now_ms
        )
        self._node.observer.note(self._node, "active controller", self.epoch)
        if METADATA_VERSION not in self._ahead.features:
            self.submit(lambda image: Decision(self._bootstrap(), None))
        self._schedule_fencing()
        self._node.host.spawn("balance", self._balance(self.epoch))

    def _bootstrap(self) -> list[Message]:
        features: list[Message] = [
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in INITIAL_FEATURES
            if self._node.settings.eligible_leader_replicas or name != "eligible.leader.replicas.version"
        ]
        return [
            BeginTransactionRecord(name="Bootstrap records"),
            *features,
            ConfigRecord(
                resource_type=BROKER_RESOURCE,
                resource_name="",
                name="min.insync.replicas",
                value=str(self._node.settings.min_insync_replicas),
            ),
            EndTransactionRecord(),
        ]

    def _deactivate(self) -> None:
        self.active = False
        self._node.observer.note(self._node, "no controller any more", self.epoch)
        pending, self._pending = self._pending, deque()
        for _, promise, _ in pending:
            promise.resolve(Refused(ErrorCode.NOT_CONTROLLER))
        if self._fencing is not None:
            self._fencing.cancel()
            self._fencing = None

    def submit(self, decide: Callable[[MetadataImage], Decision[Any]]) -> Promise:
        """Make a change; resolved with its answer, or Refused."""
        promise = self._node.host.promise()
        try:
            if not self.active:
                raise NotController()
            decision = decide(self._ahead)
        except KafkaError as error:
            promise.resolve(Refused(error.code))
            return promise
        ahead = self._ahead
        if decision.records:
            end = self._node.quorum.log.log_end_offset + len(decision.records)
            delta = MetadataDelta()
            for record in decision.records:
                ahead.apply(record, delta)
            ahead.last_offset, ahead.last_epoch = end - 1, self.epoch
            self._pending.append((end, promise, decision.response))
            appended = self._node.quorum.append(decision.records)
            assert appended == end or not self.active, (appended, end)
        elif self._pending:
            self._pending.append((self._pending[-1][0], promise, decision.response))
        else:
            promise.resolve(decision.response)
        return promise

    def rules(self, image: MetadataImage) -> TopicRules:
        """The topics' settings for elections."""
        return topic_rules(image, BrokerLayers({}, image.configs.get((BROKER_RESOURCE, ""), {})))

    def handle(self, request: Message, answer: Answer) -> None:
        """Handle a request to the active controller: the answer is a response, or Refused."""
        self._decide(request).observe(lambda value: self._node.host.guard(answer, value))

    def _decide(self, request: Any) -> Promise:
        now_ms = self._node.host.steady_ms
        match request:
            case BrokerHeartbeatRequest():
                promise = self.submit(
                    lambda image: self._heartbeats.on_broker_heartbeat(
                        image, request, now_ms, self.rules(image)
                    )
                )
                self._schedule_fencing()
                return promise
            case AlterPartitionRequest():
                return self.submit(lambda image: alter_partition(image, request, self.rules(image)))
            case BrokerRegistrationRequest():
                return self.submit(
                    lambda image: register_broker(
                        image,
                        request,
                        self.rules(image),
                        cluster_id=self._node.cluster_id,
                        is_alive=self._heartbeats.is_alive(image, request.broker_id, now_ms),
                        api_version=type(request).MAX_VERSION,
                    )
                )
            case AllocateProducerIdsRequest():
                return self.submit(
                    lambda image: allocate_producer_ids(image, request.broker_id, request.broker_epoch)
                )
            case CreateTopicsRequest():
                return self.submit(
                    lambda image: create_topics(image, request, DEFAULTS, BrokerLayers({}), self._random)
                )
            case DeleteTopicsRequest():
                return self.submit(lambda image: delete_topics(image, request, None))
            case ElectLeadersRequest():
                return self.submit(lambda image: elect_leaders(image, request, self.rules(image)))
            case AlterPartitionReassignmentsRequest():
                return self.submit(
                    lambda image: alter_partition_reassignments(image, request, self.rules(image))
                )
            case _:
                raise AssertionError(f"nobody handles {request}")

    # -- background work ------------------------------------------------------------------------------

    def _schedule_fencing(self) -> None:
        if not self.active:
            return
        if self._fencing is not None:
            self._fencing.cancel()
            self._fencing = None
        due_ms = self._heartbeats.next_wake_ms(self._ahead)
        if due_ms is not None:
            self._fencing = self._node.host.at_steady_ms(due_ms, self._fence)

    def _fence(self) -> None:
        self._fencing = None
        fenced: list[int | None] = []

        def decide(image: MetadataImage) -> Decision[int | None]:
            now_ms = self._node.host.steady_ms
            decision = self._heartbeats.fence_expired(image, now_ms, self.rules(image))
            fenced.append(decision.response)
            return decision

        while self.active:
            self.submit(decide)
            if not fenced or fenced[-1] is None:
                break
            self._node.observer.note(self._node, "fences", fenced[-1])
        self._schedule_fencing()

    async def _balance(self, epoch: int) -> None:
        while True:
            await self._node.host.sleep(self._node.settings.balance_interval_ms)
            if not self.active or self.epoch != epoch:
                return
            await self.submit(lambda image: balance_leaders(image, self.rules(image)))
            await self.submit(lambda image: elect_missing_leaders(image, self.rules(image)))
