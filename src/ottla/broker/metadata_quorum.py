"""This node in the quorum of the metadata: runs the state machine of core/quorum over the log and the peers.

How a node is put together (broker.py):

    quorum = MetadataQuorum.open(directory, config, peers, now_ms=…, spawn=…)   formats or opens, only reads
    controller = await Controller.open(quorum, config, …)      image of what is known to be committed
    a quorum of this node alone (`quorum.alone`):
        open the partitions' logs (the image is complete), then `quorum.start(ports)`: the election is the
        first thing written, and `controller.active` holds when it returns
    several voters, or an observer:
        `quorum.start(ports)`, `await controller.wait_until_caught_up()` (up to the high watermark that the
        leader told), open the partitions' logs, register
    the end: controller.close() first, then quorum.close() (resigns, syncs, closes the log)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from ottla.broker.config import BrokerConfig
from ottla.broker.metadata_log import MetadataLog, MetadataLogLimits
from ottla.broker.peers import PeerConnections
from ottla.core.metadata import broker_settings
from ottla.core.quorum.api import (
    NO_NODE,
    Address,
    ListenerEndpoint,
    ReplicaKey,
    Voter,
    VoterSet,
)
from ottla.protocol.schema import Message
from ottla.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("ottla.broker")

Spawn = Callable[[str, Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]


class MetadataQuorum:
    """This node as a voter or an observer of the metadata quorum. Used on the event loop only."""

    def __init__(
        self,
        directory: LogDirectory,
        config: BrokerConfig,
        metadata_log: MetadataLog,
        peers: PeerConnections,
        now_ms: Callable[[], int],
        spawn: Spawn | None,
    ) -> None:
        self.directory = directory
        self._config = config
        self.log = metadata_log
        self._peers = peers
        self._now_ms = now_ms
        self._spawn = spawn
        self.node_id = config.node_id

    @classmethod
    def open(
        cls,
        directory: LogDirectory,
        config: BrokerConfig,
        peers: PeerConnections,
        *,
        now_ms: Callable[[], int],
        spawn: Spawn | None = None,
    ) -> MetadataQuorum:
        """Open the metadata log of a locked directory, formatting it if it has none. Blocks on the disk.

        `spawn` starts the tasks; give the supervisor's, so that what dies stops the node. Raises
        LogDirectoryError, LogCorruption or OSError.
        """
        limits = MetadataLogLimits(
            segment_bytes=config[broker_settings.METADATA_LOG_SEGMENT_BYTES],
            segment_ms=config[broker_settings.METADATA_LOG_SEGMENT_MS],
            max_batch_bytes=config[broker_settings.INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES],
            max_retention_bytes=config[broker_settings.METADATA_MAX_RETENTION_BYTES],
            max_retention_ms=config[broker_settings.METADATA_MAX_RETENTION_MS],
            snapshot_after_bytes=config[broker_settings.METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS],
            snapshot_after_ms=config[broker_settings.METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS],
            file_delete_delay_ms=config[broker_settings.INTERNAL_METADATA_DELETE_DELAY_MILLIS],
        )
        metadata_log = MetadataLog.open(
            directory, config.node_id, config.controller_listener, limits, now_ms()
        )
        return cls(directory, config, metadata_log, peers, now_ms, spawn)

    # -- who leads ----------------------------------------------------------------------------------------

    @property
    def alone(self) -> bool:
        """Whether this node is the only voter: it needs nobody, and nobody is asked."""
        return self._config.quorum_alone

    @property
    def leader_id(self) -> int:
        """The leader of `epoch`; -1 while it is not known."""
        return self.node_id if self.log.epoch > 0 else NO_NODE

    @property
    def epoch(self) -> int:
        """The newest epoch that this node knows of."""
        return self.log.epoch

    @property
    def is_leader(self) -> bool:
        """Whether this node leads `epoch`. It may submit a little later: see `Controller.active`."""
        return self.leader_id == self.node_id

    def leader_address(self) -> Address | None:
        """The leader's controller listener; None while no leader is known."""
        endpoint = self._config.controller_listener
        return Address(endpoint.host, endpoint.port) if self.is_leader else None

    @property
    def voters(self) -> VoterSet:
        """The voters as the log (or, for a fixed quorum, the configuration) has them."""
        endpoint = self._config.controller_listener
        key = ReplicaKey(self.node_id, self.directory.directory_id)
        return VoterSet((Voter(key, (ListenerEndpoint(endpoint.name, endpoint.host, endpoint.port),)),))

    # -- living -------------------------------------------------------------------------------------------

    def start(self, ports: Mapping[str, int]) -> None:
        """Take part: elections, votes, fetches. `ports` are the bound ones by listener.

        A quorum of this node alone has elected it when this returns: its first write, and it blocks for it.
        """

    async def handle(self, api_version: int, request: Message) -> Message:
        """The answer to a request of another node or client about the quorum: Vote, BeginQuorumEpoch,
        EndQuorumEpoch, Fetch and FetchSnapshot of the metadata, Add-, Remove- and UpdateRaftVoter,
        DescribeQuorum. Fetch may wait for records. Raises NotController when the node is stopping.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Resign (others are told, so that they need not wait for a timeout), then sync and close the log."""
