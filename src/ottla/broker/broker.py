"""One broker: starts its parts in order, holds them together, stops them in the reverse order.

Order of the start, so that nothing is written before it is sure to be ours and sound: bind the sockets (a
port in use is found first), lock and check the data directory, open the metadata log and replay it, open the
partitions' logs (recovering after a kill), elect and register, load the coordinators, listen, say ready.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.config import BrokerConfig, ConfigError
from ottla.broker.controller import Controller
from ottla.broker.controller_channel import ControllerChannel
from ottla.broker.dispatch import Dispatcher
from ottla.broker.group_coordinator import GroupCoordinator
from ottla.broker.lifecycle import BrokerLifecycle
from ottla.broker.metadata_quorum import MetadataQuorum
from ottla.broker.peers import PeerAddress, PeerConnections
from ottla.broker.producer_ids import ProducerIdSource
from ottla.broker.replica_manager import ReplicaManager
from ottla.broker.server import ListenError, Server, ServerLimits, bind
from ottla.broker.share_coordinator import ShareCoordinator
from ottla.broker.share_persister import ShareStatePersister
from ottla.broker.supervisor import Supervisor
from ottla.broker.transaction_coordinator import TransactionCoordinator
from ottla.core.metadata import broker_settings
from ottla.core.metadata.image import MetadataImage
from ottla.core.replica.fetch_sessions import FetchSessionCache
from ottla.storage.errors import StorageError
from ottla.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from ottla.broker.share_partitions import SharePartitions

log = logging.getLogger("ottla.broker")


class StartError(Exception):
    """The broker can't start; the message is one line that says what to do."""


class Broker:
    """A running broker. Made by `Broker.start`, ended by `stop`."""

    def __init__(self, config: BrokerConfig, on_failure: Callable[[], None]) -> None:
        self.config = config
        self.node_id = config.node_id
        self.loop = asyncio.get_running_loop()
        self.failed = False
        self._on_failure = on_failure
        self._random = random.SystemRandom()
        self.controller_channel = ControllerChannel(self)
        self.lifecycle = BrokerLifecycle(self)
        self.supervisor = Supervisor(self._task_died)
        self.fetch_sessions = FetchSessionCache(
            config[broker_settings.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS], min_eviction_ms=120_000
        )
        # Set by `_open`, before anybody can send a request.
        self.log_directory: LogDirectory
        self.peers: PeerConnections
        self.quorum: MetadataQuorum
        self.controller: Controller
        self.replicas: ReplicaManager
        self.groups: GroupCoordinator
        self.transactions: TransactionCoordinator
        self.share_coordinator: ShareCoordinator
        self.share_state: ShareStatePersister
        self.share_partitions: SharePartitions | None = None
        """Made for the first share consumer, see share_partitions.py."""
        self.producer_ids: ProducerIdSource
        self.server: Server
        self.port = 0

    @classmethod
    async def start(cls, config: BrokerConfig, on_failure: Callable[[], None]) -> Broker:
        """Start and listen. Raises StartError with one line that says what to do."""
        broker = cls(config, on_failure)
        sockets: dict[str, socket.socket] = {}
        try:
            for listener in config.listeners:
                sockets[listener.name] = bind(listener.name, listener.host, listener.port)
            ports = {name: bound.getsockname()[1] for name, bound in sockets.items()}
            broker.port = ports[config.listener.name]
            await broker._open(ports)
            for name, bound in sockets.items():
                await broker.server.listen(name, bound, Dispatcher(broker))
        except (ListenError, StorageError, ConfigError, OSError) as problem:
            for bound in sockets.values():
                bound.close()
            await broker._abandon()
            raise StartError(str(problem)) from problem
        broker._start_background_work()
        return broker

    @property
    def image(self) -> MetadataImage:
        """The cluster's metadata as of the last committed record."""
        return self.controller.image

    @property
    def controller_leader_id(self) -> int:
        """The active controller's node id, -1 when it is not known."""
        return self.quorum.leader_id

    def controller_address(self) -> PeerAddress | None:
        """Where the active controller listens; None when that is not known, or when it is this node."""
        address = self.quorum.leader_address()
        return None if address is None or self.quorum.is_leader else PeerAddress(*address)

    @property
    def cluster_id(self) -> str:
        """The cluster's id as clients see it."""
        return self.log_directory.cluster_id

    @staticmethod
    def now_ms() -> int:
        """Wall-clock time, for timestamps and retention."""
        return time.time_ns() // 1_000_000

    def random_session_id(self) -> int:
        """A fetch session id that a client can't guess."""
        return self._random.randrange(1, 2**31)

    def random_member_bits(self) -> int:
        """128 random bits for a group member's id."""
        return self._random.getrandbits(128)

    def ready_line(self) -> str:
        """What `ottla broker` prints once clients can connect."""
        host = self.config.listener.host or "0.0.0.0"
        return (
            f"ottla broker ready: listening on {host}:{self.port}, node {self.node_id}, "
            f"cluster {self.cluster_id}, data in {self.log_directory.path}"
        )

    async def stop(self) -> None:
        """Stop cleanly: hang up, let the coordinators go, close every log, mark the shutdown clean."""
        if self.share_partitions is not None:
            self.share_partitions.stop()
        await self.server.stop()
        await self.groups.stop()
        await self.transactions.stop()
        await self.share_coordinator.stop()
        await self.controller.close()
        self.peers.close()
        await self.supervisor.stop()
        await self.replicas.close()
        self.log_directory.close(clean=not self.failed, broker_epoch=self.controller.broker_epoch)

    # -- start --------------------------------------------------------------------------------------

    async def _open(self, ports: dict[str, int]) -> None:
        config = self.config
        self.log_directory = LogDirectory.open(config.log_directory, node_id=config.node_id)
        self.peers = PeerConnections(f"ottla-{self.node_id}")
        self.quorum = MetadataQuorum.open(
            self.log_directory, config, self.peers, now_ms=self.now_ms, spawn=self.supervisor.spawn
        )
        self.controller = await Controller.open(
            self.quorum, config, now_ms=self.now_ms, spawn=self.supervisor.spawn
        )
        self.replicas = ReplicaManager(self, self.log_directory)
        self.replicas.open()
        # Only now is anything written: whatever refuses the start has left the directory as it was.
        self.replicas.on_metadata(self.controller.lead(ports))
        self.lifecycle.broker_epoch = self.controller.broker_epoch
        self.producer_ids = ProducerIdSource(self)
        self.groups = GroupCoordinator(self)
        self.transactions = TransactionCoordinator(self)
        self.share_coordinator = ShareCoordinator(self)
        self.share_state = ShareStatePersister(self)
        # Groups first: a shard hears of a topic's end before it hears that its offsets go.
        self.controller.add_listener(self.groups.on_metadata)
        self.controller.add_listener(self.replicas.on_metadata)
        self.controller.add_listener(self.transactions.on_metadata)
        await self.replicas.elect_all()
        self.server = Server(
            ServerLimits(
                max_request_bytes=config[broker_settings.SOCKET_REQUEST_MAX_BYTES],
                max_connections=config[broker_settings.MAX_CONNECTIONS],
                idle_ms=config[broker_settings.CONNECTIONS_MAX_IDLE_MS],
                backlog=config[broker_settings.SOCKET_LISTEN_BACKLOG_SIZE],
            ),
        )

    def _start_background_work(self) -> None:
        config, spawn = self.config, self.supervisor.every
        self.replicas.start_background_work(self.supervisor)
        spawn("close-idle-connections", lambda: 10_000, self.server.close_idle)
        log.info("broker started node=%d port=%d", config.node_id, self.port)

    async def _abandon(self) -> None:
        """The start failed: let go of what was opened, write nothing more."""
        directory = getattr(self, "log_directory", None)
        if directory is not None:
            directory.close(clean=False)

    def _task_died(self, name: str, failure: BaseException) -> None:
        self.failed = True
        self._on_failure()
