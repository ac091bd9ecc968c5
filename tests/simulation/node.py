"""A simulated node: controller, broker or both, over one host and disk; started, killed, stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ottla.core.image.features import KRAFT_VERSION, SUPPORTED_FEATURES
from ottla.core.quorum.api import ListenerEndpoint, QuorumSettings, VoterSet
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from ottla.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from ottla.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from ottla.protocol.messages.vote_request import VoteRequest
from simulation.broker_node import BrokerNode
from simulation.controller_node import ControllerNode
from simulation.observer import Observer
from simulation.quorum_node import CONTROLLER_SERVICE, QuorumNode
from simulation.wire import BROKER_SERVICE
from simulation.world.disk import Disk
from simulation.world.host import Host
from simulation.world.network import Network, Reply
from simulation.world.scheduler import Scheduler

QUORUM_REQUESTS = (
    FetchRequest,
    VoteRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    DescribeQuorumRequest,
)


QUORUM = QuorumSettings(
    election_timeout_ms=600,
    fetch_timeout_ms=1200,
    election_backoff_max_ms=600,
    request_timeout_ms=1000,
    fetch_max_wait_ms=400,
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of all nodes of a cluster. Kafka's times, shortened, so that a run takes seconds."""

    quorum: QuorumSettings = QUORUM
    session_timeout_ms: int = 2000
    heartbeat_interval_ms: int = 400
    lag_time_max_ms: int = 1500
    fetch_max_wait_ms: int = 400
    fetch_timeout_ms: int = 1000
    fetch_backoff_ms: int = 200
    fetch_bytes: int = 2000
    retry_ms: int = 100
    balance_interval_ms: int = 3000
    records_between_snapshots: int = 40
    kept_snapshots: int = 1
    min_insync_replicas: int = 2
    eligible_leader_replicas: bool = True


class Node:
    """One node, over all of its lives."""

    def __init__(
        self,
        scheduler: Scheduler,
        network: Network,
        observer: Observer,
        settings: Settings,
        *,
        node_id: int,
        cluster_id: str,
        is_controller: bool,
        is_broker: bool,
        listeners: tuple[ListenerEndpoint, ...],
        static_voters: VoterSet | None,
        directory_id: UUID,
    ) -> None:
        self.host = Host(scheduler, f"n{node_id}")
        self.host.on_killed = self.kill
        self.host.alive = False
        self.disk = Disk(self.host)
        self.network = network
        self.observer = observer
        self.settings = settings
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.is_controller = is_controller
        self.is_broker = is_broker
        self.directory_id = directory_id
        self._listeners = listeners
        self._static_voters = static_voters
        self.controller: ControllerNode
        self.quorum: QuorumNode
        self.broker: BrokerNode | None = None
        self.stopping = False

    def start(self) -> None:
        """Start a process with the content of the disk."""
        self.host.start()
        self.stopping = False
        self.observer.note(self, "starts", self.host.life)
        self.controller = ControllerNode(self)
        self.quorum = QuorumNode(
            self.host,
            self.disk,
            self.network,
            node_id=self.node_id,
            directory_id=self.directory_id,
            cluster_id=self.cluster_id,
            listeners=self._listeners if self.is_controller else (),
            static_voters=self._static_voters,
            settings=self.settings.quorum,
            on_commit=self.controller.on_commit,
            on_snapshot=self.controller.load_snapshot,
            on_became=self.controller.on_became,
            on_progress=self.controller.on_progress,
        )
        if self.is_controller:
            self.network.listen(self.host, CONTROLLER_SERVICE, self._handle_controller)
        self.host.spawn("start", self._start())

    async def _start(self) -> None:
        self.quorum.start()
        if self.is_broker:
            self.broker = BrokerNode(self)
            self.controller.on_delta = self.broker.on_metadata
            self.network.listen(self.host, BROKER_SERVICE, self.broker.handle)
            self.broker.start()

    def _handle_controller(self, request: Any, source: str, answer: Reply) -> None:
        if isinstance(request, QUORUM_REQUESTS):
            self.quorum.handle(request, answer)
        elif isinstance(request, ApiVersionsRequest):
            low, high = SUPPORTED_FEATURES[KRAFT_VERSION]
            feature = SupportedFeatureKey(name=KRAFT_VERSION, min_version=low, max_version=high)
            answer(ApiVersionsResponse(supported_features=[feature]))
        else:
            self.controller.handle(request, answer)

    def kill(self) -> None:
        """kill -9: written data stays."""
        self._end("killed")
        self.disk.on_killed()

    def lose_power(self) -> None:
        """A power loss: data that was not synced may be lost."""
        self._end("loses power")
        self.disk.on_power_loss()

    def _end(self, how: str) -> None:
        if self.host.alive:
            self.observer.note(self, how)
            self.host.stop()
            self.broker = None
            self.network.hang_up(self.host)

    def stop(self) -> None:
        """Begin a clean stop; the node is gone some time later."""
        if self.host.alive and not self.stopping:
            self.stopping = True
            self.observer.note(self, "stops")
            self.host.spawn("stop", self._stop())

    async def _stop(self) -> None:
        broker = self.broker
        if broker is not None and broker.broker_epoch >= 0:
            broker.wanted_shutdown = True
            self.host.after_ms(5000, broker.stopped.resolve, False)
            await broker.stopped
            broker.write_clean_shutdown()
        self.quorum.resign()
        for _ in range(20):
            if self.quorum.quorum.resigned:
                break
            await self.host.sleep(50)
        self._end("stopped")
        self.disk.on_killed()
