"""The node as request handlers see it.

One protocol for all of them: a handler uses some of its members, and is tested with an object that has those.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from ottla.broker.parts import Clock, Cluster, Loop

if TYPE_CHECKING:
    from ottla.broker.authorization import Authorization
    from ottla.broker.controller.controller import Controller
    from ottla.broker.controller.controller_channel import ControllerChannel
    from ottla.broker.controller.controller_work import ControllerWork
    from ottla.broker.controller.metadata_quorum import MetadataQuorum
    from ottla.broker.coordinators.group_coordinator import GroupCoordinator
    from ottla.broker.coordinators.producer_ids import ProducerIdSource
    from ottla.broker.coordinators.share_coordinator import ShareCoordinator
    from ottla.broker.coordinators.transaction_coordinator import TransactionCoordinator
    from ottla.broker.network.context import RequestContext
    from ottla.broker.network.server import Server
    from ottla.broker.quotas.client_quotas import ClientQuotas
    from ottla.broker.replication.internal_appends import InternalAppends
    from ottla.broker.replication.partitions import Partitions
    from ottla.broker.replication.produced_appends import ProducedAppends
    from ottla.broker.replication.replication import Replication
    from ottla.broker.security.node_tls import NodeTls
    from ottla.broker.share.share_partitions import SharePartitions
    from ottla.broker.share.share_persister import ShareStatePersister
    from ottla.broker.telemetry.client_telemetry import ClientTelemetry
    from ottla.core.replica.fetch_sessions import FetchSessionCache
    from ottla.protocol.schema import Message
    from ottla.storage.log_directory import LogDirectory


class Node(Cluster, Clock, Loop, Protocol):
    """A node: a broker, a controller, or both. A controller alone has none of a broker's parts."""

    # -- of every node ----------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """The cluster's id as clients see it."""
        ...

    @property
    def log_directory(self) -> LogDirectory:
        """The data directory."""
        ...

    @property
    def server(self) -> Server:
        """The connections of clients."""
        ...

    @property
    def tls(self) -> NodeTls | None:
        """The TLS of the node's listeners, None where all is plaintext."""
        ...

    @property
    def client_quotas(self) -> ClientQuotas:
        """The quotas of clients, and what they have used of them."""
        ...

    @property
    def authorization(self) -> Authorization:
        """Decides what the sender of a request may do."""
        ...

    @property
    def quorum(self) -> MetadataQuorum:
        """The metadata log and its voters."""
        ...

    @property
    def controller(self) -> Controller:
        """This node's replica of the metadata, and the way to change it while it is active."""
        ...

    @property
    def controller_work(self) -> ControllerWork:
        """The active controller's duties, and the heartbeats of brokers."""
        ...

    @property
    def controller_channel(self) -> ControllerChannel:
        """The way to the active controller."""
        ...

    @property
    def controller_leader_id(self) -> int:
        """The active controller's node id, -1 when it is not known."""
        ...

    def answer_as_controller(self, context: RequestContext, request: Message) -> Message | Awaitable[Message]:
        """The answer of this node's own controller. Raises KafkaError."""
        ...

    # -- of a broker --------------------------------------------------------------------------------------

    @property
    def partitions(self) -> Partitions:
        """The partitions with a replica here."""
        ...

    @property
    def produced_appends(self) -> ProducedAppends:
        """Appends of producers' batches."""
        ...

    @property
    def internal_appends(self) -> InternalAppends:
        """Appends of this broker's own records."""
        ...

    @property
    def replication(self) -> Replication:
        """The parts that hold and copy them."""
        ...

    @property
    def fetch_sessions(self) -> FetchSessionCache:
        """Fetch sessions of consumers and followers."""
        ...

    @property
    def telemetry(self) -> ClientTelemetry:
        """The metrics that clients push."""
        ...

    @property
    def groups(self) -> GroupCoordinator:
        """The groups that this broker coordinates."""
        ...

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactional ids that this broker coordinates."""
        ...

    @property
    def producer_ids(self) -> ProducerIdSource:
        """Producer ids that no other producer has."""
        ...

    @property
    def share_coordinator(self) -> ShareCoordinator:
        """The states of share partitions that this broker keeps."""
        ...

    @property
    def share_state(self) -> ShareStatePersister:
        """The way to the share coordinators."""
        ...

    @property
    def share_partitions(self) -> SharePartitions:
        """The share partitions that this broker leads."""
        ...
